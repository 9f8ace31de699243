//! Content of large files that has moved, or is in a file of another name: it is not sent.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::support::compare::{same_contents, state};
use crate::support::daemon::Daemon;
use crate::support::data::{Noise, age};
use crate::support::{Ended, ICDC, MIB, Route, RoutedSite, Site, Start, assert_no_leftovers, assert_same};

/// Routes over which content is looked for: within a host it is not.
const FAR: [Route; 4] = [Route::Push, Route::Pull, Route::ToDaemon, Route::FromDaemon];

/// `length` bytes that follow from a seed.
fn noise(seed: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    Noise::new(seed).fill(&mut bytes);
    bytes
}

/// A site whose destination has the file `name` with these contents, and whose tree has the file `image`.
fn sited(route: Route, name: &str, old: &[u8], new: &[u8]) -> RoutedSite {
    let routed = RoutedSite::new(route);
    for directory in ["tree", "copy"] {
        fs::create_dir(routed.path(directory)).unwrap();
    }
    fs::write(routed.path("tree/image"), new).unwrap();
    fs::write(routed.path("copy").join(name), old).unwrap();
    age(&routed.path("copy").join(name), 1_000_000_000, 0);
    routed
}

/// Checks that at most so many bytes travelled, that the rest was found, and that the copy is right.
fn assert_sent(routed: &RoutedSite, ended: &Ended, most: u64, what: &str) {
    let size = fs::metadata(routed.path("tree/image")).unwrap().len();
    let (sent, unchanged) = (ended.number("bytes_sent"), ended.number("unchanged_bytes"));
    assert!(sent <= most && sent + unchanged == size, "{what}: {sent} of {size}, {unchanged} found: {ended}");
    assert!(same_contents(&routed.path("tree/image"), &routed.path("copy/image")), "{what}");
    assert_no_leftovers(routed.site.root());
}

#[test]
fn what_was_inserted_at_the_start_travels_and_nothing_behind_it() {
    for route in FAR {
        let old = noise(1, 64 * MIB + 77);
        let new = [noise(2, MIB), old.clone()].concat();
        let routed = sited(route, "image", &old, &new);
        let ended = routed.copy(&["--delta"], &["tree/"], "copy").expect_code(0);
        assert_sent(&routed, &ended, MIB + MIB / 8, &format!("{route:?}"));
    }
}

#[test]
fn an_insertion_into_a_file_of_256_mib_sends_at_most_a_fiftieth() {
    let old = noise(3, 256 * MIB);
    let new = [noise(4, MIB), old.clone()].concat();
    let routed = sited(Route::Push, "image", &old, &new);
    let ended = routed.copy(&["--delta"], &["tree/"], "copy").expect_code(0);
    assert_sent(&routed, &ended, 257 * MIB / 50, "push");
}

#[test]
fn what_was_deleted_swapped_or_changed_in_place_is_found() {
    let old = noise(5, 48 * MIB);
    let part = |from: u64, to: u64| old[(from * MIB) as usize..(to * MIB) as usize].to_vec();
    let deleted = [part(0, 20), part(23, 48)].concat();
    let swapped = [part(30, 48), part(0, 7), part(7, 30)].concat();
    let mut changed = old.clone();
    (0..20).for_each(|number| changed[number * 2_000_000] ^= 1);
    let doubled = [part(0, 48), part(0, 48)].concat();
    for (new, most, what) in [
        (deleted, MIB / 4, "deleted"),
        (swapped, MIB / 2, "swapped"),
        (changed, 20 * MIB / 16, "changed"),
        (doubled, MIB / 4, "doubled"),
    ] {
        for route in [Route::Push, Route::FromDaemon] {
            let routed = sited(route, "image", &old, &new);
            let ended = routed.copy(&["--delta"], &["tree/"], "copy").expect_code(0);
            assert_sent(&routed, &ended, most, &format!("{what}, {route:?}"));
        }
    }
}

