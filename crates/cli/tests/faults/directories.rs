//! Directories in which others may make files, too: a copy goes on there as anywhere, believes nobody else's files,
//! and nobody else's files stop it.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};

use icdc_disk::tree::{StagingKind, StagingName};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::support::daemon::Daemon;
use crate::support::process::eventually;
use crate::support::{
    BLOCK, Ended, KIB, MIB, Run, Shape, Signal, Site, Start, assert_no_leftovers, assert_same, data, is_root,
    leftovers, skip,
};

const SIZE: u64 = 48 * MIB + 77;
const BREAK: u64 = 16 * MIB;
/// Whom the daemon acts as.
const NOBODY: u32 = 65534;
/// Somebody else.
const STRANGER: u32 = 1;

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
        self.push_from(self.source.to_str().unwrap(), rate, "copy")
    }

    fn push_from(&self, source: &str, rate: &str, to: &str) -> Run {
        self.site.copy(&["--rate", rate, source]).arg(self.daemon.location(to)).start()
    }

    fn interrupted(&self) -> Ended {
        interrupt(self.push("160mbit"))
    }

    /// Has the stranger put something under a name of the shared directory.
    fn plant(&self, plant: Plant, name: &str) -> PathBuf {
        let path = self.shared.join(name);
        match plant {
            Plant::File => fs::write(&path, "mine").unwrap(),
            Plant::Link => symlink("/etc/passwd", &path).unwrap(),
            Plant::Directory => fs::create_dir(&path).unwrap(),
            Plant::Pipe => mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
        }
        lchown(&path, Some(STRANGER), Some(STRANGER)).unwrap();
        path
    }

    /// Has the stranger hold all names that follow from these final names alone.
    fn plant_beside(&self, plant: Plant, names: &[&str]) -> Vec<PathBuf> {
        names.iter().flat_map(|name| beside(name, None)).map(|name| self.plant(plant, &name)).collect()
    }

    /// The name of the journal that a run leaves when it is interrupted; nothing else stays of it.
    fn journal_of(&self, source: &str, to: &str) -> String {
        interrupt(self.push_from(source, "160mbit", to));
        let left = leftovers(&self.shared);
        let journal = left.iter().find(|path| path.extension().is_some_and(|kind| kind == "run")).unwrap();
        let name = journal.file_name().unwrap().to_str().unwrap().to_owned();
        for entry in fs::read_dir(&self.shared).unwrap() {
            remove(&entry.unwrap().path());
        }
        name
    }

    /// Nothing unfinished is left but what the stranger has there.
    #[track_caller]
    fn assert_only_plants(&self, plants: &[PathBuf]) {
        let left: BTreeSet<PathBuf> = leftovers(&self.shared).into_iter().collect();
        assert_eq!(left, plants.iter().cloned().collect());
        assert!(plants.iter().all(|path| fs::symlink_metadata(path).unwrap().uid() == STRANGER));
    }

    fn assert_arrived(&self) {
        assert_same(&self.source, &self.shared.join("copy"));
        assert_eq!(fs::metadata(self.shared.join("copy")).unwrap().uid(), NOBODY);
        assert_no_leftovers(&self.shared);
    }
}

/// What can be in the way of a name.
#[derive(Clone, Copy, Debug)]
enum Plant {
    File,
    Link,
    Directory,
    Pipe,
}

const PLANTS: [Plant; 4] = [Plant::File, Plant::Link, Plant::Directory, Plant::Pipe];

/// Names of unfinished files beside `name`: those that anybody can foresee, or those of a user.
pub(crate) fn beside(name: &str, user: Option<u32>) -> [String; 2] {
    let mut hasher = blake3::Hasher::new_derive_key("icdc staging name 1");
    hasher.update(name.as_bytes());
    if let Some(user) = user {
        hasher.update(&[0]).update(&user.to_le_bytes());
    }
    let mut id = [0; 8];
    id.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    [StagingKind::Part, StagingKind::Blocks].map(|kind| StagingName::new(kind, id).name().to_string())
}

fn interrupt(run: Run) -> Ended {
    assert!(run.wait_for_bytes(BREAK), "{}", run.finish());
    run.signal(Signal::INT);
    run.finish().expect_code(4)
}

fn remove(path: &Path) {
    if fs::symlink_metadata(path).unwrap().is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
        .unwrap();
}

#[test]
fn a_daemon_that_acts_as_a_user_goes_on_in_shared_directories() {
    for mode in [0o775, 0o777, 0o1777] {
        let Some(guarded) = Guarded::new(mode) else { return };
        let first = guarded.interrupted();
        let second = guarded.push("10gbit").finish().expect_code(0);
        guarded.assert_arrived();
        let (arrived, resumed) = (first.bytes_done(), second.resumed());
        assert!(resumed + BLOCK > arrived && arrived >= BREAK, "{mode:o}: {resumed} of {arrived} were left\n{second}");
        assert_eq!(second.number("bytes_sent"), SIZE - resumed, "{mode:o}: {second}");
    }
}

#[test]
fn a_directory_that_may_not_be_read_takes_files() {
    let Some(guarded) = Guarded::new(0o1730) else { return };
    guarded.push("10gbit").finish().expect_code(0);
    guarded.assert_arrived();
    let small = data::file(&guarded.site.path("small"), KIB, 82);
    guarded.push_from("small", "10gbit", "small").finish().expect_code(0);
    assert_same(&small, &guarded.shared.join("small"));
}

