//! Directories by descriptor: what every operation does, and what it refuses by name.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use icdc_disk::tree::{
    Directory, Followed, Kind, MAX_NAME, Name, NameError, StagingKind, StagingName, Tree, TreeError, is_staging,
    printable, resembles_staging, try_lock,
};
use tempfile::TempDir;

fn name(bytes: impl AsRef<[u8]>) -> Name {
    Name::new(bytes.as_ref()).expect("a good name")
}

fn root() -> (TempDir, Directory) {
    let temporary = tempfile::tempdir().unwrap();
    let root = Tree::open(temporary.path()).unwrap().root().clone();
    (temporary, root)
}

fn open_descriptors() -> BTreeSet<std::path::PathBuf> {
    std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_directory_is_found_again_by_its_whereabouts() {
    let (temporary, root) = root();
    let top = root.make_directory(&name("top"), 0o700).unwrap();
    let place = {
        let below = top.make_directory(&name("a"), 0o700).unwrap().make_directory(&name("b"), 0o700).unwrap();
        std::fs::write(temporary.path().join("top/a/b/file"), "").unwrap();
        below.whereabouts()
    };
    for from in [&top, &root] {
        assert!(from.reopen(&place).unwrap().stat(&name("file")).is_ok());
    }
    assert!(top.reopen(&top.whereabouts()).unwrap().stat(&name("a")).is_ok());
    let elsewhere = root.make_directory(&name("elsewhere"), 0o700).unwrap();
    assert!(matches!(elsewhere.reopen(&place), Err(TreeError::Escapes { .. })));
    assert!(matches!(top.reopen(&root.whereabouts()), Err(TreeError::Escapes { .. })));
    std::fs::rename(temporary.path().join("top/a"), temporary.path().join("a")).unwrap();
    assert!(matches!(top.reopen(&place), Err(TreeError::Missing { .. })));
    symlink("../a", temporary.path().join("top/a")).unwrap();
    assert!(matches!(top.reopen(&place), Err(TreeError::NotADirectory { .. })));
}

#[test]
fn only_single_components_are_names() {
    assert_eq!(Name::new(b""), Err(NameError::Empty));
    for bad in [&b"."[..], b"..", b"a/b", b"/", b"a\0b", &[b'n'; MAX_NAME + 1]] {
        assert!(Name::new(bad).is_err(), "{bad:?}");
    }
    for good in [&b"..."[..], b".a", b"-rf", b"\xff\xfe", b"~", b"a\nb", &[b'n'; MAX_NAME]] {
        assert_eq!(Name::new(good).unwrap().as_bytes(), good);
    }
}

#[test]
fn names_of_all_bytes_and_of_full_length_survive() {
    let (_temporary, root) = root();
    let mut names: Vec<Vec<u8>> = (1..=255u8)
        .filter(|byte| *byte != b'/' && *byte != b'.')
        .map(|byte| vec![byte])
        .chain([vec![0xfe; MAX_NAME], b"...".to_vec(), b"..a".to_vec()])
        .collect();
    for bytes in &names {
        let mut file = root.create_file(&name(bytes), 0o600).unwrap();
        file.write_all(bytes).unwrap();
    }
    names.sort();
    let listing = root.entries().unwrap();
    let listed: Vec<Vec<u8>> = listing.iter().map(|entry| entry.name.to_vec()).collect();
    assert_eq!(listed, names);
    assert_eq!(listing.get(0).unwrap().name, b"\x01");
    assert!(listing.get(listing.len()).is_none());
    for bytes in &names {
        let (mut file, stat) = root.open_file(&name(bytes)).unwrap();
        let mut contents = Vec::new();
        file.read_to_end(&mut contents).unwrap();
        assert_eq!((&contents, stat.size), (bytes, bytes.len() as u64));
    }
}

#[test]
fn a_directory_larger_than_one_read_is_listed_whole_and_sorted() {
    let (_temporary, root) = root();
    for number in (0..3000).rev() {
        root.create_file(&name(format!("{number:0100}")), 0o600).unwrap();
    }
    let listing = root.entries().unwrap();
    assert_eq!(listing.len(), 3000);
    for (number, entry) in listing.iter().enumerate() {
        assert_eq!(entry.name, format!("{number:0100}").as_bytes());
        assert!(matches!(entry.hint, None | Some(Kind::File)));
    }
    assert_eq!(root.entries().unwrap().len(), 3000, "a second reading starts anew");
}

#[test]
fn links_are_not_followed() {
    let (temporary, root) = root();
    let target = temporary.path().join("target");
    std::fs::write(&target, "untouched").unwrap();
    std::fs::create_dir(temporary.path().join("directory")).unwrap();
    symlink("target", temporary.path().join("link")).unwrap();
    symlink("directory", temporary.path().join("way")).unwrap();
    symlink("nowhere", temporary.path().join("dangling")).unwrap();

    let link = name("link");
    assert_eq!(root.stat(&link).unwrap().kind, Kind::Symlink);
    let error = root.open_file(&link).unwrap_err();
    assert!(matches!(&error, TreeError::NotAFile { found: "a symbolic link", .. }), "{error}");
    assert!(root.reopen_file(&link).is_err());
    assert!(root.create_file(&link, 0o600).unwrap_err().is_existing());
    assert!(root.create_file(&name("dangling"), 0o600).unwrap_err().is_existing());
    assert!(!temporary.path().join("nowhere").exists());
    for outcome in [root.open_directory(&name("way")), root.make_directory(&name("way"), 0o755)] {
        let error = outcome.unwrap_err();
        assert!(matches!(&error, TreeError::NotADirectory { found: "a symbolic link", .. }));
        assert!(error.to_string().starts_with("/way: is a symbolic link"), "{error}");
    }
    assert_eq!(root.read_link(&link).unwrap(), b"target");

    root.hard_link(&root, &link, &name("second")).unwrap();
    assert_eq!(root.stat(&name("second")).unwrap().kind, Kind::Symlink);
    root.create_file(&name("new"), 0o600).unwrap();
    root.rename(&name("new"), &root, &link).unwrap();
    assert_eq!(std::fs::read_to_string(target).unwrap(), "untouched");
    assert_eq!(root.stat(&link).unwrap().kind, Kind::File);
}

#[test]
fn what_is_no_regular_file_is_named_and_does_not_block() {
    let (temporary, root) = root();
    let pipe = temporary.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(temporary.path().join("socket")).unwrap();
    std::fs::create_dir(temporary.path().join("directory")).unwrap();
    assert!(std::fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
    let mut cases = vec![("pipe", "a named pipe"), ("socket", "a socket"), ("directory", "a directory")];
    let device = rustix::fs::makedev(1, 3);
    let character = rustix::fs::FileType::CharacterDevice;
    let made =
        rustix::fs::mknodat(rustix::fs::CWD, temporary.path().join("null"), character, rustix::fs::Mode::RWXU, device);
    if made.is_ok() {
        cases.push(("null", "a character device"));
    }
    for (item, described) in cases {
        for outcome in [root.open_file(&name(item)), root.reopen_file(&name(item))] {
            let error = outcome.unwrap_err();
            let TreeError::NotAFile { found, .. } = error else { panic!("{item}: {error}") };
            assert_eq!(found, described);
        }
        match root.follow(&name(item)) {
            Ok(Followed::Directory(directory)) => assert!(directory.entries().unwrap().is_empty()),
            Ok(Followed::File(..)) => panic!("{item} opened as a file"),
            Err(error) => assert!(error.to_string().contains(described), "{error}"),
        }
    }
}

#[test]
fn files_open_without_flags_that_disturb_later() {
    let (_temporary, root) = root();
    root.create_file(&name("file"), 0o600).unwrap();
    let reading = root.open_file(&name("file")).unwrap().0;
    let writing = root.reopen_file(&name("file")).unwrap().0;
    for file in [reading, writing] {
        let flags = rustix::fs::fcntl_getfl(file).unwrap();
        assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK), "{flags:?}");
    }
}

