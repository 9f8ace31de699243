//! `icdc ls`: names as they are, however the directory is reached.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::scene::{Reach, Scene};
use crate::support::{Start, data, is_root, skip};

/// A directory with items of all kinds, and one below it.
fn tree(scene: &Scene) {
    let top = scene.site.directory("tree");
    fs::write(top.join("b"), "12345").unwrap();
    fs::write(top.join("a"), "1").unwrap();
    fs::write(scene.site.directory("tree/dir").join("inner"), "").unwrap();
    symlink("a", top.join("link")).unwrap();
    fs::set_permissions(top.join("b"), fs::Permissions::from_mode(0o4755)).unwrap();
    data::age(&top.join("a"), 1_700_000_000, 0);
    data::age(&top.join("b"), 1_600_000_000, 5);
}

#[test]
fn a_directory_is_listed_by_name() {
    let scene = Scene::new();
    tree(&scene);
    assert_eq!(scene.same_everywhere(&["ls"], "tree", 0), "a\nb\ndir\nlink\n");
    assert_eq!(scene.same_everywhere(&["ls", "-R"], "tree", 0), "a\nb\ndir\ndir/inner\nlink\n");
    assert_eq!(scene.same_everywhere(&["ls", "-R", "-0"], "tree/", 0), "a\0b\0dir\0dir/inner\0link\0\n");
    // A link that leads to a directory is followed.
    symlink("tree", scene.path("other")).unwrap();
    assert_eq!(scene.same_everywhere(&["ls"], "other", 0), "a\nb\ndir\nlink\n");
}

#[test]
fn all_that_is_known_is_shown() {
    let scene = Scene::new();
    tree(&scene);
    let text = scene.same_everywhere(&["ls", "-l"], "tree", 0);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("-rw") && lines[0].ends_with(" 1 2023-11-14T22:13:20Z a"), "{text}");
    assert!(lines[1].starts_with("-rwsr-xr-x ") && lines[1].ends_with(" 5 2020-09-13T12:26:40Z b"), "{text}");
    assert!(lines[2].starts_with('d') && lines[2].ends_with(" dir"), "{text}");
    assert!(lines[3].starts_with('l') && lines[3].ends_with(" link -> a"), "{text}");
    for reach in Reach::ALL {
        let ended = scene.run(&["ls", "--json"], &[scene.place(reach, "tree")]).expect_code(0);
        let kinds: Vec<_> = ended.events.iter().map(|item| item["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["file", "file", "directory", "symlink"]);
        let file = &ended.events[1];
        assert_eq!((&file["path"], &file["bytes"], &file["mode"]), (&"b".into(), &5.into(), &"4755".into()));
        assert_eq!((&file["mtime"], &file["mtime_ns"]), (&"2020-09-13T12:26:40Z".into(), &5.into()));
        assert_eq!(ended.events[3]["target"], "a");
    }
}

#[test]
fn other_orders_are_by_size_and_time() {
    let scene = Scene::new();
    let top = scene.site.directory("tree");
    for (name, size, seconds) in [("a", 3, 30), ("b", 9, 10), ("c", 3, 20)] {
        data::file(&top.join(name), size, 1);
        data::age(&top.join(name), 1_700_000_000 + seconds, 0);
    }
    assert_eq!(scene.same_everywhere(&["ls", "--sort", "size"], "tree", 0), "b\na\nc\n");
    assert_eq!(scene.same_everywhere(&["ls", "--sort", "time"], "tree", 0), "a\nc\nb\n");
    scene.run(&["ls", "-R", "--sort", "time"], &[scene.place(Reach::Here, "tree")]).expect_code(2);
}

#[test]
fn a_file_is_named_as_it_was_typed() {
    let scene = Scene::new();
    tree(&scene);
    for reach in Reach::ALL {
        let ended = scene.run(&["ls", "-l"], &[scene.place(reach, "tree/link")]).expect_code(0);
        assert!(ended.text.ends_with("tree/link -> a\n") && ended.text.starts_with('l'), "{ended}");
        let missing = scene.run(&["ls"], &[scene.place(reach, "tree/none")]).expect_code(2);
        assert!(missing.stderr.contains("no such file or directory"), "{missing}");
    }
}

#[test]
fn names_of_any_bytes_are_exact_and_steer_no_terminal() {
    let scene = Scene::new();
    let top = scene.site.directory("tree");
    let mut names: Vec<Vec<u8>> =
        vec![b"\x1b[2J".to_vec(), b"new\nline".to_vec(), b"\xff\xfe".to_vec(), vec![b'n'; 255], b"-x".to_vec()];
    names.iter().for_each(|name| fs::write(top.join(OsStr::from_bytes(name)), "").unwrap());
    names.sort();
    for reach in Reach::ALL {
        let place = scene.place(reach, "tree");
        let command = |words: &[&str]| {
            let ssh = scene.site.ssh();
            let mut command = scene.site.icdc(&[words, &["--ssh", &ssh]].concat());
            command.args(["--remote-icdc", crate::support::ICDC]).arg(&place).output().unwrap()
        };
        let raw = command(&["ls", "-0"]).stdout;
        assert_eq!(raw, names.iter().flat_map(|name| [name, &b"\0"[..]].concat()).collect::<Vec<u8>>(), "{reach:?}");
        let shown = command(&["ls"]).stdout;
        assert_eq!(shown.iter().filter(|byte| **byte == b'\n').count(), names.len(), "one line for each");
        assert!(!shown.contains(&0x1b) && std::str::from_utf8(&shown).is_ok());
        let json = String::from_utf8(command(&["ls", "--json"]).stdout).unwrap();
        assert!(json.contains("\"path_hex\":\"fffe\"") && json.contains("\"path_hex\":\"6e65770a6c696e65\""), "{json}");
    }
}

#[test]
fn what_cannot_be_read_is_told_and_the_rest_is_listed() {
    if !is_root() {
        return skip("another user needs root");
    }
    let scene = Scene::new();
    tree(&scene);
    crate::support::open_to_all(scene.site.root());
    fs::set_permissions(scene.path("tree/dir"), fs::Permissions::from_mode(0o700)).unwrap();
    let mut command = scene.site.unprivileged();
    let ended = command.args(["ls", "-R", "tree"]).run().expect_code(1);
    assert_eq!(ended.text, "a\nb\ndir\nlink\n", "{ended}");
    assert!(ended.stderr.contains("tree/dir"), "{ended}");
}

#[test]
fn a_large_directory_travels_in_batches() {
    let scene = Scene::new();
    let top = scene.site.directory("tree");
    let names: Vec<String> = (0..30_000).map(|number| format!("a-name-that-many-share-{number:06}")).collect();
    names.iter().for_each(|name| fs::write(top.join(name), "").unwrap());
    let text = scene.same_everywhere(&["ls"], "tree", 0);
    assert!(text.lines().eq(names.iter()), "all, in order");
}

#[test]
fn a_reader_that_leaves_early_ends_the_listing() {
    let scene = Scene::new();
    let top = scene.site.directory("tree");
    (0..20_000).for_each(|number| fs::write(top.join(format!("{number}-{}", "x".repeat(100))), "").unwrap());
    for reach in Reach::ALL {
        let ssh = scene.site.ssh();
        let mut command = scene.site.icdc(&["ls", "-0", "--ssh", &ssh, "--remote-icdc", crate::support::ICDC]);
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        drop(reader);
        let status = command.arg(scene.place(reach, "tree")).stdout(writer).status().unwrap();
        assert_eq!(status.code(), Some(0), "{reach:?}");
    }
}
