//! `icdc verify`: what differs between two trees is told, wherever they are.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};

use crate::scene::{Reach, Scene};
use crate::support::{BLOCK, Ended, KIB, MIB, Shape, Signal, Site, Start, data, is_root, skip};

const PAIRS: [(Reach, Reach); 5] = [
    (Reach::Here, Reach::Here),
    (Reach::Here, Reach::Ssh),
    (Reach::Daemon, Reach::Here),
    (Reach::Ssh, Reach::Daemon),
    (Reach::Daemon, Reach::Daemon),
];

/// A tree, and a copy of it.
fn copied() -> Scene {
    let scene = Scene::new();
    let shape = Shape { large: vec![3 * BLOCK + 5, BLOCK, MIB, MIB + 1], ..Shape::default() };
    data::tree(&scene.path("a"), 7, &shape);
    data::sparse(&scene.path("a/holes"), 40 * MIB, 3, &[(5 * MIB, 100), (21 * MIB, KIB)]);
    scene.site.copy(&["a", "b"]).run().expect_code(0);
    scene
}

/// Differences that were told, as the words for each path.
fn told(ended: &Ended) -> Vec<String> {
    let differences = ended.all("difference").map(|difference| {
        let words = difference["differs"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        format!("{} {}", words.collect::<Vec<_>>().join(","), difference["path"].as_str().unwrap())
    });
    differences.collect()
}

#[test]
fn a_copy_equals_its_source() {
    let scene = copied();
    for (a, b) in PAIRS {
        for options in [&[][..], &["--quick"], &["--ignore", "none"]] {
            let places = [scene.place(a, "a"), scene.place(b, "b")];
            let ended = scene.run(&[&["verify", "--json"][..], options].concat(), &places).expect_code(0);
            assert_eq!(told(&ended), Vec::<String>::new(), "{a:?} {b:?}");
            assert!(ended.summary()["equal"].as_bool().unwrap());
            let is_digested = options != ["--quick"];
            assert_eq!(ended.number("bytes") > 40 * MIB, is_digested, "{ended}");
        }
    }
    let ended = scene.run(&["verify"], &[scene.place(Reach::Here, "a"), scene.place(Reach::Here, "b")]).expect_code(0);
    assert!(ended.text.starts_with("equal: "), "{ended}");
}

#[test]
fn every_difference_is_told_and_nothing_else() {
    let scene = Scene::new();
    for side in ["a", "b"] {
        let top = scene.site.directory(side);
        for name in ["content", "equal", "large", "mode", "mtime", "size", "type"] {
            data::file(&top.join(name), if name == "large" { 9 * MIB } else { 10 }, 1);
            data::age(&top.join(name), 1_700_000_000, 0);
        }
        scene.site.directory(format!("{side}/dir"));
    }
    let (a, b) = (scene.path("a"), scene.path("b"));
    data::file(&b.join("content"), 10, 2);
    data::age(&b.join("content"), 1_700_000_000, 0);
    // One byte in the middle of many.
    let mut large = fs::read(b.join("large")).unwrap();
    large[5 * MIB as usize] ^= 1;
    fs::write(b.join("large"), large).unwrap();
    data::age(&b.join("large"), 1_700_000_000, 0);
    fs::set_permissions(b.join("mode"), fs::Permissions::from_mode(0o600)).unwrap();
    data::age(&b.join("mtime"), 1_700_000_001, 0);
    data::file(&b.join("size"), 11, 1);
    data::age(&b.join("size"), 1_700_000_000, 0);
    fs::remove_file(b.join("type")).unwrap();
    symlink("equal", b.join("type")).unwrap();
    symlink("x", a.join("target")).unwrap();
    symlink("y", b.join("target")).unwrap();
    fs::create_dir_all(a.join("dir/gone/deep")).unwrap();
    fs::write(a.join("dir/gone/deep/file"), "").unwrap();
    fs::write(b.join("dir/new"), "").unwrap();
    let words = ["verify", "--json", "--ignore", "owner"];
    for (from, to) in PAIRS {
        let ended = scene.run(&words, &[scene.place(from, "a"), scene.place(to, "b")]).expect_code(1);
        let mut found = told(&ended);
        // The times of directories and links are those of the test.
        found.retain(|line| !line.starts_with("mtime ") || line == "mtime mtime");
        let expected = [
            "content content",
            "missing dir/gone",
            "extra dir/new",
            "content large",
            "mode mode",
            "mtime mtime",
            "size size",
            "target target",
            "type type",
        ];
        let found: Vec<String> = found.iter().map(|line| line.replace("target,mtime", "target")).collect();
        assert_eq!(found, expected, "{from:?} {to:?}");
        assert_eq!((ended.number("missing"), ended.number("extra")), (3, 1), "{ended}");
    }
    let quick = ["verify", "--json", "--quick", "--ignore", "owner,mtime,extra,missing"];
    let ended = scene.run(&quick, &[scene.place(Reach::Here, "a"), scene.place(Reach::Ssh, "b")]).expect_code(1);
    assert_eq!(told(&ended), ["mode mode", "size size", "target target", "type type"]);
    let text =
        scene.run(&["verify"], &[scene.place(Reach::Here, "a"), scene.place(Reach::Here, "b")]).expect_code(1).text;
    assert!(text.contains("missing      dir/gone/ with 2 items\n") && text.contains("content      large\n"), "{text}");
    assert!(text.lines().last().unwrap().starts_with("not equal: "), "{text}");
}

#[test]
fn files_are_compared_with_files_and_kinds_are_told_apart() {
    let scene = Scene::new();
    data::file(&scene.path("a"), 100, 1);
    data::file(&scene.path("b"), 100, 2);
    scene.site.directory("c");
    for (reach, other) in [(Reach::Here, Reach::Ssh), (Reach::Daemon, Reach::Here)] {
        let run = |one: &str, two: &str| {
            scene.run(&["verify", "--json", "--ignore", "mtime"], &[scene.place(reach, one), scene.place(other, two)])
        };
        run("a", "a").expect_code(0);
        assert_eq!(told(&run("a", "b").expect_code(1)), ["content ."]);
        assert_eq!(told(&run("a", "c").expect_code(1)), ["type ."]);
        assert!(run("a", "none").expect_code(2).stderr.contains("no such file"));
    }
}

#[test]
fn holes_are_zeros() {
    let scene = Scene::new();
    for side in ["a", "b"] {
        scene.site.directory(side);
    }
    data::sparse(&scene.path("a/file"), 30 * MIB, 5, &[(9 * MIB, 100)]);
    fs::write(scene.path("b/file"), fs::read(scene.path("a/file")).unwrap()).unwrap();
    // Beyond what is hashed in zeros: two sparse files of which one has zeros that are data.
    data::sparse(&scene.path("a/huge"), 17 << 30, 5, &[(9 << 30, 100)]);
    data::sparse(&scene.path("b/huge"), 17 << 30, 5, &[(9 << 30, 100)]);
    let huge = fs::File::options().write(true).open(scene.path("b/huge")).unwrap();
    huge.write_all_at(&[0; 5000], 3 << 30).unwrap();
    let places = [scene.place(Reach::Here, "a"), scene.place(Reach::Ssh, "b")];
    scene.run(&["verify", "--ignore", "mtime"], &places).expect_code(0);
    huge.write_all_at(&[1], 3 << 30).unwrap();
    let ended = scene.run(&["verify", "--json", "--ignore", "mtime"], &places).expect_code(1);
    assert_eq!(told(&ended), ["content huge"]);
}

#[test]
fn what_is_excluded_is_not_compared() {
    let scene = Scene::new();
    for side in ["a", "b"] {
        fs::write(scene.site.directory(side).join("same"), "1").unwrap();
        fs::write(scene.site.directory(format!("{side}/cache")).join(side), "1").unwrap();
        fs::write(scene.path(&format!("{side}/x.tmp")), side).unwrap();
    }
    let words = ["verify", "--json", "--ignore", "mtime,owner", "--exclude", "*.tmp", "--exclude", "/cache/"];
    for (a, b) in PAIRS {
        let ended = scene.run(&words, &[scene.place(a, "a"), scene.place(b, "b")]).expect_code(0);
        assert_eq!(ended.number("items"), 2, "the tree itself and one file: {ended}");
    }
}

#[test]
fn what_cannot_be_read_is_not_equal() {
    if !is_root() {
        return skip("another user needs root");
    }
    let site = Site::new();
    for side in ["a", "b"] {
        fs::write(site.directory(side).join("file"), "1").unwrap();
        fs::write(site.directory(format!("{side}/dir")).join("inner"), "1").unwrap();
        data::age(&site.path(format!("{side}/file")), 1_700_000_000, 0);
    }
    crate::support::open_to_all(site.root());
    fs::set_permissions(site.path("b/file"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(site.path("a/dir"), fs::Permissions::from_mode(0o700)).unwrap();
    let words = ["verify", "--json", "--ignore", "mtime,owner,mode", "a", "b"];
    let ended = site.unprivileged().args(words).run().expect_code(1);
    let unreadable: Vec<_> =
        ended.all("unreadable").map(|item| (item["side"].as_str().unwrap(), item["path"].as_str().unwrap())).collect();
    assert_eq!(unreadable, [("a", "dir"), ("b", "file")], "{ended}");
    assert_eq!(told(&ended), Vec::<String>::new(), "nobody knows what is in it: {ended}");
    assert!(!ended.summary()["equal"].as_bool().unwrap());
}

#[test]
fn a_comparison_that_is_interrupted_ends() {
    let scene = Scene::new();
    for side in ["a", "b"] {
        scene.site.directory(side);
        data::sparse(&scene.path(&format!("{side}/huge")), 15 << 30, 5, &[(9 << 30, 100)]);
    }
    let ssh = scene.site.ssh();
    let mut command = scene.site.icdc(&["verify", "--ssh", &ssh, "--remote-icdc", crate::support::ICDC]);
    let places = [scene.place(Reach::Here, "a"), scene.place(Reach::Ssh, "b")];
    let run = command.env("RUST_LOG", "debug").args(places).start();
    assert!(run.wait_for_words("DEBUG"));
    run.signal(Signal::INT);
    let ended = run.finish().expect_code(4);
    assert!(ended.stderr.contains("interrupted"), "{ended}");
}

#[test]
fn a_repair_copies_what_differs_and_nothing_else() {
    for (a, b) in [(Reach::Here, Reach::Here), (Reach::Here, Reach::Ssh), (Reach::Daemon, Reach::Here)] {
        let scene = copied();
        // As large and as old as before.
        let damaged = scene.path("b/large0");
        let modified = fs::metadata(&damaged).unwrap().modified().unwrap();
        let file = fs::File::options().write(true).open(&damaged).unwrap();
        file.write_all_at(b"damage", 5 * MIB).unwrap();
        file.set_modified(modified).unwrap();
        fs::remove_dir_all(scene.path("b/d001")).unwrap();
        fs::remove_file(scene.path("b/odd/quote'\"$(x)")).unwrap();
        fs::write(scene.path("b/odd/stays"), "extra").unwrap();
        let untouched = fs::metadata(scene.path("b/large1")).unwrap();
        let places = [scene.place(a, "a"), scene.place(b, "b")];
        let ended = scene.run(&["verify", "--repair"], &places).expect_code(1);
        assert!(ended.text.contains("content      large0\n"), "{ended}");
        let again = scene.run(&["verify", "--json"], &places).expect_code(1);
        assert_eq!(told(&again), ["extra odd/stays"], "{a:?} {b:?}");
        let now = fs::metadata(scene.path("b/large1")).unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::ino(&now), std::os::unix::fs::MetadataExt::ino(&untouched));
        fs::remove_file(scene.path("b/odd/stays")).unwrap();
        fs::write(scene.path("b/holes"), "short").unwrap();
        scene.run(&["verify", "--repair"], &places).expect_code(0);
        scene.run(&["verify"], &places).expect_code(0);
        scene.run(&["verify", "--repair"], &places).expect_code(0);
    }
    let scene = Scene::new();
    data::file(&scene.path("a"), 100, 1);
    data::file(&scene.path("b"), 100, 2);
    scene.site.directory("c");
    let place = |name: &str| scene.place(Reach::Here, name);
    scene.run(&["verify", "--repair"], &[place("a"), place("b")]).expect_code(0);
    assert_eq!(fs::read(scene.path("a")).unwrap(), fs::read(scene.path("b")).unwrap());
    scene.run(&["verify", "--repair"], &[place("a"), place("c")]).expect_code(1);
}
