//! `icdc cc`: what is loaded, by whom, for how long, and what is said where it cannot be.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::support;
use crate::support::algorithms::Kernel;
use crate::support::daemon::Daemon;
use crate::support::process::eventually;
use crate::support::{Ended, ICDC, Run, Signal, Site, Start, is_root, skip};

const NAME: &str = "highspeed";
const KERNEL_NAME: &str = "icdc_highspeed";

fn cc(site: &Site, words: &[&str]) -> Ended {
    site.icdc(&[&["cc"], words].concat()).run()
}

/// Loads it while `sleep` runs, and waits until it is there.
fn hold(site: &Site, kernel: &Kernel) -> Run {
    let run = site.icdc(&["cc", "load", NAME, "--", "sleep", "600"]).start();
    wait_for_state(kernel, "loaded");
    run
}

fn wait_for_state(kernel: &Kernel, state: &str) {
    assert!(eventually(|| kernel.state(NAME) == state), "{NAME} is {}, not {state}", kernel.state(NAME));
}

#[test]
fn every_algorithm_loads_for_the_time_of_a_command() {
    let Some(kernel) = Kernel::take() else { return };
    let site = Site::new();
    let ours = kernel.ours();
    assert!(ours.iter().any(|name| name == NAME), "{ours:?}");
    for name in &ours {
        assert_eq!(kernel.state(name), "loadable");
        let ended = cc(&site, &["load", name, "--", ICDC, "cc", "list", "--json"]).expect_code(0);
        let list = ended.events[0].as_array().unwrap();
        let one = list.iter().find(|one| one["name"] == name.as_str()).unwrap();
        assert_eq!(one["state"], "loaded", "{ended}");
        assert_eq!(one["holder"]["kind"], "process", "{ended}");
        assert_eq!(kernel.state(name), "loadable", "it went with the command");
    }
}

#[test]
fn the_command_decides_on_the_exit_code_and_on_signals() {
    let Some(kernel) = Kernel::take() else { return };
    let site = Site::new();
    assert_eq!(cc(&site, &["load", NAME, "--", "sh", "-c", "exit 7"]).code, Some(7));
    assert_eq!(cc(&site, &["load", NAME, "--", "sh", "-c", "kill -9 $$"]).code, Some(128 + 9));
    let missing = cc(&site, &["load", NAME, "--", "no-such-program"]).expect_code(1);
    assert!(missing.stderr.contains("no-such-program"), "{missing}");

    let run = hold(&site, &kernel);
    let held = kernel.listed(NAME);
    assert_eq!(held["holder"]["pid"], run.pid().as_raw_nonzero().get(), "{held}");
    // The process that holds it is named, and nobody else takes it away.
    let refused = cc(&site, &["unload", NAME]).expect_code(1);
    assert!(refused.stderr.contains("by process"), "{refused}");
    run.signal(Signal::TERM);
    assert_eq!(run.finish().code, Some(128 + 15), "the command was told, and its end is told");
    assert_eq!(kernel.state(NAME), "loadable");
}

#[test]
fn a_holder_that_is_killed_leaves_nothing() {
    let Some(kernel) = Kernel::take() else { return };
    let site = Site::new();
    let run = site.icdc(&["cc", "load", NAME, "--", "sh", "-c", "echo $$ >&2; exec sleep 600"]).start();
    wait_for_state(&kernel, "loaded");
    assert!(run.wait_for_words("\n"));
    let command = rustix::process::Pid::from_raw(run.stderr().trim().parse().unwrap()).unwrap();
    run.signal(Signal::KILL);
    // The kernel gives things back a moment after the process.
    wait_for_state(&kernel, "loadable");
    rustix::process::kill_process(command, Signal::KILL).unwrap();
    assert_eq!(run.finish().signal, Some(9));
}

