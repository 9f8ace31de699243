//! What travels, and when.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::thread;
use std::time::Duration;

use rustix::process::kill_process;

use crate::support::{KIB, MIB, Noise, Route, RoutedSite, Signal, assert_no_leftovers, assert_same};
use crate::{await_followed, followed, is_followed, write_aside};

/// Routes of a copy whose sources are on this host.
const ROUTES: [Route; 3] = [Route::Local, Route::Push, Route::ToDaemon];

#[test]
fn a_camera_writes_sixty_files_while_it_is_followed() {
    for route in ROUTES {
        let routed = RoutedSite::new(route);
        let shot = routed.site.directory("shot");
        fs::write(shot.join("before"), "there before").unwrap();
        let run = routed.start(&["--follow", "--settle", "300ms", "--final", "*.done"], &["shot"], "copy/");
        await_followed(&run, "shot/before");
        let mut noise = Noise::new(7);
        for number in 0..60_u64 {
            let directory = shot.join(format!("run{}", number / 20));
            fs::create_dir_all(&directory).unwrap();
            let size = if number % 10 == 0 { 5 * MIB + number } else { 16 * KIB + number };
            write_aside(&directory.join(format!("frame{number}")), &noise.bytes(size as usize));
        }
        symlink("run0/frame0", shot.join("first")).unwrap();
        fs::create_dir(shot.join("empty")).unwrap();
        fs::write(shot.join("shot.done"), "").unwrap();
        let ended = run.finish().expect_code(0);
        assert_same(&shot, &routed.path("copy/shot"));
        let paths = followed(&ended.events);
        assert_eq!(
            paths.last().map(String::as_str),
            Some("shot/shot.done"),
            "{route:?}: the marker is the last: {ended}"
        );
        let frames = paths.iter().filter(|path| path.contains("frame")).count();
        assert_eq!(frames, 60, "{route:?}: each travels once, under its final name: {ended}");
        let has_lag = |event: &serde_json::Value| event["lag_s"].as_f64().is_some_and(|lag| lag >= 0.0);
        assert!(ended.all("followed").all(has_lag), "{route:?}: {ended}");
        assert_eq!(ended.number("errors"), 0, "{ended}");
        assert_no_leftovers(&routed.path("copy"));
    }
}

#[test]
fn a_file_travels_when_its_writer_closes_it_and_again_when_it_has_changed() {
    let routed = RoutedSite::new(Route::Push);
    let source = routed.site.directory("source");
    fs::write(source.join("closed"), "0").unwrap();
    let run = routed.start(&["--follow", "--settle", "100ms"], &["source/"], "copy");
    await_followed(&run, "source/closed");
    let mut open = File::create(source.join("open")).unwrap();
    open.write_all(b"one").unwrap();
    fs::write(source.join("closed1"), "1").unwrap();
    await_followed(&run, "source/closed1");
    // It settles by far later than a file that is closed, if it does not wait for its writer.
    fs::write(source.join("closed2"), "2").unwrap();
    await_followed(&run, "source/closed2");
    assert!(!run.events().iter().any(|event| is_followed(event, "source/open")), "its writer has it open");
    open.write_all(b" and two").unwrap();
    drop(open);
    await_followed(&run, "source/open");
    let seen = run.events().len();
    fs::write(source.join("closed"), "changed").unwrap();
    assert!(run.wait_for_more(seen, 1, |event| is_followed(event, "source/closed")), "{}", run.stderr());
    run.signal(Signal::INT);
    let ended = run.finish().expect_code(0);
    assert_same(&source, &routed.path("copy"));
    let opens = followed(&ended.events).iter().filter(|path| *path == "source/open").count();
    assert_eq!(opens, 1, "{ended}");
}

#[test]
fn what_is_renamed_removed_or_excluded_while_it_settles_does_not_travel() {
    let routed = RoutedSite::new(Route::Local);
    let source = routed.site.directory("source");
    fs::create_dir(source.join("skipped")).unwrap();
    let options = ["--follow", "--settle", "200ms", "--exclude", "*.tmp", "--exclude", "/skipped/"];
    fs::write(source.join("first"), "1").unwrap();
    let run = routed.start(&options, &["source/"], "copy");
    await_followed(&run, "source/first");
    fs::write(source.join("gone"), "gone").unwrap();
    fs::remove_file(source.join("gone")).unwrap();
    fs::write(source.join("a.tmp"), "excluded").unwrap();
    fs::write(source.join("skipped/x"), "excluded").unwrap();
    fs::write(source.join("old"), "contents").unwrap();
    fs::rename(source.join("old"), source.join("new")).unwrap();
    fs::create_dir(source.join("inner")).unwrap();
    fs::write(source.join("inner/deep"), "deep").unwrap();
    fs::rename(source.join("inner"), source.join("moved")).unwrap();
    await_followed(&run, "source/new");
    await_followed(&run, "source/moved/deep");
    fs::write(source.join("moved/later"), "later").unwrap();
    await_followed(&run, "source/moved/later");
    run.signal(Signal::INT);
    let ended = run.finish().expect_code(0);
    let copied: Vec<_> = ["gone", "a.tmp", "skipped", "old", "inner/deep"]
        .into_iter()
        .filter(|name| routed.path("copy").join(name).exists())
        .collect();
    assert!(copied.is_empty(), "{copied:?}: {ended}");
    assert_eq!(ended.number("errors"), 0, "{ended}");
}

