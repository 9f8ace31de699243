//! The options of `icdc copy`, each by what it does.

use std::collections::BTreeMap;
use std::fs;
use std::io::IoSliceMut;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use icdc_disk::DiskFile;
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use serde_json::Value;

use crate::support;
use crate::support::calm::{holds, in_a_calm_moment};
use crate::support::daemon::free_port;
use crate::support::process::Start;
use crate::support::{
    Ended, KIB, MIB, Route, RoutedSite, Shape, Signal, Site, assert_no_leftovers, assert_same, data, skip,
};

/// The ways with a network in between.
const FAR: [Route; 4] = [Route::Push, Route::Pull, Route::ToDaemon, Route::FromDaemon];

/// Everything below a directory: path → (inode, size, mtime, ctime).
pub(crate) fn snapshot(path: &Path) -> BTreeMap<PathBuf, [i64; 6]> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() {
            found.extend(snapshot(&path));
        }
        let state = [
            metadata.ino() as i64,
            metadata.size() as i64,
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime(),
            metadata.ctime_nsec(),
        ];
        found.insert(path, state);
    }
    found
}

/// Paths that a run without `--dry-run` would send, below the source.
fn would_send(ended: &Ended) -> Vec<String> {
    let mut paths: Vec<String> =
        ended.all("would_send").map(|event| event["path"].as_str().unwrap().to_owned()).collect();
    paths.sort();
    paths
}

#[test]
fn exclude_leaves_out_names_and_paths() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let files =
            ["a.o", "a.c", "sub/b.o", "sub/b.c", "sub/deep/c.o", "cache/x", "sub/cache/y", "build/z", "sub/build/z"];
        for file in files {
            let path = routed.path("tree").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        let excludes = |build| ["--exclude", "*.o", "--exclude", "cache/", "--exclude", build];
        routed.copy(&excludes("/tree/build"), &["tree"], "copy").expect_code(0);
        routed.copy(&excludes("/build"), &["tree/"], "contents").expect_code(0);
        for copy in ["copy", "contents"] {
            for file in files {
                let kept = ["a.c", "sub/b.c", "sub/build/z"].contains(&file);
                assert_eq!(routed.path(copy).join(file).exists(), kept, "{route:?} {copy}/{file}");
            }
            assert!(routed.path(copy).join("sub/deep").is_dir());
            assert!(!routed.path(copy).join("cache").exists() && !routed.path(copy).join("build").exists());
        }
        let ended = routed.copy(&["--exclude", "[", "-v"], &["tree"], "broken");
        assert_ne!(ended.code, Some(0), "{ended}");
        assert!(ended.stderr.contains("--exclude <PATTERN>") && ended.stderr.contains("not closed"), "{ended}");
    }
}

#[test]
fn a_dry_run_lists_and_changes_nothing() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        fs::create_dir_all(routed.path("tree/sub/empty")).unwrap();
        fs::write(routed.path("tree/one"), "one").unwrap();
        fs::write(routed.path("tree/sub/two.o"), "two").unwrap();
        data::file(&routed.path("tree/sub/large"), 5 * MIB, 1);
        std::os::unix::fs::symlink("one", routed.path("tree/link")).unwrap();
        fs::hard_link(routed.path("tree/one"), routed.path("tree/other")).unwrap();
        fs::create_dir_all(routed.path("old/tree")).unwrap();
        fs::write(routed.path("old/tree/one"), "older").unwrap();
        let before = snapshot(routed.site.root());
        let destinations = ["new", "new/", "old", "old/tree", "new/"];
        for destination in destinations {
            let ended = routed.copy(&["--dry-run", "--exclude", "*.o"], &["tree"], destination).expect_code(0);
            let expected = ["tree/link", "tree/one", "tree/other", "tree/sub/large"];
            assert_eq!(would_send(&ended), expected, "{route:?} {destination}: {ended}");
            assert_eq!(snapshot(routed.site.root()), before, "{route:?} {destination}");
        }
        let ended = routed.copy(&["--dry-run", "--skip-equal"], &["tree/", "tree/one"], "old/tree").expect_code(0);
        assert!(would_send(&ended).contains(&"tree/sub/two.o".to_owned()), "{ended}");
        assert_eq!(snapshot(routed.site.root()), before, "{route:?}");
        routed.copy(&[], &["tree/"], "copy").expect_code(0);
        let before = snapshot(routed.site.root());
        let ended = routed.copy(&["--dry-run", "--skip-equal"], &["tree/"], "copy").expect_code(0);
        assert!(would_send(&ended).iter().all(|path| path.ends_with("link") || path.ends_with("other")), "{ended}");
        assert_eq!(snapshot(routed.site.root()), before, "{route:?}");
    }
}

