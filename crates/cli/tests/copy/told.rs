//! What a copy tells of what is out of the ordinary.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use crate::support::terminal::Terminal;
use crate::support::{Ended, ICDC, MIB, Route, RoutedSite, Signal, Site, Start, assert_same, data};

#[test]
fn equal_names_of_merged_sources_are_told() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        for directory in ["a/sub", "b/sub"] {
            fs::create_dir_all(routed.path(directory)).unwrap();
            fs::write(routed.path(directory).join("x"), directory).unwrap();
        }
        fs::write(routed.path("a/only"), "a").unwrap();
        let ended = routed.copy(&[], &["a/", "b/"], "copy").expect_code(0);
        let told: Vec<&str> = ended.stderr.lines().collect();
        assert_eq!(told.len(), 1, "{route:?}: {ended}");
        assert!(told[0].contains("sub/x") && told[0].contains("same name"), "{route:?}: {ended}");
        assert_eq!(fs::read(routed.path("copy/sub/x")).unwrap(), b"b/sub");
        // One beside the contents of a directory, too.
        fs::write(routed.path("only"), "other").unwrap();
        let ended = routed.copy(&[], &["a/", "only"], "beside").expect_code(0);
        assert!(ended.stderr.contains("only") && ended.stderr.contains("same name"), "{route:?}: {ended}");
        let ended = routed.copy(&[], &["a", "b"], "apart").expect_code(0);
        assert_eq!(ended.stderr, "", "{route:?}: {ended}");
    }
}

#[test]
fn of_very_many_equal_names_some_are_told_and_the_rest_is_counted() {
    let routed = RoutedSite::new(Route::Local);
    for directory in ["a", "b"] {
        fs::create_dir(routed.path(directory)).unwrap();
        for number in 0..100 {
            fs::write(routed.path(directory).join(number.to_string()), directory).unwrap();
        }
    }
    let ended = routed.copy(&[], &["a/", "b/"], "copy").expect_code(0);
    assert_eq!(ended.stderr.lines().count(), 21, "{ended}");
    assert!(ended.stderr.contains("80 more"), "{ended}");
}

#[test]
fn links_are_counted() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        fs::create_dir_all(routed.path("tree/sub")).unwrap();
        fs::write(routed.path("tree/file"), "file").unwrap();
        fs::hard_link(routed.path("tree/file"), routed.path("tree/sub/further")).unwrap();
        symlink("file", routed.path("tree/link")).unwrap();
        let ended = routed.copy(&[], &["tree/"], "copy").expect_code(0);
        assert_eq!((ended.number("files"), ended.number("links")), (1, 2), "{route:?}: {ended}");
    }
    let site = Site::new();
    symlink("nowhere", site.path("link")).unwrap();
    let ended = site.icdc(&["copy", "link", "copy"]).run().expect_code(0);
    assert!(ended.text.starts_with("0 files, 1 link, 0B in "), "{ended}");
}

#[test]
fn a_limit_of_the_user_is_told_while_a_pull_reaches_it() {
    let site = Site::new();
    data::file(&site.path("file"), 6 * MIB, 1);
    let copy = |rate: &str, name: &str| {
        let mut command = site.copy(&["--ssh", &site.ssh(), "--streams", "1", "--rate", rate]);
        command.arg(site.by_ssh("file")).arg(name).run().expect_code(0)
    };
    let is_told = |ended: &Ended| ended.all("progress").any(|sample| sample["limited_by"] == "rate_ceiling");
    let limited = copy("24mbit", "slowly");
    assert!(is_told(&limited), "{:?}", limited.all("progress").collect::<Vec<_>>());
    assert!(!is_told(&copy("900gbit", "at once")));
}

#[test]
fn nothing_is_left_where_a_copy_is_refused() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        for directory in ["a", "b"] {
            fs::create_dir(routed.path(directory)).unwrap();
            fs::write(routed.path(directory).join("x"), directory).unwrap();
        }
        let pipe = std::process::Command::new("mkfifo").arg(routed.path("pipe")).status().unwrap();
        assert!(pipe.success());
        for sources in [&["a/x", "b/x"] as &[_], &["pipe"], &["pipe", "not-there"]] {
            let ended = routed.copy(&[], sources, "copy/").expect_code(2);
            assert!(!routed.path("copy").exists(), "{route:?} {sources:?}: {ended}");
        }
    }
}

