//! `icdc mv`: one item gets another name, and nothing is replaced unasked.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use crate::scene::{Reach, Scene};
use crate::support::mounts::Mount;

fn text(scene: &Scene, name: &str) -> String {
    fs::read_to_string(scene.path(name)).unwrap_or_default()
}

#[test]
fn an_item_gets_another_name() {
    for reach in Reach::ALL {
        let scene = Scene::with_rights("rw");
        let place = |name: &str| scene.place(reach, name);
        fs::write(scene.site.directory("dir").join("inner"), "inner").unwrap();
        fs::write(scene.path("file"), "file").unwrap();
        symlink("nowhere", scene.path("link")).unwrap();
        scene.run(&["mv"], &[place("file"), place("renamed")]).expect_code(0);
        assert_eq!((text(&scene, "renamed"), text(&scene, "file")), ("file".into(), String::new()));
        scene.run(&["mv"], &[place("renamed"), place("dir")]).expect_code(0);
        assert_eq!(text(&scene, "dir/renamed"), "file");
        let ended = scene.run(&["mv", "-v"], &[place("dir"), place("other/")]).expect_code(0);
        assert!(ended.text.starts_with("renamed to ") && ended.text.contains("other/"), "{ended}");
        assert_eq!(text(&scene, "other/inner"), "inner");
        let ended = scene.run(&["mv", "--json"], &[place("link"), place("other/link")]).expect_code(0);
        assert_eq!(ended.events[0]["type"], "renamed_to", "{ended}");
        assert_eq!(fs::read_link(scene.path("other/link")).unwrap().to_str(), Some("nowhere"));
    }
}

#[test]
fn nothing_is_replaced_unless_that_is_asked_for() {
    for reach in Reach::ALL {
        let scene = Scene::with_rights("rw");
        let place = |name: &str| scene.place(reach, name);
        fs::write(scene.path("old"), "old").unwrap();
        fs::write(scene.path("new"), "new").unwrap();
        fs::write(scene.site.directory("one").join("inner"), "one").unwrap();
        fs::write(scene.site.directory("two/one").join("inner"), "two").unwrap();
        for (from, to) in [("new", "old"), ("one", "old"), ("one", "two"), ("one", "one/below")] {
            let ended = scene.run(&["mv"], &[place(from), place(to)]).expect_code(1);
            let words = if to == "one/below" { "into itself" } else { "exists already" };
            assert!(ended.stderr.contains(words), "{reach:?} {from} {to}: {ended}");
        }
        scene.run(&["mv", "--force"], &[place("one"), place("two")]).expect_code(1);
        assert_eq!((text(&scene, "old"), text(&scene, "two/one/inner")), ("old".into(), "two".into()));
        scene.run(&["mv", "--force"], &[place("new"), place("old")]).expect_code(0);
        assert_eq!((text(&scene, "old"), text(&scene, "new")), ("new".into(), String::new()));
        // Two names of one file become one.
        fs::hard_link(scene.path("old"), scene.path("again")).unwrap();
        scene.run(&["mv", "--force"], &[place("again"), place("old")]).expect_code(0);
        assert!(!scene.path("again").exists());
        assert_eq!((text(&scene, "old"), fs::metadata(scene.path("old")).unwrap().nlink()), ("new".into(), 1));
        scene.run(&["mv", "--force"], &[place("old"), place("old")]).expect_code(0);
        assert_eq!(text(&scene, "old"), "new");
    }
}

#[test]
fn to_another_file_system_or_host_is_a_copy() {
    let scene = Scene::with_rights("rw");
    fs::write(scene.path("file"), "file").unwrap();
    let ended = scene.run(&["mv"], &[scene.place(Reach::Here, "file"), scene.place(Reach::Ssh, "x")]).expect_code(2);
    assert!(ended.stderr.contains("icdc copy --move FROM TO"), "{ended}");
    for reach in Reach::ALL {
        let Some(_mount) = Mount::tmpfs(scene.path("mounted"), 1 << 20) else { return };
        let places = [scene.place(reach, "file"), scene.place(reach, "mounted")];
        let ended = scene.run(&["mv"], &places).expect_code(1);
        assert!(ended.stderr.contains("icdc copy --move with the same two paths"), "{ended}");
        assert_eq!(text(&scene, "file"), "file");
    }
}

#[test]
fn directories_as_such_and_unfinished_files_keep_their_names() {
    for reach in Reach::ALL {
        let scene = Scene::with_rights("rw");
        let unfinished = ".icdc-0123456789abcdef.part";
        fs::write(scene.path(unfinished), "").unwrap();
        fs::write(scene.path("file"), "").unwrap();
        for (from, to) in [(".", "x"), ("..", "x"), (unfinished, "x"), ("file", unfinished)] {
            let ended = scene.run(&["mv", "--force"], &[scene.place(reach, from), scene.place(reach, to)]);
            assert_ne!(ended.code, Some(0), "{reach:?} {from} {to}: {ended}");
            assert!(!scene.path("x").exists() && scene.path("file").exists(), "{reach:?} {from} {to}: {ended}");
        }
    }
}