#[test]
fn no_resume_begins_anew_and_leaves_nothing_of_the_old() {
    for route in [Route::Push, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        // Several checkpoints, so that there is something to resume.
        data::file(&routed.path("file"), 200 * MIB, 4);
        let run = routed.start(&["--rate", "800mbit"], &["file"], "copy");
        assert!(run.wait_for_bytes(140 * MIB), "it ended before it could be interrupted");
        run.signal(Signal::INT);
        let ended = run.finish();
        if ended.code == Some(0) {
            return skip("the machine is too fast to interrupt this copy");
        }
        let ended = ended.expect_code(4);
        assert!(!routed.path("copy").exists(), "{ended}");
        assert!(!support::leftovers(routed.site.root()).is_empty());
        let ended = routed.copy(&["--no-resume"], &["file"], "copy").expect_code(0);
        assert_eq!((ended.number("resumed_bytes"), ended.number("bytes_sent")), (0, 200 * MIB), "{route:?}: {ended}");
        assert_same(&routed.path("file"), &routed.path("copy"));
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn verify_reads_back() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let tree = data::tree(&routed.path("tree"), 3, &Shape { large: vec![9 * MIB, 4 * MIB], ..Shape::default() });
        let ended = routed.copy(&["--verify"], &["tree"], "copy").expect_code(0);
        assert_eq!(
            (&ended.summary()["verified"], &ended.summary()["read_back"]),
            (&true.into(), &true.into()),
            "{ended}"
        );
        assert_same(&tree, &routed.path("copy"));
        let ended = routed.copy(&[], &["tree"], "other").expect_code(0);
        assert_eq!(
            (&ended.summary()["verified"], &ended.summary()["read_back"]),
            (&true.into(), &false.into()),
            "{ended}"
        );
    }
}

/// Blocks of the receiver's ring as progress tells them.
fn ring_blocks(ended: &Ended) -> u64 {
    ended.all("progress").filter_map(|event| event["ring_blocks"].as_u64()).max().unwrap_or(0)
}

#[test]
fn ring_sets_the_memory_of_the_receiver() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        data::file(&routed.path("file"), 30 * MIB, 1);
        for (ring, blocks) in [("64MiB", 16), ("512MiB", 128)] {
            let ended = routed.copy(&["--ring", ring, "--no-resume"], &["file"], "copy").expect_code(0);
            assert_eq!(ring_blocks(&ended), blocks, "{route:?} {ring}");
            assert_same(&routed.path("file"), &routed.path("copy"));
        }
    }
}

/// The data connections that were made, by stream.
fn connections(ended: &Ended) -> Vec<&Value> {
    let mut found: Vec<&Value> = ended.all("connected").collect();
    found.sort_by_key(|event| event["stream"].as_u64());
    found
}

#[test]
fn several_streams_carry_one_copy() {
    for route in FAR {
        let routed = RoutedSite::new(route);
        let tree = data::tree(
            &routed.path("tree"),
            3,
            &Shape { large: vec![60 * MIB, 5 * MIB + 1, 300 * KIB], ..Shape::default() },
        );
        let ended = routed.copy(&["--streams", "4", "--rate", "1gbit"], &["tree"], "copy").expect_code(0);
        let streams: Vec<u64> = connections(&ended).iter().map(|event| event["stream"].as_u64().unwrap()).collect();
        assert_eq!(streams, [0, 1, 2, 3], "{route:?}: {ended}");
        assert_same(&tree, &routed.path("copy"));
        assert_no_leftovers(routed.site.root());
        // More streams than there is work for.
        routed.copy(&["--streams", "64"], &["tree/d000/f00000"], "one").expect_code(0);
        assert_same(&tree.join("d000/f00000"), &routed.path("one"));
    }
}

#[test]
fn rate_is_a_ceiling_that_holds() {
    const SIZE: u64 = 12 * MIB;
    for route in FAR {
        let routed = RoutedSite::new(route);
        data::file(&routed.path("file"), SIZE, 1);
        let seconds = |rate: &str| {
            let ended = routed.copy(&["--rate", rate, "--no-resume"], &["file"], "copy").expect_code(0);
            ended.summary()["seconds"].as_f64().unwrap()
        };
        let slow = seconds("64mbit");
        let least = SIZE as f64 * 8.0 / 64e6;
        assert!(slow > least * 0.7, "{route:?}: {slow} s in place of at least {least} s: faster than the ceiling");
        // What else the machine does makes a copy slower than its ceiling, and none faster.
        in_a_calm_moment(|| {
            let fast = seconds("640mbit");
            holds(slow > 2.5 * fast, format!("{route:?}: {slow} s at 64 Mbit/s, {fast} s at 640 Mbit/s"))
        });
    }
}

