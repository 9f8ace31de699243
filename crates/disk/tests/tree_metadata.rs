//! Mode, times, owner and extended attributes come out exactly as asked, whatever was there before.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use icdc_disk::tree::{
    AttributeKinds, Directory, FileTime, Metadata, Name, Special, Stat, Tree, TreeError, device_node, device_number,
};
use tempfile::TempDir;

fn root() -> (TempDir, Directory) {
    let temporary = tempfile::tempdir().unwrap();
    let root = Tree::open(temporary.path()).unwrap().root().clone();
    (temporary, root)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn made(root: &Directory, mode: u16) -> (Name, File) {
    let name = Name::new(b"file").unwrap();
    let mut file = root.create_file(&name, mode).unwrap();
    file.write_all(b"contents").unwrap();
    (name, file)
}

const THEN: FileTime = FileTime { seconds: 1_234_567_890, nanos: 123_456_789 };

#[test]
fn every_mode_and_time_is_restored() {
    let (_temporary, root) = root();
    let (name, file) = made(&root, 0o666);
    let times = [THEN, FileTime { seconds: -1, nanos: 999_999_999 }, FileTime::default()];
    for mode in [0o000, 0o444, 0o640, 0o644, 0o777, 0o1777, 0o2755, 0o4755, 0o6711, 0o7777] {
        for mtime in times {
            let wanted = Metadata { mode: Some(mode), mtime: Some(mtime), ..Metadata::default() };
            root.set_metadata(&name, &file, &wanted).unwrap();
            let stat = root.stat(&name).unwrap();
            assert_eq!((stat.mode, stat.mtime), (mode, mtime), "{mode:o}");
        }
    }
}

#[test]
fn the_access_time_stays() {
    let (temporary, root) = root();
    let (name, file) = made(&root, 0o644);
    let before = std::fs::metadata(temporary.path().join("file")).unwrap();
    root.set_metadata(&name, &file, &Metadata { mtime: Some(THEN), ..Metadata::default() }).unwrap();
    let after = std::fs::metadata(temporary.path().join("file")).unwrap();
    let access = |metadata: &std::fs::Metadata| (metadata.atime(), metadata.atime_nsec());
    assert_eq!(access(&before), access(&after));
    assert_eq!(after.mtime_nsec(), 123_456_789);
}

#[test]
fn the_owner_is_given_before_the_mode_that_it_would_clear() {
    if !is_root() {
        eprintln!("skipped: only root can give files away");
        return;
    }
    let (_temporary, root) = root();
    let (name, file) = made(&root, 0o600);
    let owner = Some((12345, 23456));
    let wanted = Metadata { mode: Some(0o6755), mtime: Some(THEN), owner, ..Metadata::default() };
    for _ in 0..2 {
        root.set_metadata(&name, &file, &wanted).unwrap();
        let stat = root.stat(&name).unwrap();
        assert_eq!((stat.uid, stat.gid, stat.mode, stat.mtime), (12345, 23456, 0o6755, THEN));
    }
    let wanted = Metadata { owner: Some((u32::MAX, 1)), ..Metadata::default() };
    let error = root.set_metadata(&name, &file, &wanted).unwrap_err();
    assert!(error.to_string().contains("its owner cannot be set"), "the kernel's 'leave as is' is no owner: {error}");
}

#[test]
fn links_have_times_and_owners_of_their_own() {
    let (temporary, root) = root();
    std::fs::write(temporary.path().join("target"), "").unwrap();
    let target = root.stat(&Name::new(b"target").unwrap()).unwrap();
    let link = Name::new(b"link").unwrap();
    root.make_symlink(b"target", &link).unwrap();
    let owner = is_root().then_some((12345, 23456));
    let wanted = Metadata { mode: Some(0o600), mtime: Some(THEN), owner, ..Metadata::default() };
    root.set_link_metadata(&link, &wanted).unwrap();
    let stat = root.stat(&link).unwrap();
    assert_eq!(stat.mtime, THEN);
    assert_eq!(owner.unwrap_or((stat.uid, stat.gid)), (stat.uid, stat.gid));
    assert!(target.same_version(&root.stat(&Name::new(b"target").unwrap()).unwrap()));
}

#[test]
fn a_directory_gets_its_own() {
    let (_temporary, root) = root();
    let name = Name::new(b"directory").unwrap();
    let directory = root.make_directory(&name, 0o700).unwrap();
    directory.create_file(&Name::new(b"file").unwrap(), 0o600).unwrap();
    let wanted = Metadata { mode: Some(0o1555), mtime: Some(THEN), ..Metadata::default() };
    directory.set_own_metadata(&wanted).unwrap();
    let stat = root.stat(&name).unwrap();
    assert_eq!((stat.mode, stat.mtime), (0o1555, THEN));
}

#[test]
fn attributes_travel_unless_they_would_give_rights() {
    let (_temporary, root) = root();
    let (name, file) = made(&root, 0o640);
    let pairs = vec![
        (b"user.a".to_vec(), b"\0\xff value".to_vec()),
        (b"user.b".to_vec(), vec![7; 2000]),
        (b"user.empty".to_vec(), Vec::new()),
    ];
    let kinds = AttributeKinds::USER;
    let wanted = Metadata { mode: Some(0o444), mtime: Some(THEN), xattrs: Some(&pairs), kinds, ..Metadata::default() };
    match root.set_metadata(&name, &file, &wanted) {
        Err(TreeError::Attribute { attribute, .. }) => {
            eprintln!("skipped: the file system takes no {attribute}");
            return;
        }
        outcome => outcome.unwrap(),
    }
    assert_eq!(root.xattrs(&name, &file, kinds).unwrap().carried, pairs);
    let stat = root.stat(&name).unwrap();
    assert_eq!((stat.mode, stat.mtime), (0o444, THEN));
    for refused in ["security.selinux", "trusted.overlay.opaque", "system.other", "user", ""] {
        let pairs = vec![(refused.as_bytes().to_vec(), b"x".to_vec())];
        let wanted = Metadata { xattrs: Some(&pairs), kinds, ..Metadata::default() };
        let error = root.set_metadata(&name, &file, &wanted).unwrap_err();
        assert!(matches!(error, TreeError::Attribute { .. }), "{refused}: {error}");
    }
    assert_eq!(root.xattrs(&name, &file, kinds).unwrap().carried, pairs);

    let directory = root.make_directory(&Name::new(b"directory").unwrap(), 0o755).unwrap();
    directory.set_own_metadata(&Metadata { xattrs: Some(&pairs), kinds, ..Metadata::default() }).unwrap();
    assert_eq!(directory.own_xattrs(kinds).unwrap().carried, pairs);
}

#[test]
fn an_acl_travels_and_keeps_the_mode() {
    let (_temporary, root) = root();
    let (name, file) = made(&root, 0o640);
    // Version 2; user::rw-, user:12345:rw-, group::r--, mask::rw-, other::---
    let entries: [(u16, u16, u32); 5] =
        [(1, 6, u32::MAX), (2, 6, 12345), (4, 4, u32::MAX), (0x10, 6, u32::MAX), (0x20, 0, u32::MAX)];
    let mut acl = 2u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        acl.extend(tag.to_le_bytes());
        acl.extend(rights.to_le_bytes());
        acl.extend(id.to_le_bytes());
    }
    let pairs = vec![(b"system.posix_acl_access".to_vec(), acl)];
    let kinds = AttributeKinds::ACL;
    let wanted = Metadata { mode: Some(0o660), xattrs: Some(&pairs), kinds, ..Metadata::default() };
    if let Err(error) = root.set_metadata(&name, &file, &wanted) {
        assert!(matches!(error, TreeError::Attribute { .. }), "{error}");
        eprintln!("skipped: {error}");
        return;
    }
    assert_eq!(root.xattrs(&name, &file, kinds).unwrap().carried, pairs);
    assert_eq!(root.stat(&name).unwrap().mode, 0o660);
}

