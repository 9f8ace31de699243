//! Large files that have changed: what is equal in the files that they replace is not sent.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::support::compare::{same_contents, state};
use crate::support::daemon::Daemon;
use crate::support::data::{Noise, age};
use crate::support::{Ended, MIB, Route, RoutedSite, Site, Start, assert_no_leftovers, assert_same, data};

/// Unit in which files are compared.
const LEAF: u64 = 64 << 10;
/// Routes over which files are compared: within a host they are not.
const FAR: [Route; 4] = [Route::Push, Route::Pull, Route::ToDaemon, Route::FromDaemon];

/// A tree with a file of this size, and a copy of it.
fn copied(route: Route, size: u64) -> RoutedSite {
    let routed = RoutedSite::new(route);
    fs::create_dir(routed.path("tree")).unwrap();
    data::file(&routed.path("tree/image"), size, 7);
    routed.copy(&[], &["tree/"], "copy").expect_code(0);
    routed
}

/// Writes other bytes at these places, (offset, length); those behind the end are new.
pub(crate) fn change(path: &Path, seed: u64, places: &[(u64, u64)]) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut random = Noise::new(seed);
    for (offset, length) in places {
        let mut bytes = vec![0; *length as usize];
        match file.read_exact_at(&mut bytes, *offset) {
            Ok(()) => bytes.iter_mut().for_each(|byte| *byte ^= 1 + random.below(255) as u8),
            Err(_) => random.fill(&mut bytes),
        }
        file.write_all_at(&bytes, *offset).unwrap();
    }
}

/// Checks the numbers of bytes that travelled and that were equal, and the copy.
fn assert_sent(routed: &RoutedSite, ended: &Ended, sent: u64, what: &str) {
    let size = fs::metadata(routed.path("tree/image")).unwrap().len();
    assert_eq!((ended.number("bytes_sent"), ended.number("unchanged_bytes")), (sent, size - sent), "{what}: {ended}");
    assert_same(&routed.path("tree"), &routed.path("copy"));
    assert_no_leftovers(routed.site.root());
}

#[test]
fn only_the_leaves_that_changed_travel() {
    for route in FAR {
        let routed = copied(route, 41 * MIB + 123);
        let image = routed.path("tree/image");
        // In the middle of a leaf, over the border of two, over that of two blocks, and in the last one.
        change(&image, 1, &[(LEAF + 5, 1), (5 * LEAF - 1, 2), (8 * MIB - 3, 6), (41 * MIB + 100, 23)]);
        let ended = routed.copy(&[], &["tree/"], "copy").expect_code(0);
        assert_sent(&routed, &ended, 5 * LEAF + 123, &format!("{route:?}"));
        // Nothing but the time has changed.
        age(&image, 1_000_000_000, 0);
        let ended = routed.copy(&[], &["tree/"], "copy").expect_code(0);
        assert_sent(&routed, &ended, 0, &format!("{route:?}"));
    }
}

#[test]
fn a_file_that_has_grown_or_shrunk_sends_what_is_new() {
    for route in FAR {
        let routed = copied(route, 10 * MIB + 100);
        let image = routed.path("tree/image");
        change(&image, 2, &[(10 * MIB + 100, 6 * MIB)]);
        let ended = routed.copy(&[], &["tree/"], "copy").expect_code(0);
        // The last leaf of the old file was not whole.
        assert_sent(&routed, &ended, 6 * MIB + 100, &format!("grown, {route:?}"));
        OpenOptions::new().write(true).open(&image).unwrap().set_len(5 * MIB + 17).unwrap();
        let ended = routed.copy(&[], &["tree/"], "copy").expect_code(0);
        assert_sent(&routed, &ended, 0, &format!("shrunk, {route:?}"));
    }
}

#[test]
fn whole_file_sends_all_and_so_does_a_copy_within_a_host() {
    for (route, option) in [(Route::Push, Some("--whole-file")), (Route::ToDaemon, Some("-W")), (Route::Local, None)] {
        let routed = copied(route, 9 * MIB);
        change(&routed.path("tree/image"), 3, &[(0, 1)]);
        let options: Vec<&str> = option.into_iter().collect();
        let ended = routed.copy(&options, &["tree/"], "copy").expect_code(0);
        assert_sent(&routed, &ended, 9 * MIB, &format!("{route:?}"));
    }
}