/// Whether what the samples tell of a paced run is even, once it is under way.
fn is_even(ended: &Ended) -> Result<(), String> {
    let samples: Vec<(f64, u64)> = ended
        .all("progress")
        .map(|sample| (sample["seconds"].as_f64().unwrap(), sample["rate_bps"].as_u64().unwrap()))
        .collect();
    let end = samples.last().unwrap().0;
    let mut rates: Vec<u64> =
        samples.iter().filter(|(at, _)| (1.0..end - 0.5).contains(at)).map(|(_, rate)| *rate).collect();
    rates.sort_unstable();
    let (least, median, most) = (rates[0], rates[rates.len() / 2], rates[rates.len() - 1]);
    if least > 0 && most < 2 * median { Ok(()) } else { Err(format!("{samples:?}")) }
}

#[test]
fn the_samples_of_a_paced_run_are_even() {
    for (route, streams) in [(Route::Push, "1"), (Route::Pull, "1"), (Route::ToDaemon, "4"), (Route::FromDaemon, "4")] {
        let routed = RoutedSite::new(route);
        // As many blocks for each connection: while one is done, the others keep to their shares of
        // the rate.
        data::file(&routed.path("file"), 32 * MIB, 1);
        let options = ["--rate", "64mbit", "--streams", streams, "--no-resume"];
        // A machine with other work may hold up any one run.
        let tries = || is_even(&routed.copy(&options, &["file"], "copy").expect_code(0));
        let even = tries().or_else(|_| tries()).or_else(|_| tries());
        assert_eq!(even, Ok(()), "{route:?}, {streams} streams");
    }
}

#[test]
fn several_streams_share_one_ceiling() {
    let routed = RoutedSite::new(Route::Push);
    data::file(&routed.path("file"), 12 * MIB, 1);
    let ended = routed.copy(&["--rate", "64mbit", "--streams", "4"], &["file"], "copy").expect_code(0);
    let seconds = ended.summary()["seconds"].as_f64().unwrap();
    assert!(
        seconds > 12.0 * 1.048576 * 8.0 / 64.0 * 0.7,
        "{seconds} s: four streams are faster than the ceiling: {ended}"
    );
}

#[test]
fn the_rate_holds_within_one_host_and_is_named_as_the_limit() {
    let routed = RoutedSite::new(Route::Local);
    data::file(&routed.path("file"), 6 * MIB, 1);
    let seconds = |options: &[&str]| {
        let ended = routed.copy(options, &["file"], "copy").expect_code(0);
        let (seconds, limited) = (ended.summary()["seconds"].as_f64().unwrap(), ended.summary()["limited_by"].clone());
        (seconds, limited)
    };
    let (slow, limited) = seconds(&["--rate", "16mbit", "--no-resume"]);
    let (fast, _) = seconds(&["--rate", "64mbit", "--no-resume"]);
    assert!(slow > 6.0 * 1.048576 * 8.0 / 16.0 * 0.9, "{slow} s: faster than its rate");
    assert!(slow > 1.5 * fast, "{slow} s at a quarter of the rate of {fast} s");
    let ceiling = limited["rate_ceiling"].as_f64().unwrap();
    assert!(ceiling > 0.5, "{limited}");
}

#[test]
fn congestion_control_is_chosen_by_name() {
    for route in FAR {
        let routed = RoutedSite::new(route);
        data::file(&routed.path("file"), MIB, 1);
        let ended = routed.copy(&["--cc", "no_such_control"], &["file"], "copy");
        assert!(matches!(ended.code, Some(2 | 3)), "{route:?}: {ended}");
        assert!(ended.stderr.contains("no_such_control"), "{route:?}: {ended}");
        assert_eq!(ended.stderr.trim_end().lines().count(), 1, "{route:?}: one sentence: {ended}");
        assert!(!routed.path("copy").exists());
        assert_no_leftovers(routed.site.root());
        let ended = routed.copy(&["--cc", "reno"], &["file"], "copy").expect_code(0);
        if route == Route::Push {
            assert_eq!(connections(&ended)[0]["congestion"], "reno", "{ended}");
        }
        assert_same(&routed.path("file"), &routed.path("copy"));
    }
}

