//! `icdc copy --on-finish`.

use std::fs;
use std::os::unix::process::CommandExt;

use rustix::process::Pid;

use crate::support::process::{eventually, is_running};
use crate::support::{Signal, Start, succeed};
use crate::{SIZE, SLOW, daemon, json, local, push, site, variables};

#[test]
fn the_command_gets_the_result_as_json_and_in_its_environment() {
    let site = site();
    let command = "cat > told; env > variables; echo said; echo wrong >&2";
    let ended = local(&site, &["--on-finish", command]).run().expect_code(0);
    let (told, variables, summary) = (json(&site.path("told")), variables(&site.path("variables")), ended.summary());
    for member in ["files", "bytes", "errors", "digest", "verified"] {
        assert_eq!(told[member], summary[member], "{member}: {told}");
    }
    let copied = site.path("copied");
    let expected = [
        ("event", "copy_end"),
        ("result", "complete"),
        ("former_result", "done"),
        ("destination", copied.to_str().unwrap()),
    ];
    assert!(expected.iter().all(|(member, value)| told[member] == *value), "{told}");
    assert_eq!((&told["exit_code"], &told["sources"][0]), (&0.into(), &site.path("big").to_str().unwrap().into()));
    let expected = [
        ("ICDC_RESULT", "complete".to_owned()),
        ("ICDC_FORMER_RESULT", "done".to_owned()),
        ("ICDC_EXIT_CODE", "0".to_owned()),
        ("ICDC_BYTES", SIZE.to_string()),
        ("ICDC_FILES", "1".to_owned()),
        ("ICDC_SOURCE", site.path("big").display().to_string()),
        ("ICDC_DESTINATION", site.path("copied").display().to_string()),
    ];
    for (name, value) in expected {
        assert_eq!(variables.get(name), Some(&value), "{variables:?}");
    }
    // Standard output is for results.
    assert!(ended.text.is_empty() && ended.stderr.contains("said") && ended.stderr.contains("wrong"), "{ended}");
}

#[test]
fn a_command_that_fails_is_told_and_the_exit_code_is_that_of_the_copy() {
    let site = site();
    let ended = local(&site, &["--on-finish", "echo $ICDC_RESULT > result; exit 7"]).run().expect_code(0);
    assert!(ended.stderr.contains("--on-finish: the command failed: exit status: 7"), "{ended}");
    assert_eq!(fs::read_to_string(site.path("result")).unwrap(), "complete\n");
    let mut half = site.copy(&["--on-finish", "echo $ICDC_RESULT $ICDC_EXIT_CODE > result"]);
    half.arg(site.path("big")).arg(site.path("missing")).arg(site.directory("into"));
    half.run().expect_code(1);
    assert_eq!(fs::read_to_string(site.path("result")).unwrap(), "incomplete 1\n");
}

#[test]
fn a_command_that_takes_too_long_is_killed_with_all_that_it_started() {
    let site = site();
    let command = "sleep 600 & echo $! > child; wait";
    let ended = local(&site, &["--on-finish", command, "--on-finish-timeout", "1s"]).run().expect_code(0);
    assert!(ended.stderr.contains("the command was killed after 1s"), "{ended}");
    let child = fs::read_to_string(site.path("child")).unwrap().trim().parse().unwrap();
    assert!(eventually(|| !is_running(Pid::from_raw(child).unwrap())), "{child} runs");
}

#[test]
fn what_a_command_does_not_read_and_what_it_prints_without_end_hold_nobody_up() {
    let site = site();
    let ended = local(&site, &["--on-finish", "exec <&-; yes icdc-test | head -c 1000000"]).run().expect_code(0);
    assert!(ended.stderr.contains("is left out") && ended.stderr.len() < 200_000, "{} bytes", ended.stderr.len());
}

#[test]
fn the_end_of_the_terminal_interrupts_and_is_told() {
    let site = site();
    let daemon = daemon(&site, &[]);
    let mut command = crate::direct(site.copy(&["--rate", SLOW, "--on-finish", "cat > told"]));
    command.arg(site.path("big")).arg(daemon.location("copied"));
    // The tests themselves may have been started by nohup.
    // SAFETY: between fork and exec only signal(2) is called.
    unsafe {
        command.pre_exec(|| match libc::signal(libc::SIGHUP, libc::SIG_DFL) {
            libc::SIG_ERR => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
    let run = command.start();
    assert!(run.wait_for_bytes(1), "{}", run.stderr());
    // A shell and its terminal both send it.
    run.signal(Signal::HUP);
    run.signal(Signal::HUP);
    run.finish().expect_code(4);
    assert_eq!(json(&site.path("told"))["result"], "interrupted");
}

#[test]
fn an_interrupted_copy_is_told_too_and_a_name_is_never_a_command() {
    let site = site();
    let name = "$(touch pwned);`touch pwned`'\"\n";
    fs::rename(site.path("big"), site.path(name)).unwrap();
    let daemon = daemon(&site, &["--on-finish", "env > session"]);
    let mut command = crate::direct(site.copy(&["--rate", SLOW, "--on-finish", "cat > told; env > variables"]));
    command.arg(site.path(name)).arg(daemon.location(name));
    let run = command.start();
    assert!(run.wait_for_bytes(1), "{}", run.stderr());
    run.signal(Signal::INT);
    run.finish().expect_code(4);
    assert_eq!(json(&site.path("told"))["result"], "interrupted");
    let variables = variables(&site.path("variables"));
    assert_eq!((variables["ICDC_RESULT"].as_str(), variables["ICDC_EXIT_CODE"].as_str()), ("interrupted", "4"));
    assert!(variables["ICDC_SOURCE"].contains("$(touch pwned);`touch pwned`'\"\\n"), "{variables:?}");
    let is_told =
        || fs::read_to_string(site.path("session")).is_ok_and(|text| text.contains("ICDC_PATH=/$(touch pwned)"));
    assert!(eventually(is_told));
    assert!(!site.path("pwned").exists());
}

#[test]
fn a_dry_run_tells_nobody_and_options_belong_together() {
    let site = site();
    succeed(&mut local(&site, &["--dry-run", "--on-finish", "touch told"]));
    assert!(!site.path("told").exists());
    for options in [["--on-finish-timeout", "5s"], ["--webhook-secret", "big"], ["--scitags-collector", "127.0.0.1"]] {
        local(&site, &options).run().expect_code(2);
    }
}

#[test]
fn a_push_is_told_by_both_ends_of_the_same_transfer() {
    let site = site();
    let daemon = daemon(&site, &["--on-finish", "cat > session"]);
    push(&site, &daemon, &["--on-finish", "cat > told"]).run().expect_code(0);
    assert!(eventually(|| fs::read_to_string(site.path("session")).is_ok_and(|text| !text.is_empty())));
    let (told, session) = (json(&site.path("told")), json(&site.path("session")));
    assert_eq!((&told["digest"], &told["bytes"]), (&session["digest"], &SIZE.into()));
}