#[test]
fn an_unfinished_file_that_has_its_last_mode_goes_on() {
    let Some(guarded) = Guarded::new(0o775) else { return };
    let first = guarded.interrupted();
    for path in leftovers(&guarded.shared).iter().filter(|path| path.extension().is_some_and(|kind| kind == "part")) {
        fs::set_permissions(path, Permissions::from_mode(0o444)).unwrap();
    }
    let second = guarded.push("10gbit").finish().expect_code(0);
    guarded.assert_arrived();
    assert!(second.resumed() + BLOCK > first.bytes_done(), "{first}\n{second}");
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

#[test]
fn names_that_others_hold_stop_no_file() {
    for plant in PLANTS {
        let Some(guarded) = Guarded::new(0o1777) else { return };
        eprintln!("{plant:?}");
        let plants = guarded.plant_beside(plant, &["copy"]);
        let first = guarded.interrupted();
        let second = guarded.push("10gbit").finish().expect_code(0);
        assert_same(&guarded.source, &guarded.shared.join("copy"));
        guarded.assert_only_plants(&plants);
        assert!(second.resumed() + BLOCK > first.bytes_done(), "{first}\n{second}");
    }
}

#[test]
fn names_that_others_hold_for_this_user_stop_no_file() {
    let Some(guarded) = Guarded::new(0o1777) else { return };
    let mut plants = guarded.plant_beside(Plant::File, &["copy"]);
    plants.extend(beside("copy", Some(NOBODY)).map(|name| guarded.plant(Plant::Pipe, &name)));
    guarded.interrupted();
    // The daemon comes to its end on its own.
    eventually(|| leftovers(&guarded.shared).len() <= plants.len());
    guarded.assert_only_plants(&plants);
    guarded.push("10gbit").finish().expect_code(0);
    assert_same(&guarded.source, &guarded.shared.join("copy"));
    guarded.assert_only_plants(&plants);
}

/// Makes a tree with one item of each kind, and answers their names.
fn items(path: &Path) -> [&'static str; 5] {
    data::tree(path, 81, &Shape { small: 0, largest_small: KIB, large: vec![SIZE, 3 * MIB], oddities: false });
    fs::write(path.join("small"), "small").unwrap();
    symlink("small", path.join("link")).unwrap();
    fs::hard_link(path.join("small"), path.join("small-again")).unwrap();
    ["large0", "large1", "small", "link", "small-again"]
}

#[test]
fn names_that_others_hold_stop_no_tree() {
    let Some(guarded) = Guarded::new(0o1777) else { return };
    let tree = guarded.site.path("tree");
    let names = items(&tree);
    let journal = guarded.journal_of("tree/", "");
    for plant in PLANTS {
        eprintln!("{plant:?}");
        let mut plants = guarded.plant_beside(plant, &names);
        plants.push(guarded.plant(plant, &journal));
        let first = interrupt(guarded.push_from("tree/", "160mbit", ""));
        let second = guarded.push_from("tree/", "10gbit", "").finish();
        // The time of the directory is not this user's to set; everything in it is.
        assert!(matches!(second.code, Some(0 | 1)) && second.failures().len() <= 1, "{second}");
        assert!(second.resumed() + BLOCK > first.bytes_done(), "{first}\n{second}");
        guarded.assert_only_plants(&plants);
        for name in names {
            assert_same(&tree.join(name), &guarded.shared.join(name));
            remove(&guarded.shared.join(name));
        }
        plants.iter().for_each(|path| remove(path));
    }
}

#[test]
fn a_journal_that_no_later_run_finds_does_not_stay() {
    let Some(guarded) = Guarded::new(0o1777) else { return };
    items(&guarded.site.path("tree"));
    let first = guarded.journal_of("tree/", "");
    let first = guarded.plant(Plant::File, &first);
    interrupt(guarded.push_from("tree/", "160mbit", ""));
    let runs =
        || leftovers(&guarded.shared).into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "run"));
    let second = runs().find(|path| *path != first).unwrap();
    lchown(&second, Some(STRANGER), Some(STRANGER)).unwrap();
    interrupt(guarded.push_from("tree/", "160mbit", ""));
    assert_eq!(runs().collect::<BTreeSet<_>>(), BTreeSet::from([first, second]));
}

#[test]
fn the_journal_of_somebody_else_does_not_say_where_a_tree_goes() {
    let Some(guarded) = Guarded::new(0o1777) else { return };
    items(&guarded.site.path("tree"));
    let journal = guarded.journal_of("tree", "place");
    guarded.plant(Plant::File, &journal);
    let place = guarded.shared.join("place");
    fs::create_dir(&place).unwrap();
    chown(&place, Some(NOBODY), Some(NOBODY)).unwrap();
    guarded.push_from("tree", "10gbit", "place").finish().expect_code(0);
    assert_same(&guarded.site.path("tree"), &place.join("tree"));
}

#[test]
fn root_believes_and_removes_no_journal_of_somebody_else() {
    if !is_root() {
        return skip("only root may read what others have planted");
    }
    let site = Site::new();
    let shared = site.directory("shared");
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    items(&site.path("tree"));
    let copy =
        |words: &[&str]| site.copy(words).args(["--ssh", &site.ssh(), "tree"]).arg(site.by_ssh("shared/place")).start();
    interrupt(copy(&["--rate", "160mbit"]));
    let journal =
        leftovers(&shared).into_iter().find(|path| path.extension().is_some_and(|kind| kind == "run")).unwrap();
    chown(&journal, Some(STRANGER), Some(STRANGER)).unwrap();
    remove(&shared.join("place"));
    let place = site.directory("shared/place");
    let before = fs::read(&journal).unwrap();

    copy(&["--dry-run"]).finish().expect_code(0);
    assert_eq!(fs::read(&journal).unwrap(), before);
    copy(&[]).finish().expect_code(0);
    assert_same(&site.path("tree"), &place.join("tree"));
    assert_eq!(fs::read(&journal).unwrap(), before);
}
