//! What the kernel gives to new items, in directories with the set-group-id bit and with a default
//! list of access: the same that an item gets which is made under its final name.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::Path;

use crate::acls::{ACCESS, DEFAULT, get, list, set};
use crate::support::{MIB, Route, RoutedSite, data, is_root, skip};

const GROUP: u32 = 4711;
const FILES: [(&str, u64); 3] = [("small", 100), ("packed-alone", 3 * MIB), ("large", 9 * MIB)];

/// What a directory gives to what is made in it.
#[derive(Clone, Copy, Debug)]
enum Gives {
    Nothing,
    Group,
    Acl,
    Both,
}

/// Mode, group and lists of an item.
fn seen(path: &Path) -> (u32, u32, Option<Vec<u8>>, Option<Vec<u8>>) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.mode() & 0o7777, found.gid(), get(path, ACCESS), get(path, DEFAULT))
}

/// A directory that gives this to new items; false where there are no lists.
fn giving(path: &Path, gives: Gives) -> bool {
    fs::create_dir_all(path).unwrap();
    if let Gives::Group | Gives::Both = gives {
        chown(path, None, Some(GROUP)).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o2775)).unwrap();
    }
    match gives {
        Gives::Acl | Gives::Both => set(path, DEFAULT, &list(65_533, 6)),
        Gives::Nothing | Gives::Group => true,
    }
}

/// Makes what is copied under the final names, by open(2) and mkdir(2) with these modes, and sets
/// the modes where they are `kept`.
fn by_kernel(path: &Path, kept: bool) {
    let set_mode = |path: &Path, mode: u32| {
        if kept {
            let bits = fs::symlink_metadata(path).unwrap().mode() & 0o2000;
            let bits = if path.is_dir() { bits } else { 0 };
            fs::set_permissions(path, Permissions::from_mode(mode | bits)).unwrap();
        }
    };
    fs::create_dir(path.join("directory")).unwrap();
    for directory in ["", "directory"] {
        for (name, _) in FILES {
            let (file, mode) = (path.join(directory).join(name), if kept { 0o640 } else { 0o666 });
            File::options().write(true).create_new(true).mode(mode).open(&file).unwrap();
            set_mode(&file, 0o640);
        }
    }
    set_mode(&path.join("directory"), 0o751);
}

#[test]
fn new_items_are_as_if_they_were_made_under_their_names() {
    if !is_root() {
        return skip("another group needs root");
    }
    for route in Route::ALL {
        for gives in [Gives::Nothing, Gives::Group, Gives::Acl, Gives::Both] {
            let routed = RoutedSite::new(route);
            let tree = routed.path("tree");
            fs::create_dir_all(tree.join("directory")).unwrap();
            for directory in ["", "directory"] {
                for (name, size) in FILES {
                    let file = data::file(&tree.join(directory).join(name), size, size);
                    fs::set_permissions(file, Permissions::from_mode(0o640)).unwrap();
                }
            }
            fs::set_permissions(tree.join("directory"), Permissions::from_mode(0o751)).unwrap();
            for (number, preserve) in ["mode,times", "times"].into_iter().enumerate() {
                let (ours, theirs) = (format!("ours-{number}"), routed.path(format!("theirs-{number}")));
                if !giving(&routed.path(&ours), gives) || !giving(&theirs, gives) {
                    continue;
                }
                by_kernel(&theirs, preserve != "times");
                let sources = ["tree/small", "tree/packed-alone", "tree/large", "tree/directory"];
                routed.copy(&["--preserve", preserve], &sources, &ours).expect_code(0);
                for name in
                    ["directory", "directory/small", "directory/large", "directory/packed-alone", "small", "large"]
                {
                    let (ours, theirs) = (seen(&routed.path(&ours).join(name)), seen(&theirs.join(name)));
                    assert_eq!(ours, theirs, "{route:?} {gives:?} {preserve} {name}: {:o} {:o}", ours.0, theirs.0);
                }
            }
        }
    }
}
