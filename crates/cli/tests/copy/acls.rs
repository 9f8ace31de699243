//! `--preserve acl`: access control lists of files and directories.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, XattrFlags, getxattr, mknodat, setxattr};

use crate::support::mounts::Mount;
use crate::support::{MIB, Route, RoutedSite, Site, Start, assert_same, data, is_root, skip};

pub(super) const ACCESS: &str = "system.posix_acl_access";
pub(super) const DEFAULT: &str = "system.posix_acl_default";
const ACLS: [&str; 2] = ["--preserve", "mode,times,acl"];

/// A list by which this user and this group may do what the bits say, and others nothing.
pub(super) fn list(user: u32, rights: u16) -> Vec<u8> {
    const NONE: u32 = u32::MAX;
    let entries: [(u16, u16, u32); 6] =
        [(1, 7, NONE), (2, rights, user), (4, 5, NONE), (8, 4, user + 1), (16, 7, NONE), (32, 0, NONE)];
    let bytes = entries.iter().flat_map(|(tag, rights, id)| {
        tag.to_le_bytes().into_iter().chain(rights.to_le_bytes()).chain(id.to_le_bytes())
    });
    2_u32.to_le_bytes().into_iter().chain(bytes).collect()
}

/// False, with the reason on standard error, where there are no lists.
pub(super) fn set(path: &Path, name: &str, value: &[u8]) -> bool {
    let set = setxattr(path, name, value, XattrFlags::empty());
    set.inspect_err(|error| skip(&format!("{name} cannot be set here: {error}"))).is_ok()
}

pub(super) fn get(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 1024];
    let length = getxattr(path, name, &mut value[..]).ok()?;
    value.truncate(length);
    Some(value)
}

const NAMES: [&str; 5] = ["", "small", "large", "directory", "directory/plain"];

/// A tree with lists; false where there are none.
fn tree(path: &Path) -> bool {
    fs::create_dir_all(path.join("directory")).unwrap();
    data::file(&path.join("small"), 9, 1);
    data::file(&path.join("large"), 5 * MIB, 1);
    fs::write(path.join("directory/plain"), "plain").unwrap();
    set(&path.join("small"), ACCESS, &list(1234, 4))
        && set(&path.join("large"), ACCESS, &list(1234, 6))
        && set(&path.join("directory"), ACCESS, &list(77, 5))
        && set(&path.join("directory"), DEFAULT, &list(78, 7))
}

fn assert_same_lists(source: &Path, copy: &Path) {
    for name in NAMES {
        for kind in [ACCESS, DEFAULT] {
            assert_eq!(get(&source.join(name), kind), get(&copy.join(name), kind), "{name} {kind}");
        }
    }
}

#[test]
fn lists_arrive_and_are_amended() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let (source, copy) = (routed.path("tree"), routed.path("copy"));
        if !tree(&source) {
            return;
        }
        routed.copy(&ACLS, &["tree/"], "copy").expect_code(0);
        assert_same(&source, &copy);
        assert_same_lists(&source, &copy);
        let again = [&ACLS[..], &["--skip-equal"]].concat();
        let changed = || fs::metadata(copy.join("large")).map(|found| (found.ctime(), found.ctime_nsec())).unwrap();
        let before = changed();
        let ended = routed.copy(&again, &["tree/"], "copy").expect_code(0);
        assert_eq!((ended.number("bytes_sent"), changed()), (0, before), "{route:?}: {ended}");
        // Another list, none any more, and one that only the copy has.
        assert!(set(&source.join("large"), ACCESS, &list(4321, 1)));
        rustix::fs::removexattr(source.join("small"), ACCESS).unwrap();
        assert!(set(&copy.join("directory/plain"), ACCESS, &list(9, 7)));
        let ended = routed.copy(&again, &["tree/"], "copy").expect_code(0);
        assert_eq!(ended.number("bytes_sent"), 0, "{route:?}: {ended}");
        assert_same(&source, &copy);
        assert_same_lists(&source, &copy);
        // Without the word nothing is carried, and nothing taken away.
        routed.copy(&["--preserve", "mode,times,xattr"], &["tree/"], "without").expect_code(0);
        assert_eq!(get(&routed.path("without/large"), ACCESS), None, "{route:?}");
        let ended = routed.copy(&["--skip-equal"], &["tree/"], "copy").expect_code(0);
        assert_same_lists(&source, &copy);
        assert_eq!(ended.number("bytes_sent"), 0, "{route:?}: {ended}");
    }
}

