//! `icdc verify --list`: files against lists of digests, as archives ship them.

use std::fs;
use std::process::Command;

use crate::scene::{Reach, Scene};
use crate::support::{Ended, MIB, data, has_program, skip};

fn tree(scene: &Scene) {
    let top = scene.site.directory("tree");
    data::file(&top.join("large"), 9 * MIB + 1, 1);
    data::file(&top.join("a b"), 100, 1);
    data::file(&scene.site.directory("tree/dir").join("back\\slash\nline"), 3, 1);
}

fn missing_or_different(ended: &Ended) -> Vec<(&str, &str)> {
    let shown = ended.all("difference");
    shown.map(|item| (item["differs"][0].as_str().unwrap(), item["path"].as_str().unwrap())).collect()
}

#[test]
fn lists_of_the_usual_programs_are_checked() {
    if !has_program("sha256sum") || !has_program("md5sum") {
        return skip("lists are made by sha256sum and md5sum");
    }
    for (program, file, options) in [
        ("sha256sum", "SHA256SUMS", &[][..]),
        ("md5sum", "list", &["--binary"]),
        ("md5sum", "list", &["--tag"]),
        ("sha256sum", "list", &["--tag"]),
    ] {
        let scene = Scene::new();
        tree(&scene);
        let mut command = Command::new(program);
        command.args(options).args(["large", "./a b", "dir/back\\slash\nline"]).current_dir(scene.path("tree"));
        let output = command.output().unwrap();
        assert!(output.status.success());
        fs::write(scene.path(file), &output.stdout).unwrap();
        fs::write(scene.path("tree/unlisted"), "1").unwrap();
        let list = scene.path(file);
        for reach in Reach::ALL {
            let words = ["verify", "--json", "--list", list.to_str().unwrap()];
            let ended = scene.run(&words, &[scene.place(reach, "tree")]).expect_code(0);
            assert_eq!((ended.number("items"), ended.number("unlisted")), (3, 1), "{program} {options:?} {ended}");
        }
        data::file(&scene.path("tree/large"), 9 * MIB + 1, 2);
        fs::remove_file(scene.path("tree/a b")).unwrap();
        for reach in Reach::ALL {
            let words = ["verify", "--json", "--list", list.to_str().unwrap()];
            let ended = scene.run(&words, &[scene.place(reach, "tree")]).expect_code(1);
            assert_eq!(missing_or_different(&ended), [("content", "large"), ("missing", "a b")], "{reach:?}");
        }
    }
}

#[test]
fn digests_of_b3sum_are_those_of_whole_files() {
    let scene = Scene::new();
    let top = scene.site.directory("tree");
    let mut list = String::new();
    for (name, size) in [("empty", 0), ("small", 1000), ("block", 4 * MIB), ("large", 13 * MIB + 7)] {
        data::file(&top.join(name), size, 1);
        let digest = blake3::hash(&fs::read(top.join(name)).unwrap());
        list.push_str(&format!("{}  {name}\n", digest.to_hex()));
    }
    data::sparse(&top.join("holes"), 30 * MIB, 5, &[(9 * MIB, 100)]);
    list.push_str(&format!("{}  holes\n", blake3::hash(&fs::read(top.join("holes")).unwrap()).to_hex()));
    fs::write(scene.path("list"), list).unwrap();
    for reach in Reach::ALL {
        let words = ["verify", "--json", "--digest", "blake3", "--list", "list"];
        let ended = scene.run(&words, &[scene.place(reach, "tree")]).expect_code(0);
        assert_eq!(ended.number("items"), 5, "{ended}");
        // A file alone is in the list by its name.
        scene.run(&words, &[scene.place(reach, "tree/small")]).expect_code(1);
    }
    let ended = scene.run(&["verify", "--list", "list"], &[scene.place(Reach::Here, "tree")]).expect_code(2);
    assert!(ended.stderr.contains("line 1: nothing tells whether the digests are BLAKE3 or SHA-256"), "{ended}");
}

#[test]
fn a_list_with_names_outside_is_refused_with_its_line() {
    let scene = Scene::new();
    scene.site.directory("tree");
    let digest = "d41d8cd98f00b204e9800998ecf8427e";
    for (line, words) in
        [("../x", "line 2: ../x: a name that leads out"), ("/etc/passwd", "line 2: /etc/passwd: an absolute")]
    {
        fs::write(scene.path("list"), format!("{digest}  ok\n{digest}  {line}\n")).unwrap();
        let ended = scene.run(&["verify", "--list", "list"], &[scene.place(Reach::Here, "tree")]).expect_code(2);
        assert!(ended.stderr.contains(words), "{ended}");
    }
    let places = [scene.place(Reach::Here, "tree"), scene.place(Reach::Here, "tree")];
    scene.run(&["verify", "--list", "list"], &places).expect_code(2);
    scene.run(&["verify"], &places[..1]).expect_code(2);
}
