//! `--chmod`: modes are changed on the way, and what is equal is so by the changed mode.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use crate::support::{MIB, Route, RoutedSite, Site, Start, data, is_root, skip};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// A tree with a small and a large file, a directory and a link.
fn tree(path: &Path) {
    fs::create_dir_all(path.join("directory")).unwrap();
    for (name, size, bits) in [("small", 10, 0o600), ("large", 5 * MIB, 0o711), ("directory/inner", 300_000, 0o444)] {
        set_mode(&data::file(&path.join(name), size, size), bits);
    }
    symlink("small", path.join("link")).unwrap();
    set_mode(&path.join("directory"), 0o700);
}

#[test]
fn modes_are_changed_and_the_second_run_sends_and_sets_nothing() {
    for route in Route::ALL {
        for (changes, modes) in [
            (&["--chmod", "D2750,F640"][..], [0o2750, 0o640, 0o640, 0o640]),
            (&["--chmod", "u=rwX,g=rX", "--chmod=o="], [0o750, 0o640, 0o750, 0o640]),
            (&["--chmod=Dg+s,Fgo-x"], [0o2700, 0o600, 0o700, 0o444]),
        ] {
            let routed = RoutedSite::new(route);
            tree(&routed.path("tree"));
            routed.copy(changes, &["tree/"], "copy").expect_code(0);
            let copy = routed.path("copy");
            let found = || ["directory", "small", "large", "directory/inner"].map(|name| mode(&copy.join(name)));
            let octal = |modes: [u32; 4]| modes.map(|mode| format!("{mode:o}"));
            assert_eq!(octal(found()), octal(modes), "{route:?} {changes:?}");
            assert!(copy.join("link").is_symlink());
            let changed = || {
                ["small", "large", "directory/inner"].map(|name| {
                    let found = fs::metadata(copy.join(name)).unwrap();
                    (found.ino(), found.ctime(), found.ctime_nsec())
                })
            };
            let before = changed();
            let again = routed.copy(&[changes, &["--skip-equal"]].concat(), &["tree/"], "copy").expect_code(0);
            assert_eq!((again.number("bytes_sent"), changed()), (0, before), "{route:?} {changes:?}: {again}");
            assert_eq!(found(), modes, "{route:?} {changes:?}");
            // A mode that was set by somebody is set back, without the contents.
            set_mode(&copy.join("large"), 0o604);
            let again = routed.copy(&[changes, &["--skip-equal"]].concat(), &["tree/"], "copy").expect_code(0);
            assert_eq!((again.number("bytes_sent"), found()), (0, modes), "{route:?} {changes:?}: {again}");
        }
    }
}

#[test]
fn set_id_bits_of_files_come_with_the_owner_only() {
    let site = Site::new();
    fs::write(site.path("file"), "file").unwrap();
    for changes in ["4755", "Fu+s", "g+s"] {
        let ended = site.copy(&["--chmod", changes, "file", "copy"]).run().expect_code(2);
        assert!(ended.stderr.contains("set-id bits of files go with the owner only"), "{ended}");
    }
    let ended = site.copy(&["--preserve", "times", "--chmod", "F644", "file", "copy"]).run().expect_code(2);
    assert!(ended.stderr.contains("add mode to its list"), "{ended}");
    assert!(!site.path("copy").exists());
    site.copy(&["--chmod", "-x", "file", "without"]).run().expect_code(0);
    assert_eq!(mode(&site.path("without")) & 0o111, 0);
    if !is_root() {
        return skip("owners need root");
    }
    site.copy(&["--preserve", "mode,owner", "--chmod", "4755", "file", "copy"]).run().expect_code(0);
    assert_eq!(mode(&site.path("copy")), 0o4755);
}