#[test]
fn patterns_on_a_far_side_are_hinted_at() {
    for route in [Route::Pull, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        let ended = routed.copy(&[], &["*.dat"], "copy").expect_code(2);
        assert!(ended.stderr.contains("nothing matches it there"), "{route:?}: {ended}");
        assert_eq!(ended.stderr.lines().count(), 1, "{route:?}: {ended}");
    }
}

#[test]
fn what_the_far_side_says_cannot_steer_the_terminal() {
    let site = Site::new();
    fs::write(site.path("file"), "file").unwrap();
    fs::write(site.path("a\u{1b}[2Jb\u{9b}c"), "file").unwrap();
    let nasty = "printf '\\033[2J\\033]0;owned\\007\\033[31mred\\n' >&2";
    let greeting = site.program("greeting", &format!("shift\n{nasty}\nexec sh -c \"$*\""));
    let failing = site.program("failing", &format!("{nasty}\nexit 255"));
    let mut greeted = site.icdc(&["copy", "-v", "--remote-icdc", ICDC, "--ssh", &greeting, "file"]);
    let greeted = greeted.arg("a\u{1b}[2Jb\u{9b}c").arg(site.by_ssh("in/")).run().expect_code(0);
    let mut json = site.copy(&["--ssh", &greeting, "a\u{1b}[2Jb\u{9b}c"]);
    let json = json.arg(site.by_ssh("in/")).run().expect_code(0);
    let failed = site.copy(&["--ssh", &failing, "file"]).arg(site.by_ssh("in/")).run().expect_code(3);
    let named = |item: &serde_json::Value| item["path"].as_str().is_some_and(|path| path.contains("[2Jb"));
    assert!(json.all("item").any(named), "{json}");
    for ended in [&greeted, &json, &failed] {
        assert!(ended.stderr.contains("red"), "{ended}");
        let steers = |letter: char| letter.is_control() && letter != '\n';
        assert!(!ended.stderr.contains(steers) && !ended.text.contains(steers), "{:?}", ended.stderr);
    }
}

#[test]
fn what_ssh_says_is_told_once() {
    let site = Site::new();
    fs::write(site.path("file"), "file").unwrap();
    let failing = site.program("failing", "echo 'Permission denied (publickey).' >&2\nexit 255");
    let ended = site.icdc(&["copy", "--ssh", &failing, "file"]).arg(site.by_ssh("in/")).run().expect_code(3);
    assert_eq!(ended.stderr.matches("Permission denied").count(), 1, "{ended}");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended}");
    let warning = site.program("warning", "shift\necho 'a warning' >&2\nexec sh -c \"$*\"");
    let mut command = site.icdc(&["copy", "--remote-icdc", ICDC, "--ssh", &warning, "file"]);
    let ended = command.arg(site.by_ssh("in/")).run().expect_code(0);
    assert_eq!(ended.stderr.matches("a warning").count(), 1, "{ended}");
}

#[test]
fn a_terminal_shows_whom_it_connects_to_and_a_question_stays_as_it_was_asked() {
    let routed = RoutedSite::new(Route::ToDaemon);
    fs::write(routed.path("file"), "file").unwrap();
    fs::remove_file(routed.path("home/.config/icdc/known_hosts")).unwrap();
    let copy = || Terminal::start(routed.site.icdc(&["copy", "file"]).arg(routed.destination("arrived")));
    let mut terminal = copy();
    terminal.wait_for("connecting to 127.0.0.1:");
    terminal.wait_for("[yes/no] ");
    std::thread::sleep(Duration::from_millis(500));
    let screen = terminal.screen();
    assert!(screen.ends_with("[yes/no] "), "{screen:?}");
    terminal.write("no\n");
    assert_eq!(terminal.finish().code(), Some(3));
    let mut terminal = copy();
    terminal.wait_for("[yes/no] ");
    terminal.write("yes\n");
    assert_eq!(terminal.finish().code(), Some(0));
    assert_eq!(fs::read(routed.path("arrived")).unwrap(), b"file");
}