#[test]
fn pipes_and_sockets_are_made_and_described_without_being_opened() {
    let (_temporary, root) = root();
    for (special, letter) in [(Special::Pipe, 'p'), (Special::Socket, 's')] {
        let name = Name::new(&[letter as u8]).unwrap();
        root.make_special(special, &name, 0o600).unwrap();
        let found = root.stat(&name).unwrap();
        assert_eq!((found.special(), found.kind.letter()), (Some(special), letter));
        assert!(root.make_special(special, &name, 0o600).unwrap_err().is_existing());
        let wanted = Metadata { mode: Some(0o1751), mtime: Some(THEN), ..Metadata::default() };
        root.set_special_metadata(&name, &found, &wanted).unwrap();
        let stat = root.stat(&name).unwrap();
        assert_eq!((stat.mode, stat.mtime), (0o1751, THEN));
        // Of what was looked at, and of nothing else.
        root.hard_link(&root, &name, &Name::new(b"other").unwrap()).unwrap();
        let error = root.set_special_metadata(&name, &stat, &wanted).unwrap_err();
        assert!(matches!(error, TreeError::NotOurs { .. }), "{error}");
        root.remove_file(&Name::new(b"other").unwrap()).unwrap();
        root.remove_file(&name).unwrap();
        root.make_symlink(b"elsewhere", &name).unwrap();
        let error = root.set_special_metadata(&name, &stat, &wanted).unwrap_err();
        assert!(matches!(error, TreeError::NotOurs { .. }), "{error}");
    }
    assert_eq!(root.stat(&made(&root, 0o640).0).unwrap().special(), None);
}