#[test]
fn sync_finds_it_as_well_and_a_second_run_sends_nothing() {
    let old = noise(6, 20 * MIB);
    let routed = sited(Route::Push, "image", &old, &[noise(7, 5000), old.clone()].concat());
    let sync = || {
        let mut command =
            routed.site.icdc(&["sync", "--json", "--remote-icdc", ICDC, "--delta", "--ssh", &routed.site.ssh()]);
        command.arg(routed.source("tree/")).arg(routed.destination("copy")).start().finish().expect_code(0)
    };
    assert_sent(&routed, &sync(), MIB / 4, "sync");
    let ended = sync();
    assert_eq!((ended.number("bytes_sent"), ended.number("skipped")), (0, 1), "{ended}");
}

#[test]
fn between_two_other_hosts_it_is_found_at_the_destinations() {
    let old = noise(23, 20 * MIB);
    let routed = sited(Route::Push, "other", &old, &[noise(24, 5000), old.clone()].concat());
    let mut command = routed.site.copy(&["--ssh", &routed.site.ssh(), "--basis", "copy/other"]);
    let [tree, copy] = ["tree/", "copy"].map(|name| routed.site.by_ssh(name));
    let ended = command.arg(tree).arg(copy).start().finish().expect_code(0);
    assert_sent(&routed, &ended, MIB / 4, "between");
}

#[test]
fn a_named_file_is_a_basis_and_stays_as_it_is() {
    for route in FAR {
        let old = noise(8, 40 * MIB);
        let new = [&old[..10_000_000], &noise(9, 30_000), &old[10_000_000..]].concat();
        // Of the name that the copy has, there is no file.
        let routed = sited(route, "yesterday.dump", &old, &new);
        let before = state(&routed.path("copy/yesterday.dump"));
        let ended = routed.copy(&["--basis", "copy/yesterday.dump"], &["tree/"], "copy").expect_code(0);
        assert_sent(&routed, &ended, MIB / 4, &format!("{route:?}"));
        assert_eq!(state(&routed.path("copy/yesterday.dump")), before, "{route:?}");
    }
}

#[test]
fn bases_are_looked_up_together_and_beside_the_destination() {
    let (a, b) = (noise(10, 24 * MIB), noise(11, 24 * MIB));
    let new = [&a[..MIB as usize * 12], &b[..], &a[MIB as usize * 12..]].concat();
    for route in [Route::Push, Route::FromDaemon] {
        let routed = sited(route, "image", &a, &new);
        fs::write(routed.path("other"), &b).unwrap();
        // The destination has the names of both, and so has a link to it.
        std::os::unix::fs::symlink("other", routed.path("link")).unwrap();
        for basis in ["other", "link"] {
            let ended = routed.copy(&["--basis", basis, "--basis", "copy"], &["tree/"], "copy").expect_code(0);
            assert_sent(&routed, &ended, MIB / 2, &format!("{basis}, {route:?}"));
            fs::write(routed.path("copy/image"), &a).unwrap();
        }
    }
}

#[test]
fn a_directory_has_the_basis_of_the_same_path() {
    for route in [Route::Push, Route::Pull] {
        let routed = RoutedSite::new(route);
        fs::create_dir_all(routed.path("tree/deep/er")).unwrap();
        fs::create_dir_all(routed.path("old/deep/er")).unwrap();
        for (number, name) in ["deep/er/a", "deep/b", "c"].iter().enumerate() {
            let old = noise(20 + number as u64, 9 * MIB);
            fs::write(routed.path("tree").join(name), [noise(30 + number as u64, 1000), old.clone()].concat()).unwrap();
            fs::write(routed.path("old").join(name), old).unwrap();
        }
        let before = state(&routed.path("old"));
        let ended = routed.copy(&["--basis", "old"], &["tree/"], "copy").expect_code(0);
        assert!(ended.number("bytes_sent") <= MIB / 2, "{route:?}: {ended}");
        assert_same(&routed.path("tree"), &routed.path("copy"));
        assert_eq!(state(&routed.path("old")), before, "{route:?}");
    }
}

