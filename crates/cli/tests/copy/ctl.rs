//! `icdc ctl`: a running copy is shown, paused, resumed and stopped, its rate changed; and rates over time.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::process::eventually;
use crate::support::{
    Ended, MIB, Route, RoutedSite, Run, Site, Start, assert_no_leftovers, assert_same, bytes_done, data, has_program,
    is_root, skip,
};

/// A Python that any user may run.
const PYTHON: &str = "/usr/bin/python3";
const SIZE: u64 = 24 * MIB;
/// Slow enough that a copy of [`SIZE`] is still running when it is controlled.
const RATE: &str = "80mbit";

fn ctl(site: &Site, run: &Run, words: &[&str]) -> Ended {
    site.icdc(&["ctl", &pid(run)]).args(words).run()
}

fn pid(run: &Run) -> String {
    run.pid().as_raw_nonzero().to_string()
}

/// State of a running copy as JSON.
fn status(site: &Site, run: &Run) -> Value {
    let ended = ctl(site, run, &["status", "--json"]).expect_code(0);
    ended.events.first().unwrap_or_else(|| panic!("no state: {ended}")).clone()
}

/// Whether the last ten events of progress tell of the same bytes.
fn stands_still(run: &Run) -> bool {
    let events = run.events();
    let done: Vec<u64> = events.iter().filter(|event| event["type"] == "progress").map(bytes_done).collect();
    let Some((last, before)) = done.split_last() else { return false };
    before.len() >= 9 && before[before.len() - 9..].iter().all(|bytes| bytes == last)
}

/// A copy that runs, and has brought some of its data.
fn started(routed: &RoutedSite, options: &[&str]) -> Run {
    data::file(&routed.path("source"), SIZE, 4);
    let run = routed.start(options, &["source"], "copy");
    assert!(run.wait_for_bytes(MIB), "{}", run.finish());
    run
}

#[test]
fn a_paused_copy_that_follows_ends_by_a_stop_and_the_next_one_brings_the_rest() {
    let routed = RoutedSite::new(Route::Push);
    let source = routed.site.directory("tree");
    data::file(&source.join("file"), SIZE, 4);
    let options = ["--follow", "--settle", "50ms", "--final", "done"];
    let run = routed.start(&[&options[..], &["--rate", RATE]].concat(), &["tree/"], "copy");
    assert!(run.wait_for_bytes(MIB), "{}", run.finish());
    ctl(&routed.site, &run, &["pause"]).expect_code(0);
    ctl(&routed.site, &run, &["stop"]).expect_code(0);
    run.finish().expect_code(4);
    fs::write(source.join("done"), "").unwrap();
    routed.copy(&options, &["tree/"], "copy").expect_code(0);
    assert_same(&source, &routed.path("copy"));
}

#[test]
fn a_paused_copy_sends_nothing_until_it_is_resumed_and_keeps_its_connections() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let run = started(&routed, &["--rate", RATE]);
        let paused = ctl(&routed.site, &run, &["pause"]).expect_code(0);
        assert!(paused.text.contains("resume"), "{paused}");
        assert!(eventually(|| stands_still(&run)), "{route:?}: data flows in a pause\n{}", run.finish());
        let status = status(&routed.site, &run);
        assert_eq!((&status["type"], &status["paused"]), (&"status".into(), &true.into()), "{route:?}: {status}");
        assert!(status["text"].as_str().unwrap().starts_with("paused"), "{status}");
        let done = status["progress"]["bytes_done"].as_u64().unwrap();
        assert!((MIB..SIZE).contains(&done), "{route:?}: {status}");
        ctl(&routed.site, &run, &["resume"]).expect_code(0);
        let ended = run.finish().expect_code(0);
        assert_same(&routed.path("source"), &routed.path("copy"));
        assert_eq!(ended.all("reconnecting").count(), 0, "{route:?}: {ended}");
        assert_eq!(ended.number("bytes_sent"), SIZE, "{route:?}: {ended}");
        let notices = ended.all("notice").filter_map(|event| event["text"].as_str());
        assert_eq!(notices.filter(|text| text.contains("paused") || *text == "resumed").count(), 2, "{ended}");
    }
}

