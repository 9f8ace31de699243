//! Copies that may have few threads: each ends with the limit's name, or does its work; none panics, none hangs.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::support::{Site, is_root, open_to_all, skip};

/// `icdc WORDS…` of a user of this test's own, who may have `most` processes and threads.
fn with_threads(site: &Site, most: u32, words: &[&str]) -> Command {
    // Others with the same number would be counted.
    let user = 100_000 + std::process::id() % 1_000_000;
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "60", "prlimit", &format!("--nproc={most}")]);
    command.arg(site.path("icdc")).args(words).uid(user).gid(user);
    site.settle(command)
}

#[test]
fn a_thread_that_cannot_be_had_ends_a_copy_with_the_name_of_the_limit() {
    if !is_root() {
        return skip("the threads of this user are counted together with those of other programs");
    }
    let site = Site::new();
    drop(site.unprivileged());
    fs::create_dir(site.path("source")).unwrap();
    fs::write(site.path("source/file"), vec![7; 5 << 20]).unwrap();
    fs::write(site.path("source/small"), "data").unwrap();
    open_to_all(site.root());
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
