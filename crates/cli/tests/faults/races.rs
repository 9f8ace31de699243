//! Directories and files of both trees are exchanged for symbolic links that lead out of them, over and over, while
//! they are copied, while others are deleted, and while directories are made and items renamed in them: nothing outside of the destination is changed or deleted, and nothing
//! outside of the source is copied. Landlock, which would refuse most of it as well, is taken away.
//!
//! `ICDC_TEST_FLIPS` is the number of exchanges of each test.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, openat, renameat_with};

use crate::support::daemon::Daemon;
use crate::support::refusals::{Refusal, refuse};
use crate::support::{Ended, Site, Start};

/// Exchanges of a test unless `ICDC_TEST_FLIPS` says otherwise.
const FLIPS: u64 = 20_000;
/// Copies after which a test that has not seen them fails.
const MOST_COPIES: usize = 500;
/// Races after which a test that has met no link fails.
const MOST_RACES: usize = 50;
const DIRECTORIES: usize = 12;
const FILES: usize = 12;
/// Where items outside of a tree have what no item inside may get.
const MARK: &str = "OUTSIDE";
const TREES: [&str; 2] = ["source", "copy"];

/// Two trees, beside each of them a place outside with the same names, and the links that lead there.
struct Scene {
    site: Site,
}

/// Names, inodes, sizes, modes, times and contents below a directory.
type Snapshot = BTreeMap<PathBuf, ([u64; 7], Vec<u8>)>;

/// An item that is exchanged. The directories that hold it and the link are held open: the way to them may just lead
/// elsewhere.
struct Swap {
    above: OwnedFd,
    name: OsString,
    links: OwnedFd,
    link: String,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { site: Site::new() };
        for tree in TREES {
            furnish(&scene.site.path(format!("{tree}-outside")), MARK);
        }
        scene
    }

    /// Makes both trees and the links anew.
    fn furnish(&self) {
        for tree in TREES {
            let [place, links, outside] = ["", "-links", "-outside"].map(|end| self.site.path(format!("{tree}{end}")));
            let _ = fs::remove_dir_all(&place);
            let _ = fs::remove_dir_all(&links);
            furnish(&place, "inside");
            fs::create_dir(&links).unwrap();
            for path in exchanged(tree) {
                symlink(outside.join(&path), links.join(path.replace('/', "+"))).unwrap();
            }
        }
    }

    fn outside(&self) -> [Snapshot; 2] {
        TREES.map(|tree| snapshot(&self.site.path(format!("{tree}-outside"))))
    }

    /// `icdc copy` by one of the routes, without Landlock.
    fn copy(&self, number: usize, options: &[&str]) -> Ended {
        let (site, ssh) = (&self.site, self.site.ssh());
        let mut command = site.copy(&["--ssh", &ssh]);
        command.args(options);
        match number % 3 {
            0 => command.arg(site.path("source/")).arg(site.path("copy")),
            1 => command.arg(site.path("source/")).arg(site.by_ssh("copy")),
            _ => command.arg(site.by_ssh("source/")).arg(site.path("copy")),
        };
        without_landlock(&mut command);
        command.run()
    }

    /// A daemon without Landlock, of which the copy is the root: by a key no link leads out of that.
    fn daemon(&self) -> Daemon {
        self.furnish();
        let root = self.site.path("copy");
        Daemon::adapted(&self.site, &format!("root={},rights=rw", root.display()), without_landlock)
    }

    fn swaps(&self, tree: &str, is_exchanged: fn(&str) -> bool) -> Vec<Swap> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |path: &Path| openat(CWD, path, flags, Mode::empty()).unwrap();
        let swap = |path: String| {
            let whole = self.site.path(tree).join(&path);
            Swap {
                above: open(whole.parent().unwrap()),
                name: whole.file_name().unwrap().to_owned(),
                links: open(&self.site.path(format!("{tree}-links"))),
                link: path.replace('/', "+"),
            }
        };
        exchanged(tree).into_iter().filter(|path| is_exchanged(path)).map(swap).collect()
    }

    /// Makes copies while items of the `trees` are exchanged for links, until there were enough exchanges.
    fn race(&self, trees: &[&str], is_exchanged: fn(&str) -> bool, mut copy: impl FnMut(usize) -> Ended) {
        let wanted = std::env::var("ICDC_TEST_FLIPS").ok().map_or(FLIPS, |text| text.parse().unwrap());
        let before = self.outside();
        let flips = AtomicU64::new(0);
        let mut copies = 0;
        while copies < 3 || (flips.load(Ordering::Relaxed) < wanted && copies < MOST_COPIES) {
            self.furnish();
            let stop = AtomicBool::new(false);
            let ended = std::thread::scope(|scope| {
                for tree in trees {
                    let swaps = self.swaps(tree, is_exchanged);
                    let (flips, stop) = (&flips, &stop);
                    scope.spawn(move || flip(&swaps, flips, stop));
                }
                let _stop = Stop(&stop);
                copy(copies)
            });
            // An item that was a link where a directory is meant, and the reverse, is reported.
            assert!(matches!(ended.code, Some(0 | 1)), "{ended}");
            assert!(self.outside() == before, "something outside has changed: {ended}");
            assert_nothing_from_outside(&self.site.path("copy"));
            copies += 1;
        }
        let flips = flips.into_inner();
        eprintln!("{flips} exchanges in {copies} copies");
        assert!(flips >= wanted, "{flips} exchanges in {copies} copies: it could not race");
    }
}