#[test]
fn the_mode_is_that_of_the_source_whatever_a_directory_passes_on() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let (source, copy) = (routed.path("tree"), routed.site.directory("copy"));
        if !tree(&source) || !set(&copy, DEFAULT, &list(65_533, 7)) {
            return;
        }
        fs::set_permissions(source.join("directory/plain"), Permissions::from_mode(0o604)).unwrap();
        routed.copy(&ACLS, &["tree"], "copy").expect_code(0);
        assert_same(&source, &copy.join("tree"));
        assert_same_lists(&source, &copy.join("tree"));
    }
}

#[test]
fn a_pipe_opens_to_nobody_by_a_list_that_its_directory_passes_on() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        fs::create_dir(routed.path("tree")).unwrap();
        fs::create_dir(routed.path("copy")).unwrap();
        let pipe = routed.path("tree/pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::from(0o660), 0).unwrap();
        fs::set_permissions(&pipe, Permissions::from_mode(0o660)).unwrap();
        if !set(&routed.path("copy"), DEFAULT, &list(1234, 6)) {
            return;
        }
        let options = ["--skip-equal", "--preserve", "mode,times,acl,specials"];
        let copied = routed.path("copy/pipe");
        routed.copy(&options, &["tree/"], "copy").expect_code(0);
        assert_eq!(get(&copied, ACCESS), None, "{route:?}");
        assert_eq!(fs::metadata(&copied).unwrap().mode() & 0o7777, 0o660, "{route:?}");
    }
}

#[test]
fn a_file_system_without_lists_is_told_for_each_item() {
    let site = Site::new();
    let source = site.path("tree");
    if !is_root() {
        return skip("mounting needs root");
    }
    if !tree(&source) {
        return;
    }
    let Some(mount) = Mount::ramfs(site.path("ramfs")) else { return };
    let ended = site.copy(&ACLS).arg("tree/").arg(mount.path().join("copy")).run().expect_code(1);
    for name in ["small", "large", "directory"] {
        assert!(ended.failures().keys().any(|path| path.ends_with(name)), "{name}: {ended}");
    }
    assert!(ended.stderr.contains("leave acl out of --preserve"), "{ended}");
    assert_eq!(fs::read(mount.path().join("copy/directory/plain")).unwrap(), b"plain", "{ended}");
}

#[test]
fn attributes_of_the_security_namespace_go_with_the_owner_on_request() {
    if !is_root() {
        return skip("labels and owners need root");
    }
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        fs::create_dir(routed.path("tree")).unwrap();
        data::file(&routed.path("tree/small"), 9, 1);
        data::file(&routed.path("tree/large"), 5 * MIB, 1);
        let name = "security.icdc-test";
        for path in ["tree", "tree/small", "tree/large"] {
            if setxattr(routed.path(path), name, b"label", XattrFlags::empty()).is_err() {
                return skip("no labels can be set here");
            }
        }
        let ended = routed.copy(&["--preserve", "all"], &["tree/"], "all").expect_code(0);
        assert_eq!(crate::noticed::noticed(&ended, "attributes_left_out").0, 3, "{route:?}: {ended}");
        let labelled = ["--preserve", "mode,times,owner,security"];
        let ended = routed.copy(&labelled, &["tree/"], "with").expect_code(0);
        assert_eq!(ended.stderr, "", "{route:?}: {ended}");
        for path in ["", "small", "large"] {
            assert_eq!(get(&routed.path("all").join(path), name), None, "{route:?} {path}");
            assert_eq!(get(&routed.path("with").join(path), name).as_deref(), Some(&b"label"[..]), "{route:?} {path}");
        }
        let again = routed.copy(&[&labelled[..], &["--skip-equal"]].concat(), &["tree/"], "with").expect_code(0);
        assert_eq!(again.number("bytes_sent"), 0, "{route:?}: {again}");
    }
    let refused =
        Command::new(crate::support::ICDC).args(["copy", "--preserve", "security", "a", "b"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}
