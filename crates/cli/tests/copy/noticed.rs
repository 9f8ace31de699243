//! Notices of items that have not failed: told once, with their number and the first of them.

use std::ffi::OsString;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{XattrFlags, setxattr};
use serde_json::Value;

use crate::support::mounts::Mount;
use crate::support::{Ended, Route, RoutedSite, Start, is_root, open_to_all, skip};

/// Number of items in a notice of the summary, and how many of them it names.
pub(crate) fn noticed(ended: &Ended, kind: &str) -> (u64, usize) {
    let summary = ended.summary();
    let notices = summary["notices"].as_array().unwrap();
    let of_kind: Vec<&Value> = notices.iter().filter(|notice| notice["kind"] == kind).collect();
    match of_kind.as_slice() {
        [] => (0, 0),
        [notice] => (notice["count"].as_u64().unwrap(), notice["first"].as_array().unwrap().len()),
        more => panic!("told more than once: {more:?}"),
    }
}

#[test]
fn times_that_the_destination_cannot_keep_are_told() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let Some(coarse) = Mount::ext4(routed.path("coarse"), 64 << 20, &["-I", "128"]) else { return };
        fs::create_dir_all(routed.path("tree/directory")).unwrap();
        let year_2100 = UNIX_EPOCH + Duration::from_secs(4_102_444_800);
        let set_time = |name: &str, time: SystemTime| {
            let file = File::open(routed.path("tree").join(name)).unwrap();
            file.set_times(FileTimes::new().set_modified(time)).unwrap();
        };
        for name in ["a", "b", "c"] {
            fs::write(routed.path("tree").join(name), name).unwrap();
            set_time(name, year_2100);
        }
        crate::support::data::file(&routed.path("tree/large"), 5 << 20, 1);
        fs::write(routed.path("tree/rounded"), "rounded").unwrap();
        set_time("rounded", UNIX_EPOCH + Duration::new(2000, 999));
        set_time("large", year_2100);
        set_time("directory", year_2100);
        let ended = routed.copy(&[], &["tree"], "coarse/copy").expect_code(0);
        assert_ne!(fs::metadata(coarse.path().join("copy/a")).unwrap().mtime(), 4_102_444_800);
        assert_eq!(noticed(&ended, "time_not_kept"), (5, 3), "{route:?}: {ended}");
        assert_eq!(ended.stderr.matches("cannot keep it").count(), 1, "{route:?}: {ended}");
    }
}

#[test]
fn attributes_that_are_not_carried_are_told() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        fs::create_dir(routed.path("tree")).unwrap();
        for name in ["one", "two"] {
            fs::write(routed.path("tree").join(name), name).unwrap();
            if let Err(error) = setxattr(routed.path("tree").join(name), "trusted.origin", b"here", XattrFlags::empty())
            {
                return skip(&format!("trusted attributes cannot be set here: {error}"));
            }
        }
        let ended = routed.copy(&["--preserve", "all"], &["tree"], "copy").expect_code(0);
        assert_eq!(noticed(&ended, "attributes_left_out"), (2, 2), "{route:?}: {ended}");
        let ended = routed.copy(&[], &["tree"], "again").expect_code(0);
        assert_eq!(noticed(&ended, "attributes_left_out"), (0, 0), "{route:?}: nobody asked for any: {ended}");
    }
}

#[test]
fn a_further_name_that_may_not_be_linked_becomes_a_file_of_its_own() {
    if !is_root() || fs::read_to_string("/proc/sys/fs/protected_hardlinks").is_ok_and(|set| set.trim() == "0") {
        return skip("the system lets everybody link the files of others, or there are no others");
    }
    let routed = RoutedSite::new(Route::Local);
    let site = &routed.site;
    let (source, target) = (site.directory("source"), site.directory("target"));
    open_to_all(&target);
    let time = UNIX_EPOCH + Duration::from_secs(2000);
    for place in [&source, &target] {
        fs::write(place.join("first"), "contents").unwrap();
        File::open(place.join("first")).unwrap().set_times(FileTimes::new().set_modified(time)).unwrap();
    }
    fs::hard_link(source.join("first"), source.join("second")).unwrap();
    let words = ["copy", "--json", "--skip-equal", "source/first", "source/second", "target"];
    let ended = site.unprivileged().args(words).run().expect_code(0);
    assert_eq!(fs::read(target.join("second")).unwrap(), b"contents", "{ended}");
    let inode = |name: &str| fs::metadata(target.join(name)).unwrap().ino();
    assert_ne!(inode("first"), inode("second"), "{ended}");
    assert_eq!(noticed(&ended, "link_refused"), (1, 1), "{ended}");
    assert!(ended.stderr.contains("1 further name of a file became a file of its own"), "{ended}");
}

#[test]
fn a_further_name_whose_first_one_was_replaced_is_told() {
    for route in [Route::Push, Route::Pull, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        ["a", "b", "c"].iter().for_each(|name| fs::create_dir(routed.path(name)).unwrap());
        fs::write(routed.path("a/x"), "first").unwrap();
        fs::hard_link(routed.path("a/x"), routed.path("a/y")).unwrap();
        // The name that the directory gives first is the first one.
        let names = fs::read_dir(routed.path("a")).unwrap().map(|entry| entry.unwrap().file_name());
        let [first, further] = <[_; 2]>::try_from(names.collect::<Vec<_>>()).unwrap();
        let path = |directory: &str, name: &OsString| routed.path(directory).join(name);
        // The further name waits for this one, and the later source for nothing.
        crate::support::data::file(&path("c", &further), 24 << 20, 1);
        fs::write(path("b", &first), "later").unwrap();
        let ended = routed.copy(&["--rate", "60mbit"], &["c/", "a/", "b/"], "copy").expect_code(0);
        assert_eq!(fs::read(path("copy", &first)).unwrap(), b"later", "{route:?}: {ended}");
        assert_eq!(fs::read(path("copy", &further)).unwrap(), b"first", "{route:?}: {ended}");
        assert_eq!(noticed(&ended, "first_name_replaced"), (1, 1), "{route:?}: {ended}");
    }
}
