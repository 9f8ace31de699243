//! What is restored where rights are in the way: read-only items of an ordinary user, ACLs that a
//! directory passes on, attributes that do not fit, and directories that change nothing.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use rustix::fs::{XattrFlags, getxattr, setxattr};

use crate::support::compare::same_contents;
use crate::support::mounts::Mount;
use crate::support::refusals::{Refusal, refuse};
use crate::support::{MIB, Site, Start, assert_no_leftovers, data, open_to_all, skip};

const ACCESS_ACL: &str = "system.posix_acl_access";
const DEFAULT_ACL: &str = "system.posix_acl_default";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// False, with the reason on standard error, where the file system has no such attributes.
fn set_attribute(path: &Path, name: &str, value: &[u8]) -> bool {
    let set = setxattr(path, name, value, XattrFlags::empty());
    set.inspect_err(|error| skip(&format!("{name} cannot be set here: {error}"))).is_ok()
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 1024];
    let length = getxattr(path, name, &mut value[..]).ok()?;
    value.truncate(length);
    Some(value)
}

/// An ACL of a directory by which its owner and user 65533 may do everything, its group may read, and
/// others nothing.
fn default_acl() -> Vec<u8> {
    const NONE: u32 = u32::MAX;
    let entries: [(u16, u16, u32); 5] = [(1, 7, NONE), (2, 7, 65533), (4, 5, NONE), (16, 7, NONE), (32, 0, NONE)];
    let bytes = entries.iter().flat_map(|(tag, rights, id)| {
        tag.to_le_bytes().into_iter().chain(rights.to_le_bytes()).chain(id.to_le_bytes())
    });
    2_u32.to_le_bytes().into_iter().chain(bytes).collect()
}

#[test]
fn read_only_items_of_an_ordinary_user_keep_their_attributes() {
    let site = Site::new();
    let (source, target) = (site.directory("source"), site.directory("target"));
    open_to_all(&target);
    data::file(&source.join("small"), 1000, 1);
    data::file(&source.join("large"), 5 * MIB, 2);
    fs::create_dir(source.join("directory")).unwrap();
    for name in ["small", "large", "directory"] {
        if !set_attribute(&source.join(name), "user.origin", b"here") {
            return;
        }
    }
    for (name, mode) in [("small", 0o444), ("large", 0o444), ("directory", 0o555)] {
        set_mode(&source.join(name), mode);
    }
    for preserved in ["mode,times,xattr", "xattr"] {
        let place = format!("target/{}", preserved.len());
        let words = ["copy", "--json", "--preserve", preserved, "source", &place];
        site.unprivileged().args(words).run().expect_code(0);
        for name in ["small", "large", "directory"] {
            let copy = site.path(&place).join(name);
            assert_eq!(attribute(&copy, "user.origin").as_deref(), Some(&b"here"[..]), "{preserved}: {name}");
            if preserved != "xattr" {
                assert_eq!(mode(&copy), mode(&source.join(name)), "{name}");
            }
        }
        assert_no_leftovers(&site.path(&place));
    }
}

#[test]
fn a_read_only_top_directory_is_copied_again() {
    let site = Site::new();
    let (source, target) = (site.directory("source"), site.directory("target"));
    open_to_all(&target);
    data::file(&source.join("small"), 1000, 1);
    set_mode(&source, 0o555);
    for round in 0..2 {
        if round == 1 {
            set_mode(&source, 0o755);
            fs::write(source.join("small"), "another version").unwrap();
            set_mode(&source, 0o555);
        }
        site.unprivileged().args(["copy", "--json", "source/", "target/copy"]).run().expect_code(0);
        let copy = site.path("target/copy");
        assert_eq!(mode(&copy), 0o555, "round {round}");
        assert_eq!(fs::read(copy.join("small")).unwrap(), fs::read(source.join("small")).unwrap(), "round {round}");
        assert_no_leftovers(&copy);
    }
}

#[test]
fn files_get_what_a_new_file_gets_where_no_mode_is_preserved() {
    let site = Site::new();
    let (source, target) = (site.directory("source"), site.directory("target"));
    data::file(&source.join("small"), 1000, 1);
    data::file(&source.join("large"), 5 * MIB, 2);
    let assert_like_new = || {
        let _ = fs::remove_file(target.join("new"));
        fs::write(target.join("new"), "new").unwrap();
        let (expected, acl) = (mode(&target.join("new")), attribute(&target.join("new"), ACCESS_ACL));
        site.copy(&["--preserve", "none", "source/", "target"]).run().expect_code(0);
        for name in ["small", "large"] {
            let copy = target.join(name);
            assert_eq!(mode(&copy), expected, "{name}: {:o} and not {expected:o}", mode(&copy));
            assert_eq!(attribute(&copy, ACCESS_ACL), acl, "{name}");
        }
    };
    assert_like_new();
    if set_attribute(&target, DEFAULT_ACL, &default_acl()) {
        assert_like_new();
        assert_eq!(mode(&target.join("large")) & 0o007, 0);
    }
}

#[test]
fn an_acl_that_the_source_does_not_have_is_not_inherited() {
    let site = Site::new();
    let (source, target) = (site.directory("source"), site.directory("target"));
    data::file(&source.join("small"), 1000, 1);
    data::file(&source.join("large"), 5 * MIB, 2);
    fs::create_dir(source.join("directory")).unwrap();
    if !set_attribute(&target, DEFAULT_ACL, &default_acl()) {
        return;
    }
    for _ in 0..2 {
        site.copy(&["--preserve", "mode,times,acl", "source", "target/copy"]).run().expect_code(0);
        for name in ["small", "large", "directory"] {
            let (original, copy) = (source.join(name), target.join("copy").join(name));
            assert_eq!(attribute(&copy, ACCESS_ACL), None, "{name}");
            assert_eq!(attribute(&copy, DEFAULT_ACL), None, "{name}");
            assert_eq!(mode(&copy), mode(&original), "{name}");
        }
    }
}

