//! Each session is a process: whose it is, and what its end means to others.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use rustix::process::{Pid, kill_process};

use crate::support::cgroup::Tasks;
use crate::support::process::{eventually, is_running};
use crate::support::refusals::{Refusal, refuse};
use crate::support::{Noise, Shape, Signal, Start, assert_same, data, is_root, skip};
use crate::{SLOW, Scene};

/// A line of `/proc/PID/status`, without its name.
fn status(pid: Pid, name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_session_runs_as_the_keys_user_and_has_no_rights_besides() {
    if !is_root() {
        return skip("another user needs root");
    }
    let scene = Scene::with(",user=nobody", |_, _| ());
    let daemon = scene.daemon.run().pid();
    // No key acts as root: the daemon keeps what sessions need of it.
    let (setgid, setuid) = (1_u64 << 6, 1 << 7);
    let kept = u64::from_str_radix(&status(daemon, "CapEff"), 16).unwrap();
    assert_eq!(kept & (setgid | setuid), setgid | setuid);
    for given_up in ["dac_override", "dac_read_search", "chown", "fowner", "sys_admin", "sys_ptrace"] {
        let bit = match given_up {
            "chown" => 0,
            "dac_override" => 1,
            "dac_read_search" => 2,
            "fowner" => 3,
            "sys_ptrace" => 19,
            _ => 21,
        };
        assert_eq!(kept >> bit & 1, 0, "{given_up}");
    }
    // Each of its threads, those for signals included.
    let threads = fs::read_dir(format!("/proc/{}/task", daemon.as_raw_nonzero())).unwrap();
    for thread in threads.map(|entry| entry.unwrap().path()) {
        let text = fs::read_to_string(thread.join("status")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        assert_eq!(u64::from_str_radix(line.trim(), 16).unwrap(), kept, "{text}");
    }
    let run = scene.push(&["--rate", SLOW], "pushed").start();
    assert!(run.wait_for_bytes(1), "{}", run.stderr());
    let sessions = scene.daemon.run().sessions();
    assert_eq!(sessions.len(), 1);
    assert_eq!(status(sessions[0], "Uid"), "65534 65534 65534 65534");
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(u64::from_str_radix(&status(sessions[0], set), 16).unwrap(), 0, "{set}");
    }
    assert_eq!(status(sessions[0], "NoNewPrivs"), "1");
    run.signal(Signal::INT);
    run.finish().expect_code(4);
    assert!(eventually(|| scene.daemon.run().sessions().is_empty()), "a session outlasts its copy");
    scene.push(&[], "pushed").run().expect_code(0);
    let made = fs::metadata(scene.site.path("root/pushed")).unwrap();
    assert_eq!(made.uid(), 65534);
    assert_same(&scene.site.path("big"), &scene.site.path("root/pushed"));
}

#[test]
fn a_session_cannot_call_what_it_never_needs() {
    let scene = Scene::new();
    let run = scene.push(&["--rate", SLOW], "pushed").start();
    assert!(run.wait_for_bytes(1), "{}", run.stderr());
    let session = scene.daemon.run().sessions()[0];
    let threads = fs::read_dir(format!("/proc/{}/task", session.as_raw_nonzero())).unwrap();
    let threads: Vec<_> = threads.map(|entry| fs::read_to_string(entry.unwrap().path().join("status"))).collect();
    assert!(threads.len() > 5);
    for thread in threads.into_iter().flatten() {
        assert!(thread.contains("Seccomp:\t2\n") && thread.contains("NoNewPrivs:\t1\n"), "{thread}");
    }
    run.signal(Signal::INT);
    run.finish().expect_code(4);
    // What it does need it can: copies both ways, small and large files, and a measurement of each kind.
    data::tree(&scene.site.path("tree"), Noise::seed("confined"), &Shape::default());
    let push = |words: &[&str]| scene.site.copy(words);
    push(&[]).arg(scene.site.path("tree/")).arg(scene.daemon.location("tree")).run().expect_code(0);
    push(&["--verify"]).arg(scene.daemon.location("tree/")).arg("back").run().expect_code(0);
    assert_same(&scene.site.path("tree"), &scene.site.path("back"));
    for kind in [&["--seconds", "0.2"][..], &["--secure", "--seconds", "0.2"]] {
        let mut measure = scene.site.icdc(&["measure", "--json"]);
        measure.args(kind).arg(scene.daemon.location("")).run().expect_code(0);
    }
}

#[test]
fn a_daemon_on_a_kernel_without_landlock_and_seccomp_serves_as_well() {
    let absent = [libc::SYS_landlock_create_ruleset, libc::SYS_seccomp].map(|call| Refusal::of(call, libc::ENOSYS));
    let scene = Scene::with("", |_, command| {
        refuse(command, &absent);
    });
    scene.push(&[], "pushed").run().expect_code(0);
    assert_same(&scene.site.path("big"), &scene.site.path("root/pushed"));
    let mut version = scene.site.icdc(&["--version", "--verbose"]);
    let said = refuse(&mut version, &absent).run().expect_code(0).text;
    let line = said.lines().find(|line| line.starts_with("Landlock")).unwrap();
    assert!(line.contains("no: the kernel has no Landlock"), "{line}");
}

#[test]
fn a_session_without_threads_is_refused_with_the_limit_and_leaves_its_place() {
    let Some(group) = Tasks::new() else { return };
    let scene = Scene::with(",max-sessions=1", |_, _| ());
    group.limit("max");
    group.take(scene.daemon.run().pid().as_raw_nonzero().get().unsigned_abs());
    let idle = group.count();
    let mut named = 0;
    for more in 0..=16 {
        group.limit(&(idle + more).to_string());
        let ended = scene.push(&["--retry-for", "1ms"], &format!("limited-{more}")).run();
        assert!(!ended.stderr.contains("panicked") && !scene.log().contains("panicked"), "{ended}{}", scene.log());
        match ended.code {
            Some(0) => {}
            Some(1 | 3 | 4) => named += u32::from(ended.stderr.contains("pids.max")),
            code => panic!("{more}: {code:?}: {ended}"),
        }
    }
    assert!(named >= 5, "{named} were told the limit: {}", scene.log());
    group.limit("max");
    // The last one may be ending.
    let is_served = || scene.push(&[], "pushed").run().code == Some(0);
    assert!(eventually(is_served), "its place stays taken: {}", scene.log());
    assert_same(&scene.site.path("big"), &scene.site.path("root/pushed"));
}

#[test]
fn a_session_that_is_killed_takes_no_other_along_and_is_resumed() {
    let scene = Scene::new();
    let (first, second) =
        (scene.push(&["--rate", "40mbit"], "first").start(), scene.push(&["--rate", "40mbit"], "second").start());
    assert!(first.wait_for_bytes(1) && second.wait_for_bytes(1), "{}", scene.log());
    let sessions = scene.daemon.run().sessions();
    assert_eq!(sessions.len(), 2);
    kill_process(sessions[0], Signal::KILL).unwrap();
    for (run, name) in [(first, "root/first"), (second, "root/second")] {
        run.finish().expect_code(0);
        assert_same(&scene.site.path("big"), &scene.site.path(name));
    }
    assert!(scene.log().contains("signal 9"), "{}", scene.log());
}

#[test]
fn a_session_that_is_stopped_holds_nobody_up() {
    let scene = Scene::new();
    let run = scene.push(&["--rate", SLOW], "stopped").start();
    assert!(run.wait_for_bytes(1), "{}", run.stderr());
    let session = scene.daemon.run().sessions()[0];
    kill_process(session, Signal::STOP).unwrap();
    // Its key's line goes: the connection is cut, and the daemon has the next key at once.
    let list = scene.site.path("daemon/authorized_keys");
    let line = fs::read_to_string(&list).unwrap();
    fs::write(&list, "").unwrap();
    run.finish().expect_code(3);
    fs::write(&list, line).unwrap();
    scene.push(&[], "next").run().expect_code(0);
    kill_process(session, Signal::CONT).unwrap();
    assert!(eventually(|| !is_running(session)));
}

#[test]
fn sessions_end_with_their_daemon() {
    let scene = Scene::new();
    let run = scene.push(&["--rate", SLOW, "--retry-for", "1ms"], "pushed").start();
    assert!(run.wait_for_bytes(1), "{}", run.stderr());
    let session = scene.daemon.run().sessions()[0];
    scene.daemon.run().signal(Signal::KILL);
    assert!(eventually(|| !is_running(session)));
    run.finish().expect_code(4);
}

#[test]
fn a_clients_congestion_control_is_not_loaded_unless_the_operator_allows_it() {
    let scene = Scene::new();
    fs::copy(scene.site.path("big"), scene.site.path("root/big")).unwrap();
    let mut pull = scene.site.copy(&["--cc", "highspeed"]);
    let ended = pull.arg(scene.daemon.location("big")).arg("pulled").run().expect_code(0);
    assert!(ended.stderr.contains("--allow-cc"), "{ended}");
    assert_same(&scene.site.path("root/big"), &scene.site.path("pulled"));
}
