//! `--in-place`: large files that exist are written where they are, and stay the same files.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::kill_process;

use crate::block_devices::later_waits_for;
use crate::support::compare::{inode, same_contents};
use crate::support::daemon::Daemon;
use crate::support::data::{Noise, age};
use crate::support::mounts::Mount;
use crate::support::process::eventually;
use crate::support::{
    Ended, KIB, MIB, Route, RoutedSite, Run, Signal, Site, Start, assert_no_leftovers, assert_same, bytes_done, data,
    is_root, leftovers, open_to_all, skip,
};

/// Unit in which files are compared.
const LEAF: u64 = 64 * KIB;
/// Size of the files: no multiple of a block nor of a page.
const SIZE: u64 = 21 * MIB + 512 * KIB + 77;

/// A site with a file `source`, and its copy `image`, which is older.
fn copied(route: Route, size: u64) -> RoutedSite {
    let routed = RoutedSite::new(route);
    data::file(&routed.path("source"), size, 7);
    fs::copy(routed.path("source"), routed.path("image")).unwrap();
    age(&routed.path("image"), 1_000_000_000, 0);
    routed
}

/// Writes other bytes at these places, (offset, length); those behind the end are new.
fn change(path: &Path, seed: u64, places: &[(u64, u64)]) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    for (offset, length) in places {
        file.write_all_at(&Noise::new(seed).bytes(*length as usize), *offset).unwrap();
    }
}