#[test]
fn files_that_have_nothing_in_common_are_sent_whole() {
    for route in [Route::Pull, Route::ToDaemon] {
        let routed = copied(route, 300 * MIB);
        data::file(&routed.path("tree/image"), 300 * MIB, 8);
        let ended = routed.copy(&[], &["tree/"], "copy").expect_code(0);
        assert_sent(&routed, &ended, 300 * MIB, &format!("{route:?}"));
    }
}

#[test]
fn holes_stay_holes_and_what_lies_beside_them_is_compared() {
    for route in [Route::Push, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        fs::create_dir(routed.path("tree")).unwrap();
        let image = routed.path("tree/image");
        data::sparse(&image, 64 * MIB, 4, &[(0, 8 * MIB), (20 * MIB, MIB), (40 * MIB, 4 * MIB)]);
        routed.copy(&[], &["tree/"], "copy").expect_code(0);
        change(&image, 5, &[(LEAF, 1), (41 * MIB, 1)]);
        let ended = routed.copy(&[], &["tree/"], "copy").expect_code(0);
        // A block that is partly a hole travels as its data.
        assert_eq!(ended.number("bytes_sent"), 2 * LEAF + MIB, "{route:?}: {ended}");
        assert_same(&routed.path("tree"), &routed.path("copy"));
    }
}

#[test]
fn a_snapshot_is_compared_with_the_one_before_which_stays_as_it_is() {
    for route in [Route::Push, Route::ToDaemon] {
        let routed = RoutedSite::new(route);
        fs::create_dir(routed.path("tree")).unwrap();
        data::file(&routed.path("tree/image"), 20 * MIB, 9);
        routed.copy(&[], &["tree/"], "old").expect_code(0);
        let before = state(&routed.path("old"));
        change(&routed.path("tree/image"), 6, &[(9 * MIB, 10)]);
        age(&routed.path("tree/image"), 1_500_000_000, 0);
        let ended = routed.copy(&["--link-dest", "old"], &["tree/"], "copy").expect_code(0);
        assert_sent(&routed, &ended, LEAF, &format!("{route:?}"));
        assert_eq!(state(&routed.path("old")), before, "{route:?}");
    }
}

#[test]
fn many_changed_files_are_compared_each_with_its_own() {
    for route in [Route::Push, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        let tree = routed.path("tree");
        fs::create_dir(&tree).unwrap();
        for number in 0..300_u64 {
            data::file(&tree.join(format!("f{number}")), 300 * 1024 + number * 5000, number);
        }
        routed.copy(&[], &["tree/"], "copy").expect_code(0);
        (0..300_u64).for_each(|number| change(&tree.join(format!("f{number}")), number, &[(70_000, 1)]));
        let ended = routed.copy(&[], &["tree/"], "copy").expect_code(0);
        assert_eq!(ended.number("bytes_sent"), 300 * LEAF, "{route:?}: {ended}");
        assert_same(&tree, &routed.path("copy"));
    }
}

