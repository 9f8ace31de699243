//! An error near the end costs what it concerns: what is durable stays, and the same command goes on from there.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::Command;

use crate::support::daemon::Daemon;
use crate::support::mounts::Mount;
use crate::support::refusals::{Refusal, refuse, unreadable_beyond, unwritable_beyond};
use crate::support::{Ended, KIB, MIB, Shape, Site, Start, assert_no_leftovers, assert_same, compare, data, leftovers};

const SIZE: u64 = 64 * MIB + 77;
/// Where reading or writing fails, and what the last blocks may cost that were on their way then.
const BROKEN: u32 = 48 << 20;
const ON_ITS_WAY: u64 = 16 * MIB;

/// How the two ends meet.
enum FarEnd {
    Ssh,
    Daemon(Daemon),
}

/// A push that fails at first.
struct Attempt {
    site: Site,
    far_end: FarEnd,
}

impl Attempt {
    fn both() -> [Self; 2] {
        let (by_ssh, by_daemon) = (Site::new(), Site::new());
        let daemon = Daemon::start(&by_daemon, by_daemon.root(), "rw");
        [Self { site: by_ssh, far_end: FarEnd::Ssh }, Self { site: by_daemon, far_end: FarEnd::Daemon(daemon) }]
    }

    /// The same command each time.
    fn push(&self, to: &str) -> Command {
        let mut command = self.site.copy(&["--ring", "64MiB", "--ssh", &self.site.ssh()]);
        command.arg(self.site.path("source"));
        match &self.far_end {
            FarEnd::Ssh => command.arg(self.site.by_ssh(to)),
            FarEnd::Daemon(daemon) => command.arg(daemon.location(to)),
        };
        command
    }

    #[track_caller]
    fn assert_goes_on(&self, to: &str, least: u64) -> Ended {
        let second = self.push(to).run().expect_code(0);
        let (source, copy) = (self.site.path("source"), self.site.path(to));
        assert_same(&source, &copy);
        assert_no_leftovers(copy.parent().unwrap());
        assert!(second.resumed() >= least, "{second}");
        second
    }
}

/// A file that takes its room only as it is written: it ends in a hole.
fn growing(path: &Path, size: u64, seed: u64) {
    data::file(path, size, seed);
    OpenOptions::new().write(true).open(path).unwrap().set_len(size + 16 * MIB).unwrap();
}

#[test]
fn a_disk_that_becomes_full_costs_nothing_that_is_durable() {
    for attempt in Attempt::both() {
        let Some(mount) = Mount::tmpfs(attempt.site.path("full"), 96 * MIB) else { return };
        growing(&attempt.site.path("source"), 128 * MIB, 90);
        let first = attempt.push("full/copy").run().expect_code(1);
        assert!(first.stderr.contains("same command"), "{first}");
        // Nothing is lost by a further attempt that fails, too.
        attempt.push("full/copy").run().expect_code(1);
        mount.resize(512 * MIB);
        let second = attempt.assert_goes_on("full/copy", 96 * MIB - ON_ITS_WAY);
        assert_eq!(second.number("bytes_sent"), 128 * MIB - second.resumed(), "{second}");
    }
}

#[test]
fn a_tree_that_fills_the_disk_goes_on_in_its_place() {
    for attempt in Attempt::both() {
        let Some(mount) = Mount::tmpfs(attempt.site.path("full"), 96 * MIB) else { return };
        let shape = Shape { small: 100, largest_small: 20 * KIB, large: vec![9 * MIB], oddities: false };
        let source = data::tree(&attempt.site.path("source"), 91, &shape);
        growing(&source.join("growing"), 128 * MIB, 92);
        let first = attempt.push("full/copy").run().expect_code(1);
        mount.resize(512 * MIB);
        let second = attempt.assert_goes_on("full/copy", 96 * MIB - ON_ITS_WAY);
        assert!(second.number("bytes_sent") <= 32 * MIB + ON_ITS_WAY, "{first}\n{second}");
    }
}

