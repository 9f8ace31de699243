//! Items that cannot be copied: each is named on standard error, everything else arrives, and the exit code is 1. What is
//! under its final name is right; nothing unfinished is left but where the same command goes on with it.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use rustix::fs::OFlags;

use crate::support::mounts::Mount;
use crate::support::refusals::{Refusal, refuse, unreadable_beyond, unwritable_beyond};
use crate::support::{
    Ended, KIB, MIB, Noise, Shape, Site, Start, assert_no_leftovers, assert_same, compare, data, is_root, leftovers,
    succeed,
};

const SMALL: Shape = Shape { small: 60, largest_small: 20 * KIB, large: Vec::new(), oddities: true };

/// Asserts that just these items failed, that each is named on standard error, and that a further run after `repair`
/// completes the copy.
#[track_caller]
fn assert_failed(ended: &Ended, items: &[&str]) {
    assert_eq!(ended.code, Some(1), "{ended}");
    let failures = ended.failures();
    let named: BTreeSet<&str> = failures.keys().map(String::as_str).collect();
    assert_eq!(named, items.iter().copied().collect(), "{ended}");
    for (path, reason) in &failures {
        assert!(ended.stderr.contains(path), "{path} is not named: {ended}");
        assert!(!reason.is_empty(), "{ended}");
    }
    assert_eq!(ended.number("errors"), items.len() as u64, "{ended}");
}

/// Asserts that everything but `missing` (paths below `source`) has arrived.
#[track_caller]
fn assert_rest_arrived(source: &Path, copy: &Path, missing: &[&str]) {
    assert_no_leftovers(copy);
    let expected = source.with_file_name("expected");
    let _ = fs::remove_dir_all(&expected);
    succeed(Command::new("cp").arg("-a").arg(source).arg(&expected));
    for path in missing {
        let path = expected.join(path);
        let parent = path.parent().unwrap();
        let time = fs::metadata(parent).unwrap().modified().unwrap();
        if path.is_dir() && !path.is_symlink() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }.unwrap();
        fs::File::open(parent).unwrap().set_times(fs::FileTimes::new().set_modified(time)).unwrap();
    }
    assert_same(&expected, copy);
}

/// Asserts that nothing is left but the journal of the run, by which the same command goes on.
#[track_caller]
fn assert_only_journal_left(path: &Path) {
    let left = leftovers(path);
    assert!(matches!(left.as_slice(), [journal] if journal.extension().is_some_and(|kind| kind == "run")), "{left:?}");
}

/// Asserts that all but the first large file has arrived, and that the same command completes the copy.
#[track_caller]
fn assert_goes_on(site: &Site, source: &Path) {
    let copy = site.path("copy");
    assert!(!copy.join("large0").exists());
    for path in ["large1", "large2", "odd", "d000", "d001"] {
        assert_same(&source.join(path), &copy.join(path));
    }
    site.copy(&["--ssh", &site.ssh()]).arg(source).arg(site.by_ssh("copy")).run().expect_code(0);
    assert_same(source, &copy);
    assert_no_leftovers(site.root());
}

/// Longer than what the sender reads ahead, so that a file of this size is still being read at the beginning of a run.
const LONG: u64 = 128 * MIB;

/// Changes a large file while it is read.
fn changed_while_read(change: impl FnOnce(&Path)) {
    let site = Site::new();
    let source = data::tree(&site.path("source"), 60, &Shape { large: vec![LONG, 5 * MIB], ..SMALL });
    let run = site.copy(&["--rate", "640mbit", "--ssh", &site.ssh()]).arg(&source).arg(site.by_ssh("copy")).start();
    assert!(run.wait_for_bytes(8 * MIB), "{}", run.finish());
    let time = fs::metadata(&source).unwrap().modified().unwrap();
    change(&source.join("large0"));
    fs::File::open(&source).unwrap().set_times(fs::FileTimes::new().set_modified(time)).unwrap();
    assert_failed(&run.finish(), &["source/large0"]);
    if source.join("large0").exists() {
        assert_rest_arrived(&source, &site.path("copy"), &["large0"]);
    } else {
        assert_same(&source, &site.path("copy"));
        assert_no_leftovers(&site.path("copy"));
    }
    // At rest it arrives, too.
    site.copy(&["--ssh", &site.ssh()]).arg(site.path("source/")).arg(site.by_ssh("copy")).run().expect_code(0);
    assert_same(&source, &site.path("copy"));
}