#[test]
fn the_address_family_can_be_chosen() {
    let routed = RoutedSite::new(Route::Push);
    data::file(&routed.path("file"), 10, 1);
    let localhost = format!("localhost:{}", routed.path("copy").display());
    let mut families = vec![("-4", "127.0.0.1:")];
    match TcpListener::bind(("::1", 0)) {
        Ok(_) => families.push(("-6", "[::1]:")),
        Err(error) => skip(&format!("no IPv6: {error}")),
    }
    let resolves =
        std::net::ToSocketAddrs::to_socket_addrs(&("localhost", 1)).unwrap().any(|address| address.is_ipv6());
    for (option, prefix) in families {
        // Where localhost has no IPv6 address in this system's files, its literal stands in.
        let destination = if option == "-6" && !resolves {
            format!("[::1]:{}", routed.path("copy").display())
        } else {
            localhost.clone()
        };
        let ended = routed.site.copy(&["--ssh", &routed.site.ssh(), option, "file", &destination]).run().expect_code(0);
        let peer = connections(&ended)[0]["peer"].as_str().unwrap().to_owned();
        assert!(peer.starts_with(prefix), "{option}: {ended}");
    }
    let unreachable = ["--ssh", &routed.site.ssh(), "-6", "--via", "direct", "file", "127.0.0.1:x"];
    let ended = routed.site.copy(&unreachable).run().expect_code(3);
    assert!(ended.stderr.contains("127.0.0.1"), "{ended}");
    assert_eq!(ended.stderr.trim_end().lines().count(), 1, "{ended}");
}

#[test]
fn the_data_port_can_be_chosen() {
    for route in [Route::Push, Route::Pull] {
        let routed = RoutedSite::new(route);
        data::file(&routed.path("file"), 10, 1);
        let port = free_port();
        let ended = routed.copy(&["--port", &port.to_string()], &["file"], "copy").expect_code(0);
        assert!(connections(&ended)[0]["peer"].as_str().unwrap().ends_with(&format!(":{port}")), "{route:?}: {ended}");
        // Of a range, a port that is free is taken.
        let taken = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0")).unwrap();
        let first = taken.local_addr().unwrap().port().min(65_000);
        let range = format!("{first}-{}", first + 20);
        let ended = routed.copy(&["--port", &range], &["file"], "copy").expect_code(0);
        let peer = connections(&ended)[0]["peer"].as_str().unwrap().to_owned();
        let chosen: u16 = peer.rsplit(':').next().unwrap().parse().unwrap();
        assert!((first..=first + 20).contains(&chosen), "{route:?}: {ended}");
    }
}

#[test]
fn json_lines_are_as_the_page_on_copying_says() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let tree = data::tree(&routed.path("tree"), 3, &Shape { small: 20, ..Shape::default() });
        support::succeed(std::process::Command::new("mkfifo").arg(tree.join("pipe")));
        let ended = routed.copy(&[], &["tree"], "copy").expect_code(1);
        assert_eq!(ended.text, "", "standard output is JSON and nothing else");
        assert_eq!(ended.all("summary").count(), 1);
        assert_eq!(ended.all("started").count(), 1, "{ended}");
        assert_eq!(ended.events[0]["type"], "started", "{ended}");
        let summary = ended.summary();
        for key in [
            "files",
            "bytes",
            "bytes_sent",
            "goodput_bps",
            "retransmitted_segments",
            "errors",
            "skipped",
            "resumed_bytes",
            "unchanged_bytes",
            "taken_over_files",
            "taken_over_bytes",
        ] {
            assert!(summary[key].is_u64(), "{route:?} {key}: {ended}");
        }
        for key in ["seconds", "digest", "sparse_digest", "tree_digest", "verified", "limited_by", "read_back"] {
            assert!(summary.get(key).is_some(), "{route:?} {key}: {ended}");
        }
        assert_eq!(summary["errors"], 1, "{ended}");
        let shares: f64 =
            summary["limited_by"].as_object().unwrap().values().map(|share| share.as_f64().unwrap()).sum();
        assert!(shares > 0.5 && shares < 1.001, "{route:?}: {summary}");
        let files = summary["files"].as_u64().unwrap();
        let published =
            ended.all("item").filter(|event| event["outcome"] == "published" && event["digest"].is_string()).count();
        assert_eq!(published as u64, files, "{route:?}: every file is named with its digest: {ended}");
        assert_eq!(summary["bytes"], data::size(&tree), "{ended}");
        for event in ended.all("item").filter(|event| event["digest"].is_string()) {
            let path = event["path"].as_str().unwrap();
            assert!(!path.starts_with('/'), "{route:?}: {event}");
            if let Some(below) = path.strip_prefix("tree/").or_else(|| path.strip_prefix("copy/"))
                && let Ok(contents) = fs::read(tree.join(below))
            {
                assert_eq!(event["digest"], blake3::hash(&contents).to_hex().as_str(), "{event}");
            }
        }
        if route != Route::Local {
            let connected = connections(&ended);
            assert_eq!(connected.len(), 1, "{route:?}: {ended}");
            assert!(connected[0]["cipher"].as_str().unwrap().starts_with("TLS13_"), "{ended}");
        }
        assert!(ended.all("scanned").any(|event| event["complete"] == true), "{route:?}: {ended}");
        assert!(ended.all("progress").count() > 0, "{route:?}: {ended}");
    }
}