#[test]
fn a_rate_that_is_changed_applies_from_then_on() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let run = started(&routed, &["--rate", "8mbit"]);
        let slow = status(&routed.site, &run);
        assert_eq!((&slow["rate"], &slow["rate_limit_bps"]), (&"8mbit".into(), &8_000_000.into()), "{slow}");
        // It would soon end without a pause.
        ctl(&routed.site, &run, &["pause"]).expect_code(0);
        ctl(&routed.site, &run, &["rate", "auto"]).expect_code(0);
        let fast = status(&routed.site, &run);
        assert_eq!((&fast["rate"], &fast["rate_limit_bps"]), (&"auto".into(), &Value::Null), "{fast}");
        ctl(&routed.site, &run, &["resume"]).expect_code(0);
        let ended = run.finish().expect_code(0);
        assert!(ended.number("goodput_bps") > 2 * 8_000_000, "{route:?}: {ended}");
        assert_same(&routed.path("source"), &routed.path("copy"));
    }
}

#[test]
fn a_copy_that_is_stopped_ends_as_by_ctrl_c_and_is_resumed() {
    for route in [Route::Local, Route::Push, Route::Pull] {
        let routed = RoutedSite::new(route);
        let run = started(&routed, &["--rate", RATE]);
        ctl(&routed.site, &run, &["stop"]).expect_code(0);
        let ended = run.finish().expect_code(4);
        assert!(ended.stderr.contains("same command"), "{ended}");
        routed.copy(&[], &["source"], "copy").expect_code(0);
        assert_same(&routed.path("source"), &routed.path("copy"));
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn a_paused_copy_can_be_stopped() {
    let routed = RoutedSite::new(Route::Pull);
    let run = started(&routed, &["--rate", RATE]);
    ctl(&routed.site, &run, &["pause"]).expect_code(0);
    ctl(&routed.site, &run, &["stop"]).expect_code(0);
    run.finish().expect_code(4);
}

#[test]
fn what_cannot_be_asked_is_refused_with_the_reason() {
    let routed = RoutedSite::new(Route::Local);
    let run = started(&routed, &["--rate", RATE]);
    for (words, reason) in [
        (&["rate", "fast"][..], "rate"),
        (&["rate", "mon 9-17=1mbit"], "\"9\" is no time of a day"),
        (&["rate"], "RATE"),
        (&["poem"], "poem"),
        (&[], "subcommand"),
    ] {
        let refused = ctl(&routed.site, &run, words).expect_code(2);
        assert!(refused.stderr.contains(reason), "{words:?}: {refused}");
    }
    run.kill();
}

/// `icdc` of an unprivileged user whose sockets are in this site.
fn unprivileged(site: &Site) -> Command {
    let mut command = site.unprivileged();
    command.env("XDG_RUNTIME_DIR", site.path("runtime"));
    command
}

/// A site whose unprivileged user may write to it and has a directory for sockets.
fn unprivileged_site() -> Site {
    let site = Site::new();
    data::file(&site.path("source"), SIZE, 4);
    for name in ["runtime", "home", "into"] {
        let directory = site.directory(name);
        if is_root() {
            std::os::unix::fs::chown(&directory, Some(65534), Some(65534)).unwrap();
        }
    }
    site
}

fn start(site: &Site, name: &str) -> Run {
    let run = unprivileged(site).args(["copy", "--json", "--rate", RATE, "source", &format!("into/{name}")]).start();
    assert!(run.wait_for_bytes(MIB), "{}", run.finish());
    run
}

fn sockets(site: &Site) -> usize {
    fs::read_dir(site.path("runtime/icdc/ctl")).unwrap().count()
}

#[test]
fn the_only_copy_of_a_user_need_not_be_named_and_of_several_one_has_to_be() {
    let site = unprivileged_site();
    let none = unprivileged(&site).args(["ctl", "status"]).run().expect_code(2);
    assert!(none.stderr.contains("no copy of this user runs"), "{none}");
    let first = start(&site, "first");
    let only = unprivileged(&site).args(["ctl", "status"]).run().expect_code(0);
    assert!(only.text.contains(&pid(&first)) && only.text.contains("source -> into/first"), "{only}");
    assert!(only.text.contains(" of 25.17MB") && only.text.contains("limit of the rate: 80mbit"), "{only}");
    let second = start(&site, "second");
    let several = unprivileged(&site).args(["ctl", "pause"]).run().expect_code(2);
    for words in [pid(&first), pid(&second), "source -> into/first".into(), "source -> into/second".into()] {
        assert!(several.stderr.contains(&words), "{words}: {several}");
    }
    assert!(!first.events().iter().chain(&second.events()).any(|event| event["type"] == "notice"), "one was paused");
    unprivileged(&site).args(["ctl", &pid(&second), "stop"]).run().expect_code(0);
    second.finish().expect_code(4);
    first.finish().expect_code(0);
    assert_eq!(sockets(&site), 0, "sockets stay");
}

#[test]
fn the_socket_of_a_copy_that_was_killed_is_ignored_and_removed() {
    let site = unprivileged_site();
    start(&site, "copy").kill();
    assert_eq!(sockets(&site), 1);
    let none = unprivileged(&site).args(["ctl", "status"]).run().expect_code(2);
    assert!(none.stderr.contains("no copy of this user runs"), "{none}");
    assert_eq!(sockets(&site), 0);
}

/// A copy with this name, which runs.
fn start_named(site: &Site, name: &str, to: &str) -> Run {
    let words = ["copy", "--json", "--rate", RATE, "--name", name, "source", &format!("into/{to}")];
    let run = unprivileged(site).args(words).start();
    assert!(run.wait_for_bytes(MIB), "{}", run.finish());
    run
}

#[test]
fn a_copy_is_reached_by_its_name_and_by_its_process_and_listed_with_both() {
    let site = unprivileged_site();
    let (nightly, other) = (start_named(&site, "nightly run", "first"), start(&site, "second"));
    let ctl = |words: &[&str]| unprivileged(&site).arg("ctl").args(words).run();
    let paused = ctl(&["nightly run", "pause"]).expect_code(0);
    assert!(
        paused.text.contains("nightly run (process ") && paused.text.contains("ctl 'nightly run' resume"),
        "{paused}"
    );
    for named in ["nightly run", &pid(&nightly)] {
        let status = ctl(&[named, "status", "--json"]).expect_code(0);
        let status = status.events.first().unwrap();
        assert_eq!((&status["name"], &status["paused"]), (&"nightly run".into(), &true.into()), "{status}");
    }
    let own = ctl(&[&pid(&other), "status", "--json"]).expect_code(0);
    assert_eq!((&own.events[0]["name"], &own.events[0]["paused"]), (&Value::Null, &false.into()), "{own}");
    let several = ctl(&["status"]).expect_code(2);
    assert!(several.stderr.contains(&format!("{}  nightly run  source -> into/first", pid(&nightly))), "{several}");
    let unknown = ctl(&["nightly", "status"]).expect_code(2);
    assert!(unknown.stderr.contains("has the name nightly"), "{unknown}");
    ctl(&["nightly run", "rate", "auto"]).expect_code(0);
    ctl(&["nightly run", "resume"]).expect_code(0);
    nightly.finish().expect_code(0);
    ctl(&[&pid(&other), "stop"]).expect_code(0);
    other.finish().expect_code(4);
    assert_eq!(sockets(&site), 0, "sockets or names stay");
}

#[test]
fn a_name_belongs_to_one_running_copy_and_to_nobody_once_that_is_gone() {
    let site = unprivileged_site();
    let again = |to: &str| {
        let words = ["copy", "--json", "--name", "nightly", "source", &format!("into/{to}")];
        unprivileged(&site).args(words).run()
    };
    let first = start_named(&site, "nightly", "first");
    let refused = again("refused").expect_code(2);
    assert!(refused.stderr.contains("has this name") && refused.stderr.contains(&pid(&first)), "{refused}");
    assert!(!site.path("into/refused").exists());
    // Neither the file nor the socket of one that was killed is in the way.
    first.kill();
    let none = unprivileged(&site).args(["ctl", "nightly", "status"]).run().expect_code(2);
    assert!(none.stderr.contains("has the name nightly"), "{none}");
    again("second").expect_code(0);
    let stopped = start_named(&site, "nightly", "third");
    unprivileged(&site).args(["ctl", "nightly", "stop"]).run().expect_code(0);
    stopped.finish().expect_code(4);
    again("fourth").expect_code(0);
}

#[test]
fn of_copies_that_take_a_name_at_once_one_has_it() {
    let site = unprivileged_site();
    let start = |number: usize| {
        let words = ["copy", "--json", "--rate", RATE, "--name", "one", "source", &format!("into/{number}")];
        unprivileged(&site).args(words).start()
    };
    let runs: Vec<_> = (0..6).map(start).collect();
    let codes: Vec<_> = runs.into_iter().map(|run| run.finish().code).collect();
    assert!(codes.contains(&Some(0)) && codes.iter().all(|code| matches!(code, Some(0 | 2))), "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1, "{codes:?}");
}

#[test]
fn each_copy_to_one_of_several_destinations_is_stopped_by_its_name() {
    let site = unprivileged_site();
    let words = ["copy", "--json", "--rate", "8mbit", "--name", "both", "--to", "into/a", "--to", "into/b", "source"];
    let run = unprivileged(&site).args(words).start();
    let ctl = |words: &[&str]| unprivileged(&site).arg("ctl").args(words).run();
    for name in ["both-1", "both-2"] {
        assert!(eventually(|| ctl(&[name, "status"]).code == Some(0)), "{name} does not answer");
        ctl(&[name, "stop"]).expect_code(0);
    }
    run.finish().expect_code(4);
}

#[test]
fn what_is_no_name_is_refused() {
    let site = Site::new();
    data::file(&site.path("source"), 1, 4);
    for (name, reason) in
        [("a/b", "no /"), ("", "1 to 64"), ("4711", "a process"), ("status", "command of icdc ctl"), ("ä", "ASCII")]
    {
        let refused = site.icdc(&["copy", "--name", name, "source", "copy"]).run().expect_code(2);
        assert!(refused.stderr.contains(reason), "{name}: {refused}");
    }
    // Where nobody can reach it, a name is no use.
    fs::write(site.path("file"), "").unwrap();
    let mut command = site.icdc(&["copy", "--name", "nightly", "source", "copy"]);
    if !is_root() {
        let refused = command.env("XDG_RUNTIME_DIR", site.path("file")).env("HOME", site.path("missing")).run();
        assert!(refused.expect_code(2).stderr.contains("cannot listen"));
    }
}

#[test]
fn a_copy_runs_without_a_socket_where_there_is_no_place_for_one() {
    let site = unprivileged_site();
    // Neither a directory of others nor a file is used.
    fs::write(site.path("file"), "").unwrap();
    for runtime in ["file", "missing"] {
        let run = unprivileged(&site)
            .args(["copy", "--json", "source", &format!("into/{runtime}")])
            .env("XDG_RUNTIME_DIR", site.path(runtime))
            .env("HOME", site.path("missing"))
            .run();
        let ended = run.expect_code(0);
        assert_eq!(ended.stderr, "", "{ended}");
    }
}

#[test]
fn another_user_gets_no_answer() {
    if !is_root() || !has_program("setpriv") || !Path::new(PYTHON).exists() {
        return skip("needs root, setpriv and Python, to be another user");
    }
    let site = unprivileged_site();
    let run = start(&site, "copy");
    // It must not end before all have asked.
    let own = |word: &str| unprivileged(&site).args(["ctl", &pid(&run), word]).run().expect_code(0);
    own("pause");
    let other = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65533", "--clear-groups"]).args(words);
        site.settle(command).env("XDG_RUNTIME_DIR", site.path("runtime")).run()
    };
    let icdc = site.icdc_for_anyone();
    let icdc = icdc.to_str().unwrap();
    other(&[icdc, "ctl", "status"]).expect_code(2);
    // Also where the directory and the socket are open to all.
    let directory = site.path("runtime/icdc/ctl");
    let socket = fs::read_dir(&directory).unwrap().next().unwrap().unwrap().path();
    let open_to = |mode| {
        for path in [&site.path("runtime/icdc"), &directory, &socket] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    open_to(0o777);
    other(&[icdc, "ctl", "status"]).expect_code(2);
    let script = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n\
                  try: s.sendall(b'{\"request\":\"pause\"}\\n'); print('answer', s.recv(9))\nexcept ConnectionError: print('reset')";
    let path: &Path = &socket;
    let refused = other(&[PYTHON, "-c", script, path.to_str().unwrap()]).expect_code(0);
    assert!(refused.text.contains("b''") || refused.text.contains("reset"), "{refused}");
    open_to(0o700);
    own("resume");
    let ended = run.finish().expect_code(0);
    assert_eq!(ended.all("notice").count(), 2, "only what its own user has asked for: {ended}");
}

#[test]
fn rates_over_time_apply_by_the_present_time() {
    for route in [Route::Local, Route::Push, Route::Pull] {
        let routed = RoutedSite::new(route);
        let rates = "00:00-24:00=80mbit, else=8kbit";
        let run = started(&routed, &["--rate", rates]);
        let status = status(&routed.site, &run);
        assert_eq!((&status["rate"], &status["rate_limit_bps"]), (&rates.into(), &80_000_000.into()), "{status}");
        let slower = "mon-sun=8kbit, else=auto";
        ctl(&routed.site, &run, &["rate", slower]).expect_code(0);
        ctl(&routed.site, &run, &["rate", "mon-sun=auto, else=8kbit"]).expect_code(0);
        run.finish().expect_code(0);
        assert_same(&routed.path("source"), &routed.path("copy"));
    }
}

#[test]
fn rates_over_time_that_make_no_sense_are_refused() {
    let site = Site::new();
    data::file(&site.path("source"), 1, 4);
    for (rates, reason) in [
        ("mon-fri 08:00-18:00=200mbit, tue 09:00-10:00=auto", "contradict each other, at first on tue 09:00"),
        ("mon-fri 08:00-25:00=200mbit", "\"25:00\" is no time of a day"),
    ] {
        let refused = site.icdc(&["copy", "--rate", rates, "source", "copy"]).run().expect_code(2);
        assert!(refused.stderr.contains(reason), "{refused}");
    }
    let refused = site.icdc(&["copy", "--rate", "mon=1mbit", "a.example:x", "b.example:y"]).run().expect_code(2);
    assert!(refused.stderr.contains("rates over time"), "{refused}");
    // Of measurements, the present one counts, and a file may have them for both.
    fs::write(site.path("config"), "rate = \"mon-sun=1mbit, else=auto\"\n").unwrap();
    let explained = site.icdc(&["config", "--explain", "far.example"]).env("ICDC_CONFIG", site.path("config")).run();
    assert!(explained.expect_code(0).text.contains("mon-sun=1mbit, else=auto"));
}