#[test]
fn a_file_is_truncated_while_it_is_read() {
    changed_while_read(|path| OpenOptions::new().write(true).open(path).unwrap().set_len(9 * MIB).unwrap());
}

#[test]
fn a_file_grows_while_it_is_read() {
    changed_while_read(|path| OpenOptions::new().append(true).open(path).unwrap().write_all(b"more").unwrap());
}

#[test]
fn a_file_is_written_to_while_it_is_read() {
    changed_while_read(|path| {
        use std::os::unix::fs::FileExt;
        OpenOptions::new().write(true).open(path).unwrap().write_all_at(b"other", LONG - MIB).unwrap();
    });
}

#[test]
fn a_file_is_replaced_while_it_is_read() {
    changed_while_read(|path| {
        // Made in no time, so that the copy is not through before.
        let other = path.with_file_name("large0.new");
        fs::File::create(&other).unwrap().set_len(LONG).unwrap();
        fs::rename(other, path).unwrap();
    });
}

#[test]
fn a_file_is_removed_while_it_is_read() {
    changed_while_read(|path| fs::remove_file(path).unwrap());
}

#[test]
fn files_vanish_before_they_are_read() {
    let site = Site::new();
    let source = data::tree(&site.path("source"), 62, &Shape { large: vec![LONG, 5 * MIB, 9 * MIB], ..SMALL });
    let run = site.copy(&["--rate", "640mbit", "--ssh", &site.ssh()]).arg(&source).arg(site.by_ssh("copy")).start();
    assert!(run.wait_for_bytes(4 * MIB), "{}", run.finish());
    let time = fs::metadata(&source).unwrap().modified().unwrap();
    fs::remove_file(source.join("large1")).unwrap();
    fs::remove_file(source.join("large2")).unwrap();
    symlink("large0", source.join("large2")).unwrap();
    fs::File::open(&source).unwrap().set_times(fs::FileTimes::new().set_modified(time)).unwrap();
    assert_failed(&run.finish(), &["source/large1", "source/large2"]);
    assert_rest_arrived(&source, &site.path("copy"), &["large2"]);
}

fn give_away(path: &Path) {
    if is_root() {
        chown(path, Some(65534), Some(65534)).unwrap();
    }
}

fn forbid(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
}