#[test]
fn a_pin_outlasts_its_maker_and_has_the_parameters_given() {
    let Some(kernel) = Kernel::take() else { return };
    let site = Site::new();
    let refused = cc(&site, &["unload", NAME]).expect_code(1);
    assert!(refused.stderr.contains("not loaded"), "{refused}");

    let loaded = cc(&site, &["load", NAME, "--param", "low_window=44", "--pin"]).expect_code(0);
    assert!(loaded.text.contains(KERNEL_NAME) && loaded.text.contains("/sys/fs/bpf/icdc/highspeed"), "{loaded}");
    assert_eq!(kernel.listed(NAME)["holder"]["path"], "/sys/fs/bpf/icdc/highspeed");
    let shown = cc(&site, &["show", NAME, "--json"]).expect_code(0);
    let parameters = shown.events[0]["parameters"].as_array().unwrap();
    for parameter in parameters {
        let expected = if parameter["name"] == "low_window" { &44.into() } else { &parameter["initial"] };
        assert_eq!(&parameter["current"], expected, "{shown}");
    }
    assert!(parameters.iter().any(|parameter| parameter["name"] == "low_window"), "{shown}");

    let again = cc(&site, &["load", NAME, "--pin"]).expect_code(1);
    assert!(again.stderr.contains("pinned at /sys/fs/bpf/icdc/highspeed"), "{again}");
    cc(&site, &["unload", NAME]).expect_code(0);
    assert_eq!(kernel.state(NAME), "loadable");
}

#[test]
fn no_pin_is_made_in_mounts_that_end_with_the_command() {
    let Some(kernel) = Kernel::take() else { return };
    let script = format!("umount /sys/fs/bpf; {ICDC} cc load {NAME} --pin");
    let output = std::process::Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("run this outside"), "{said}");
    assert_eq!(kernel.state(NAME), "loadable");
}

#[test]
fn what_makes_no_sense_is_usage() {
    let site = Site::new();
    for (words, said) in [
        (&["load", NAME][..], "--pin"),
        (&["load", NAME, "--pin", "--", "true"], "--pin"),
        (&["load", "no_such", "--pin"], "no_such"),
        (&["load", "reno", "--pin"], "the kernel's own"),
        (&["load", NAME, "--pin", "--param", "no_such=1"], "low_window"),
        (&["load", NAME, "--pin", "--param", "low_window=1"], "low_window = 1 is out of range"),
        (&["load", NAME, "--pin", "--param", "low_window"], "NAME=VALUE"),
        (&["load", NAME, "--pin", "--param", "low_window=many"], "whole number"),
        (&["unload", "no_such"], "no_such"),
        (&["show", "no_such"], NAME),
    ] {
        let ended = cc(&site, words).expect_code(2);
        assert!(ended.stderr.contains(said), "{words:?}: {ended}");
    }
}

#[test]
fn copies_and_measurements_load_what_they_name() {
    let Some(kernel) = Kernel::take() else { return };
    let site = Site::new();
    support::data::file(&site.path("file"), 100_000, 1);
    for reverse in [&[][..], &["--reverse"]] {
        let words = ["measure", "--json", "--remote-icdc", ICDC, "--ssh", &site.ssh(), "--cc", NAME, "--bytes", "1MB"];
        let ended = site.icdc(&[&words[..], reverse, &["--streams", "3", support::HERE]].concat()).run().expect_code(0);
        assert_eq!(ended.summary()["cc"], KERNEL_NAME, "{ended}");
        assert_eq!(ended.stderr, "", "{ended}");
    }
    for (from, to) in [("file".into(), site.by_ssh("pushed")), (site.by_ssh("file"), "pulled".into())] {
        let ended =
            site.copy(&["--ssh", &site.ssh(), "--cc", NAME, "--streams", "3"]).arg(from).arg(to).run().expect_code(0);
        assert_eq!(ended.summary()["congestion"], KERNEL_NAME, "{ended}");
        // Where the machine pauses, one of three connections may be given up for the others.
        let told = ended.stderr.lines().filter(|line| !line.ends_with("the others carry the rest"));
        assert_eq!(told.collect::<String>(), "", "{ended}");
    }
    assert_eq!(kernel.state(NAME), "loadable", "nothing stays");
    // What is loaded already is used, and stays.
    cc(&site, &["load", NAME, "--pin"]).expect_code(0);
    let ended =
        site.copy(&["--ssh", &site.ssh(), "--cc", NAME]).arg("file").arg(site.by_ssh("again")).run().expect_code(0);
    assert_eq!(ended.summary()["congestion"], KERNEL_NAME, "{ended}");
    assert_eq!(kernel.state(NAME), "loaded");
    cc(&site, &["unload", NAME]).expect_code(0);
}