/// Space that a file takes on its disk.
fn space(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

/// Asserts that `image` is `source`, still the file that it was, and that nothing lies beside it.
#[track_caller]
fn assert_written(routed: &RoutedSite, before: u64, ended: &Ended) {
    assert!(same_contents(&routed.path("source"), &routed.path("image")), "{:?}: {ended}", routed.route);
    assert_eq!(inode(routed.path("image")), before, "{:?}: it is another file: {ended}", routed.route);
    let [source, image] = ["source", "image"].map(|name| fs::metadata(routed.path(name)).unwrap());
    assert_eq!(source.modified().unwrap(), image.modified().unwrap(), "{:?}: {ended}", routed.route);
    assert_eq!(source.mode(), image.mode(), "{:?}: {ended}", routed.route);
    assert_no_leftovers(routed.site.root());
}

/// Copies in place and asserts that it succeeds.
#[track_caller]
fn written(routed: &RoutedSite, options: &[&str]) -> Ended {
    let before = inode(routed.path("image"));
    let options = [&["--in-place"], options].concat();
    let ended = routed.copy(&options, &["source"], "image").expect_code(0);
    assert_written(routed, before, &ended);
    ended
}

#[test]
fn what_differs_is_written_into_the_file_itself() {
    for route in Route::ALL {
        let routed = copied(route, SIZE);
        fs::set_permissions(routed.path("source"), fs::Permissions::from_mode(0o640)).unwrap();
        // In the middle of a leaf, over the border of two, over that of two blocks, and in the last one.
        let places = [(LEAF + 5, 1), (5 * LEAF - 1, 2), (8 * MIB - 3, 6), (SIZE - 7, 7)];
        change(&routed.path("source"), 1, &places);
        let ended = written(&routed, &[]);
        if route != Route::Local {
            let sent = 5 * LEAF + SIZE % LEAF;
            assert_eq!((ended.number("bytes_sent"), ended.number("unchanged_bytes")), (sent, SIZE - sent), "{ended}");
        }
        assert_eq!(
            ended.summary()["digest"],
            blake3::hash(&fs::read(routed.path("source")).unwrap()).to_hex().as_str()
        );
        let told: Vec<_> = ended.events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        let place = |kind| told.iter().position(|found| *found == kind);
        assert!(place("in_place") < place("item") && place("in_place").is_some(), "{route:?}: {told:?} {ended}");
        assert!(ended.stderr.contains("is inconsistent until it is complete"), "{route:?}: {ended}");
        // Nothing differs any more, whatever the times say.
        age(&routed.path("image"), 1_000_000_000, 0);
        let ended = written(&routed, &["--verify"]);
        if route != Route::Local {
            assert_eq!(ended.number("bytes_sent"), 0, "{route:?}: {ended}");
        }
        assert_eq!(ended.summary()["read_back"], true, "{route:?}: {ended}");
    }
}

#[test]
fn what_is_equal_is_not_written() {
    for route in [Route::Local, Route::Push, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        // Zeros at the source, a hole at the destination: who writes them takes space.
        let zeros = vec![0; 12 * MIB as usize];
        fs::write(routed.path("source"), [&zeros[..], &Noise::new(3).bytes(MIB as usize)].concat()).unwrap();
        File::create(routed.path("image")).unwrap().set_len(13 * MIB).unwrap();
        let ended = written(&routed, &[]);
        assert!(space(&routed.path("image")) < 4 * MIB, "{route:?}: {ended}");
        // A file that travels whole is written whole.
        let ended = written(&routed, &["--whole-file"]);
        assert!(space(&routed.path("image")) >= 13 * MIB, "{route:?}: {ended}");
        assert_eq!(ended.number("bytes_sent"), 13 * MIB, "{route:?}: {ended}");
    }
}

#[test]
fn a_file_becomes_shorter_and_longer() {
    for route in Route::ALL {
        for (old, new) in
            [(SIZE, 5 * MIB + 17), (5 * MIB + 17, SIZE), (300 * KIB, SIZE), (SIZE, 300 * KIB), (SIZE, 8 * MIB)]
        {
            let routed = copied(route, SIZE);
            for (name, size) in [("source", new), ("image", old)] {
                OpenOptions::new().write(true).open(routed.path(name)).unwrap().set_len(size).unwrap();
            }
            let ended = written(&routed, &[]);
            assert_eq!(ended.number("bytes"), new, "{route:?}: {ended}");
        }
    }
}

#[test]
fn holes_of_the_source_become_holes_of_the_file() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let stretches = [(5 * MIB, 100), (9 * MIB - 3, 70_000), (20 * MIB, 4 * KIB)];
        data::sparse(&routed.path("source"), 33 * MIB + 5, 3, &stretches);
        data::file(&routed.path("image"), 35 * MIB, 9);
        let ended = written(&routed, &["--verify"]);
        let [source, image] = ["source", "image"].map(|name| space(&routed.path(name)));
        assert!(image <= source + 16 * KIB, "{route:?}: {image} of {source}: {ended}");
        // Without holes, all of it is data.
        let ended = written(&routed, &["--preserve", "mode,times,links"]);
        assert_eq!(ended.number("bytes"), 33 * MIB + 5, "{route:?}: {ended}");
    }
}

#[test]
fn a_tree_has_new_and_small_files_as_ever_and_its_large_ones_in_place() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        for (name, size) in
            [("large", SIZE), ("block", 3 * MIB), ("packed", 1000), ("new", 5 * MIB), ("grown", 2 * MIB)]
        {
            fs::create_dir_all(routed.path("tree")).unwrap();
            data::file(&routed.path("tree").join(name), size, size);
        }
        fs::create_dir(routed.path("copy")).unwrap();
        for (name, size) in [("large", SIZE), ("block", 3 * MIB), ("packed", 1000), ("grown", 1000)] {
            data::file(&routed.path("copy").join(name), size, 99);
        }
        symlink("nowhere", routed.path("copy/new")).unwrap();
        let before = ["large", "block", "packed", "grown"].map(|name| inode(routed.path("copy").join(name)));
        let ended = routed.copy(&["--in-place"], &["tree/"], "copy").expect_code(0);
        assert_same(&routed.path("tree"), &routed.path("copy"));
        let after = ["large", "block", "packed", "grown"].map(|name| inode(routed.path("copy").join(name)));
        assert_eq!([0, 1, 2, 3].map(|at| before[at] == after[at]), [true, true, false, false], "{route:?}: {ended}");
        assert_eq!(ended.all("in_place").count(), 2, "{route:?}: {ended}");
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn there_is_no_need_for_room_for_a_second_copy() {
    let site = Site::new();
    let Some(_mount) = Mount::tmpfs(site.path("small"), 48 * MIB) else { return };
    data::file(&site.path("source"), 30 * MIB, 1);
    data::file(&site.path("small/image"), 30 * MIB, 2);
    let copy = |options: &[&str]| site.copy(options).args(["source", "small/image"]).run();
    let ended = copy(&[]).expect_code(1);
    assert!(ended.stderr.contains("make room"), "{ended}");
    // What that has left takes room, and goes.
    let ended = copy(&["--in-place"]).expect_code(0);
    assert!(same_contents(&site.path("source"), &site.path("small/image")), "{ended}");
    assert_no_leftovers(site.root());
    // What does not fit at all is refused before anything is written.
    let before = fs::read(site.path("small/image")).unwrap();
    data::file(&site.path("source"), 60 * MIB, 3);
    let ended = copy(&["--in-place"]).expect_code(1);
    assert!(ended.stderr.contains("make room") && !ended.stderr.contains("inconsistent"), "{ended}");
    assert!(fs::read(site.path("small/image")).unwrap() == before, "{ended}");
    assert_no_leftovers(site.root());
}