#[test]
fn sources_that_may_not_be_read() {
    let site = Site::new();
    let source = data::tree(&site.path("source"), 63, &Shape { large: vec![5 * MIB, MIB], oddities: false, ..SMALL });
    for path in ["d000/f00003", "large0", "d001"] {
        forbid(&source.join(path));
    }
    give_away(&site.directory("in"));
    let ended = site.unprivileged().args(["copy", "--json"]).arg(&source).arg("in/copy").run();
    assert_failed(&ended, &["source/d000/f00003", "source/large0", "source/d001"]);
    assert!(ended.failures().values().all(|reason| reason.to_lowercase().contains("permission")), "{ended}");
    let copy = site.path("in/copy");
    assert_no_leftovers(&copy);
    assert!(!copy.join("large0").exists() && !copy.join("d000/f00003").exists());
    assert_same(&source.join("d000/f00004"), &copy.join("d000/f00004"));
    assert_same(&source.join("large1"), &copy.join("large1"));
    // For the cleaning up.
    fs::set_permissions(source.join("d001"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn destinations_that_may_not_be_written() {
    let site = Site::new();
    let source = data::tree(&site.path("source"), 64, &Shape { large: vec![5 * MIB], oddities: false, ..SMALL });
    fs::create_dir(source.join("locked")).unwrap();
    for (name, size) in [("small", 100), ("large", 9 * MIB)] {
        data::file(&source.join("locked").join(name), size, 65);
    }
    let copy = site.directory("in/copy");
    for path in ["in", "in/copy"] {
        give_away(&site.path(path));
    }
    // Root's on the one hand, read-only on the other: not even its mode can be set.
    let locked = site.directory("in/copy/locked");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).unwrap();
    let ended = site.unprivileged().args(["copy", "--json", "source/", "in/copy"]).run();
    if is_root() {
        assert_eq!(ended.code, Some(1), "{ended}");
        assert!(ended.failures().contains_key("source/locked"), "{ended}");
        assert!(ended.stderr.contains("locked"), "{ended}");
        assert_eq!(fs::read_dir(&locked).unwrap().count(), 0);
        assert_no_leftovers(&copy);
        assert_same(&source.join("large0"), &copy.join("large0"));
        assert_same(&source.join("d001"), &copy.join("d001"));
    } else {
        // One's own directory is made writable as long as it is filled.
        ended.expect_code(0);
        assert_same(&source, &copy);
    }
}

#[test]
fn a_large_file_has_no_room() {
    let site = Site::new();
    let Some(mount) = Mount::tmpfs(site.path("full"), 24 * MIB) else { return };
    let shape = Shape { large: vec![LONG + 64 * MIB, 6 * MIB], oddities: false, ..SMALL };
    let source = data::tree(&site.path("source"), 66, &shape);
    let ended =
        site.copy(&["--rate", "640mbit", "--ssh", &site.ssh()]).arg(&source).arg(site.by_ssh("full/copy")).run();
    assert_failed(&ended, &["source/large0"]);
    assert!(ended.stderr.contains("room"), "{ended}");
    assert_rest_arrived(&source, &mount.path().join("copy"), &["large0"]);
    assert_only_journal_left(mount.path());
    // What nobody can store need not travel.
    assert!(ended.number("bytes_sent") < LONG + 32 * MIB, "{ended}");
}

#[test]
fn the_disk_becomes_full_on_the_way() {
    let site = Site::new();
    let Some(mount) = Mount::tmpfs(site.path("full"), 16 * MIB) else { return };
    // A sparse file reserves no room ahead.
    let source = site.path("sparse");
    let data = data::file(&source, 24 * MIB, 67);
    OpenOptions::new().write(true).open(&data).unwrap().set_len(60 * MIB).unwrap();
    let ended = site.copy(&["--ssh", &site.ssh()]).arg(&source).arg(site.by_ssh("full/copy")).run();
    assert_failed(&ended, &["sparse"]);
    assert!(ended.stderr.contains("full"), "{ended}");
    assert!(!mount.path().join("copy").exists(), "{ended}");
}

#[test]
fn small_files_fill_the_disk() {
    let site = Site::new();
    let Some(mount) = Mount::tmpfs(site.path("full"), 64 * MIB) else { return };
    let shape = Shape { small: 2000, largest_small: 128 * KIB, large: Vec::new(), oddities: false };
    let source = data::tree(&site.path("source"), 68, &shape);
    let ended = site.copy(&["--ssh", &site.ssh()]).arg(&source).arg(site.by_ssh("full/copy")).run();
    assert_eq!(ended.code, Some(1), "{ended}");
    assert_only_journal_left(mount.path());
    let (failures, mut arrived) = (ended.failures(), 0);
    for number in 0..shape.small {
        let name = format!("d{:03}/f{number:05}", number / 50);
        let copy = mount.path().join("copy").join(&name);
        let failed = failures.keys().any(|path| format!("source/{name}").starts_with(path));
        assert_eq!(copy.exists(), !failed, "{name}");
        if copy.exists() {
            arrived += 1;
            assert!(compare::same_contents(&source.join(&name), &copy), "{name}");
        }
    }
    assert!(arrived > 300 && !failures.is_empty(), "{arrived} arrived: {ended}");

    // What has arrived is known to the next run, also where the disk is still full.
    let again = site.copy(&["--ssh", &site.ssh()]).arg(&source).arg(site.by_ssh("full/copy")).run();
    assert_eq!(again.code, Some(1), "{again}");
    assert!(again.stderr.contains("make room"), "{again}");
    mount.resize(512 * MIB);
    let complete = site.copy(&["--ssh", &site.ssh()]).arg(&source).arg(site.by_ssh("full/copy")).run().expect_code(0);
    assert!(complete.number("taken_over_files") >= arrived, "{arrived} had arrived: {complete}");
    assert_same(&source, &mount.path().join("copy"));
}

/// The room that the journal of a run keeps for itself is none of theirs.
#[test]
fn what_just_fits_has_room() {
    for (size, files) in [(12 * MIB, &[12_100 * KIB][..]), (12 * MIB, &[6_000 * KIB, 6_100 * KIB]), (MIB, &[900 * KIB])]
    {
        let site = Site::new();
        let Some(mount) = Mount::tmpfs(site.path("full"), size) else { return };
        let source = site.directory("source");
        for (number, length) in files.iter().enumerate() {
            data::file(&source.join(format!("f{number}")), *length, 71);
        }
        site.copy(&["--ssh", &site.ssh()]).arg(&source).arg(site.by_ssh("full/copy")).run().expect_code(0);
        assert_same(&source, &mount.path().join("copy"));
        assert_no_leftovers(mount.path());
    }
}

/// A run that failed leaves its journal, which then keeps no room from others.
#[test]
fn a_journal_that_stays_keeps_no_room() {
    let site = Site::new();
    let Some(mount) = Mount::tmpfs(site.path("full"), 512 * MIB) else { return };
    let source = data::tree(&site.path("source"), 72, &SMALL);
    data::file(&source.join("too-large"), 520 * MIB, 72);
    let ended = site.copy(&["--ssh", &site.ssh()]).arg(&source).arg(site.by_ssh("full/copy")).run();
    assert_failed(&ended, &["source/too-large"]);
    assert_only_journal_left(mount.path());
    let held: u64 = leftovers(mount.path()).iter().map(|left| fs::metadata(left).unwrap().blocks() * 512).sum();
    assert!(held <= 64 * KIB, "{held} bytes");
}

#[test]
fn a_limit_of_file_sizes_stops_only_what_is_larger() {
    let site = Site::new();
    let Some(mount) = Mount::tmpfs(site.path("full"), 512 * MIB) else { return };
    let shape = Shape { small: 5, largest_small: 4 * KIB, large: vec![200 * KIB, 6 * MIB], oddities: false };
    let source = data::tree(&site.path("source"), 73, &shape);
    // In blocks of 512 bytes.
    let limited = site.program("limited", "shift\nulimit -f 100\nexec sh -c \"$*\"");
    let ended = site.copy(&["--ssh", &limited]).arg(&source).arg(site.by_ssh("full/copy")).run();
    assert_failed(&ended, &["source/large0", "source/large1"]);
    assert_rest_arrived(&source, &mount.path().join("copy"), &["large0", "large1"]);
}

#[test]
fn something_else_is_where_an_item_belongs() {
    let site = Site::new();
    let source = data::tree(&site.path("source"), 69, &Shape { large: vec![9 * MIB, MIB], oddities: false, ..SMALL });
    symlink("large0", source.join("link")).unwrap();
    let copy = site.directory("copy");
    for path in ["large0", "large1/full", "d000/f00003", "link"] {
        fs::create_dir_all(copy.join(path)).unwrap();
    }
    fs::write(copy.join("d001"), "a file").unwrap();
    let ended =
        site.copy(&["--verbose", "--ssh", &site.ssh()]).arg(site.path("source/")).arg(site.by_ssh("copy")).run();
    assert_eq!(ended.code, Some(1), "{ended}");
    let in_the_way = ["large0", "large1", "d000/f00003", "link", "d001"].map(|name| format!("source/{name}"));
    let failures = ended.failures();
    for path in &in_the_way {
        assert!(failures.contains_key(path) && ended.stderr.contains(path), "{path} is not named: {ended}");
    }
    assert!(failures.keys().all(|path| in_the_way.contains(path) || path.starts_with("source/d001/")), "{ended}");
    assert_no_leftovers(&copy);
    assert!(copy.join("large1/full").is_dir() && copy.join("link").is_dir());
    assert_eq!(fs::read(copy.join("d001")).unwrap(), b"a file");
    assert_same(&source.join("d000/f00004"), &copy.join("d000/f00004"));
}

#[test]
fn a_name_is_too_long() {
    let site = Site::new();
    let source = data::file(&site.path("source"), 1000, 70);
    let name = "n".repeat(300);
    let ended = site.copy(&["--ssh", &site.ssh()]).arg(&source).arg(site.by_ssh(&name)).run();
    assert!(matches!(ended.code, Some(1 | 2)), "{ended}");
    assert!(ended.stderr.contains("255") || ended.stderr.contains("too long"), "{ended}");
    assert_no_leftovers(site.root());
}

/// A path longer than the 4096 bytes that a system call takes at once.
#[test]
fn a_path_is_longer_than_any_call_takes() {
    let site = Site::new();
    let source = site.directory("source");
    let contents = Noise::new(71).bytes(9 << 20);
    let bottom = walk_down(&source, |directory, name| rustix::fs::mkdirat(directory, name, 0o755.into()).unwrap());
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&bottom, "large", flags, 0o644.into()).unwrap();
    fs::File::from(file).write_all(&contents).unwrap();

    site.copy(&["--ssh", &site.ssh()]).arg(&source).arg(site.by_ssh("copy")).run().expect_code(0);
    let bottom = walk_down(&site.path("copy"), |_, _| {});
    let file = rustix::fs::openat(&bottom, "large", OFlags::RDONLY | OFlags::CLOEXEC, 0o644.into()).unwrap();
    let mut arrived = Vec::new();
    fs::File::from(file).read_to_end(&mut arrived).unwrap();
    assert!(arrived == contents);
}

/// Goes down through directories with long names, 6000 bytes of them.
fn walk_down(root: &Path, visit: impl Fn(&OwnedFd, &str)) -> OwnedFd {
    let name = "n".repeat(250);
    let mut directory = OwnedFd::from(fs::File::open(root).unwrap());
    for _ in 0..24 {
        visit(&directory, &name);
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        directory = rustix::fs::openat(&directory, name.as_str(), flags, 0o755.into()).unwrap();
    }
    directory
}

#[test]
fn the_destination_cannot_hold_links() {
    let site = Site::new();
    let source = data::tree(&site.path("source"), 72, &Shape { large: vec![5 * MIB], ..SMALL });
    let refusals = [Refusal::of(libc::SYS_symlinkat, libc::EPERM)];
    let mut command = site.copy(&["--ssh", &site.ssh()]);
    let ended = refuse(command.arg(&source).arg(site.by_ssh("copy")), &refusals).run();
    assert_failed(&ended, &["source/odd/link", "source/odd/dangling", "source/odd/up"]);
    assert_rest_arrived(&source, &site.path("copy"), &["odd/link", "odd/dangling", "odd/up"]);
}

/// Large files of which one is longer than the place where the disk is broken.
fn with_long_file(site: &Site) -> std::path::PathBuf {
    data::tree(&site.path("source"), 73, &Shape { large: vec![24 * MIB, 7 * MIB, 5 * MIB], ..SMALL })
}

#[test]
fn the_source_cannot_be_read_everywhere() {
    let site = Site::new();
    let source = with_long_file(&site);
    let mut command = site.copy(&["--ssh", &site.ssh()]);
    let broken = unreadable_beyond(12 << 20);
    let ended = refuse(command.arg(&source).arg(site.by_ssh("copy")), &broken).run();
    assert_failed(&ended, &["source/large0"]);
    assert_goes_on(&site, &source);
}

#[test]
fn the_destination_cannot_be_written_everywhere() {
    let site = Site::new();
    let source = with_long_file(&site);
    let mut command = site.copy(&["--ssh", &site.ssh()]);
    let broken = unwritable_beyond(12 << 20);
    let ended = refuse(command.arg(&source).arg(site.by_ssh("copy")), &broken).run();
    assert_failed(&ended, &["source/large0"]);
    assert_goes_on(&site, &source);
}

#[test]
fn nothing_can_be_made_durable() {
    let site = Site::new();
    let source = with_long_file(&site);
    let mut command = site.copy(&["--ssh", &site.ssh()]);
    let broken = [
        Refusal::of(libc::SYS_io_uring_setup, libc::ENOSYS),
        Refusal::of(libc::SYS_fsync, libc::EIO),
        Refusal::of(libc::SYS_fdatasync, libc::EIO),
        Refusal::of(libc::SYS_syncfs, libc::EIO),
    ];
    let ended = refuse(command.arg(&source).arg(site.by_ssh("copy")), &broken).run();
    // Whatever is not known to be durable must not be published.
    assert_eq!(ended.code, Some(1), "{ended}");
    assert_only_journal_left(site.root());
    for name in ["large0", "large1", "d000/f00003"] {
        assert!(!site.path("copy").join(name).exists(), "{name} was published: {ended}");
    }
}