#[test]
fn files_that_have_nothing_in_common_are_sent_whole() {
    for route in [Route::Pull, Route::ToDaemon] {
        let routed = sited(route, "image", &noise(12, 40 * MIB), &noise(13, 37 * MIB));
        let ended = routed.copy(&["--delta"], &["tree/"], "copy").expect_code(0);
        assert_eq!((ended.number("bytes_sent"), ended.number("unchanged_bytes")), (37 * MIB, 0), "{route:?}: {ended}");
        assert_same(&routed.path("tree"), &routed.path("copy"));
    }
}

#[test]
fn holes_stay_holes_and_data_that_moved_is_found() {
    for route in [Route::Push, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        fs::create_dir(routed.path("tree")).unwrap();
        fs::create_dir(routed.path("copy")).unwrap();
        let (old, image) = (routed.path("copy/image"), routed.path("tree/image"));
        let data = noise(14, 10 * MIB);
        for (path, places) in [(&old, [MIB, 90 * MIB]), (&image, [3 * MIB + 4096, 200 * MIB])] {
            let file = File::create(path).unwrap();
            file.set_len(256 * MIB).unwrap();
            places.iter().for_each(|place| file.write_all_at(&data, *place).unwrap());
        }
        let ended = routed.copy(&["--delta"], &["tree/"], "copy").expect_code(0);
        assert!(ended.number("bytes_sent") <= MIB, "{route:?}: {ended}");
        assert!(ended.number("unchanged_bytes") >= 19 * MIB, "{route:?}: {ended}");
        assert_same(&routed.path("tree"), &routed.path("copy"));
    }
}

#[test]
fn many_files_are_looked_up_each_in_its_own() {
    for route in [Route::Push, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        fs::create_dir(routed.path("tree")).unwrap();
        fs::create_dir(routed.path("copy")).unwrap();
        for number in 0..120_u64 {
            let old = noise(number, 400 * 1024 + number * 50_000);
            let name = format!("f{number}");
            fs::write(routed.path("tree").join(&name), [noise(1000 + number, 100), old.clone()].concat()).unwrap();
            fs::write(routed.path("copy").join(&name), old).unwrap();
        }
        let ended = routed.copy(&["--delta", "--streams", "3"], &["tree/"], "copy").expect_code(0);
        assert!(ended.number("bytes_sent") <= 120 * 64 * 1024, "{route:?}: {ended}");
        assert_same(&routed.path("tree"), &routed.path("copy"));
    }
}

#[test]
fn an_interrupted_copy_goes_on_and_what_has_moved_is_found_again() {
    for route in [Route::Push, Route::Pull, Route::ToDaemon] {
        // Half of it is new, so that it takes its time.
        let old = noise(15, 150 * MIB);
        let new = [
            noise(16, 75 * MIB),
            old[..75 * MIB as usize].to_vec(),
            noise(17, 75 * MIB),
            old[75 * MIB as usize..].to_vec(),
        ]
        .concat();
        let routed = sited(route, "image", &old, &new);
        let run = routed.start(&["--delta", "--rate", "400mbit", "--compress", "never"], &["tree/"], "copy");
        assert!(run.wait_for_bytes(100 * MIB), "{route:?}: {}", run.stderr());
        run.kill();
        let ended = routed.copy(&["--delta"], &["tree/"], "copy").expect_code(0);
        let (resumed, unchanged) = (ended.number("resumed_bytes"), ended.number("unchanged_bytes"));
        assert!(resumed > 0 && unchanged > 0, "{route:?}: {ended}");
        assert!(ended.number("bytes_sent") <= 120 * MIB, "{route:?}: {ended}");
        assert!(same_contents(&routed.path("tree/image"), &routed.path("copy/image")), "{route:?}");
        assert_no_leftovers(routed.site.root());
    }
}