#[test]
fn a_report_is_one_page_that_needs_nothing_else() {
    for route in [Route::Local, Route::Push, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        data::file(&routed.path("file"), 20 * MIB, 1);
        let page = routed.path("report.html");
        routed.copy(&["--report", page.to_str().unwrap()], &["file"], "copy").expect_code(0);
        let text = fs::read_to_string(page).unwrap();
        for words in ["<!doctype html>", "<svg", "Goodput", "</html>"] {
            assert!(text.contains(words), "{route:?}: {words:?} is missing");
        }
        for foreign in ["src=\"http", "href=\"http", "@import", "url("] {
            assert!(!text.contains(foreign), "{route:?}: {foreign:?} is in it");
        }
    }
    let routed = RoutedSite::new(Route::Local);
    data::file(&routed.path("file"), 10, 1);
    let ended = routed.copy(&["--report", "no/such/directory/r.html"], &["file"], "copy").expect_code(2);
    assert!(ended.stderr.contains("no/such/directory/r.html"), "{ended}");
    assert!(!routed.path("copy").exists());
}

/// Whether all of a file's data is in the page cache.
fn is_cached(path: &Path) -> bool {
    let file = fs::File::open(path).unwrap();
    let mut byte = [0];
    (0..file.metadata().unwrap().size()).step_by(256 << 10).all(|offset| {
        let to = &mut [IoSliceMut::new(&mut byte)];
        match preadv2(&file, to, offset, ReadWriteFlags::NOWAIT) {
            Ok(read) => read == 1,
            Err(Errno::AGAIN) => false,
            Err(error) => panic!("{}: {error}", path.display()),
        }
    })
}

#[test]
fn buffered_copies_go_through_the_page_cache_and_others_do_not() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let source = data::file(&routed.path("data.bin"), 12 * MIB, 5);
        let file = fs::File::open(&source).unwrap();
        file.sync_all().unwrap();
        if !DiskFile::for_reading(file.try_clone().unwrap()).unwrap().is_direct() {
            return skip("the temporary directory's file system has no Direct I/O");
        }
        // It may also keep pages that it is told to drop, as while it looks at them.
        let stays_out = (0..3).any(|_| {
            let _ = fs::remove_file(routed.path("direct.bin"));
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            routed.copy(&[], &["data.bin"], "direct.bin").expect_code(0);
            !is_cached(&source) && !is_cached(&routed.path("direct.bin"))
        });
        assert!(stays_out, "{route:?}: cached by Direct I/O");
        for options in [["--buffered"].as_slice(), &["--buffered", "--verify"]] {
            // The kernel may take pages back at any time.
            let stays_cached = (0..3).any(|_| {
                let _ = fs::remove_file(routed.path("buffered.bin"));
                routed.copy(options, &["data.bin"], "buffered.bin").expect_code(0);
                is_cached(&source) && is_cached(&routed.path("buffered.bin"))
            });
            assert!(stays_cached, "{route:?} {options:?}: not cached");
        }
        assert_same(&source, &routed.path("buffered.bin"));
    }
}

#[test]
fn options_on_connections_are_refused_where_none_is_made() {
    let site = Site::new();
    fs::write(site.path("file"), "contents").unwrap();
    for option in [["--streams", "4"], ["--cc", "cubic"], ["--port", "5000-5010"]] {
        let ended = site.copy(&option).args(["file", "copy"]).run().expect_code(2);
        assert!(ended.stderr.contains(option[0]) && ended.stderr.contains("within this host"), "{ended}");
        assert!(!site.path("copy").exists());
    }
}

#[test]
fn open_files_of_a_process_are_refused_as_sources() {
    let site = Site::new();
    for source in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        let ended = site.copy(&[source, "copy"]).run().expect_code(2);
        assert!(ended.stderr.contains(source) && ended.stderr.contains("standard input"), "{ended}");
        assert!(site.path("copy").symlink_metadata().is_err());
    }
}
