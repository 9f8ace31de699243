//! File systems whose files can share space: what a large file has in common with the one that it replaces takes
//! none of its own.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use rustix::fs::{statvfs, sync};

use crate::differences::change;
use crate::support::compare::same_contents;
use crate::support::mounts::Mount;
use crate::support::process::eventually;
use crate::support::{Ended, MIB, Route, RoutedSite, Signal, assert_no_leftovers, data, leftovers};

/// Unit in which files are compared.
const LEAF: u64 = 64 << 10;
/// Kinds of file systems.
const KINDS: [&str; 2] = ["xfs", "btrfs"];

/// A file `source`, and on a file system of its own an older version, the file `disk/image`.
struct Scene {
    routed: RoutedSite,
    kind: &'static str,
    _disk: Mount,
}

impl Scene {
    /// The scene with files of this size; `None` where there is no such file system, with the reason on standard
    /// error.
    fn new(kind: &'static str, route: Route, size: u64) -> Option<Self> {
        let routed = RoutedSite::new(route);
        let disk = Mount::of_kind(kind, routed.path("disk"), 1024 * MIB)?;
        data::file(&routed.path("source"), size, 7);
        fs::copy(routed.path("source"), routed.path("disk/image")).unwrap();
        Some(Self { routed, kind, _disk: disk })
    }

    fn source(&self) -> PathBuf {
        self.routed.path("source")
    }

    fn image(&self) -> PathBuf {
        self.routed.path("disk/image")
    }

    /// Keeps the present version of the image under another name.
    fn keep(&self) -> PathBuf {
        let kept = self.routed.path("disk/kept");
        fs::hard_link(self.image(), &kept).unwrap();
        kept
    }

    /// Bytes of the file system that are in use.
    fn used(&self) -> u64 {
        sync();
        let found = statvfs(self.routed.path("disk")).unwrap();
        (found.f_blocks - found.f_bfree) * found.f_frsize
    }

    /// Length of the journal of the unfinished image, in bytes; `None` if there is none.
    fn journal(&self) -> Option<u64> {
        let is_journal = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "blocks");
        let found = leftovers(&self.routed.path("disk")).into_iter().find(is_journal)?;
        Some(fs::metadata(found).ok()?.len())
    }

    fn copy(&self, options: &[&str]) -> Ended {
        self.routed.copy(options, &["source"], "disk/image").expect_code(0)
    }

    #[track_caller]
    fn assert_complete(&self, ended: &Ended) {
        assert!(same_contents(&self.source(), &self.image()), "{} {:?}: {ended}", self.kind, self.routed.route);
        assert_no_leftovers(&self.routed.path("disk"));
    }
}

/// Runs `test` for each kind of file system, over both ways of reaching the destination.
fn for_each(size: u64, test: impl Fn(&Scene)) {
    for kind in KINDS {
        for route in [Route::Push, Route::FromDaemon] {
            if let Some(scene) = Scene::new(kind, route, size) {
                test(&scene);
            }
        }
    }
}

/// Makes stretches of a file (offset, length) holes.
fn punch(path: &Path, places: &[(u64, u64)]) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    for (offset, length) in places {
        rustix::fs::fallocate(&file, flags, *offset, *length).unwrap();
    }
}

#[test]
fn what_is_equal_shares_its_space_with_the_file_that_is_replaced() {
    for_each(64 * MIB + 77, |scene| {
        let old = fs::read(scene.image()).unwrap();
        let kept = scene.keep();
        change(&scene.source(), 1, &[(LEAF + 5, 1), (8 * MIB - 3, 6), (40 * MIB, LEAF), (64 * MIB + 70, 7)]);
        let before = scene.used();
        let ended = scene.copy(&[]);
        scene.assert_complete(&ended);
        assert_eq!(ended.number("bytes_sent"), 4 * LEAF + 77, "{ended}");
        let more = scene.used() - before;
        assert!(more < 8 * MIB, "{} {:?}: {more} bytes more: {ended}", scene.kind, scene.routed.route);
        assert_eq!(fs::read(kept).unwrap(), old, "the old version is as it was");
    });
}

#[test]
fn what_was_replaced_shows_in_no_hole_and_behind_no_end() {
    for_each(33 * MIB, |scene| {
        for size in [20 * MIB + 5, 48 * MIB + 4097] {
            data::file(&scene.image(), 33 * MIB, 7);
            data::file(&scene.source(), 33 * MIB, 7);
            OpenOptions::new().write(true).open(scene.source()).unwrap().set_len(size).unwrap();
            punch(&scene.source(), &[(MIB, 4 * MIB), (7 * MIB, 4096), (9 * MIB, 7 * MIB)]);
            change(&scene.source(), 2, &[(18 * MIB, 3)]);
            let ended = scene.copy(&["--verify"]);
            scene.assert_complete(&ended);
        }
    });
}

#[test]
fn a_copy_that_was_killed_is_continued() {
    for_each(160 * MIB, |scene| {
        // Half of each stretch is new, and holes are there where the old version has data.
        let places: Vec<_> = (0..1280).map(|number| (number * 2 * LEAF, 10)).collect();
        change(&scene.source(), 3, &places);
        punch(&scene.source(), &[(100 * MIB, 9 * MIB), (130 * MIB, 4096)]);
        let run = scene.routed.start(&["--rate", "200mbit"], &["source"], "disk/image");
        // Blocks are noted in the journal once they are durable.
        let mut begun = None;
        let has_noted = || match scene.journal() {
            Some(length) => length > *begun.get_or_insert(length),
            None => false,
        };
        assert!(eventually(has_noted), "{}", run.finish());
        run.signal(Signal::KILL);
        let _ = run.finish();
        let ended = scene.copy(&[]);
        assert!(ended.number("resumed_bytes") > 0, "{} {:?}: {ended}", scene.kind, scene.routed.route);
        scene.assert_complete(&ended);
    });
}

#[test]
fn a_file_that_has_nothing_in_common_keeps_no_space_of_the_old_one() {
    for_each(200 * MIB, |scene| {
        data::file(&scene.source(), 200 * MIB, 8);
        let before = scene.used();
        let ended = scene.copy(&[]);
        scene.assert_complete(&ended);
        let after = scene.used();
        assert!(after < before + 16 * MIB, "{} {:?}: {before} and {after}: {ended}", scene.kind, scene.routed.route);
    });
}
