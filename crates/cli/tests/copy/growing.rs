//! Files that somebody writes to while they are copied.

use std::fs::{self, OpenOptions};
use std::io::Write;

use crate::support::{MIB, Route, RoutedSite, assert_no_leftovers, assert_same, bytes_done, data};

const SIZE: u64 = 128 * MIB;

#[test]
fn a_file_that_grows_or_is_written_to_fails_as_soon_as_that_is_seen() {
    let mut told_by_size = false;
    for route in [Route::Local, Route::Push, Route::Pull] {
        for grows in [true, false] {
            let routed = RoutedSite::new(route);
            data::file(&routed.path("source"), SIZE, 1);
            let run = routed.start(&["--rate", "60mbit"], &["source"], "copy");
            assert!(run.wait_for_bytes(4 * MIB), "{}", run.finish());
            let mut file = OpenOptions::new().write(true).append(grows).open(routed.path("source")).unwrap();
            file.write_all(b"more").unwrap();
            drop(file);
            // On a busy machine more has travelled by now.
            let before = run.events().iter().filter(|event| event["type"] == "progress").map(bytes_done).max().unwrap();
            let ended = run.finish().expect_code(1);
            let sent = ended.number("bytes_sent");
            assert!(sent < before + SIZE / 2, "{route:?}: {sent} bytes travelled for nothing: {ended}");
            let reasons: Vec<String> = ended.failures().into_values().collect();
            let [reason] = &reasons[..] else { panic!("{route:?}: {ended}") };
            // The kernel sets a file's times before its size: a look in between sees no other size.
            let grew = format!("grew from {SIZE} to {} bytes", SIZE + 4);
            assert!(reason.contains("changed while") || grows && reason.contains(&grew), "{route:?}: {ended}");
            told_by_size |= reason.contains(&grew);
            assert!(!fs::exists(routed.path("copy")).unwrap(), "{route:?}");

            routed.copy(&[], &["source"], "copy").expect_code(0);
            assert_same(&routed.path("source"), &routed.path("copy"));
            assert_no_leftovers(routed.site.root());
        }
    }
    assert!(told_by_size);
}
