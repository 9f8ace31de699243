//! Compression of data on its way: data that shrinks, data that does not, and the words about both.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::support::daemon::Daemon;
use crate::support::network::Pair;
use crate::support::{
    BLOCK, Ended, KIB, MIB, Noise, Route, RoutedSite, Shape, Site, Start, assert_no_leftovers, assert_same, data,
};

/// Lines of a log, with some fields that do not repeat.
fn text(length: u64, seed: u64) -> Vec<u8> {
    let mut noise = Noise::new(seed);
    let mut text = Vec::with_capacity(length as usize + 100);
    while (text.len() as u64) < length {
        let (id, worker) = (noise.next(), noise.below(40));
        text.extend_from_slice(
            format!("worker {worker}: request served, id {id:08x}, nothing else to tell\n").as_bytes(),
        );
    }
    text.truncate(length as usize);
    text
}

/// A tree of texts of many sizes, and one file that does not shrink.
fn tree(root: &Path) {
    data::tree(root, 7, &Shape { small: 20, large: vec![BLOCK + 5], ..Shape::default() });
    fs::create_dir_all(root.join("texts")).unwrap();
    for (number, length) in [1, 5 * KIB, 100 * KIB, 256 * KIB + 1, BLOCK - 1, 3 * BLOCK + 7].into_iter().enumerate() {
        fs::write(root.join("texts").join(number.to_string()), text(length, number as u64)).unwrap();
    }
}

fn compressed(ended: &Ended) -> (u64, u64) {
    (ended.number("compressed_from"), ended.number("compressed_to"))
}

#[test]
fn a_tree_arrives_compressed_by_every_route() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        tree(&routed.path("from"));
        let options: &[&str] = if route == Route::Local { &[] } else { &["--compress", "3"] };
        let ended = routed.copy(options, &["from"], "to").expect_code(0);
        assert_same(&routed.path("from"), &routed.path("to"));
        assert_no_leftovers(&routed.path("to"));
        let (from, to) = compressed(&ended);
        if route == Route::Local {
            assert_eq!((from, to), (0, 0), "{ended}");
            continue;
        }
        assert!(from > 4 * BLOCK && to * 2 < from, "{route:?}: {ended}");
        // What does not shrink is sent as it is.
        assert!(ended.number("bytes_sent") > from + BLOCK, "{route:?}: {ended}");
        assert_eq!(ended.summary()["uncompressed"], Value::Null, "{route:?}: {ended}");
    }
}

/// Whether the processors were busy with other programs, so that compressing could not pay.
fn has_no_processor(ended: &Ended) -> bool {
    let is_so = |event: &Value| event["uncompressed"] == "processor";
    is_so(ended.summary()) || ended.all("compression").any(is_so)
}

#[test]
fn fewer_bytes_cross_the_network_than_arrive() {
    let Some(pair) = Pair::new() else { return };
    let site = Site::new();
    let root = site.directory("root");
    let daemon = Daemon::on(&pair.far, &site, "daemon", &format!("root=\"{}\",rights=rw", root.display()));
    fs::write(site.path("text"), text(40 * MIB, 1)).unwrap();
    data::file(&site.path("noise"), 10 * MIB, 1);
    let copy = |name: &str, options: &[&str]| {
        let before = pair.far.received();
        let mut command = site.copy(&[&["--no-resume"], options].concat());
        command.arg(name).arg(daemon.location(name));
        let ended = pair.near.run(&command).run().expect_code(0);
        assert_same(&site.path(name), &root.join(name));
        fs::remove_file(root.join(name)).unwrap();
        (pair.far.received() - before, ended)
    };
    // A ceiling limits it: it is worth it, unless other programs have all processors.
    let (carried, ended) = copy("text", &["--rate", "80mbit"]);
    let (from, to) = compressed(&ended);
    let is_worth_it = from > 0 && to * 2 < from && carried < 30 * MIB;
    assert!(is_worth_it || has_no_processor(&ended), "{carried} bytes were carried: {ended}");
    let (carried, ended) = copy("text", &["--compress", "1"]);
    let (from, to) = compressed(&ended);
    assert!(from > 39 * MIB && to * 2 < from && carried < 30 * MIB, "{carried} bytes were carried: {ended}");
    let (carried, ended) = copy("text", &["--compress", "never"]);
    assert!(compressed(&ended) == (0, 0) && carried > 40 * MIB, "{carried} bytes were carried: {ended}");
    assert_eq!(ended.summary()["uncompressed"], Value::Null, "{ended}");
    let (_, ended) = copy("noise", &["--rate", "80mbit"]);
    assert_eq!(compressed(&ended), (0, 0), "{ended}");
    assert!(ended.summary()["uncompressed"] == "data" || has_no_processor(&ended), "{ended}");
    assert!(ended.all("compression").next().is_some(), "{ended}");
    let (_, ended) = copy("noise", &["--compress", "1"]);
    assert_eq!((compressed(&ended), &ended.summary()["uncompressed"]), ((0, 0), &Value::from("data")), "{ended}");
}

#[test]
fn the_report_says_what_has_become_of_the_data() {
    let routed = RoutedSite::new(Route::ToDaemon);
    fs::write(routed.path("text"), text(4 * MIB, 1)).unwrap();
    data::file(&routed.path("noise"), 9 * MIB, 1);
    let report = |words: &[&str], name: &str| {
        let mut command = routed.site.icdc(&[&["copy"], words].concat());
        command.arg(routed.source(name)).arg(routed.destination(format!("copied-{name}")));
        let Output { status, stdout, stderr } = command.output().unwrap();
        let told = [stdout, stderr].concat();
        assert!(status.success(), "{}", String::from_utf8_lossy(&told));
        String::from_utf8(told).unwrap()
    };
    let told = report(&["--compress", "1"], "text");
    assert!(told.contains(" compressed to ") && told.contains(":1)"), "{told}");
    let told = report(&["--rate", "60mbit"], "noise");
    assert!(told.contains("compression off: "), "{told}");
    let told = report(&["--compress", "never"], "noise");
    assert!(!told.contains("compress"), "{told}");
}

#[test]
fn compressed_data_goes_on_where_it_was_cut() {
    let routed = RoutedSite::new(Route::ToDaemon);
    fs::write(routed.path("text"), text(64 * MIB, 1)).unwrap();
    let run = routed.start(&["--compress", "1", "--rate", "40mbit"], &["text"], "copy");
    assert!(run.wait_for_bytes(20 * MIB), "{}", run.stderr());
    run.kill();
    let ended = routed.copy(&["--compress", "1"], &["text"], "copy").expect_code(0);
    assert!(ended.resumed() > 0 && compressed(&ended).0 > 0, "{ended}");
    assert_same(&routed.path("text"), &routed.path("copy"));
    assert_no_leftovers(routed.site.root());
}
