//! Labs come, are told about, and go without a trace, also when parts of them die.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::lab::{Lab, unused_name};
use crate::support::process::eventually;
use crate::support::{ICDC, Site, is_root, skip};

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn namespaces(name: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/run/netns") else { return Vec::new() };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|namespace| namespace.contains(&format!("icdc-{name}-"))).collect()
}

fn is_alive(id: u32) -> bool {
    fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Clock ticks that a process's threads of `SCHED_IDLE` have run; `None` if it has no such thread.
fn idle_class_ticks(process: i32) -> Option<u64> {
    let mut ticks = None;
    for task in fs::read_dir(format!("/proc/{process}/task")).unwrap() {
        let stat = fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        // Of proc(5), less the two before: utime is the 14th, policy the 41st.
        if fields[38] == "5" {
            ticks = Some(ticks.unwrap_or(0) + fields[11].parse::<u64>().unwrap());
        }
    }
    ticks
}

/// A process in a network namespace of its own, which is no lab's.
struct Stranger(std::process::Child);

impl Stranger {
    fn new() -> Self {
        let child = Command::new("unshare").args(["--net", "sleep", "600"]).spawn().unwrap();
        let stranger = Self(child);
        let own = fs::metadata("/proc/self/ns/net").unwrap().ino();
        assert!(eventually(|| stranger.namespace() != own));
        stranger
    }

    fn namespace(&self) -> u64 {
        fs::metadata(format!("/proc/{}/ns/net", self.0.id())).unwrap().ino()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn who_got_the_number_of_a_namespace_that_is_gone_is_left_alone() {
    // Numbers of namespaces are given again: to whom depends on the kernel, so the note is changed
    // instead.
    for named in [true, false] {
        let Some(lab) = Lab::up(&[]) else { return };
        let directory = Path::new("/run/icdc/lab").join(&lab.name);
        let wire = lab.wire();
        kill_process(Pid::from_raw(wire).unwrap(), Signal::KILL).unwrap();
        wait_for_end(wire);
        for namespace in namespaces(&lab.name) {
            assert!(Command::new("ip").args(["netns", "delete", &namespace]).status().unwrap().success());
        }
        let stranger = Stranger::new();
        let note = directory.join("lab.json");
        let mut state: serde_json::Value = serde_json::from_str(&fs::read_to_string(&note).unwrap()).unwrap();
        state["namespaces"][0][1] = stranger.namespace().into();
        fs::write(&note, state.to_string()).unwrap();
        if !named {
            fs::remove_file(directory.join("namespaces")).unwrap();
        }
        assert!(lab.icdc("down", &[]).status.success());
        assert!(!directory.exists());
        assert!(is_alive(stranger.0.id()));
    }
}

#[test]
fn a_scenario_that_is_killed_leaves_no_lab() {
    if !is_root() {
        skip("namespaces that have names need root");
        return;
    }
    let site = Site::new();
    let mut run = site.icdc(&["lab", "run", "--quick", "--patience", "0s", "startup"]).spawn().unwrap();
    let name = format!("run-{}", run.id());
    let labs = || {
        let entries = fs::read_dir("/run/icdc/lab").into_iter().flatten();
        entries.filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with(&name)).count()
    };
    assert!(eventually(|| {
        assert!(run.try_wait().unwrap().is_none());
        namespaces(&name).iter().any(|name| name.ends_with("-b"))
    }));
    // The scenario measures by now, or is about to.
    thread::sleep(Duration::from_millis(500));
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(eventually(|| labs() == 0 && namespaces(&name).is_empty()));
}

#[test]
fn a_frame_that_is_too_long_is_lost_and_the_lab_stands() {
    let Some(lab) = Lab::up(&[]) else { return };
    let host = |words: &[&str]| lab.icdc("exec", &[&["a", "--"], words].concat());
    assert!(host(&["ip", "link", "set", "eth0", "mtu", "1504"]).status.success());
    let ping = host(&["ping", "-c", "1", "-W", "1", "-M", "do", "-s", "1476", "10.26.33.2"]);
    assert!(!ping.status.success(), "it cannot arrive");
    assert_eq!(lab.settled_status()["a_to_b"]["send_failure_packets"], 1);
    assert!(host(&["ping", "-c", "1", "-W", "5", "10.26.33.2"]).status.success());
}

#[test]
fn processors_are_kept_awake_as_long_as_packets_are_on_their_way() {
    let Some(lab) = Lab::up(&["--rtt", "100ms"]) else { return };
    let wire = lab.wire();
    // None before the threads have stepped back.
    let ticks = || idle_class_ticks(wire).unwrap_or(0);
    let (sender, _receiver) = lab.udp();
    assert!(eventually(|| {
        sender.send(b"there").unwrap();
        ticks() >= 20
    }));
    lab.settled_status();
    let mut before = ticks();
    // The look after the last packet may still be to come.
    assert!(eventually(|| {
        thread::sleep(Duration::from_secs(1));
        std::mem::replace(&mut before, ticks()) == before
    }));
    // Programs that could use all processors get them.
    let processors = thread::available_parallelism().unwrap().get();
    let busy = "timeout 4 sh -c 'while :; do :; done' & ".repeat(processors) + "wait";
    let mut busy = Command::new("sh").args(["-c", &busy]).spawn().unwrap();
    let send_for = |millis| {
        for _ in 0..millis / 10 {
            sender.send(b"there").unwrap();
            thread::sleep(Duration::from_millis(10));
        }
    };
    send_for(500);
    let (began, before) = (Instant::now(), ticks());
    send_for(2000);
    // A hundred ticks are a second; there is a thread on each of two processors at most.
    let share = (ticks() - before) as f64 / (began.elapsed().as_secs_f64() * 100.0 * processors.min(2) as f64);
    busy.wait().unwrap();
    // Without real-time priority the wire cannot be behind all others.
    let is_last = lab.settled_status()["realtime"] == true;
    assert!(share < 0.15 || !is_last, "{share} of the processors' time went to keeping them awake");
    let drowsy = Lab::up(&["--let-sleep"]).unwrap();
    assert_eq!(idle_class_ticks(drowsy.wire()), None);
}

#[test]
fn hosts_keep_off_the_wires_processors_or_share_them() {
    let allowed = |status: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:")).unwrap();
        line.matches(|digit: char| digit.is_ascii_hexdigit())
            .map(|digit| u32::from_str_radix(digit, 16).unwrap().count_ones())
            .sum::<u32>()
    };
    let all = allowed(&fs::read_to_string("/proc/thread-self/status").unwrap());
    let on_host = |lab: &Lab| {
        let status = lab.icdc("exec", &["a", "--", "cat", "/proc/self/status"]);
        allowed(&String::from_utf8(status.stdout).unwrap())
    };
    let Some(sharing) = Lab::up(&["--share-processors"]) else { return };
    assert_eq!(on_host(&sharing), all);
    let wires = match all {
        1 => 0,
        2 | 3 => 1,
        _ => 2,
    };
    assert_eq!(on_host(&Lab::up(&[]).unwrap()), all - wires);
}

#[test]
fn what_no_path_can_be_is_refused_in_one_sentence() {
    let refused: &[(&[&str], &str)] = &[
        (&["--rate", "0bit"], "a bottleneck of 0 bit/s"),
        (&["--rate", "-1gbit"], "rate"),
        (&["--rate", "100tbit"], "a bottleneck of 100 Tbit/s"),
        (&["--rtt", "-5ms"], "--rtt"),
        (&["--rtt", "5h"], "too long"),
        (&["--rtt", "fast"], "fast"),
        (&["--queue", "1000B"], "cannot hold one frame"),
        (&["--queue", "100kB,1B"], "cannot hold one frame"),
        (&["--loss", "1.5"], "loss ratio of 1.5"),
        (&["--loss", "many"], "many"),
        (&["--loss", "0.9", "--burst", "1"], "bursts of 1 packets"),
        (&["--drop-list", "3,x"], "--drop-list"),
        (&["--drop-list", "3", "--loss", "0.1"], "--loss"),
        (&["--mtu", "100"], "MTU of 100"),
        (&["--buffer", "0"], "4KiB at least"),
        (&["--mode", "warp"], "warp"),
        (&["--name", "a/b"], "cannot name a lab"),
        (&["--rate", "1tbit", "--rtt", "10s"], "memory"),
    ];
    for (options, expected) in refused {
        let output = Command::new(ICDC).args(["lab", "up"]).args(*options).output().unwrap();
        let told = words(&output);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {told}");
        assert!(told.contains(expected), "{options:?}: {told}");
    }
    assert!(!Path::new("/run/netns/icdc-wire").exists() || Path::new("/run/icdc/lab/default").exists());
    let none = Command::new(ICDC).args(["lab", "status", "--name", &unused_name()]).output().unwrap();
    assert_eq!(none.status.code(), Some(1));
    assert!(words(&none).contains("there is no lab named"), "{}", words(&none));
}

#[test]
fn a_lab_goes_without_a_trace_and_takes_its_processes_with_it() {
    let Some(lab) = Lab::up(&["--rtt", "10ms"]) else { return };
    let wire = lab.wire() as u32;
    let again = lab.icdc("up", &[]);
    assert_eq!(again.status.code(), Some(1));
    assert!(words(&again).contains("stands already"), "{}", words(&again));
    assert_eq!(namespaces(&lab.name).len(), 3, "the one that stands is left alone");
    let mut sleeper = sleeper(&lab);
    let down = lab.icdc("down", &[]);
    assert!(down.status.success(), "{}", words(&down));
    assert!(!sleeper.wait().unwrap().success(), "it was ended");
    assert!(!is_alive(wire));
    assert!(namespaces(&lab.name).is_empty());
    assert!(!Path::new("/run/icdc/lab").join(&lab.name).exists());
    assert_eq!(lab.icdc("down", &[]).status.code(), Some(1), "there is nothing to take down");
}

#[test]
fn a_killed_wire_is_told_and_cleared_away() {
    let Some(lab) = Lab::up(&[]) else { return };
    let mut sleeper = sleeper(&lab);
    let wire = lab.wire();
    kill_process(Pid::from_raw(wire).unwrap(), Signal::KILL).unwrap();
    wait_for_end(wire);
    let status = lab.icdc("status", &[]);
    assert_eq!(status.status.code(), Some(1));
    assert!(words(&status).contains("has died") && words(&status).contains("icdc lab down"), "{}", words(&status));
    assert!(lab.icdc("down", &[]).status.success());
    assert!(!sleeper.wait().unwrap().success());
    assert!(namespaces(&lab.name).is_empty());
}

#[test]
fn a_signal_to_the_wire_takes_the_namespaces_away() {
    let Some(lab) = Lab::up(&[]) else { return };
    let wire = lab.wire();
    kill_process(Pid::from_raw(wire).unwrap(), Signal::TERM).unwrap();
    wait_for_end(wire);
    assert!(namespaces(&lab.name).is_empty());
}

#[test]
fn commands_run_on_the_host_and_give_their_exit_code() {
    let Some(lab) = Lab::up(&[]) else { return };
    let told = |output: Output| String::from_utf8(output.stdout).unwrap();
    let addresses = told(lab.icdc("exec", &["b", "ip", "-brief", "address", "show", "eth0"]));
    assert!(addresses.contains("10.26.33.2/24") && addresses.contains("fd26:33::2/64"), "{addresses}");
    assert_eq!(lab.icdc("exec", &["a", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(told(lab.icdc("exec", &["--shell", "10.26.33.1", "echo", "'two", "words'"])), "two words\n");
    // What runs there means this lab if it names none.
    let status = told(lab.icdc("exec", &["a", "--", ICDC, "lab", "status", "--json"]));
    assert!(status.contains(&format!("\"name\":\"{}\"", lab.name)), "{status}");
    let missing = lab.icdc("exec", &["a", "no-such-program"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(words(&missing).contains("no-such-program"));
    assert_eq!(lab.icdc("exec", &["c", "true"]).status.code(), Some(2));
}

#[test]
fn a_foreign_namespace_is_left_alone() {
    if !is_root() {
        skip("named namespaces need root");
        return;
    }
    let name = unused_name();
    let foreign = format!("icdc-{name}-b");
    assert!(Command::new("ip").args(["netns", "add", &foreign]).status().unwrap().success());
    let up = Command::new(ICDC).args(["lab", "up", "--name", &name]).output().unwrap();
    assert_eq!(up.status.code(), Some(1));
    assert!(words(&up).contains(&foreign), "{}", words(&up));
    assert_eq!(
        namespaces(&name),
        std::slice::from_ref(&foreign),
        "what is not the lab's stays, what was begun does not"
    );
    assert!(Command::new("ip").args(["netns", "delete", &foreign]).status().unwrap().success());
}

#[test]
fn anybody_may_have_a_lab_where_user_namespaces_are_allowed() {
    if !is_root() {
        skip("only root can become somebody else");
        return;
    }
    let site = Site::new();
    let home = site.directory("somebody");
    std::os::unix::fs::chown(&home, Some(1000), Some(1000)).unwrap();
    let program = site.icdc_for_anyone();
    let name = unused_name();
    let run = |command: &str, words: &[&str]| {
        let mut icdc = Command::new(&program);
        icdc.args(["lab", command, "--name", &name]).args(words).uid(1000).gid(1000);
        icdc.current_dir("/").env("HOME", &home).env_remove("XDG_RUNTIME_DIR").output().unwrap()
    };
    let up = run("up", &["--rtt", "4ms"]);
    if !up.status.success() && words(&up).contains("user namespaces") {
        skip("unprivileged user namespaces are not allowed here");
        return;
    }
    assert!(up.status.success(), "{}", words(&up));
    let status: serde_json::Value = serde_json::from_slice(&run("status", &["--json"]).stdout).unwrap();
    assert_eq!(status["user_namespace"], true);
    let exec = run("exec", &["a", "ip", "-brief", "address", "show", "eth0"]);
    assert!(String::from_utf8_lossy(&exec.stdout).contains("10.26.33.1"), "{}", words(&exec));
    let down = run("down", &[]);
    assert!(down.status.success(), "{}", words(&down));
    assert!(!is_alive(status["wire_pid"].as_u64().unwrap() as u32));
}

fn wait_for_end(wire: i32) {
    assert!(eventually(|| !is_alive(wire as u32)));
}

/// A process on a host that would outlive the test.
fn sleeper(lab: &Lab) -> std::process::Child {
    let mut command = Command::new(ICDC);
    command.args(["lab", "exec", "--name", &lab.name, "a", "sleep", "600"]).stdin(Stdio::null());
    let sleeper = command.spawn().unwrap();
    let inode = |path: String| fs::metadata(path).unwrap().ino();
    let host = inode(format!("/run/netns/icdc-{}-a", lab.name));
    assert!(eventually(|| inode(format!("/proc/{}/ns/net", sleeper.id())) == host));
    sleeper
}
