//! Far sides that hang: every wait for one ends soon after a signal, with exit code 4.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use icdc_disk::tree::try_lock;
use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};

use crate::directories::beside;
use crate::support::daemon::{Daemon, location};
use crate::support::process::eventually;
use crate::support::{BLOCK, HERE, Signal, Site, Start, data};

/// A generous bound: the waits themselves are of 15 s to minutes.
const SOON: Duration = Duration::from_secs(12);

/// Starts `command`, waits until `reached`, signals it and expects it to end soon.
#[track_caller]
fn ends_by(signal: Signal, command: &mut Command, mut reached: impl FnMut() -> bool) {
    let run = command.start();
    assert!(eventually(&mut reached), "it did not get there: {}", run.stderr());
    // It may still be on its way from there into the wait.
    std::thread::sleep(Duration::from_millis(200));
    assert!(!run.has_ended(), "{}", run.stderr());
    let asked = Instant::now();
    run.signal(signal);
    let ended = run.finish().expect_code(4);
    assert!(asked.elapsed() < SOON, "{:?}: {ended}", asked.elapsed());
}

/// As [`ends_by`], and what the command for `--ssh` has become has ended as well.
#[track_caller]
fn ends_with_ssh_by(signal: Signal, command: &mut Command, mark: &Path) {
    let hanging = || std::fs::read_to_string(mark).ok().filter(|text| text.ends_with('\n'));
    ends_by(signal, command, || hanging().is_some());
    let process = hanging().unwrap();
    // One that has ended and that nobody has asked about has no words.
    let words = || std::fs::read(format!("/proc/{}/cmdline", process.trim())).unwrap_or_default();
    assert!(eventually(|| words().is_empty()), "{process} is left");
}

/// A program for `--ssh` that does as `body` says, then leaves a mark and hangs.
fn hanging_ssh(site: &Site, body: &str) -> (String, PathBuf) {
    let mark = site.path("hangs");
    let _ = std::fs::remove_file(&mark);
    let program = site.program("ssh-hangs", &format!("{body}\necho $$ >'{}'\nexec sleep 600", mark.display()));
    (program, mark)
}

#[test]
fn signals_end_the_wait_for_a_greeting() {
    let site = Site::new();
    std::fs::write(site.path("file"), "data").unwrap();
    for body in ["", "printf 'Welcome'", "printf '\\nICDC-FAR-END 2\\n'", "exec 2>&-"] {
        for signal in [Signal::TERM, Signal::INT] {
            let (ssh, mark) = hanging_ssh(&site, body);
            ends_with_ssh_by(signal, site.copy(&["--ssh", &ssh, "file"]).arg(site.by_ssh("copy")), &mark);
        }
        let (ssh, mark) = hanging_ssh(&site, body);
        ends_with_ssh_by(Signal::TERM, site.copy(&["--ssh", &ssh]).arg(site.by_ssh("file")).arg("copy"), &mark);
    }
}

#[test]
fn signals_end_the_wait_for_the_program_to_be_sent() {
    let site = Site::new();
    std::fs::write(site.path("file"), "data").unwrap();
    // There is no icdc; then nothing answers the script, or nothing takes what is sent.
    let machine = "printf '\\nICDC-SEND-SELF machine %s\\n' \"$(uname -sm)\"; printf '\\nICDC-SEND-SELF want\\n'";
    for answer in ["", machine] {
        let body = format!("case \"$*\" in *far-end*) exit 127;; esac\n{answer}");
        let (ssh, mark) = hanging_ssh(&site, &body);
        let mut command = site.icdc(&["copy", "--send-self", "--ssh", &ssh, "file"]);
        ends_with_ssh_by(Signal::TERM, command.arg(site.by_ssh("copy")), &mark);
    }
}

#[test]
fn signals_end_the_wait_between_two_far_ends() {
    let site = Site::new();
    let (ssh, mark) = hanging_ssh(&site, "");
    let mut command = site.copy(&["--ssh", &ssh]);
    ends_with_ssh_by(Signal::TERM, command.args([site.by_ssh("file"), site.by_ssh("copy")]), &mark);
    // The first gets through, the second hangs.
    let once = format!("if mkdir '{}' 2>/dev/null; then shift; exec sh -c \"$*\"; fi", site.path("first").display());
    let (ssh, mark) = hanging_ssh(&site, &once);
    let mut command = site.copy(&["--ssh", &ssh]);
    ends_with_ssh_by(Signal::INT, command.args([site.by_ssh("file"), site.by_ssh("copy")]), &mark);
}

#[test]
fn signals_end_a_measurement_that_hangs() {
    let site = Site::new();
    let (ssh, mark) = hanging_ssh(&site, "");
    ends_with_ssh_by(Signal::TERM, &mut site.icdc(&["measure", "--ssh", &ssh, HERE]), &mark);
}

#[test]
fn signals_end_a_handshake_that_hangs() {
    let site = Site::new();
    std::fs::write(site.path("file"), "data").unwrap();
    // Makes the client's keys; nobody answers at the other port.
    let _daemon = Daemon::start(&site, &site.directory("root"), "rw");
    for signal in [Signal::TERM, Signal::INT] {
        let mute = TcpListener::bind((HERE, 0)).unwrap();
        mute.set_nonblocking(true).unwrap();
        let SocketAddr::V4(address) = mute.local_addr().unwrap() else { unreachable!("bound to IPv4") };
        let mut held = None;
        let reached = || {
            held = held.take().or_else(|| mute.accept().ok());
            held.is_some()
        };
        ends_by(signal, site.copy(&["file"]).arg(location(address.port(), "copy")), reached);
    }
}

#[test]
fn signals_end_the_wait_for_a_connection() {
    let site = Site::new();
    std::fs::write(site.path("file"), "data").unwrap();
    let _daemon = Daemon::start(&site, &site.directory("root"), "rw");
    let (port, _held) = black_hole();
    let started = Instant::now();
    let mut command = site.copy(&["file"]);
    let reached = || started.elapsed() > Duration::from_secs(1);
    ends_by(Signal::TERM, command.arg(location(port, "copy")), reached);
}

/// A port whose queue of connections is full: the kernel drops every further request for one.
fn black_hole() -> (u16, (OwnedFd, Vec<TcpStream>)) {
    let listener = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&listener, &SocketAddr::new(HERE.parse().unwrap(), 0)).unwrap();
    listen(&listener, 0).unwrap();
    let address = SocketAddr::try_from(getsockname(&listener).unwrap()).unwrap();
    let patience = Duration::from_millis(300);
    let filling = std::iter::from_fn(|| TcpStream::connect_timeout(&address, patience).ok()).collect();
    (address.port(), (listener, filling))
}

/// Whether another process has this file open.
fn is_open_elsewhere(path: &Path) -> bool {
    let me = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let others = processes.filter(|process| *process.file_name() != *me);
    let files = others.filter_map(|process| std::fs::read_dir(process.path().join("fd")).ok()).flatten().flatten();
    files.into_iter().any(|file| std::fs::read_link(file.path()).is_ok_and(|open| open == path))
}

#[test]
fn signals_end_the_wait_for_a_copy_that_writes_the_same_file() {
    let site = Site::new();
    data::file(&site.path("file"), 2 * BLOCK, 7);
    let part = site.path(&beside("copy", None)[0]);
    let other = std::fs::File::create(&part).unwrap();
    assert!(try_lock(&other).unwrap());
    for signal in [Signal::TERM, Signal::INT] {
        ends_by(signal, &mut site.copy(&["file", "copy"]), || is_open_elsewhere(&part));
    }
}