#[test]
fn planted_files_are_not_continued() {
    let (temporary, root) = root();
    let staging = StagingName::new(StagingKind::Part, [1; 8]).name();
    root.create_file(&staging, 0o600).unwrap();
    root.reopen_file(&staging).unwrap();
    root.hard_link(&root, &staging, &name("further")).unwrap();
    assert!(matches!(root.reopen_file(&staging), Err(TreeError::NotOurs { .. })));
    root.remove_file(&name("further")).unwrap();

    let path = temporary.path().join(std::ffi::OsStr::from_bytes(staging.as_bytes()));
    if std::os::unix::fs::chown(&path, Some(12345), None).is_ok() {
        root.reopen_file(&staging).expect("nobody else could have made it in a private directory");
        std::os::unix::fs::chown(temporary.path(), Some(12345), None).unwrap();
        assert!(matches!(root.reopen_file(&staging), Err(TreeError::NotOurs { .. })), "its owner could have made it");
        std::os::unix::fs::chown(temporary.path(), Some(0), None).unwrap();
        let open = std::fs::Permissions::from_mode(0o1777);
        std::fs::set_permissions(temporary.path(), open).unwrap();
        assert!(matches!(root.reopen_file(&staging), Err(TreeError::NotOurs { .. })));
    }
}

