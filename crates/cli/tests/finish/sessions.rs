//! `icdc serve --on-finish`.

use std::fs;

use serde_json::Value;

use crate::support::process::eventually;
use crate::support::{Site, Start, succeed};
use crate::{SIZE, SLOW, daemon, push, site};

/// Adds a line of JSON for each session.
const NOTE: &str = "env > variables; cat >> sessions; echo >> sessions; echo noted";

fn sessions(site: &Site) -> Vec<Value> {
    let text = fs::read_to_string(site.path("sessions")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn every_session_is_told_however_it_ended_and_strangers_are_not() {
    let site = site();
    let daemon = daemon(&site, &["--on-finish", NOTE]);
    let run = push(&site, &daemon, &["--rate", SLOW, "--retry-for", "1ms"]).start();
    assert!(run.wait_for_bytes(1), "{}", run.stderr());
    run.kill();
    assert!(eventually(|| sessions(&site).len() == 1));
    let cut = &sessions(&site)[0];
    assert_eq!(
        (&cut["event"], &cut["result"], &cut["former_result"], &cut["path"]),
        (&"session_end".into(), &"lost".into(), &"cut".into(), &"/pushed".into())
    );
    succeed(&mut site.icdc(&["keygen", "--identity", "stranger"]));
    push(&site, &daemon, &["--identity", "stranger"]).run().expect_code(3);
    let summary = push(&site, &daemon, &[]).run().expect_code(0);
    assert!(eventually(|| sessions(&site).len() == 2));
    let done = &sessions(&site)[1];
    assert_eq!((&done["result"], &done["files"]), (&"complete".into(), &1.into()));
    assert_eq!(done["digest"], summary.summary()["digest"]);
    assert_eq!(done["key"], cut["key"]);
    let variables = crate::variables(&site.path("variables"));
    for (name, member) in [("KEY", "key"), ("FROM", "from"), ("SESSION", "session"), ("WHO", "who")] {
        assert_eq!(variables[&format!("ICDC_{name}")], done[member].as_str().unwrap(), "{name}");
    }
    let values =
        ["RESULT", "FORMER_RESULT", "JOB", "PATH", "FILES"].map(|name| variables[&format!("ICDC_{name}")].as_str());
    assert_eq!(values, ["complete", "done", "write", "/pushed", "1"]);
    assert!(variables["ICDC_BYTES"].parse::<u64>().unwrap() <= SIZE);
    assert!(daemon.run().wait_for_words("noted"), "{}", daemon.run().stderr());
}

#[test]
fn a_command_that_fails_or_hangs_is_logged_and_holds_no_session_up() {
    let site = site();
    let command = "test -e hang && { touch hanging; sleep 600; }; exit 7";
    let daemon = daemon(&site, &["--on-finish", command, "--on-finish-timeout", "2s"]);
    push(&site, &daemon, &[]).run().expect_code(0);
    assert!(daemon.run().wait_for_words("the command failed: exit status: 7"), "{}", daemon.run().stderr());
    fs::write(site.path("hang"), "").unwrap();
    push(&site, &daemon, &["--no-resume"]).run().expect_code(0);
    assert!(eventually(|| site.path("hanging").exists()));
    // Beside it.
    push(&site, &daemon, &["--skip-equal"]).run().expect_code(0);
    assert!(daemon.run().wait_for_words("the command was killed after 2s"), "{}", daemon.run().stderr());
}

#[test]
fn a_daemon_that_stops_tells_of_the_sessions_that_it_ends() {
    let site = site();
    let daemon = daemon(&site, &["--on-finish", NOTE]);
    let run = push(&site, &daemon, &["--rate", SLOW, "--retry-for", "1ms"]).start();
    assert!(run.wait_for_bytes(1), "{}", run.stderr());
    let ended = daemon.stop();
    run.finish().expect_code(4);
    assert_eq!(ended.code, Some(0), "{ended}");
    let sessions = sessions(&site);
    assert!(sessions.len() == 1 && sessions[0]["result"] == "interrupted", "{sessions:?}");
}

#[test]
fn a_measurement_that_its_time_ends_is_complete() {
    let site = site();
    let daemon = daemon(&site, &["--on-finish", NOTE]);
    let target = daemon.location("");
    for (index, words) in [&["--secure"][..], &["--secure", "--reverse"], &["--secure", "--hash"]].iter().enumerate() {
        site.icdc(&[&["measure", "--seconds", "0.2"], *words, &[&target]].concat()).run().expect_code(0);
        assert!(eventually(|| sessions(&site).len() == index + 1));
        let ended = &sessions(&site)[index];
        assert_eq!((&ended["result"], &ended["job"]), (&"complete".into(), &"measure a copy".into()), "{ended}");
    }
}
