//! Each session is a process: whose it is, and what its end means to others.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use rustix::process::{Pid, kill_process};

use crate::support::process::{eventually, is_running};
use crate::support::{Signal, Start, assert_same, is_root, skip};
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
