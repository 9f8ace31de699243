//! `icdc mkdir`: directories, however the host is reached.

use crate::scene::{Reach, Scene};

#[test]
fn directories_are_made() {
    for reach in Reach::ALL {
        let scene = Scene::with_rights("rw");
        let place = |name: &str| scene.place(reach, name);
        scene.run(&["mkdir"], &[place("one"), place("two/")]).expect_code(0);
        assert!(scene.path("one").is_dir() && scene.path("two").is_dir());
        let ended = scene.run(&["mkdir"], &[place("one"), place("three")]).expect_code(1);
        assert!(ended.stderr.contains("one: exists already"), "{ended}");
        assert!(scene.path("three").is_dir(), "the others are made: {ended}");
        let ended = scene.run(&["mkdir"], &[place("a/b/c")]).expect_code(1);
        assert!(ended.stderr.contains("-p makes the directories above as well"), "{ended}");
        assert!(!scene.path("a").exists());
    }
}

#[test]
fn those_above_are_made_as_well() {
    for reach in Reach::ALL {
        let scene = Scene::with_rights("rw");
        let place = |name: &str| scene.place(reach, name);
        let ended = scene.run(&["mkdir", "-p", "-v"], &[place("a/b/c/")]).expect_code(0);
        assert!(scene.path("a/b/c").is_dir());
        assert_eq!(ended.text.lines().count(), 4, "{ended}");
        assert!(ended.text.lines().all(|line| line.contains("made")), "{ended}");
        let ended = scene.run(&["mkdir", "-p", "--json"], &[place("a/b/c"), place("a/d")]).expect_code(0);
        let types: Vec<_> = ended.events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(types, ["made", "summary"], "{ended}");
        assert!(ended.events[0]["path"].as_str().unwrap().ends_with("a/d"), "{ended}");
        // A file is no directory.
        std::fs::write(scene.path("file"), "").unwrap();
        for path in ["file", "file/below"] {
            let ended = scene.run(&["mkdir", "-p"], &[place(path)]).expect_code(1);
            assert!(ended.stderr.contains("not a directory"), "{ended}");
        }
    }
}

#[test]
fn names_of_unfinished_files_are_not_given() {
    for reach in Reach::ALL {
        let scene = Scene::with_rights("rw");
        for path in [".icdc-0123456789abcdef.part", "a/.ICDC-0123456789abcdef.snapshot/b"] {
            let ended = scene.run(&["mkdir", "-p"], &[scene.place(reach, path)]).expect_code(1);
            assert!(ended.stderr.contains("keeps for unfinished files"), "{ended}");
        }
        assert!(!scene.path("a").exists());
    }
}