#[test]
fn attributes_that_do_not_fit_are_not_told_as_a_full_disk() {
    let site = Site::new();
    let Some(from) = Mount::tmpfs(site.path("from"), 4 * MIB) else { return };
    let Some(to) = Mount::ext4(site.path("to"), 16 * MIB, &["-b", "1024"]) else { return };
    let file = from.path().join("file");
    fs::write(&file, "contents").unwrap();
    if !set_attribute(&file, "user.long", &[b'x'; 9000]) {
        return;
    }
    let mut copy = site.copy(&["--preserve", "all"]);
    let ended = copy.arg(&file).arg(to.path().join("file")).run().expect_code(1);
    assert!(ended.stderr.contains("user.long") && !ended.stderr.contains("goes on where it stopped"), "{ended}");
}

/// Has `lsattr` show this of a file or directory; false, with the reason on standard error, where that
/// cannot be had.
pub(crate) fn mark(change: &str, path: &Path) -> bool {
    let marked = Command::new("chattr").arg(change).arg(path).output();
    let is_marked = marked.as_ref().is_ok_and(|output| output.status.success());
    if !is_marked {
        skip(&format!("chattr {change}: {marked:?}"));
    }
    is_marked
}

#[test]
fn what_cannot_be_changed_is_told_with_the_reason_and_nothing_is_left() {
    let site = Site::new();
    let Some(mount) = Mount::ext4(site.path("target"), 32 * MIB, &[]) else { return };
    let (source, target) = (site.directory("source"), mount.path());
    data::file(&source.join("large"), 5 * MIB, 1);
    let (log, kept) = (target.join("log"), target.join("kept"));
    fs::create_dir(&log).unwrap();
    File::create(&kept).unwrap();
    if !mark("+a", &log) || !mark("+i", &kept) {
        return;
    }
    for _ in 0..2 {
        let ended = site.copy(&["source/large"]).arg(&log).run();
        assert!(ended.code != Some(0) && ended.stderr.contains("append-only"), "{ended}");
        assert_eq!(fs::read_dir(&log).unwrap().count(), 0, "{ended}");
    }
    let ended = site.copy(&["source/large"]).arg(&kept).run().expect_code(1);
    assert!(ended.stderr.contains("immutable") && !ended.stderr.contains("run as root"), "{ended}");
    // Likewise below the destination, where nothing is sent either.
    fs::create_dir(source.join("log")).unwrap();
    data::file(&source.join("log/inner"), 5 * MIB, 2);
    fs::remove_file(source.join("large")).unwrap();
    for _ in 0..2 {
        let ended = site.copy(&["source/"]).arg(target).run().expect_code(1);
        assert!(ended.stderr.contains("append-only"), "{ended}");
        assert_eq!((fs::read_dir(&log).unwrap().count(), ended.number("bytes_sent")), (0, 0), "{ended}");
    }
    mark("-a", &log);
    // What is to be kept or renamed, and not the name that it would get, is what stays.
    fs::remove_dir_all(&log).unwrap();

    fs::create_dir(target.join("copy")).unwrap();
    fs::create_dir(target.join("empty")).unwrap();
    fs::write(target.join("copy/extra"), "extra").unwrap();
    mark("+i", &target.join("copy/extra"));
    let mut mirror = site.copy(&["--delete", "--yes-empty", "--backup-dir", "old"]);
    let ended = mirror.arg(target.join("empty/")).arg(target.join("copy")).run().expect_code(1);
    assert!(ended.stderr.contains("copy/extra: may not be moved to") && ended.stderr.contains("immutable"), "{ended}");
    let mut rename = site.icdc(&["mv"]);
    let ended = rename.arg(target.join("copy/extra")).arg(target.join("other")).run().expect_code(1);
    assert!(ended.stderr.contains("copy/extra: may not be renamed to"), "{ended}");
    mark("-i", &target.join("copy/extra"));
    mark("-i", &kept);
}

#[test]
fn files_arrive_without_their_mode_where_none_can_be_set() {
    let site = Site::new();
    let source = site.directory("source");
    for (name, size) in [("small", 100), ("medium", 3 * MIB), ("large", 5 * MIB), ("larger", 9 * MIB)] {
        data::file(&source.join(name), size, 1);
        set_mode(&source.join(name), 0o604);
    }
    fs::create_dir(source.join("directory")).unwrap();
    for (preserve, errno) in [("mode,times", libc::EPERM), ("times", libc::EPERM), ("mode,times", libc::ENOSYS)] {
        let mut copy = site.copy(&["--preserve", preserve, "source/", "copy"]);
        let refusals = [libc::SYS_fchmod, libc::SYS_fchmodat].map(|call| Refusal::of(call, errno));
        let ended = refuse(&mut copy, &refusals).run().expect_code(0);
        assert_eq!(ended.stderr.matches("arrived without the mode").count(), 1, "{ended}");
        for name in ["small", "medium", "large", "larger"] {
            let (source, copy) = (source.join(name), site.path("copy").join(name));
            assert!(same_contents(&source, &copy), "{name}: {ended}");
            assert_eq!(fs::metadata(&source).unwrap().mtime(), fs::metadata(&copy).unwrap().mtime(), "{name}");
        }
        assert_no_leftovers(&site.path("copy"));
        fs::remove_dir_all(site.path("copy")).unwrap();
    }
}