#[test]
fn small_files_that_fill_the_disk_go_on_in_their_place() {
    let site = Site::new();
    let Some(mount) = Mount::tmpfs(site.path("full"), 8 * MIB) else { return };
    let shape = Shape { small: 2000, largest_small: 20 * KIB, large: Vec::new(), oddities: false };
    data::tree(&site.path("source"), 93, &shape);
    let attempt = Attempt { site, far_end: FarEnd::Ssh };
    attempt.push("full/copy").run().expect_code(1);
    mount.resize(256 * MIB);
    attempt.assert_goes_on("full/copy", 0);
}

#[test]
fn a_source_that_cannot_be_read_everywhere_costs_what_is_behind() {
    for attempt in Attempt::both() {
        let source = data::file(&attempt.site.path("source"), SIZE, 94);
        attempt.site.directory("in");
        refuse(&mut attempt.push("in/copy"), &unreadable_beyond(BROKEN)).run().expect_code(1);
        let second = attempt.assert_goes_on("in/copy", u64::from(BROKEN));
        assert_eq!(second.number("bytes_sent"), SIZE - second.resumed(), "{second}");
        assert!(compare::same_contents(&source, &attempt.site.path("in/copy")));
    }
}

#[test]
fn a_pulled_source_that_cannot_be_read_everywhere_costs_what_is_behind() {
    let site = Site::new();
    data::file(&site.path("source"), SIZE, 95);
    site.directory("in");
    let pull = || {
        let mut command = site.copy(&["--ring", "64MiB", "--ssh", &site.ssh()]);
        command.arg(site.by_ssh("source")).arg(site.path("in/copy"));
        command
    };
    refuse(&mut pull(), &unreadable_beyond(BROKEN)).run().expect_code(1);
    let second = pull().run().expect_code(0);
    assert_same(&site.path("source"), &site.path("in/copy"));
    assert_no_leftovers(site.root());
    assert!(second.resumed() >= u64::from(BROKEN), "{second}");
    assert_eq!(second.number("bytes_sent"), SIZE - second.resumed(), "{second}");
}

#[test]
fn a_tree_whose_source_cannot_be_read_everywhere_goes_on_in_its_place() {
    for attempt in Attempt::both() {
        let shape = Shape { small: 100, largest_small: 20 * KIB, large: vec![SIZE, 9 * MIB], oddities: true };
        let source = data::tree(&attempt.site.path("source"), 96, &shape);
        attempt.site.directory("in");
        refuse(&mut attempt.push("in/copy"), &unreadable_beyond(BROKEN)).run().expect_code(1);
        assert_same(&source.join("large1"), &attempt.site.path("in/copy/large1"));
        let second = attempt.assert_goes_on("in/copy", u64::from(BROKEN) + 9 * MIB);
        assert!(second.number("bytes_sent") <= SIZE - u64::from(BROKEN), "{second}");
    }
}

#[test]
fn a_destination_that_cannot_be_written_everywhere_costs_what_is_behind() {
    let site = Site::new();
    data::file(&site.path("source"), SIZE, 97);
    site.directory("in");
    let attempt = Attempt { site, far_end: FarEnd::Ssh };
    refuse(&mut attempt.push("in/copy"), &unwritable_beyond(BROKEN)).run().expect_code(1);
    let second = attempt.assert_goes_on("in/copy", u64::from(BROKEN) - ON_ITS_WAY);
    assert_eq!(second.number("bytes_sent"), SIZE - second.resumed(), "{second}");
}

#[test]
fn metadata_that_cannot_be_set_costs_no_data() {
    let site = Site::new();
    data::file(&site.path("source"), SIZE, 98);
    site.directory("in");
    let attempt = Attempt { site, far_end: FarEnd::Ssh };
    let broken = [Refusal::of(libc::SYS_fchmod, libc::EPERM), Refusal::of(libc::SYS_utimensat, libc::EPERM)];
    let first = refuse(&mut attempt.push("in/copy"), &broken).run().expect_code(1);
    assert!(!leftovers(&attempt.site.path("in")).is_empty(), "{first}");
    let second = attempt.assert_goes_on("in/copy", SIZE);
    assert_eq!(second.number("bytes_sent"), 0, "{second}");
}
