//! `icdc rm`: what is named goes, and nothing else.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::scene::{Reach, Scene};
use crate::support::mounts::Mount;
use crate::support::terminal::Terminal;
use crate::support::{ICDC, is_root, skip};

/// `tree` with two files, a directory with another, and links that lead out of it.
fn furnish(scene: &Scene) {
    let top = scene.site.directory("tree");
    fs::write(top.join("a"), "1").unwrap();
    fs::write(top.join("b"), "12345").unwrap();
    fs::write(scene.site.directory("tree/dir").join("inner"), "").unwrap();
    fs::write(scene.site.directory("outside").join("precious"), "precious").unwrap();
    symlink("../outside", top.join("link")).unwrap();
    symlink("../outside/precious", top.join("dir/to-file")).unwrap();
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

#[test]
fn files_and_trees_are_removed_and_links_are_not_followed() {
    for reach in Reach::ALL {
        let scene = Scene::with_rights("rw");
        furnish(&scene);
        let place = |name: &str| scene.place(reach, name);
        scene.run(&["rm"], &[place("tree/a"), place("tree/link")]).expect_code(0);
        assert!(!is_there(&scene.path("tree/a")) && !is_there(&scene.path("tree/link")));
        let ended = scene.run(&["rm"], &[place("tree/dir"), place("tree/none"), place("tree/b")]).expect_code(1);
        assert!(ended.stderr.contains("is a directory; -r removes it"), "{ended}");
        assert!(ended.stderr.contains("tree/none: no such file or directory"), "{ended}");
        assert!(is_there(&scene.path("tree/dir/inner")) && !is_there(&scene.path("tree/b")), "{ended}");
        let ended = scene.run(&["rm", "-r", "--yes", "-v"], &[place("tree")]).expect_code(0);
        let ends: Vec<_> = ended.text.lines().collect();
        assert!(ends[0].starts_with("removed ") && ends[0].ends_with("tree/dir/inner"), "{ended}");
        assert!(ends[3].ends_with("/tree") || ends[3] == "removed tree", "{ended}");
        assert_eq!(ends[4], "4 items (2 directories) removed", "{ended}");
        assert!(!is_there(&scene.path("tree")));
        assert_eq!(fs::read_to_string(scene.path("outside/precious")).unwrap(), "precious");
    }
}

#[test]
fn a_dry_run_tells_what_would_be_removed() {
    for reach in Reach::ALL {
        let scene = Scene::with_rights("rw");
        furnish(&scene);
        let places = [scene.place(reach, "tree/dir"), scene.place(reach, "tree/b")];
        let ended = scene.run(&["rm", "-rn"], &places).expect_code(0);
        assert_eq!(ended.text.lines().count(), 5, "{ended}");
        assert!(ended.text.lines().next().unwrap().contains("would be removed "), "{ended}");
        assert!(ended.text.ends_with("4 items (1 directory), 5B would be removed\n"), "{ended}");
        let ended = scene.run(&["rm", "-r", "--dry-run", "--json"], &places).expect_code(0);
        let summary = ended.events.last().unwrap();
        assert_eq!((&summary["items"], &summary["directories"]), (&4.into(), &1.into()), "{ended}");
        assert!(is_there(&scene.path("tree/dir/inner")) && is_there(&scene.path("tree/b")));
    }
}

#[test]
fn directories_need_a_yes() {
    for reach in Reach::ALL {
        let scene = Scene::with_rights("rw");
        furnish(&scene);
        let ended = scene.run(&["rm", "-r"], &[scene.place(reach, "tree")]).expect_code(2);
        assert!(ended.stderr.contains("then give --yes"), "{ended}");
        for (answer, stays) in [("no\n", true), ("yes\n", false)] {
            let mut command = scene.site.icdc(&["rm", "-r", "--ssh", &scene.site.ssh(), "--remote-icdc", ICDC]);
            let mut terminal = Terminal::start(command.arg(scene.place(reach, "tree")));
            terminal.wait_for("remove 7 items (2 directories)");
            assert!(is_there(&scene.path("tree/a")), "nothing goes before the answer");
            terminal.write(answer);
            let status = terminal.finish();
            assert_eq!(status.code(), Some(if stays { 2 } else { 0 }), "{reach:?} {answer}");
            assert_eq!(is_there(&scene.path("tree")), stays, "{reach:?} {answer}");
        }
        assert!(is_there(&scene.path("outside/precious")));
    }
}

#[test]
fn patterns_are_expanded_where_the_items_are() {
    for reach in [Reach::Ssh, Reach::Daemon] {
        let scene = Scene::with_rights("rw");
        furnish(&scene);
        for name in ["x.tmp", "y.tmp", "z.nc", "*.tmp"] {
            fs::write(scene.path("tree").join(name), "").unwrap();
        }
        // A name that exists is no pattern.
        scene.run(&["rm"], &[scene.place(reach, "tree/*.tmp")]).expect_code(0);
        assert!(!is_there(&scene.path("tree/*.tmp")) && is_there(&scene.path("tree/x.tmp")));
        scene.run(&["rm"], &[scene.place(reach, "tree/*.tmp")]).expect_code(0);
        assert!(!is_there(&scene.path("tree/x.tmp")) && !is_there(&scene.path("tree/y.tmp")));
        assert!(is_there(&scene.path("tree/z.nc")));
        let ended = scene.run(&["rm"], &[scene.place(reach, "tree/*.tmp")]).expect_code(1);
        assert!(ended.stderr.contains("no such file or directory"), "{ended}");
    }
}

#[test]
fn directories_as_such_stay() {
    for reach in Reach::ALL {
        let scene = Scene::with_rights("rw");
        furnish(&scene);
        for path in ["", ".", "..", "tree/.", "tree/..", "tree/dir/../..", "tree/link/"] {
            let path = if path.is_empty() && reach == Reach::Here { "." } else { path };
            let ended = scene.run(&["rm", "-r", "--yes"], &[scene.place(reach, path)]);
            assert_ne!(ended.code, Some(0), "{reach:?} {path}: {ended}");
            assert!(is_there(&scene.path("tree/dir/inner")), "{reach:?} {path}: {ended}");
            assert!(is_there(&scene.path("outside/precious")), "{reach:?} {path}: {ended}");
        }
    }
    // The directory that relative paths start in, by another name.
    let scene = Scene::with_rights("rw");
    furnish(&scene);
    let ended = scene.run(&["rm", "-r", "--yes"], &[scene.site.root().into()]).expect_code(1);
    assert!(ended.stderr.contains("relative paths start in it"), "{ended}");
    assert!(is_there(&scene.path("tree/dir/inner")));
}

#[test]
fn names_of_any_bytes_go_and_steer_no_terminal() {
    let names: [&[u8]; 4] = [b"\x1b[2J", b"new\nline", b"\xff\xfe", b"-rf"];
    for reach in Reach::ALL {
        let scene = Scene::with_rights("rw");
        let top = scene.site.directory("tree");
        names.iter().for_each(|name| fs::write(top.join(OsStr::from_bytes(name)), "").unwrap());
        let ended = scene.run(&["rm", "-r", "--yes", "-v"], &[scene.place(reach, "tree")]).expect_code(0);
        assert!(!ended.text.contains('\x1b') && ended.text.lines().count() == 6, "{ended}");
        assert!(!is_there(&top));
    }
}

#[test]
fn what_cannot_be_counted_stays_whole() {
    if !is_root() {
        return skip("another user needs root");
    }
    let scene = Scene::with_rights("rw");
    furnish(&scene);
    crate::support::open_to_all(&scene.path("tree"));
    crate::support::open_to_all(scene.site.root());
    fs::set_permissions(scene.path("tree/dir"), fs::Permissions::from_mode(0o700)).unwrap();
    let mut command = scene.site.unprivileged();
    let ended = crate::support::Start::run(command.args(["rm", "-r", "--yes", "tree"])).expect_code(1);
    assert!(ended.stderr.contains("tree/dir: permission denied"), "{ended}");
    assert!(is_there(&scene.path("tree/a")) && is_there(&scene.path("tree/b")), "{ended}");
}

#[test]
fn mounted_file_systems_stay() {
    for reach in Reach::ALL {
        let scene = Scene::with_rights("rw");
        furnish(&scene);
        let Some(mount) = Mount::tmpfs(scene.path("tree/dir/mounted"), 1 << 20) else { return };
        fs::write(mount.path().join("precious"), "precious").unwrap();
        for path in ["tree", "tree/dir/mounted"] {
            let ended = scene.run(&["rm", "-r", "--yes"], &[scene.place(reach, path)]).expect_code(1);
            assert!(ended.stderr.contains("a file system is mounted there"), "{ended}");
        }
        assert!(is_there(&mount.path().join("precious")) && is_there(&scene.path("tree/a")));
    }
}