#[test]
fn making_and_removing() {
    let (temporary, root) = root();
    let one = root.make_directory(&name("one"), 0o700).unwrap();
    let again = root.make_directory(&name("one"), 0o755).unwrap();
    assert_eq!(one.own_stat().unwrap().ino, again.own_stat().unwrap().ino);
    assert_eq!(one.own_stat().unwrap().mode & 0o777, 0o700, "an existing one is left as it is");
    let file = one.create_file(&name("file"), 0o644).unwrap();
    assert!(try_lock(&file).unwrap());
    assert!(!try_lock(&one.open_file(&name("file")).unwrap().0).unwrap());
    root.hard_link(&one, &name("file"), &name("linked")).unwrap();
    assert_eq!(root.stat(&name("linked")).unwrap().nlink, 2);
    assert!(root.hard_link(&one, &name("file"), &name("linked")).unwrap_err().is_existing());
    root.make_symlink(b"any/\xfftarget", &name("link")).unwrap();
    assert_eq!(root.read_link(&name("link")).unwrap(), b"any/\xfftarget");

    let error = root.rename(&name("linked"), &root, &name("one")).unwrap_err();
    assert!(matches!(error, TreeError::IsADirectory { .. }), "{error}");
    let error = root.make_directory(&name("linked"), 0o755).unwrap_err();
    assert!(matches!(error, TreeError::NotADirectory { found: "a regular file", .. }), "{error}");
    assert!(matches!(root.remove_file(&name("one")), Err(TreeError::IsADirectory { .. })));
    assert!(root.remove_directory(&name("one")).unwrap_err().is_existing());
    one.sync().unwrap();
    one.file_system().unwrap().sync().unwrap();
    one.remove_file(&name("file")).unwrap();
    assert!(one.stat(&name("file")).unwrap_err().is_missing());
    root.remove_directory(&name("one")).unwrap();
    assert!(one.entries().unwrap().is_empty(), "a removed directory is empty, not an error");
    assert!(!temporary.path().join("one").exists());
}

#[test]
fn a_new_name_takes_the_place_of_nothing() {
    let (temporary, root) = root();
    let (directory, is_new) = root.make_or_open_directory(&name("one"), 0o700).unwrap();
    assert!(is_new && !root.make_or_open_directory(&name("one"), 0o755).unwrap().1);
    for taken in ["file", "directory", "link"] {
        match taken {
            "file" => fs::write(temporary.path().join(taken), "old").unwrap(),
            "directory" => fs::create_dir(temporary.path().join(taken)).unwrap(),
            _ => symlink("nowhere", temporary.path().join(taken)).unwrap(),
        }
        directory.create_file(&name("new"), 0o600).unwrap();
        let error = directory.rename_new(&name("new"), &root, &name(taken)).unwrap_err();
        assert!(error.is_existing(), "{error}");
        directory.remove_file(&name("new")).unwrap();
    }
    assert_eq!(fs::read(temporary.path().join("file")).unwrap(), b"old");
    assert!(temporary.path().join("link").is_symlink());
    directory.create_file(&name("new"), 0o600).unwrap();
    // Nor is a name of the same file given up.
    root.hard_link(&directory, &name("new"), &name("same")).unwrap();
    assert!(directory.rename_new(&name("new"), &root, &name("same")).unwrap_err().is_existing());
    directory.rename_new(&name("new"), &root, &name("free")).unwrap();
    assert!(root.stat(&name("free")).is_ok() && directory.stat(&name("new")).unwrap_err().is_missing());
}

#[test]
fn a_directory_that_is_moved_keeps_its_descriptor() {
    let (temporary, root) = root();
    let directory = root.make_directory(&name("before"), 0o700).unwrap();
    root.rename(&name("before"), &root, &name("after")).unwrap();
    symlink("/tmp", temporary.path().join("before")).unwrap();
    directory.create_file(&name("file"), 0o600).unwrap();
    assert!(temporary.path().join("after/file").exists());
}

