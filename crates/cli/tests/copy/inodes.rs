//! Files with several names: an inode that has other contents by the time that a further name of it is found, and
//! attributes that alone have changed.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use icdc_protocol::limits::MAX_PENDING;

use crate::support::{MIB, Route, RoutedSite, Signal, Site, Start, assert_no_leftovers, assert_same, data};

/// More than are announced ahead of what has arrived.
const BETWEEN: usize = MAX_PENDING;

#[test]
fn a_further_name_that_has_other_contents_meanwhile_is_a_file_of_its_own() {
    let site = Site::new();
    for directory in ["source/a", "source/m", "source/z"] {
        site.directory(directory);
    }
    let [first, again, further] = ["source/a/x", "source/a/x-again", "source/z/y"].map(|name| site.path(name));
    fs::write(&first, "before").unwrap();
    fs::hard_link(&first, again).unwrap();
    fs::hard_link(&first, &further).unwrap();
    for number in 0..BETWEEN {
        fs::write(site.path(format!("source/m/{number:06}")), "").unwrap();
    }
    let run = site.copy(&["source/", "copy"]).start();
    let arrived = |event: &serde_json::Value| event["type"] == "item" && event["path"].as_str() == Some("source/a/x");
    assert!(run.wait_for(arrived), "{}", run.stderr());
    run.signal(Signal::STOP);
    fs::write(&first, "behind").unwrap();
    run.signal(Signal::CONT);
    run.finish().expect_code(0);
    assert_eq!(fs::read_to_string(site.path("copy/a/x")).unwrap(), "before");
    assert_eq!(fs::read_to_string(site.path("copy/z/y")).unwrap(), "behind");
    let inode = |name: &str| fs::metadata(site.path(name)).unwrap().ino();
    assert_eq!(inode("copy/a/x"), inode("copy/a/x-again"));
    assert_ne!(inode("copy/a/x"), inode("copy/z/y"));
    assert_no_leftovers(site.root());
}

/// A small file and a large one, each with a name in the tree, one in `d`, and a further one in this
/// directory.
fn with_three_names(tree: &Path, again: &str) {
    fs::create_dir_all(tree.join("d")).unwrap();
    for (name, size) in [("small", 70_000), ("large", 9 * MIB + 1)] {
        data::file(&tree.join(name), size, size);
        fs::hard_link(tree.join(name), tree.join("d").join(name)).unwrap();
        fs::hard_link(tree.join(name), tree.join(again).join(format!("{name} again"))).unwrap();
    }
}

#[test]
fn of_a_file_with_several_names_nothing_is_sent_where_its_attributes_alone_have_changed() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let (tree, copy) = (routed.path("tree"), routed.path("copy"));
        with_three_names(&tree, "d");
        let options = ["--skip-equal"];
        routed.copy(&options, &["tree/"], "copy").expect_code(0);
        // A name of which the source knows nothing.
        fs::hard_link(copy.join("small"), routed.path("older")).unwrap();
        for name in ["small", "large"] {
            fs::set_permissions(tree.join(name), fs::Permissions::from_mode(0o640)).unwrap();
        }
        let older = fs::metadata(routed.path("older")).unwrap();
        let ended = routed.copy(&options, &["tree/"], "copy").expect_code(0);
        assert_same(&tree, &copy);
        assert_eq!((ended.number("bytes_sent"), ended.number("linked")), (0, 2), "{route:?}: {ended}");
        for name in ["small", "large"] {
            let found = fs::metadata(copy.join(name)).unwrap();
            assert_eq!((found.mode() & 0o777, found.nlink()), (0o640, 3), "{route:?} {name}: {ended}");
            for further in [name.to_owned(), format!("{name} again")] {
                assert_eq!(
                    fs::metadata(copy.join("d").join(further)).unwrap().ino(),
                    found.ino(),
                    "{route:?}: {ended}"
                );
            }
        }
        let after = fs::metadata(routed.path("older")).unwrap();
        assert_eq!((after.ino(), after.mode(), after.nlink()), (older.ino(), older.mode(), 1), "{route:?}: {ended}");
        assert_no_leftovers(routed.site.root());
        // By sizes alone, the time is set as well.
        fs::File::open(tree.join("small")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        let ended = routed.copy(&["--skip-equal", "--size-only"], &["tree/"], "copy").expect_code(0);
        assert_same(&tree, &copy);
        assert_eq!(ended.number("bytes_sent"), 0, "{route:?}: {ended}");
        // Equal size and time prove nothing.
        fs::set_permissions(tree.join("small"), fs::Permissions::from_mode(0o600)).unwrap();
        let ended = routed.copy(&["--skip-equal", "--verify"], &["tree/"], "copy").expect_code(0);
        assert_same(&tree, &copy);
        assert_eq!(ended.number("bytes_sent"), 70_000, "{route:?}: {ended}");
    }
}

#[test]
fn a_further_name_that_is_right_already_is_left_alone() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let (tree, copy) = (routed.path("tree"), routed.path("copy"));
        with_three_names(&tree, "");
        let options = ["--skip-equal"];
        routed.copy(&options, &["tree/"], "copy").expect_code(0);
        let ctime = |name: &str| {
            let stat = fs::metadata(copy.join(name)).unwrap();
            (stat.ino(), stat.ctime(), stat.ctime_nsec())
        };
        let names = ["small", "large"];
        let before = names.map(ctime);
        let dry = routed.copy(&["--skip-equal", "--dry-run"], &["tree/"], "copy").expect_code(0);
        assert_eq!((dry.number("skipped"), dry.number("links")), (6, 0), "{route:?}: {dry}");
        let ended = routed.copy(&options, &["tree/"], "copy").expect_code(0);
        assert_eq!(names.map(ctime), before, "{route:?}: {ended}");
        assert_eq!((ended.number("skipped"), ended.number("links")), (6, 0), "{route:?}: {ended}");
        // The first name is read before it is known to be right.
        let ended = routed.copy(&["--skip-equal", "--checksum"], &["tree/"], "copy").expect_code(0);
        assert_eq!(names.map(ctime), before, "{route:?}: {ended}");

        // A file of its own, with the same contents, is no further name.
        fs::remove_file(copy.join("d/small")).unwrap();
        fs::copy(tree.join("d/small"), copy.join("d/small")).unwrap();
        routed.copy(&options, &["tree/"], "copy").expect_code(0);
        assert_same(&tree, &copy);
        assert_eq!(names.map(ctime)[1], before[1], "{route:?}");
        assert_no_leftovers(&copy);
    }
}
