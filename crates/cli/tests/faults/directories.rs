//! Directories in which others may make files, too: a copy goes on there as anywhere, believes nobody else's files,
//! and nobody else's files stop it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::PathBuf;

use crate::support::daemon::Daemon;
use crate::support::{Ended, MIB, Run, Signal, Site, Start, assert_no_leftovers, assert_same, data, is_root, skip};

const SIZE: u64 = 48 * MIB + 77;
const BREAK: u64 = 16 * MIB;
/// Whom the daemon acts as.
const NOBODY: u32 = 65534;

/// A daemon of root that acts as another user for its key, and a directory that this user shares with others.
struct Guarded {
    site: Site,
    daemon: Daemon,
    shared: PathBuf,
    source: PathBuf,
}

impl Guarded {
    /// `None` where this process may not act as another user.
    fn new(mode: u32) -> Option<Self> {
        if !is_root() {
            skip("acting as another user needs root");
            return None;
        }
        let site = Site::new();
        let shared = site.directory("shared");
        chown(&shared, Some(0), Some(NOBODY)).unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(mode)).unwrap();
        let source = data::file(&site.path("source"), SIZE, 80);
        let daemon = Daemon::named(&site, "daemon", &format!("root=\"{}\",rights=rw,user=nobody", shared.display()));
        Some(Self { site, daemon, shared, source })
    }

    fn push(&self, rate: &str) -> Run {
        self.site.copy(&["--rate", rate]).arg(&self.source).arg(self.daemon.location("copy")).start()
    }

    fn interrupted(&self) -> Ended {
        let run = self.push("160mbit");
        assert!(run.wait_for_bytes(BREAK), "{}", run.finish());
        run.signal(Signal::INT);
        run.finish().expect_code(4)
    }

    fn assert_arrived(&self) {
        assert_same(&self.source, &self.shared.join("copy"));
        assert_eq!(fs::metadata(self.shared.join("copy")).unwrap().uid(), NOBODY);
        assert_no_leftovers(&self.shared);
    }
}

#[test]
fn a_daemon_that_acts_as_a_user_goes_on_in_shared_directories() {
    for mode in [0o775, 0o777, 0o1777] {
        let Some(guarded) = Guarded::new(mode) else { return };
        let first = guarded.interrupted();
        let second = guarded.push("10gbit").finish().expect_code(0);
        guarded.assert_arrived();
        let (arrived, resumed) = (first.bytes_done(), second.resumed());
        assert!(resumed >= arrived && arrived >= BREAK, "{mode:o}: {resumed} of {arrived} were left\n{second}");
        assert_eq!(second.number("bytes_sent"), SIZE - resumed, "{mode:o}: {second}");
    }
}

#[test]
fn a_second_copy_of_a_user_waits_for_the_first_in_a_shared_directory() {
    let Some(guarded) = Guarded::new(0o1777) else { return };
    let first = guarded.push("160mbit");
    assert!(first.wait_for_bytes(BREAK), "{}", first.finish());
    let second = guarded.push("10gbit");
    let second = second.finish();
    let first = first.finish();
    assert_eq!((first.code, second.code), (Some(0), Some(0)), "{first}\n{second}");
    guarded.assert_arrived();
}