#[test]
fn depth_and_errors_cost_no_descriptors() {
    let (_temporary, root) = root();
    let before = open_descriptors().len();
    let mut here = root.clone();
    for _ in 0..1000 {
        here = here.make_directory(&name("deep"), 0o700).unwrap();
        assert!(here.open_file(&name("missing")).is_err());
    }
    // Other tests of this process open files as well, but far fewer than the depth.
    assert!(open_descriptors().len() < before + 300);
    assert_eq!(here.path().len(), 5 * 1000);
    assert!(here.stat(&name("x")).unwrap_err().to_string().contains("/deep/deep/x: no such file"));
}

#[test]
fn staging_names_are_recognised_and_nothing_else_is() {
    let id = [0, 1, 2, 0xab, 0xcd, 0xef, 0xfe, 0xff];
    let staging = StagingName::new(StagingKind::Blocks, id);
    assert_eq!(staging.name().as_bytes(), b".icdc-000102abcdeffeff.blocks");
    for kind in [StagingKind::Part, StagingKind::Blocks, StagingKind::Run, StagingKind::Snapshot] {
        let staging = StagingName::new(kind, id);
        assert_eq!(StagingName::parse(staging.name().as_bytes()), Some(staging));
        assert!(is_staging(staging.name().as_bytes()));
        // Some file systems take capital letters for small ones.
        let capitals = staging.name().as_bytes().to_ascii_uppercase();
        assert!(is_staging(&capitals) && StagingName::parse(&capitals).is_none());
        let text = String::from_utf8(staging.name().as_bytes().to_vec()).unwrap();
        for ignored in ["", ".", " . ", "::$DATA", ":x", "\u{200d}", "\u{301}"] {
            let resembling = format!("{text}{ignored}");
            assert!(resembles_staging(resembling.as_bytes()), "{resembling}");
            assert!(ignored.is_empty() || !is_staging(resembling.as_bytes()), "it is a user's file at the source");
        }
        assert!(resembles_staging(text.replacen('c', "\u{200c}c", 1).as_bytes()));
        assert!(resembles_staging(text.replace('k', "\u{212a}").replace('s', "\u{17f}").as_bytes()));
    }
    for other in [
        &b".icdc-000102abcdeffeff"[..],
        b".icdc-000102abcdeffeff.parts",
        b".icdc-+00102abcdeffeff.part",
        b".icdc-00102abcdeffeff.part",
        b"icdc-000102abcdeffeff.part",
        b".icdc-.part",
        b".icdc-\xff\xff.part",
        b".icdc-000102abcdeffeff.part.old",
        b"",
    ] {
        assert!(!is_staging(other) && !resembles_staging(other), "{}", printable(other));
    }
}

#[test]
fn printable_text_cannot_steer_a_terminal() {
    assert_eq!(printable("grün ☃".as_bytes()), "grün ☃");
    assert_eq!(printable(b"a\xffb"), "a\\xffb");
    assert_eq!(printable(b"\x1b[2Ja\n"), "\\u{1b}[2Ja\\n");
    assert_eq!(printable("a\u{202e}b".as_bytes()), "a\\u{202e}b");
}

#[test]
fn errors_say_what_where_and_what_to_do() {
    let (_temporary, root) = root();
    let error = root.open_directory(&name("a\x1bb")).unwrap_err();
    assert_eq!(error.to_string(), "/a\\u{1b}b: no such file or directory");
    let full = Path::new("/dev/full");
    if full.exists() {
        let tree = Tree::unconfined(Path::new("/dev")).unwrap();
        let error = tree.root().open_file(&name("full")).unwrap_err();
        assert!(error.to_string().contains("a character device"), "{error}");
    }
    let tree = Tree::unconfined(Path::new("/proc")).unwrap();
    let error = tree.root().create_file(&name("icdc"), 0o600).unwrap_err();
    assert!(error.to_string().starts_with("/proc/icdc: "), "{error}");
    assert!(error.to_string().contains("cannot be opened") || error.to_string().contains("no such"), "{error}");
    let missing = Tree::open(Path::new("/nonexistent/root")).unwrap_err();
    assert!(missing.is_missing() && missing.to_string().contains("/nonexistent/root"));
}