#[test]
fn what_was_done_until_a_break_is_told_as_such() {
    let site = Site::new();
    data::file(&site.path("file"), 24 * MIB, 1);
    let mut command = site.icdc(&["copy", "--rate", "16mbit", "--progress", "always", "--ssh", &site.ssh()]);
    command.args(["--remote-icdc", ICDC, "file"]).arg(site.by_ssh("arrived"));
    let run = command.start();
    assert!(run.wait_for_words("connecting to 127.0.0.1 by ssh") && run.wait_for_words("connecting to 127.0.0.1:"));
    assert!(run.wait_for_words("limited by rate ceiling"));
    assert!(!run.stderr().contains("MiB"), "{}", run.stderr());
    run.signal(Signal::INT);
    let ended = run.finish().expect_code(4);
    assert!(ended.text.starts_with("broken off after "), "{ended}");
    assert!(ended.text.contains(": 0 files complete, 0B; ") && ended.text.contains(" sent at "), "{ended}");
}

#[test]
fn a_dry_run_claims_nothing_of_files() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        fs::write(routed.path("file"), "file").unwrap();
        let ended = routed.copy(&["--dry-run", "--verify"], &["file"], "copy").expect_code(0);
        let summary = ended.all("summary").next().unwrap();
        assert!(summary["verified"] == false && summary["read_back"] == false, "{route:?}: {ended}");
    }
}

#[test]
fn a_copy_in_the_background_draws_nothing_and_is_not_stopped() {
    let site = Site::new();
    data::file(&site.path("file"), 6 * MIB, 1);
    let copy = format!("{ICDC} copy --rate 24mbit --remote-icdc {ICDC} --ssh {} file", site.ssh());
    let destination = site.by_ssh("copy").into_string().unwrap();
    let script = format!("stty tostop; set -m; {copy} {destination} >summary & wait $!; echo ended with $?");
    let mut command = site.settle(std::process::Command::new("setsid"));
    command.args(["--ctty", "--wait", "sh", "-c", &script]);
    let terminal = Terminal::start(&mut command);
    terminal.wait_for("ended with 0");
    assert!(!terminal.screen().contains("copied") && !terminal.screen().contains('%'), "{}", terminal.screen());
    assert_eq!(fs::read(site.path("copy")).unwrap(), fs::read(site.path("file")).unwrap());
}

#[test]
fn a_cause_of_many_failures_is_told_once() {
    let site = Site::new();
    site.directory("tree/sub");
    (0..50).for_each(|number| fs::write(site.path(format!("tree/sub/{number:02}")), "data").unwrap());
    site.directory("elsewhere");
    site.directory("copies/tree");
    symlink(site.path("elsewhere"), site.path("copies/tree/sub")).unwrap();
    let ended = site.copy(&["tree", "copies"]).run().expect_code(1);
    let failed = ended.all("item").filter(|event| event["outcome"] == "failed").count();
    assert!(failed > 50, "each is an event: {ended}");
    assert_eq!(ended.stderr.matches("is a symbolic link").count(), 1, "{ended}");
    assert!(ended.stderr.contains("and 48 more items failed for the same reason as tree/sub/"), "{ended}");
    assert!(ended.stderr.trim_end().lines().count() <= 3, "{ended}");
    let each = site.copy(&["--verbose", "tree", "copies"]).run().expect_code(1);
    assert!(each.stderr.matches("is a symbolic link").count() > 50, "{each}");
    assert_eq!(fs::read_dir(site.path("elsewhere")).unwrap().count(), 0);
}

#[test]
fn a_signal_asks_for_the_progress_and_the_copy_goes_on() {
    for route in [Route::Local, Route::Push, Route::Pull] {
        let routed = RoutedSite::new(route);
        data::file(&routed.path("source"), 12 * MIB, 1);
        let run = routed.start(&["--rate", "60mbit", "--quiet"], &["source"], "copy");
        assert!(run.wait_for_bytes(MIB), "{}", run.finish());
        run.signal(Signal::USR1);
        assert!(run.wait_for_words(" of 12.58MB"), "{}", run.finish());
        let ended = run.finish().expect_code(0);
        assert!(ended.stderr.contains("limited by"), "{ended}");
        assert_same(&routed.path("source"), &routed.path("copy"));
    }
}
