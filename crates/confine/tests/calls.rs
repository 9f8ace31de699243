//! A process with a filter tries what it may and what it may not. A filter is for all threads and for good, so
//! each attempt is a process: this test program again, with one of its tests.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(unsafe_code, reason = "system calls are made as an attacker would")]

use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;

use icdc_confine::calls::{self, Process};
use icdc_confine::files::{self, Files};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter_all_threads};

/// In the environment of a process that has been started to try something.
const ATTEMPT: &str = "ICDC_CONFINE_ATTEMPT";

/// Has a process of its own run the test of this name, which calls this as well; true in that process.
fn is_attempt(test: &str) -> bool {
    if std::env::var_os(ATTEMPT).is_some() {
        return true;
    }
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(ATTEMPT, "1")
        .output()
        .unwrap();
    assert!(
        ended.status.success(),
        "{}{}",
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr)
    );
    false
}

/// The error of a system call whose arguments are all zero but the first.
fn error_of(call: i64, first: i64) -> Option<i32> {
    // SAFETY: with these arguments none of the calls that are tried reads or writes memory.
    let result = unsafe { libc::syscall(call, first, 0, 0, 0, 0, 0) };
    (result == -1).then(|| io::Error::last_os_error().raw_os_error()).flatten()
}

fn status(name: &str) -> String {
    let text = fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().to_owned()
}

#[test]
fn a_session_executes_traces_and_connects_nothing() {
    if !is_attempt("a_session_executes_traces_and_connects_nothing") {
        return;
    }
    let waiting = std::thread::spawn(std::thread::park);
    calls::refuse_for(Process::Connected);
    assert_eq!((status("Seccomp"), status("NoNewPrivs")), ("2".to_owned(), "1".to_owned()));
    let refused = [
        libc::SYS_execve,
        libc::SYS_ptrace,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_mount,
        libc::SYS_bpf,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_kexec_load,
        libc::SYS_init_module,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_open_by_handle_at,
        libc::SYS_socket,
        libc::SYS_setuid,
    ];
    for call in refused {
        assert_eq!(error_of(call, 0), Some(libc::EPERM), "system call {call}");
    }
    // A process, and a namespace; the C library is told that there is no newer call for it.
    assert_eq!(error_of(libc::SYS_clone, i64::from(libc::SIGCHLD)), Some(libc::EPERM));
    assert_eq!(error_of(libc::SYS_clone3, 0), Some(libc::ENOSYS));
    assert!(Command::new("true").status().is_err());
    #[cfg(target_arch = "x86_64")]
    for x32 in [520, 521, libc::SYS_mount] {
        let error = error_of(0x4000_0000 | x32, 0);
        assert!(error.is_some(), "x32 call {x32}");
    }
    // What a session does all the time, also on threads that were there and new ones.
    waiting.thread().unpark();
    waiting.join().unwrap();
    let read = std::thread::spawn(|| (fs::read_to_string("/proc/self/status").is_ok(), status("Seccomp")));
    assert_eq!(read.join().unwrap(), (true, "2".to_owned()));
    let (mut near, far) = io::pipe().unwrap();
    drop(far);
    assert_eq!(io::Read::read(&mut near, &mut [0]).unwrap(), 0);
}

#[test]
fn a_far_end_connects_and_uses_no_raw_packets() {
    if !is_attempt("a_far_end_connects_and_uses_no_raw_packets") {
        return;
    }
    calls::refuse_for(Process::Connecting);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    UdpSocket::bind("127.0.0.1:0").unwrap();
    for family in [libc::AF_PACKET, libc::AF_NETLINK, libc::AF_ALG, libc::AF_VSOCK] {
        // SAFETY: it takes three numbers.
        let result = unsafe { libc::socket(family, libc::SOCK_RAW, 0) };
        let error = io::Error::last_os_error().raw_os_error();
        assert_eq!((result, error), (-1, Some(libc::EPERM)), "family {family}");
    }
}

#[test]
fn without_landlock_and_without_seccomp_all_goes_on() {
    if !is_attempt("without_landlock_and_without_seccomp_all_goes_on") {
        return;
    }
    let absent = [libc::SYS_landlock_create_ruleset, libc::SYS_seccomp].map(|call| (call, Vec::new()));
    let answer = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let processor = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(absent.into(), SeccompAction::Allow, answer, processor).unwrap();
    let filter: BpfProgram = filter.try_into().unwrap();
    apply_filter_all_threads(&filter).unwrap();
    assert_eq!(files::version(), 0);
    assert!(files::obstacle().unwrap().contains("Landlock"));
    std::thread::spawn(|| {
        Files::of_end().alone().enforce();
        calls::refuse_for(Process::Connected);
        fs::read("/etc/passwd").unwrap();
        assert!(Command::new("true").status().unwrap().success());
    })
    .join()
    .unwrap();
}