#[test]
fn an_interrupted_copy_of_a_changed_file_goes_on_and_is_compared_again() {
    for route in FAR {
        let routed = copied(route, 400 * MIB);
        let image = routed.path("tree/image");
        // Slow enough to be interrupted: half of it is new.
        let places: Vec<(u64, u64)> = (0..3200).map(|number| (number * 2 * LEAF, 1)).collect();
        change(&image, 11, &places);
        let run = routed.start(&["--rate", "400mbit"], &["tree/"], "copy");
        assert!(run.wait_for_bytes(150 * MIB), "{route:?}: {}", run.stderr());
        run.kill();
        let ended = routed.copy(&[], &["tree/"], "copy").expect_code(0);
        assert_same(&routed.path("tree"), &routed.path("copy"));
        assert!(ended.number("resumed_bytes") > 0, "{route:?}: {ended}");
        let (sent, unchanged) = (ended.number("bytes_sent"), ended.number("unchanged_bytes"));
        assert!(sent <= 200 * MIB && unchanged > 0, "{route:?}: {ended}");
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn a_file_that_changes_at_the_destination_meanwhile_does_no_harm() {
    for route in [Route::Push, Route::ToDaemon] {
        let routed = copied(route, 200 * MIB);
        let (image, there) = (routed.path("tree/image"), routed.path("copy/image"));
        let places: Vec<(u64, u64)> = (0..1600).map(|number| (number * 2 * LEAF, 1)).collect();
        change(&image, 12, &places);
        let run = routed.start(&["--rate", "300mbit"], &["tree/"], "copy");
        assert!(run.wait_for_bytes(20 * MIB), "{route:?}: {}", run.stderr());
        // What was described, and is to be read once more.
        let all: Vec<(u64, u64)> = (0..200).map(|number| (number * MIB + LEAF, 10)).collect();
        change(&there, 13, &all);
        let ended = run.finish().expect_code(0);
        assert_same(&routed.path("tree"), &routed.path("copy"));
        assert!(ended.number("unchanged_bytes") > 0, "{route:?}: {ended}");
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn a_file_that_becomes_shorter_at_the_destination_meanwhile_does_no_harm() {
    let routed = copied(Route::Push, 200 * MIB);
    let places: Vec<(u64, u64)> = (0..1600).map(|number| (number * 2 * LEAF, 1)).collect();
    change(&routed.path("tree/image"), 14, &places);
    let run = routed.start(&["--rate", "300mbit"], &["tree/"], "copy");
    assert!(run.wait_for_bytes(20 * MIB), "{}", run.stderr());
    File::options().write(true).open(routed.path("copy/image")).unwrap().set_len(0).unwrap();
    run.finish().expect_code(0);
    assert_same(&routed.path("tree"), &routed.path("copy"));
}

#[test]
fn a_key_that_may_only_write_is_told_nothing_of_what_is_there() {
    for (rights, sent) in [("rw", LEAF), ("w", 9 * MIB)] {
        let site = Site::new();
        let root = site.directory("root");
        let daemon = Daemon::start(&site, &root, rights);
        data::file(&site.path("image"), 9 * MIB, 15);
        let copy = || site.copy(&[site.path("image").to_str().unwrap(), &daemon.location("image")]);
        copy().start().finish().expect_code(0);
        change(&site.path("image"), 16, &[(0, 1)]);
        let ended = copy().start().finish().expect_code(0);
        assert_eq!(ended.number("bytes_sent"), sent, "{rights}: {ended}");
        assert_same(&site.path("image"), &root.join("image"));
    }
}

#[test]
fn several_connections_carry_differences() {
    for route in [Route::ToDaemon, Route::FromDaemon] {
        let routed = copied(route, 100 * MIB);
        let places: Vec<(u64, u64)> = (0..160).map(|number| (number * 10 * LEAF, 1)).collect();
        change(&routed.path("tree/image"), 17, &places);
        let ended = routed.copy(&["--streams", "4"], &["tree/"], "copy").expect_code(0);
        assert_sent(&routed, &ended, 160 * LEAF, &format!("{route:?}"));
    }
}

#[test]
fn holes_of_any_length_that_were_data_become_holes() {
    for route in [Route::Push, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        fs::create_dir(routed.path("tree")).unwrap();
        let image = routed.path("tree/image");
        // More blocks without data than are described ahead, and data behind them.
        data::sparse(&image, 2200 * MIB, 18, &[(0, MIB), (2196 * MIB, 4 * MIB)]);
        routed.copy(&[], &["tree/"], "copy").expect_code(0);
        change(&image, 19, &[(2197 * MIB, 1)]);
        let ended = routed.copy(&[], &["tree/"], "copy").expect_code(0);
        assert_eq!(ended.number("bytes_sent"), MIB + LEAF, "{route:?}: {ended}");
        assert_same(&routed.path("tree"), &routed.path("copy"));
    }
}

#[test]
fn files_that_are_gone_meanwhile_are_sent_whole() {
    for route in [Route::Push, Route::ToDaemon] {
        let routed = RoutedSite::new(route);
        let (tree, copy) = (routed.path("tree"), routed.path("copy"));
        fs::create_dir(&tree).unwrap();
        // More than are held open.
        let names: Vec<String> = (0..100).map(|number| format!("f{number}")).collect();
        for (number, name) in (0..).zip(&names) {
            data::file(&tree.join(name), MIB, number);
        }
        routed.copy(&[], &["tree/"], "copy").expect_code(0);
        for name in &names {
            change(&tree.join(name), 20, &[(0, MIB / 2)]);
        }
        let run = routed.start(&["--rate", "80mbit"], &["tree/"], "copy");
        assert!(run.wait_for_bytes(2 * MIB), "{route:?}: {}", run.stderr());
        for name in &names {
            // One that is there already is the new one, or becomes it.
            let _ = fs::rename(copy.join(name), routed.path("away"));
            let _ = fs::rename(routed.path("away"), copy.join(name).with_extension("away"));
        }
        run.finish().expect_code(0);
        for name in &names {
            let new = [copy.join(name), copy.join(name).with_extension("away")];
            assert!(new.iter().any(|path| path.exists() && same_contents(&tree.join(name), path)), "{route:?}: {name}");
        }
    }
}
