//! Copies that may have few threads: each ends with the limit's name, or does its work; none panics, none hangs.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::cgroup::Tasks;
use crate::support::{Signal, Site, Start, assert_no_leftovers, is_root, open_to_all, skip};

/// `icdc WORDS…` of a user of its own, who may have `most` processes and threads.
fn with_threads(site: &Site, most: u32, words: &[&str]) -> Command {
    static USERS: AtomicU32 = AtomicU32::new(0);
    // Others with the same number would be counted.
    let user = 100_000 + std::process::id() % 10_000_000 * 100 + USERS.fetch_add(1, Ordering::Relaxed) % 100;
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "60", "prlimit", &format!("--nproc={most}")]);
    command.arg(site.path("icdc")).args(words).uid(user).gid(user);
    site.settle(command)
}

/// A site with a directory `source`, open to all users.
fn site() -> Site {
    let site = Site::new();
    drop(site.unprivileged());
    fs::create_dir(site.path("source")).unwrap();
    fs::write(site.path("source/file"), vec![7; 5 << 20]).unwrap();
    fs::write(site.path("source/small"), "data").unwrap();
    open_to_all(site.root());
    site
}

/// Runs `icdc WORDS…` under a limit that `prlimit` sets.
fn limited(site: &Site, limit: &str, words: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "60", "prlimit", limit]).arg(site.path("icdc")).args(words);
    site.settle(command).output().unwrap()
}

