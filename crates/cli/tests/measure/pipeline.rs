//! `icdc measure --secure`: a copy without its disks.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use icdc_protocol::Message;
use icdc_protocol::message::{Diskless, Preserve, ReceiveOptions, Request, Transfer};
use icdc_units::ByteCount;
use rustix::process::Pid;

use crate::peer::{Peer, transfer};
use crate::support::calm::{holds, in_a_calm_moment};
use crate::support::daemon::Daemon;
use crate::support::{Ended, HERE, ICDC, Run, Signal, Site, Start};

/// `icdc measure --secure --json --ssh HERE WORDS… 127.0.0.1`
fn measure(site: &Site, words: &[&str]) -> Ended {
    let ssh = site.ssh();
    let first = ["measure", "--secure", "--json", "--remote-icdc", ICDC, "--ssh", &ssh];
    site.icdc(&[&first, words, &[HERE]].concat()).run()
}

/// A measurement that data has begun to arrive in.
fn under_way(site: &Site) -> Run {
    let ssh = site.ssh();
    let words = ["measure", "--secure", "--json", "--remote-icdc", ICDC, "--ssh", &ssh, "--rate", "400mbit", HERE];
    let run = site.icdc(&words).start();
    assert!(run.wait_for(|event| event["bytes_done"].as_u64().is_some_and(|bytes| bytes > 0)), "{}", run.stderr());
    run
}

#[test]
fn all_of_it_arrives_in_both_directions_and_over_several_connections() {
    let site = Site::new();
    for direction in [&[][..], &["--reverse"]] {
        for words in [&[][..], &["--hash"], &["--hash", "--streams", "3"]] {
            for bytes in ["90MB", "5MB"] {
                let ended = measure(&site, &[direction, words, &["--bytes", bytes]].concat()).expect_code(0);
                // What had arrived when the first sample was taken does not count, unless that was all.
                let before = ended.all("progress").map(|sample| sample["bytes_done"].as_u64().unwrap());
                let all = if bytes == "5MB" { 5_000_000 } else { 90_000_000 };
                let before = before.filter(|bytes| *bytes > 0 && *bytes < all).min().unwrap_or(0);
                assert_eq!(ended.number("bytes"), all - before, "{ended}");
                assert_eq!(ended.summary()["hashed"], words.contains(&"--hash"), "{ended}");
                assert_eq!(ended.summary()["interrupted"], false, "{ended}");
            }
        }
    }
}

#[test]
fn the_time_ends_it_and_the_ceiling_holds() {
    let site = Site::new();
    for direction in [&[][..], &["--reverse"]] {
        in_a_calm_moment(|| {
            let ended = measure(&site, &[direction, &["--seconds", "2", "--rate", "160mbit"]].concat()).expect_code(0);
            let rate = ended.number("goodput_bps") as f64 / 160e6;
            let seconds = ended.summary()["seconds"].as_f64().unwrap();
            assert!(seconds >= 2.0, "{ended}");
            // A start at more than the ceiling, and frames that are whole blocks.
            holds((0.6..1.3).contains(&rate) && seconds < 3.0, (rate, seconds))
        });
    }
}

#[test]
fn a_daemon_writes_nothing_for_it_and_any_key_may_have_it() {
    let site = Site::new();
    let root = site.directory("root");
    let daemon = Daemon::start(&site, &root, "r");
    for words in [&[][..], &["--reverse"]] {
        let target = daemon.location("");
        let all = [&["measure", "--secure", "--hash", "--json", "--bytes", "50MB"], words, &[&target]].concat();
        let ended = site.icdc(&all).run().expect_code(0);
        assert!(ended.number("bytes") > 0, "{ended}");
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    }
}

#[test]
fn an_interrupt_ends_it_and_what_was_measured_is_told() {
    let site = Site::new();
    let run = under_way(&site);
    run.signal(Signal::INT);
    let ended = run.finish().expect_code(4);
    assert!(ended.number("bytes") > 0 && ended.summary()["interrupted"] == true, "{ended}");
}

/// Directories for sessions without disks that a process has open.
fn scratches(process: Pid) -> BTreeSet<PathBuf> {
    let open = fs::read_dir(format!("/proc/{}/fd", process.as_raw_nonzero())).unwrap();
    let paths = open.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    let is_scratch =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"icdc-measure-"));
    paths.filter(is_scratch).collect()
}

#[test]
fn nobody_else_sees_what_is_made_for_it_and_nothing_of_it_is_left() {
    let site = Site::new();
    let run = under_way(&site);
    let made: BTreeSet<PathBuf> = [run.pid(), run.far_end().unwrap()].into_iter().flat_map(scratches).collect();
    assert_eq!(made.len(), 2, "one at each end: {made:?}");
    for directory in &made {
        assert_eq!(fs::metadata(directory).unwrap().permissions().mode() & 0o777, 0o700, "{}", directory.display());
    }
    run.signal(Signal::INT);
    run.finish().expect_code(4);
    assert!(made.iter().all(|directory| !directory.exists()), "{made:?}");
}

#[test]
fn a_key_that_may_not_write_has_nothing_written_by_it() {
    let site = Site::new();
    let daemon = Daemon::start(&site, &site.directory("root"), "r");
    let diskless = Some(Diskless { length: ByteCount::from_mib(64), hashed: true });
    for options in [
        ReceiveOptions { diskless, ..ReceiveOptions::default() },
        ReceiveOptions {
            diskless,
            preserve: Preserve { owner: true, mode: true, ..Preserve::NOTHING },
            ..Default::default()
        },
        ReceiveOptions {
            diskless,
            preserve: Preserve::NOTHING,
            ring: Some(ByteCount::from_mib(4096)),
            ..Default::default()
        },
        ReceiveOptions { diskless: None, preserve: Preserve::NOTHING, ..ReceiveOptions::default() },
    ] {
        let mut peer = Peer::connect(&site, &daemon);
        let job = Transfer::Receive { destination: b"arrived".to_vec(), options };
        peer.say(Message::Request(Request::new(transfer(), job)));
        let answer = peer.hear();
        assert!(matches!(answer, Ok(Message::Refused(_))), "{answer:?}");
    }
}

#[test]
fn a_far_end_that_dies_or_is_stopped_ends_it_with_an_error() {
    let site = Site::new();
    let run = under_way(&site);
    rustix::process::kill_process(run.far_end().unwrap(), Signal::KILL).unwrap();
    let ended = run.finish();
    assert!(matches!(ended.code, Some(1 | 4)), "{ended}");
    assert!(!ended.summary()["errors"].as_array().unwrap().is_empty(), "{ended}");
}