#[test]
fn device_nodes_are_those_of_root() {
    let (_temporary, root) = root();
    let name = Name::new(b"null").unwrap();
    let special = Special::CharacterDevice(device_node(1, 3));
    match root.make_special(special, &name, 0o600) {
        Ok(()) => assert_eq!(root.stat(&name).unwrap().special(), Some(special)),
        Err(error) => assert!(matches!(error, TreeError::NotPermitted { .. }), "{error}"),
    }
    assert_eq!(device_number(device_node(259, 70_000)), (259, 70_000));
}

#[test]
fn bits_of_a_mode_that_are_kept_stay() {
    let (_temporary, root) = root();
    let directory = root.make_directory(&Name::new(b"d").unwrap(), 0o755).unwrap();
    let mode = |mode, kept_mode| {
        directory.set_own_metadata(&Metadata { mode: Some(mode), kept_mode, ..Metadata::default() }).unwrap();
        directory.own_stat().unwrap().mode
    };
    assert_eq!([mode(0o2750, 0), mode(0o755, 0o2000), mode(0o755, 0)], [0o2750, 0o2755, 0o755]);
}

#[test]
fn a_change_of_a_source_shows() {
    let (_temporary, root) = root();
    let (name, mut file) = made(&root, 0o644);
    let before = root.stat(&name).unwrap();
    assert_eq!(before, Stat::of(&file).unwrap());
    assert!(before.same_version(&root.stat(&name).unwrap()));
    file.write_all(b"more").unwrap();
    assert!(!before.same_version(&Stat::of(&file).unwrap()));
}

#[test]
fn tmpfs_serves_as_well() {
    let Ok(temporary) = tempfile::tempdir_in(Path::new("/dev/shm")) else {
        eprintln!("skipped: no /dev/shm");
        return;
    };
    let root = Tree::open(temporary.path()).unwrap().root().clone();
    let (name, file) = made(&root, 0o600);
    let wanted = Metadata { mode: Some(0o754), mtime: Some(THEN), ..Metadata::default() };
    root.set_metadata(&name, &file, &wanted).unwrap();
    assert!(root.xattrs(&name, &file, AttributeKinds::USER).unwrap().carried.is_empty());
    root.sync().unwrap();
    root.file_system().unwrap().sync().unwrap();
    let stat = root.stat(&name).unwrap();
    assert_eq!((stat.mode, stat.mtime), (0o754, THEN));
}