/// A site with a file `source` of which `image` has nothing.
fn different(route: Route) -> RoutedSite {
    let routed = copied(route, SIZE);
    data::file(&routed.path("image"), SIZE, 8);
    routed
}

/// Starts to write `source` into `image`, slowly, and waits until some of it is there.
fn begun(routed: &RoutedSite) -> Run {
    // A copy within this host compresses nothing.
    let options = ["--in-place", "--rate", "50mbit", "--compress", "never"];
    let options = if routed.route == Route::Local { &options[..3] } else { &options[..] };
    let run = routed.start(options, &["source"], "image");
    assert!(run.wait_for(|event| bytes_done(event) > 7 * MIB), "{}", run.stderr());
    run
}

#[test]
fn the_same_command_completes_what_was_interrupted() {
    for route in Route::ALL {
        for is_killed in [true, false] {
            let routed = different(route);
            let before = inode(routed.path("image"));
            let run = begun(&routed);
            if is_killed {
                run.kill();
            } else {
                run.signal(Signal::INT);
                let ended = run.finish().expect_code(4);
                for words in ["is inconsistent, with parts of the old and of the new contents", "run it again"] {
                    assert!(ended.stderr.contains(words), "{route:?}: {ended}");
                }
                assert_eq!(leftovers(routed.site.root()).len(), 1, "the journal marks it: {ended}");
            }
            let ended = routed.copy(&["--in-place"], &["source"], "image").expect_code(0);
            assert_written(&routed, before, &ended);
            if !is_killed {
                assert!(ended.resumed() > 0 && ended.number("bytes_sent") < SIZE, "{route:?}: {ended}");
            }
        }
    }
}

#[test]
fn a_receiver_that_is_killed_goes_on_where_it_was() {
    for route in [Route::Push, Route::FromDaemon] {
        let routed = different(route);
        let before = inode(routed.path("image"));
        let run = begun(&routed);
        match run.far_end() {
            // The near end starts another one.
            Some(far) => {
                kill_process(far, Signal::KILL).unwrap();
                let ended = run.finish().expect_code(0);
                assert_written(&routed, before, &ended);
            }
            None => {
                run.kill();
                assert_eq!(leftovers(routed.site.root()).len(), 1, "the journal marks it");
                let words = ["leftovers", "--remove", "."];
                let removed = || routed.site.icdc(&words).run();
                assert!(eventually(|| removed().code == Some(1)), "{}", removed());
                assert!(removed().stderr.contains("image is inconsistent"), "{}", removed());
                assert_eq!(leftovers(routed.site.root()).len(), 1, "the journal marks it still");
                let ended = routed.copy(&["--in-place"], &["source"], "image").expect_code(0);
                assert_written(&routed, before, &ended);
            }
        }
    }
}