fn without_landlock(command: &mut Command) {
    refuse(command, &[Refusal::of(libc::SYS_landlock_create_ruleset, libc::ENOSYS)]);
}

/// Exchanges each item for its link and back, in turn.
fn flip(swaps: &[Swap], flips: &AtomicU64, stop: &AtomicBool) {
    for Swap { above, name, links, link } in swaps.iter().cycle() {
        for _ in 0..2 {
            // The copy may just have removed it.
            if renameat_with(above, name, links, link, RenameFlags::EXCHANGE).is_ok() {
                flips.fetch_add(1, Ordering::Relaxed);
            }
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
}

fn assert_nothing_from_outside(copy: &Path) {
    let from_outside = |bytes: &[u8]| bytes.windows(MARK.len()).any(|part| part == MARK.as_bytes());
    for (path, (_, contents)) in snapshot(copy) {
        assert!(!from_outside(path.as_os_str().as_bytes()), "{} is outside's", path.display());
        assert!(!from_outside(&contents), "{} has outside's contents", path.display());
    }
}

/// Ends the exchange, also when the test panics.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Paths that are exchanged in a tree: directories, directories in them, and files.
fn exchanged(tree: &str) -> Vec<String> {
    let kinds: &[&str] = if tree == "copy" { &["d", "extra"] } else { &["d"] };
    let of_kind = |kind: &&str| {
        let directory = |number| format!("{kind}{number:02}");
        let below = |path: String| [format!("{path}/f00"), format!("{path}/inner"), path];
        (0..DIRECTORIES).map(directory).flat_map(below).collect::<Vec<_>>()
    };
    kinds.iter().flat_map(of_kind).collect()
}

/// Makes what [`exchanged`] names with files in them, whose contents begin with `mark`.
fn furnish(place: &Path, mark: &str) {
    let extra = place.file_name().unwrap().to_str().unwrap().starts_with("copy");
    for number in 0..DIRECTORIES {
        for kind in ["d", "extra"] {
            if kind == "extra" && !extra {
                continue;
            }
            for directory in [format!("{kind}{number:02}"), format!("{kind}{number:02}/inner")] {
                let directory = place.join(directory);
                fs::create_dir_all(&directory).unwrap();
                fs::write(directory.join(format!("{mark}-only")), mark).unwrap();
                for file in 0..FILES {
                    fs::write(directory.join(format!("f{file:02}")), format!("{mark} {file}")).unwrap();
                }
            }
        }
    }
}

fn snapshot(place: &Path) -> Snapshot {
    let mut found = Snapshot::new();
    let mut left = vec![place.to_owned()];
    while let Some(path) = left.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let contents = if metadata.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            Vec::new()
        } else if metadata.is_symlink() {
            Vec::new()
        } else {
            fs::read(&path).unwrap()
        };
        let numbers = [
            metadata.ino(),
            metadata.mode().into(),
            metadata.nlink(),
            metadata.size(),
            metadata.uid().into(),
            metadata.ctime() as u64,
            metadata.ctime_nsec() as u64,
        ];
        found.insert(path.strip_prefix(place).unwrap().to_owned(), (numbers, contents));
    }
    found
}

#[test]
fn a_copy_of_trees_whose_items_become_links_stays_inside() {
    let scene = Scene::new();
    scene.race(
        &TREES,
        |path| path.starts_with('d'),
        |number| scene.copy(number, if number % 2 == 0 { &[] } else { &["--skip-equal", "--delete"] }),
    );
}