#[test]
fn many_that_load_at_once_all_get_it() {
    let Some(_kernel) = Kernel::take() else { return };
    let site = Site::new();
    let ssh = site.ssh();
    let runs: Vec<Run> = (0..8)
        .map(|number| {
            // Ends at different times, so that those who loaded it leave while others connect.
            let bytes = format!("{}kB", 100 * (1 + number * number));
            let words = [
                "measure",
                "--json",
                "--remote-icdc",
                ICDC,
                "--ssh",
                &ssh,
                "--cc",
                NAME,
                "--streams",
                "4",
                "--bytes",
                &bytes,
            ];
            site.icdc(&words).arg(support::HERE).start()
        })
        .collect();
    for run in runs {
        let ended = run.finish().expect_code(0);
        assert_eq!(ended.summary()["cc"], KERNEL_NAME, "{ended}");
        assert_eq!(ended.stderr, "", "{ended}");
    }
}

#[test]
fn a_daemon_loads_for_the_user_that_it_acts_as() {
    let Some(kernel) = Kernel::take() else { return };
    let site = Site::new();
    let root = site.directory("srv");
    support::data::file(&root.join("file"), 100_000, 1);
    let options = format!("root=\"{}\",rights=r,user=nobody", root.display());
    let daemon = Daemon::adapted(&site, &options, |command| {
        command.args(["--allow-cc", NAME]);
    });
    let ended = site.copy(&["--cc", NAME]).arg(daemon.location("file")).arg("pulled").run().expect_code(0);
    assert_eq!(ended.summary()["congestion"], KERNEL_NAME, "{ended}");
    assert_eq!(ended.stderr, "", "{ended}");
    wait_for_state(&kernel, "loadable");
}

#[test]
fn without_privilege_the_work_goes_on_with_another() {
    const NOBODY: u32 = 65534;
    if !is_root() {
        return skip("becoming another user needs root");
    }
    let Some(_kernel) = Kernel::take() else { return };
    let site = Site::new();
    let program = site.icdc_for_anyone();
    let program = program.to_str().unwrap();
    let place = site.directory("place");
    std::os::unix::fs::chown(&place, Some(NOBODY), Some(NOBODY)).unwrap();
    let as_nobody = |words: &[&str]| {
        let mut command = site.settle(Command::new(program));
        command.args(words).uid(NOBODY).gid(NOBODY).current_dir(&place);
        command
    };
    let list = as_nobody(&["cc", "list", "--json"]).run().expect_code(0);
    let one = list.events[0].as_array().unwrap().iter().find(|one| one["name"] == NAME).unwrap().clone();
    assert_eq!(one["state"], "unavailable");
    assert!(one["reason"].as_str().unwrap().contains("CAP_BPF"), "{one}");
    let refused = as_nobody(&["cc", "load", NAME, "--pin"]).run().expect_code(3);
    assert!(refused.stderr.contains("CAP_BPF") && refused.stderr.lines().count() == 1, "{refused}");

    support::data::file(&place.join("file"), 100_000, 1);
    let ssh = site.ssh();
    let far = |name: &str| format!("127.0.0.1:{}", place.join(name).display());
    for (from, to) in [("file".to_owned(), far("pushed")), (far("file"), "pulled".to_owned())] {
        let words = ["copy", "--json", "--remote-icdc", program, "--ssh", &ssh, "--cc", NAME, &from, &to];
        let ended = as_nobody(&words).run().expect_code(0);
        let used = ended.summary()["congestion"].as_str().unwrap();
        assert!(!used.is_empty() && used != KERNEL_NAME, "{ended}");
        assert_eq!(ended.stderr.trim_end().lines().count(), 1, "{ended}");
        assert!(ended.stderr.contains(&format!("{used} is used in place of {NAME}")), "{ended}");
        assert!(ended.stderr.contains("CAP_BPF"), "{ended}");
    }
    for reverse in [&[][..], &["--reverse"]] {
        let words = ["measure", "--json", "--remote-icdc", program, "--ssh", &ssh, "--cc", NAME, "--bytes", "100kB"];
        let ended = as_nobody(&[&words[..], reverse, &[support::HERE]].concat()).run().expect_code(0);
        assert_ne!(ended.summary()["cc"], KERNEL_NAME, "{ended}");
        assert_eq!(ended.stderr.trim_end().lines().count(), 1, "{ended}");
    }
    // Loaded by root, it is still root's to choose.
    let _pinned = cc(&site, &["load", NAME, "--pin"]).expect_code(0);
    let words = ["copy", "--json", "--remote-icdc", program, "--ssh", &ssh, "--cc", NAME, "file", &far("later")];
    let ended = as_nobody(&words).run().expect_code(0);
    assert!(ended.stderr.contains("reserved for root"), "{ended}");
    cc(&site, &["unload", NAME]).expect_code(0);
}
