//! Files that somebody writes to while they are copied.

use std::fs::{self, OpenOptions};
use std::io::Write;

use crate::support::{MIB, Road, Way, assert_no_leftovers, assert_same, data};

const SIZE: u64 = 128 * MIB;

#[test]
fn a_file_that_grows_or_is_written_to_fails_as_soon_as_that_is_seen() {
    let mut told_by_size = false;
    for way in [Way::Local, Way::Push, Way::Pull] {
        for grows in [true, false] {
            let road = Road::new(way);
            data::file(&road.path("source"), SIZE, 1);
            let run = road.start(&["--rate", "60mbit"], &["source"], "copy");
            assert!(run.wait_for_bytes(4 * MIB), "{}", run.finish());
            let mut file = OpenOptions::new().write(true).append(grows).open(road.path("source")).unwrap();
            file.write_all(b"more").unwrap();
            drop(file);
            let ended = run.finish().expect_code(1);
            let sent = ended.number("bytes_sent");
            assert!(sent < SIZE / 2, "{way:?}: {sent} bytes travelled for nothing: {ended}");
            let reasons: Vec<String> = ended.failures().into_values().collect();
            let [reason] = &reasons[..] else { panic!("{way:?}: {ended}") };
            // The kernel sets a file's times before its size: a look in between sees no other size.
            let grew = format!("grew from {SIZE} to {} bytes", SIZE + 4);
            assert!(reason.contains("changed while") || grows && reason.contains(&grew), "{way:?}: {ended}");
            told_by_size |= reason.contains(&grew);
            assert!(!fs::exists(road.path("copy")).unwrap(), "{way:?}");

            road.copy(&[], &["source"], "copy").expect_code(0);
            assert_same(&road.path("source"), &road.path("copy"));
            assert_no_leftovers(road.site.root());
        }
    }
    assert!(told_by_size);
}