#[test]
fn links_to_directories_that_are_kept_lead_nowhere_outside() {
    let scene = Scene::new();
    let mut refused = 0;
    // Each item is a link for a small share of the time.
    for _ in 0..MOST_RACES {
        scene.race(
            &["copy"],
            |path| path.starts_with('d'),
            |number| {
                let ended = scene.copy(number, &["--keep-dirlinks", "--delete"]);
                refused += ended.all("item").filter(|event| event["outcome"] == "failed").count();
                ended
            },
        );
        if refused > 0 {
            return;
        }
    }
    panic!("no link was met");
}

#[test]
fn deleting_directories_that_become_links_stays_inside() {
    let scene = Scene::new();
    let mut deleted = 0;
    scene.race(
        &["copy"],
        |path| path.starts_with("extra"),
        |number| {
            let ended = scene.copy(number, &["--skip-equal", "--delete"]);
            deleted += ended.number("deleted");
            ended
        },
    );
    assert!(deleted > 0, "nothing was deleted");
}

#[test]
fn removing_directories_that_become_links_stays_inside() {
    let scene = Scene::new();
    let mut removed = 0;
    scene.race(
        &["copy"],
        |path| path.starts_with("extra"),
        |number| {
            let ssh = scene.site.ssh();
            let words = ["rm", "-r", "--yes", "--json", "--ssh", &ssh, "--remote-icdc", crate::support::ICDC];
            let mut command = scene.site.icdc(&words);
            command.args((0..DIRECTORIES).map(|directory| {
                let path = format!("copy/extra{directory:02}");
                if number % 2 == 0 { OsString::from(path) } else { scene.site.by_ssh(path) }
            }));
            without_landlock(&mut command);
            let ended = command.run();
            removed += ended.all("removed").count();
            ended
        },
    );
    assert!(removed > 0, "nothing was removed");
}

/// Races in which `change` is made by a daemon's key, until changes were made and others refused. It
/// gives the number of those made, and the command that was run last.
fn race_changes(mut change: impl FnMut(&Scene, &Daemon, usize) -> (usize, Ended)) {
    let scene = Scene::new();
    let daemon = scene.daemon();
    let (mut made, mut refused) = (0, 0);
    for _ in 0..MOST_RACES {
        scene.race(
            &["copy"],
            |path| path.starts_with('d'),
            |number| {
                let (changes, ended) = change(&scene, &daemon, number);
                made += changes;
                refused += usize::from(ended.code == Some(1));
                ended
            },
        );
        if made > 0 && refused > 0 {
            return;
        }
    }
    panic!("{made} changes were made, {refused} commands refused one");
}

#[test]
fn making_directories_below_ones_that_become_links_stays_inside() {
    race_changes(|scene, daemon, number| {
        let mut command = scene.site.icdc(&["mkdir", "--json"]);
        // Directories that are there, and with -p those above as well.
        let below = if number % 2 == 0 { "inner/new" } else { "inner/new/deep/deeper" };
        command.args((number % 2 == 1).then_some("-p"));
        command.args((0..DIRECTORIES).map(|directory| daemon.location(&format!("d{directory:02}/{below}"))));
        let ended = command.run();
        (ended.all("made").count(), ended)
    });
}

#[test]
fn renaming_between_directories_that_become_links_stays_inside() {
    race_changes(|scene, daemon, number| {
        let rename = |from: usize| {
            let to = (from + 1) % DIRECTORIES;
            let (old, new) = match number % 3 {
                0 => (format!("d{from:02}/inner/f{from:02}"), format!("d{to:02}/inner/new{from:02}")),
                1 => (format!("d{from:02}/inner/f{from:02}"), format!("d{to:02}/inner")),
                _ => (format!("d{from:02}/inner"), format!("d{to:02}/new{from:02}")),
            };
            let mut command = scene.site.icdc(&["mv", "--json"]);
            command.args((from % 2 == 1).then_some("--force"));
            command.args([daemon.location(&old), daemon.location(&new)]).run()
        };
        let all: Vec<Ended> = (0..DIRECTORIES).map(rename).collect();
        assert!(all.iter().all(|ended| matches!(ended.code, Some(0 | 1))), "{all:?}");
        let renamed = all.iter().filter(|ended| ended.code == Some(0)).count();
        // One that was refused, if there is any.
        (renamed, all.into_iter().max_by_key(|ended| ended.code).unwrap())
    });
}
