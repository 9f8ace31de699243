//! `icdc du`: bytes and items, however the directory is reached.

use std::fs;
use std::os::unix::fs::symlink;

use crate::scene::{Reach, Scene};
use crate::support::{MIB, data};

#[test]
fn bytes_and_items_are_counted() {
    let scene = Scene::new();
    let top = scene.site.directory("tree");
    data::file(&top.join("a"), 1000, 1);
    data::file(&scene.site.directory("tree/dir/deep").join("b"), 20, 1);
    data::file(&scene.path("tree/dir/c"), 3, 1);
    data::sparse(&top.join("holes"), 64 * MIB, 1, &[(0, 4096)]);
    // A further name takes no further space.
    fs::hard_link(top.join("a"), scene.path("tree/dir/again")).unwrap();
    symlink("a", top.join("link")).unwrap();
    let all = 1000 + 20 + 3 + 64 * MIB;
    for reach in Reach::ALL {
        let places = [scene.place(reach, "tree"), scene.place(reach, "tree/a")];
        let ended = scene.run(&["du", "--json", "-d", "1"], &places).expect_code(0);
        let counts: Vec<_> = ended
            .events
            .iter()
            .map(|total| ["bytes", "files", "directories", "others"].map(|key| total[key].as_u64().unwrap()))
            .collect();
        assert_eq!(counts, [[23, 3, 2, 0], [all, 5, 3, 1], [1000, 1, 0, 0]], "{reach:?} {ended}");
        assert!(ended.events[0]["path"].as_str().unwrap().ends_with("tree/dir"), "{ended}");
        assert!(ended.events[1]["allocated"].as_u64().unwrap() < all, "holes take no space: {ended}");
        let text = scene.run(&["du"], &places[..1]).expect_code(0).text;
        assert!(text.contains("5 files, 3 directories, 1 other item: ") && text.lines().count() == 1, "{text}");
    }
}
