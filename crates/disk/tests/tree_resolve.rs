//! Paths as users and far ends write them, and what a hostile neighbour can do to them.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use icdc_disk::tree::{Followed, Kind, Located, Name, Tree, TreeError};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use tempfile::TempDir;

/// `root/{file, inner/{file, up -> ../file}, way -> inner, out -> ../outside, absolute -> …}`
/// beside `outside/secret`.
fn house() -> (TempDir, Tree) {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().join("root");
    let outside = temporary.path().join("outside");
    fs::create_dir_all(root.join("inner")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    fs::write(root.join("file"), "file").unwrap();
    fs::write(root.join("inner/file"), "inner file").unwrap();
    symlink("../file", root.join("inner/up")).unwrap();
    symlink("inner", root.join("way")).unwrap();
    symlink("../outside", root.join("out")).unwrap();
    symlink("../outside/secret", root.join("out-file")).unwrap();
    symlink(&outside, root.join("absolute")).unwrap();
    symlink("missing", root.join("dangling")).unwrap();
    let tree = Tree::open(&root).unwrap();
    (temporary, tree)
}

fn shape(located: &Located) -> (String, Option<Kind>, bool) {
    (located.path(), located.stat.map(|stat| stat.kind), located.trailing_slash)
}

#[test]
fn a_confined_tree_takes_every_path_as_beneath_its_root() {
    let (_temporary, tree) = house();
    let cases: [(&str, &str, Option<Kind>, bool); 12] = [
        ("file", "/file", Some(Kind::File), false),
        ("/file", "/file", Some(Kind::File), false),
        ("//inner//file", "/inner//file", Some(Kind::File), false),
        ("inner/", "/inner", Some(Kind::Directory), true),
        ("way/file", "/way/file", Some(Kind::File), false),
        ("way", "/way", Some(Kind::Symlink), false),
        ("inner/up", "/inner/up", Some(Kind::Symlink), false),
        ("inner/new", "/inner/new", None, false),
        ("", "/", Some(Kind::Directory), false),
        ("/", "/", Some(Kind::Directory), true),
        ("inner/..", "/inner/..", Some(Kind::Directory), false),
        ("~", "/~", None, false),
    ];
    for (path, shown, kind, slash) in cases {
        let located = tree.resolve(path.as_bytes()).unwrap();
        assert_eq!(shape(&located), (shown.to_owned(), kind, slash), "{path}");
    }
}

#[test]
fn what_leads_out_is_refused_and_named() {
    let (_temporary, tree) = house();
    for path in ["..", "../outside", "inner/../..", "out/secret", "absolute/secret", "way/../../x"] {
        let error = tree.resolve(path.as_bytes()).unwrap_err();
        assert!(matches!(error, TreeError::Escapes { .. }), "{path}: {error}");
        assert!(error.to_string().contains("leads out of the permitted directory"), "{error}");
    }
    for link in ["out", "absolute", "out-file"] {
        let located = tree.resolve(link.as_bytes()).unwrap();
        assert_eq!(located.stat.unwrap().kind, Kind::Symlink);
        assert!(matches!(located.open_directory(), Err(TreeError::Escapes { .. })), "{link}");
        let name = located.name.unwrap();
        assert!(matches!(located.directory.follow(&name), Err(TreeError::Escapes { .. })));
    }
    assert!(matches!(tree.resolve(b"a\0b"), Err(TreeError::Name(_))));
    assert!(matches!(tree.resolve(&[b'n'; 300]), Err(TreeError::Name(_))));
    assert!(matches!(tree.resolve(&b"n/".repeat(3000)), Err(TreeError::TooLong { .. })));
    assert!(matches!(tree.resolve(b"file/x"), Err(TreeError::NotADirectory { .. })));
    assert!(tree.resolve(b"missing/x").unwrap_err().is_missing());
}

#[test]
fn links_that_stay_beneath_can_be_followed() {
    let (_temporary, tree) = house();
    let way = tree.resolve(b"way").unwrap().open_directory().unwrap();
    assert_eq!(way.path(), "/way");
    let up = Name::new(b"up").unwrap();
    let Followed::File(_, stat) = way.follow(&up).unwrap() else { panic!("a file") };
    assert_eq!(stat.size, 4);
    let dangling = tree.resolve(b"dangling").unwrap().open_directory().unwrap_err();
    assert!(dangling.is_missing(), "{dangling}");
    let file = tree.resolve(b"file").unwrap().open_directory().unwrap_err();
    assert!(matches!(file, TreeError::NotADirectory { found: "a regular file", .. }), "{file}");
    let up = tree.resolve(b"inner/up").unwrap().open_directory().unwrap_err();
    assert!(up.to_string().contains("a symbolic link to a regular file"), "{up}");
}

#[test]
fn an_unconfined_tree_is_a_shell_with_a_working_directory() {
    let (temporary, _) = house();
    let root = temporary.path().join("root");
    let tree = Tree::unconfined(&root).unwrap();
    let located = tree.resolve(b"file").unwrap();
    assert_eq!(shape(&located), ("file".to_owned(), Some(Kind::File), false));
    assert_eq!(tree.resolve(b"../outside/secret").unwrap().stat.unwrap().size, 6);
    assert_eq!(tree.resolve(b"out/secret").unwrap().stat.unwrap().size, 6);
    let absolute = temporary.path().join("outside/secret");
    let located = tree.resolve(absolute.as_os_str().as_encoded_bytes()).unwrap();
    assert_eq!(located.path(), absolute.to_str().unwrap());
    assert_eq!(located.directory.entries().unwrap().len(), 1);
    let out = tree.resolve(b"out").unwrap().open_directory().unwrap();
    assert!(out.stat(&Name::new(b"secret").unwrap()).is_ok());
    let top = tree.resolve(b"/").unwrap();
    assert!(top.name.is_none() && top.path() == "/");

    assert!(tree.resolve(b"~/secret").is_err(), "without a home ~ is a name");
    let tree = tree.with_home(&temporary.path().join("outside"));
    assert_eq!(tree.resolve(b"~/secret").unwrap().stat.unwrap().size, 6);
    assert!(tree.resolve(b"~").unwrap().stat.is_some());
    assert!(tree.resolve(b"~other").unwrap().stat.is_none());
}

/// A neighbour exchanges a directory with a link to the outside, over and over, while files are
/// made in it the way the receiver does. Everything must land inside.
#[test]
fn swapped_links_do_not_move_what_is_written() {
    let (temporary, tree) = house();
    let root = temporary.path().join("root");
    let outside = temporary.path().join("outside");
    let stop = AtomicBool::new(false);
    let (mut made, mut refused) = (0u32, 0u32);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let (one, other) = (root.join("inner"), root.join("out"));
                renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        for number in 0..200_000u32 {
            let staging = Name::new(format!("staging-{number}").as_bytes()).unwrap();
            let published = Name::new(format!("made-{number}").as_bytes()).unwrap();
            let directory = match number % 3 {
                0 => tree.resolve(b"inner/x").map(|located| located.directory),
                1 => tree.root().make_directory(&Name::new(b"inner").unwrap(), 0o755),
                _ => tree.resolve(b"inner").and_then(|located| located.open_directory()),
            };
            match directory {
                Ok(directory) => {
                    directory.create_file(&staging, 0o600).unwrap();
                    directory.rename(&staging, &directory, &published).unwrap();
                    made += 1;
                }
                Err(_) => refused += 1,
            }
            if made > 1000 && refused > 1000 {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(made > 0 && refused > 0, "{made} made, {refused} refused: the race did not happen");
    let strangers: Vec<_> = fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(strangers, ["secret"]);
    let inside = [root.join("inner"), root.join("out")]
        .iter()
        .filter(|path| !path.is_symlink())
        .map(|path| count_made(path))
        .sum::<usize>();
    assert_eq!(inside, made as usize);
}

fn count_made(directory: &Path) -> usize {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.as_encoded_bytes().starts_with(b"made-")).count()
}