#[test]
fn a_spool_directory_is_emptied_and_its_directories_stay() {
    for route in ROUTES {
        let routed = RoutedSite::new(route);
        let spool = routed.site.directory("spool/inner");
        let run = routed.start(&["--follow", "--move", "--settle", "100ms", "--final", "done"], &["spool/"], "copy");
        for number in 0..30 {
            write_aside(&spool.join(format!("item{number}")), format!("contents {number}").as_bytes());
        }
        await_followed(&run, "spool/inner/item29");
        fs::write(routed.path("spool/done"), "").unwrap();
        let ended = run.finish().expect_code(0);
        assert_eq!(fs::read_dir(&spool).unwrap().count(), 0, "{route:?}: {ended}");
        assert!(!routed.path("spool/done").exists() && spool.is_dir(), "{route:?}: {ended}");
        assert_eq!(fs::read_dir(routed.path("copy/inner")).unwrap().count(), 30, "{route:?}: {ended}");
        assert_eq!(fs::read(routed.path("copy/inner/item7")).unwrap(), b"contents 7");
        assert_eq!(ended.number("removed"), 31, "{route:?}: {ended}");
    }
}

#[test]
fn a_file_that_its_writer_has_opened_again_does_not_travel_half_written() {
    let routed = RoutedSite::new(Route::Push);
    let (source, blocked) = (routed.site.directory("source"), routed.path("blocked"));
    // Of a login that takes its time, what settles meanwhile waits for the session.
    let body = format!("while [ -e '{}' ]; do sleep 0.02; done\nshift\nexec sh -c \"$*\"", blocked.display());
    routed.site.program("ssh-here", &body);
    fs::write(source.join("file"), "first").unwrap();
    let run = routed.start(&["--follow", "--settle", "100ms", "--final", "done"], &["source/"], "copy");
    await_followed(&run, "source/file");
    fs::write(&blocked, "").unwrap();
    kill_process(run.far_end().expect("a far end"), Signal::KILL).unwrap();
    assert!(run.wait_for(|event| event["type"] == "reconnecting"));
    fs::write(source.join("file"), "second, and complete").unwrap();
    // Nothing tells that it has settled.
    thread::sleep(Duration::from_secs(1));
    let mut open = File::create(source.join("file")).unwrap();
    open.write_all(b"half").unwrap();
    fs::remove_file(&blocked).unwrap();
    fs::write(source.join("other"), "other").unwrap();
    await_followed(&run, "source/other");
    assert_eq!(fs::read_to_string(routed.path("copy/file")).unwrap(), "first", "its writer has it open");
    open.write_all(b" of the third").unwrap();
    drop(open);
    fs::write(source.join("done"), "").unwrap();
    run.finish().expect_code(0);
    assert_same(&source, &routed.path("copy"));
}

#[test]
fn what_is_written_to_a_file_without_its_name_holds_up_nothing() {
    let routed = RoutedSite::new(Route::Local);
    let source = routed.site.directory("source");
    let run = routed.start(&["--follow", "--settle", "100ms", "--final", "done"], &["source/"], "copy");
    fs::write(source.join("begin"), "").unwrap();
    await_followed(&run, "source/begin");
    // A temporary file without a name, and a file that another one has replaced.
    let unlinked = File::create(source.join("unlinked")).unwrap();
    fs::remove_file(source.join("unlinked")).unwrap();
    let replaced = File::create(source.join("name")).unwrap();
    write_aside(&source.join("name"), b"another file of this name");
    for file in [unlinked, replaced] {
        file.set_len(4096).unwrap();
    }
    fs::write(source.join("done"), "").unwrap();
    let ended = run.finish().expect_code(0);
    assert_same(&source, &routed.path("copy"));
    assert!(!ended.stderr.contains("not copied"), "{ended}");
}

#[test]
fn a_file_that_was_open_before_it_is_followed_waits_for_its_writer() {
    let routed = RoutedSite::new(Route::Local);
    let source = routed.site.directory("source");
    let mut open = File::create(source.join("open")).unwrap();
    open.write_all(b"one").unwrap();
    let run = routed.start(&["--follow", "--settle", "50ms", "--final", "done"], &["source/"], "copy");
    for number in 0..4 {
        fs::write(source.join(format!("closed{number}")), "").unwrap();
        await_followed(&run, &format!("source/closed{number}"));
    }
    assert!(!run.events().iter().any(|event| is_followed(event, "source/open")), "its writer has it open");
    open.write_all(b" and two").unwrap();
    drop(open);
    fs::write(source.join("done"), "").unwrap();
    run.finish().expect_code(0);
    assert_same(&source, &routed.path("copy"));
}

#[test]
fn what_has_settled_and_not_arrived_is_told_while_it_travels() {
    let routed = RoutedSite::new(Route::Push);
    let source = routed.site.directory("source");
    let run = routed.start(&["--follow", "--settle", "100ms", "--rate", "40mbit"], &["source/"], "copy");
    write_aside(&source.join("frame"), &Noise::new(7).bytes(4 * MIB as usize));
    await_followed(&run, "source/frame");
    let is_through = |event: &serde_json::Value| event["type"] == "progress" && event["behind_bytes"] == 0;
    assert!(run.wait_for_more(0, 2, is_through), "{}", run.stderr());
    run.signal(Signal::INT);
    let ended = run.finish().expect_code(0);
    let behind = ended.all("progress").map(|event| event["behind_bytes"].as_u64().unwrap());
    let most = behind.max().unwrap();
    assert!((MIB..=4 * MIB).contains(&most), "{most}: {ended}");
    let growth = |event: &serde_json::Value| event["behind_bytes_per_minute"].is_null();
    assert!(ended.all("progress").all(growth), "not in the first minute: {ended}");
}