/// Copies `source` under a limit that `prlimit` sets; the exit code, and the text on standard error.
fn under(site: &Site, limit: &str) -> (Option<i32>, String) {
    let copy = format!("copy-{}", limit.trim_start_matches('-'));
    let output = limited(site, limit, &["copy", "source/", &copy]);
    if output.status.success() {
        assert_eq!(fs::read(site.path(&copy).join("file")).unwrap(), vec![7; 5 << 20]);
    }
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn few_open_files_are_named_as_the_limit() {
    let site = site();
    for most in 8..=40 {
        match under(&site, &format!("--nofile={most}")) {
            (Some(0), _) => {}
            (Some(1 | 2), said) => assert!(said.contains("ulimit -n"), "{most}: {said}"),
            (code, said) => panic!("{most}: {code:?}: {said}"),
        }
    }
    let (code, said) = under(&site, "--nofile=40");
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_copy_that_few_open_files_have_failed_is_gone_on_with() {
    let site = site();
    let more: Vec<String> = (0..12).map(|number| format!("more/{number}/")).collect();
    for directory in &more {
        fs::create_dir_all(site.path(directory)).unwrap();
        fs::write(site.path(directory).join(directory.replace('/', "-")), "data").unwrap();
    }
    open_to_all(site.root());
    let sources = || ["copy", "source/"].into_iter().chain(more.iter().map(String::as_str));
    let run = |most: u32, copy: &str| {
        let words: Vec<&str> = sources().chain([copy]).collect();
        limited(&site, &format!("--nofile={most}"), &words)
    };
    let mut failed = 0;
    for most in 8..=40 {
        let copy = format!("copy-{most}");
        failed += u32::from(!run(most, &copy).status.success());
        let again = run(1024, &copy);
        assert!(again.status.success(), "{most}: {}", String::from_utf8_lossy(&again.stderr));
        assert_no_leftovers(&site.path(&copy));
    }
    assert!(failed > 0, "no limit was low enough");
}

#[test]
fn memory_that_must_not_be_locked_is_done_without() {
    let (code, said) = under(&site(), "--memlock=0");
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn little_address_space_is_named_as_the_limit() {
    let site = site();
    let mut failed = 0;
    for megabytes in [150, 300, 500] {
        match under(&site, &format!("--as={megabytes}000000")) {
            (Some(0), _) => {}
            (Some(1), said) => {
                assert!(said.contains("ulimit -v") && said.contains("raise"), "{megabytes}: {said}");
                failed += 1;
            }
            (code, said) => panic!("{megabytes}: {code:?}: {said}"),
        }
    }
    assert!(failed > 0, "no limit was low enough");
}

#[test]
fn few_tasks_of_a_control_group_are_named_as_the_limit() {
    let Some(group) = Tasks::new() else { return };
    let site = site();
    for most in 2..=20 {
        group.limit(&most.to_string());
        let copy = format!("copy-{most}");
        let script = format!("exec timeout --signal=KILL 60 {} copy source/ {copy}", site.path("icdc").display());
        let output = site.settle(group.shell(&script)).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => assert_eq!(fs::read(site.path(&copy).join("file")).unwrap(), vec![7; 5 << 20]),
            // `timeout` could not start it.
            Some(125 | 126) if most <= 2 => {}
            Some(1) => assert!(said.contains("pids.max") && said.contains(&format!("{most} tasks")), "{most}: {said}"),
            code => panic!("{most}: {code:?}: {said}"),
        }
    }
}

#[test]
fn a_thread_that_cannot_be_had_ends_a_copy_with_the_name_of_the_limit() {
    if !is_root() {
        return skip("the threads of this user are counted together with those of other programs");
    }
    let site = site();
    for most in 1..=18 {
        let copy = format!("copy-{most}");
        let output = with_threads(&site, most, &["copy", "source/", &copy]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            // `timeout` has a process of its own, and where few threads do there may be enough.
            Some(0) => {
                assert_eq!(fs::read(site.path(&copy).join("small")).unwrap(), b"data");
                assert_eq!(fs::read(site.path(&copy).join("file")).unwrap(), vec![7; 5 << 20]);
            }
            // `timeout` could not start it.
            Some(125 | 126) if most <= 2 => {}
            Some(1) => {
                assert!(said.contains("cannot start the thread") && said.contains("ulimit -u"), "{most}: {said}");
                assert!(said.contains(&format!("may have {most} processes")), "{most}: {said}");
                assert!(!site.path(&copy).join("small").exists(), "{most}: it was begun");
            }
            code => panic!("{most}: {code:?}: {said}"),
        }
    }
}

#[test]
fn a_copy_between_hosts_with_few_threads_ends_with_the_name_of_the_limit_or_well() {
    if !is_root() {
        return skip("the threads of this user are counted together with those of other programs");
    }
    let site = site();
    let ssh = site.program("ssh-as-user", "shift\nexec sh -c \"$*\"");
    open_to_all(site.root());
    for most in (4..=44).step_by(4) {
        let copy = format!("copy-{most}");
        let from = format!("far:{}/", site.path("source").display());
        let program = site.path("icdc").display().to_string();
        let words = ["copy", "--retry-for", "0s", "--ssh", &ssh, "--remote-icdc", &program, &from, &copy];
        let output = with_threads(&site, most, &words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => assert_eq!(fs::read(site.path(&copy).join("file")).unwrap(), vec![7; 5 << 20]),
            Some(1 | 3) => assert!(!said.contains("panicked"), "{most}: {said}"),
            code => panic!("{most}: {code:?}: {said}"),
        }
    }
}

#[test]
fn the_first_interrupt_ends_a_copy_that_may_have_few_threads() {
    if !is_root() {
        return skip("the threads of this user are counted together with those of other programs");
    }
    let site = site();
    let mut interrupted = 0;
    for most in 8..=24 {
        let copy = format!("copy-{most}");
        let words = ["copy", "--json", "--rate", "10mbit", "source/", &copy];
        let run = with_threads(&site, most, &words).start();
        // One that has too few ends by itself.
        if run.wait_for_bytes(1) {
            run.signal(Signal::INT);
            interrupted += 1;
            // Otherwise `timeout` kills it.
            run.finish().expect_code(4);
        } else {
            run.finish().expect_code(1);
        }
    }
    assert!(interrupted > 0, "no limit was high enough");
}