/// Runs a copy of a file that is half new, slowly, and has `trouble` change its basis meanwhile.
fn troubled(route: Route, trouble: impl FnOnce(&Path)) {
    let old = noise(18, 60 * MIB);
    let new = [old[..MIB as usize * 20].to_vec(), noise(19, 60 * MIB), old[MIB as usize * 20..].to_vec()].concat();
    let routed = sited(route, "old", &old, &new);
    let basis = routed.path("copy/old");
    let options = ["--basis", "copy/old", "--rate", "200mbit", "--compress", "never"];
    let run = routed.start(&options, &["tree/"], "copy");
    assert!(run.wait_for_bytes(25 * MIB), "{route:?}: {}", run.stderr());
    trouble(&basis);
    let ended = run.finish().expect_code(0);
    assert!(ended.number("unchanged_bytes") > 0, "{route:?}: {ended}");
    assert!(same_contents(&routed.path("tree/image"), &routed.path("copy/image")), "{route:?}");
    assert_no_leftovers(routed.site.root());
}

#[test]
fn a_basis_that_changes_meanwhile_does_no_harm() {
    for route in [Route::Push, Route::FromDaemon] {
        troubled(route, |basis| {
            let file = OpenOptions::new().write(true).open(basis).unwrap();
            (0..60).for_each(|number| file.write_all_at(&noise(number, 100_000), number * MIB).unwrap());
        });
    }
}

#[test]
fn a_basis_that_is_truncated_meanwhile_does_no_harm() {
    for route in [Route::Push, Route::ToDaemon] {
        troubled(route, |basis| OpenOptions::new().write(true).open(basis).unwrap().set_len(5).unwrap());
    }
}

#[test]
fn a_basis_that_is_unlinked_meanwhile_is_still_used() {
    troubled(Route::Push, |basis| fs::remove_file(basis).unwrap());
}

#[test]
fn options_that_contradict_are_refused_and_a_basis_must_exist() {
    let routed = sited(Route::Push, "image", b"old", b"new");
    for (options, code, why) in [
        (&["--delta", "--whole-file"][..], 2, "cannot be used with"),
        (&["--basis", "x", "-W"], 2, "cannot be used with"),
        (&["--basis", "nothing"], 2, "--basis nothing"),
        (&["--basis", ""], 2, "--basis: give a path"),
    ] {
        let ended = routed.copy(options, &["tree/"], "copy").expect_code(code);
        assert!(ended.stderr.contains(why), "{options:?}: {ended}");
    }
    let local = sited(Route::Local, "image", b"old", b"new");
    let ended = local.copy(&["--delta"], &["tree/"], "copy").expect_code(2);
    assert!(ended.stderr.contains("--delta is for data that crosses a network"), "{ended}");
}

#[test]
fn a_key_that_may_not_read_is_told_nothing() {
    let old = noise(21, 9 * MIB);
    for (rights, most) in [("rw", MIB), ("w", 10 * MIB)] {
        let site = Site::new();
        let root = site.directory("root");
        let daemon = Daemon::start(&site, &root, rights);
        fs::write(site.path("image"), [noise(22, 1000), old.clone()].concat()).unwrap();
        fs::write(root.join("image"), &old).unwrap();
        fs::write(root.join("other"), &old).unwrap();
        let copy = |options: &[&str]| {
            let ends = [site.path("image").to_str().unwrap().to_owned(), daemon.location("image")];
            let ends = [&ends[0][..], &ends[1][..]];
            site.copy(&[options, &ends].concat()).start().finish()
        };
        let ended = copy(&["--delta"]).expect_code(0);
        let sent = ended.number("bytes_sent");
        assert!(sent <= most && (rights == "rw" || sent > 9 * MIB), "{rights}: {ended}");
        assert_same(&site.path("image"), &root.join("image"));
        let ended = copy(&["--basis", "other"]);
        assert_eq!(ended.code == Some(0), rights == "rw", "{rights}: {ended}");
        assert!(rights == "rw" || ended.stderr.contains("leave --basis out"), "{ended}");
    }
}