#[test]
fn the_mark_stays_while_the_file_is_written() {
    let routed = different(Route::Local);
    let before = inode(routed.path("image"));
    let run = begun(&routed);
    let leftovers_of = || {
        let output = routed.site.icdc(&["leftovers", "--remove"]).arg(routed.site.root()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let told = leftovers_of();
    assert!(told.contains("1 in use by a running icdc") && told.contains("0 removed"), "{told}");
    run.signal(Signal::INT);
    let ended = run.finish().expect_code(4);
    assert_eq!(leftovers(routed.site.root()).len(), 1, "{ended}");
    let ended = routed.copy(&["--in-place"], &["source"], "image").expect_code(0);
    assert_written(&routed, before, &ended);
}

#[test]
fn further_names_of_the_source_are_made_of_the_file_that_was_written() {
    for route in [Route::Local, Route::Push, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        for (name, seed) in [("tree", 1), ("copy", 2)] {
            fs::create_dir(routed.path(name)).unwrap();
            data::file(&routed.path(name).join("first"), SIZE, seed);
        }
        fs::hard_link(routed.path("tree/first"), routed.path("tree/second")).unwrap();
        data::file(&routed.path("copy/second"), MIB, 3);
        let before = inode(routed.path("copy/first"));
        let ended = routed.copy(&["--in-place"], &["tree/"], "copy").expect_code(0);
        assert_same(&routed.path("tree"), &routed.path("copy"));
        let after = ["first", "second"].map(|name| inode(routed.path("copy").join(name)));
        assert_eq!(after, [before; 2], "{route:?}: {ended}");
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn what_was_left_inconsistent_counts_neither_as_equal_nor_as_newer() {
    for route in [Route::Local, Route::Push, Route::FromDaemon] {
        for options in [&["--skip-equal", "--size-only"][..], &["--update"]] {
            for in_place in [true, false] {
                let routed = different(route);
                let run = begun(&routed);
                run.signal(Signal::INT);
                run.finish().expect_code(4);
                let options = [options, if in_place { &["--in-place"] } else { &[] }].concat();
                let ended = routed.copy(&options, &["source"], "image").expect_code(0);
                assert!(same_contents(&routed.path("source"), &routed.path("image")), "{options:?} {route:?}: {ended}");
                let ended = routed.copy(&options, &["source"], "image").expect_code(0);
                assert_eq!(ended.number("skipped") + ended.number("kept_newer"), 1, "{options:?} {route:?}: {ended}");
                assert_no_leftovers(routed.site.root());
            }
        }
    }
}

#[test]
fn a_source_that_has_changed_since_is_not_mixed_with_what_was_there() {
    for route in Route::ALL {
        let routed = different(route);
        let before = inode(routed.path("image"));
        begun(&routed).kill();
        data::file(&routed.path("source"), SIZE - 3 * MIB, 12);
        let ended = routed.copy(&["--in-place"], &["source"], "image").expect_code(0);
        assert_written(&routed, before, &ended);
        assert_eq!(ended.resumed(), 0, "{route:?}: {ended}");
    }
}

#[test]
fn blocks_that_another_program_has_changed_since_are_written_again() {
    let routed = different(Route::Push);
    let before = inode(routed.path("image"));
    let run = begun(&routed);
    run.signal(Signal::INT);
    run.finish().expect_code(4);
    change(&routed.path("image"), 5, &[(MIB, 3), (6 * MIB, 3)]);
    let ended = routed.copy(&["--in-place"], &["source"], "image").expect_code(0);
    assert_written(&routed, before, &ended);
}

#[test]
fn a_name_that_leads_to_another_file_at_the_end_is_told() {
    for route in [Route::Local, Route::Push, Route::FromDaemon] {
        let routed = different(route);
        let run = begun(&routed);
        fs::write(routed.path("other"), "another file").unwrap();
        fs::rename(routed.path("other"), routed.path("image")).unwrap();
        let ended = run.finish().expect_code(1);
        assert!(ended.stderr.contains("another program has replaced or removed"), "{route:?}: {ended}");
        assert_eq!(fs::read(routed.path("image")).unwrap(), b"another file", "{route:?}: {ended}");
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn another_icdc_that_writes_the_file_is_waited_for() {
    let routed = different(Route::Local);
    let before = inode(routed.path("image"));
    let first = begun(&routed);
    let ended = later_waits_for(first, &routed, "--in-place", "image");
    assert!(same_contents(&routed.path("later"), &routed.path("image")), "{ended}");
    assert_eq!(inode(routed.path("image")), before, "{ended}");
    assert_no_leftovers(routed.site.root());
}

/// Copies in place, in a dry run as well, and asserts that the file is refused with these words and left alone.
fn refused(routed: &RoutedSite, options: &[&str], words: &str) {
    let before = (inode(routed.path("image")), fs::metadata(routed.path("image")).unwrap().modified().unwrap());
    let contents = fs::read(routed.path("image")).unwrap();
    for dry_run in [&["--dry-run"][..], &[]] {
        let options = [&["--in-place"], options, dry_run].concat();
        let ended = routed.copy(&options, &["source"], "image").expect_code(1);
        assert!(ended.stderr.contains(words), "{:?}: {words}: {ended}", routed.route);
        let image = fs::metadata(routed.path("image")).unwrap();
        assert_eq!((image.ino(), image.modified().unwrap()), before, "{:?}: {ended}", routed.route);
        assert!(fs::read(routed.path("image")).unwrap() == contents, "{:?}: {ended}", routed.route);
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn files_that_others_see_or_use_are_refused() {
    for route in Route::ALL {
        let routed = different(route);
        fs::hard_link(routed.path("image"), routed.path("second")).unwrap();
        refused(&routed, &[], "has 2 names (hard links)");
        fs::remove_file(routed.path("second")).unwrap();
        written(&routed, &[]);
    }
    let routed = different(Route::Push);
    fs::copy("/bin/bash", routed.path("image")).unwrap();
    let mut program = Command::new(routed.path("image"));
    let mut running = program.args(["-c", "read line"]).stdin(Stdio::piped()).spawn().unwrap();
    refused(&routed, &[], "is a program that is running");
    drop(running.stdin.take());
    running.wait().unwrap();
    written(&routed, &[]);
}

#[test]
fn files_of_other_users_are_refused_unless_they_stay_theirs() {
    if !is_root() {
        return skip("giving files away needs root");
    }
    let routed = different(Route::Push);
    chown(routed.path("image"), Some(4711), None).unwrap();
    fs::set_permissions(routed.site.root(), fs::Permissions::from_mode(0o777)).unwrap();
    refused(&routed, &[], "belongs to user 4711");
    chown(routed.path("source"), Some(4711), None).unwrap();
    let ended = written(&routed, &["--preserve", "all", "--numeric-ids"]);
    assert_eq!(fs::metadata(routed.path("image")).unwrap().uid(), 4711, "{ended}");
}

#[test]
fn a_file_that_may_not_be_written_is_refused() {
    let site = Site::new();
    data::file(&site.path("source"), MIB, 1);
    site.directory("open");
    data::file(&site.path("open/image"), MIB, 2);
    fs::set_permissions(site.path("open/image"), fs::Permissions::from_mode(0o444)).unwrap();
    open_to_all(site.root());
    if is_root() {
        chown(site.path("open"), Some(65534), Some(65534)).unwrap();
        chown(site.path("open/image"), Some(65534), Some(65534)).unwrap();
    }
    let mut command = site.unprivileged();
    let output = command.args(["copy", "--in-place", "source", "open/image"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("permission denied") && told.contains("the file itself is written"), "{told}");
}

#[test]
fn an_immutable_file_is_refused() {
    let routed = different(Route::Local);
    let attribute = |change: &str| {
        let mut command = Command::new("chattr");
        command.arg(change).arg(routed.path("image")).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !is_root() || !attribute("+i") {
        return skip("no immutable files here");
    }
    let checked = catch_unwind(AssertUnwindSafe(|| refused(&routed, &[], "immutable or append-only")));
    // It could not be removed otherwise.
    assert!(attribute("-i"));
    checked.unwrap_or_else(|panic| resume_unwind(panic));
}

#[test]
fn options_without_a_meaning_for_files_in_place_are_refused() {
    let site = Site::new();
    fs::write(site.path("source"), "x").unwrap();
    for options in [
        &["--write-device"][..],
        &["--delta"],
        &["--basis", "old"],
        &["--backup-dir", "kept"],
        &["--suffix", ".old"],
        &["--link-dest", "old"],
        &["--snapshot"],
        &["--follow"],
        &["--move"],
        &["--ignore-existing"],
    ] {
        let ended = site.copy(&["--in-place"]).args(options).args(["source", "copy"]).run().expect_code(2);
        assert!(ended.stderr.contains("cannot be used with"), "{options:?}: {ended}");
        assert!(!site.path("copy").exists(), "{options:?}");
    }
    let ended = site.copy(&["--in-place", "-", "copy"]).stdin(Stdio::null()).run().expect_code(2);
    assert!(ended.stderr.contains("--in-place is for files"), "{ended}");
}

#[test]
fn a_key_needs_the_right_to_write_and_none_to_read() {
    let site = Site::new();
    data::file(&site.path("source"), SIZE, 1);
    site.directory("in");
    data::file(&site.path("in/image"), SIZE, 2);
    let before = inode(site.path("in/image"));
    let root = site.path("in").display().to_string();
    for (number, rights) in ["r", "drop-box", "w"].into_iter().enumerate() {
        let daemon = Daemon::named(&site, &format!("daemon{number}"), &format!("root=\"{root}\",rights={rights}"));
        let ended = site.copy(&["--in-place", "source"]).arg(daemon.location("image")).run();
        let is_allowed = rights == "w";
        let ended = ended.expect_code(if is_allowed { 0 } else { 3 });
        assert_eq!(same_contents(&site.path("source"), &site.path("in/image")), is_allowed, "{rights}: {ended}");
        assert_eq!(inode(site.path("in/image")), before, "{rights}: {ended}");
        assert_no_leftovers(&site.path("in"));
    }
}

#[test]
fn rsyncs_word_for_it_is_taken() {
    let routed = different(Route::Local);
    let before = inode(routed.path("image"));
    let mut command = routed.site.icdc(&["rsync", "-a", "--inplace"]);
    let output = command.args([routed.path("source"), routed.path("image")]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("--in-place") && told.contains("--inplace: "), "{told}");
    assert!(same_contents(&routed.path("source"), &routed.path("image")), "{told}");
    assert_eq!(inode(routed.path("image")), before, "{told}");
}

#[test]
fn a_mirror_writes_in_place_and_deletes() {
    for route in [Route::Local, Route::Pull, Route::ToDaemon] {
        let routed = RoutedSite::new(route);
        fs::create_dir(routed.path("tree")).unwrap();
        data::file(&routed.path("tree/image"), SIZE, 1);
        routed.copy(&[], &["tree/"], "copy").expect_code(0);
        change(&routed.path("tree/image"), 3, &[(9 * MIB, 10)]);
        data::file(&routed.path("copy/extra"), MIB, 4);
        let before = inode(routed.path("copy/image"));
        let options = ["--in-place", "--skip-equal", "--delete"];
        let ended = routed.copy(&options, &["tree/"], "copy").expect_code(0);
        assert_same(&routed.path("tree"), &routed.path("copy"));
        assert_eq!((inode(routed.path("copy/image")), ended.number("deleted")), (before, 1), "{route:?}: {ended}");
        let ended = routed.copy(&options, &["tree/"], "copy").expect_code(0);
        assert_eq!((ended.number("skipped"), ended.all("in_place").count()), (1, 0), "{route:?}: {ended}");
        assert_no_leftovers(routed.site.root());
    }
}
