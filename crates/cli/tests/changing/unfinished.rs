//! Unfinished files of running copies stay; those that nobody holds go.

use std::fs;

use crate::scene::{Reach, Scene};
use crate::support::process::eventually;
use crate::support::{MIB, Start, data};

#[test]
fn a_directory_that_a_running_copy_fills_stays() {
    for reach in Reach::ALL {
        let scene = Scene::with_rights("rw");
        fs::create_dir_all(scene.path("tree/sub")).unwrap();
        data::file(&scene.path("tree/sub/large"), 40 * MIB, 1);
        let mut command = scene.site.copy(&["--rate", "60mbit", "--ssh", &scene.site.ssh(), "tree/"]);
        let run = command.arg(scene.site.by_ssh("out")).start();
        assert!(run.wait_for_bytes(8 * MIB), "{}", run.finish());
        // As a small file that it is about to name; nothing locks those.
        let small = scene.path("out/sub/.icdc-0123456789abcdef.part");
        fs::write(&small, "small").unwrap();
        for path in ["out", "out/sub", "out/sub/.icdc-0123456789abcdef.part"] {
            let ended = scene.run(&["rm", "-r", "--yes"], &[scene.place(reach, path)]).expect_code(1);
            assert!(ended.stderr.contains("a running copy of icdc uses it"), "{reach:?} {path}: {ended}");
        }
        assert!(small.exists());
        run.kill();
        let removed = || scene.run(&["rm", "-r", "--yes"], &[scene.place(reach, "out")]).code == Some(0);
        assert!(eventually(removed), "{reach:?}: nobody holds it any more");
        assert!(!scene.path("out").exists());
    }
}

#[test]
fn a_small_file_that_may_be_in_use_stays_for_a_while() {
    for reach in Reach::ALL {
        let scene = Scene::with_rights("rw");
        fs::write(scene.site.directory("out").join(".icdc-0123456789abcdef.part"), "small").unwrap();
        let ended = scene.run(&["rm", "-r", "--yes"], &[scene.place(reach, "out")]).expect_code(1);
        assert!(ended.stderr.contains("stays for ten minutes"), "{ended}");
    }
}
