//! Standard input as the source, and standard output as the destination.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use crate::support::process::{descendants, eventually, started_by};
use crate::support::terminal::Terminal;
use crate::support::{
    BLOCK, Ended, HERE, ICDC, KIB, MIB, Noise, Route, RoutedSite, Run, Signal, Site, Start, assert_no_leftovers,
    bytes_done, data,
};

/// Lengths around those at which a file travels in another way.
const LENGTHS: [u64; 8] = [0, 1, 256 * KIB, 256 * KIB + 1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 77];

fn noise(length: u64, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    Noise::new(seed).fill(&mut bytes);
    bytes
}

/// A site whose copies keep temporary files in a directory of its own.
struct Streams {
    routed: RoutedSite,
    temporary: PathBuf,
}

impl Streams {
    fn new(route: Route) -> Self {
        let routed = RoutedSite::new(route);
        let temporary = routed.site.directory("temporary");
        Self { routed, temporary }
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = self.routed.site.icdc(&["copy", "--remote-icdc", ICDC, "--ssh", &self.routed.site.ssh()]);
        command.env("TMPDIR", &self.temporary).args(options);
        command
    }

    /// Copies from standard input, which has these bytes.
    fn copied_from(&self, options: &[&str], bytes: &[u8], destination: &str) -> Ended {
        let (run, mut input) = self.piped_from(options, destination);
        std::thread::scope(|scope| {
            // A copy that has failed reads no more.
            scope.spawn(move || drop(input.write_all(bytes)));
            run.finish()
        })
    }

    fn piped_from(&self, options: &[&str], destination: &str) -> (Run, File) {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = self.command(options);
        command.arg("--json").arg("-").arg(self.routed.destination(destination)).stdin(reader);
        let run = command.start();
        // It holds the other end of the pipe until it goes.
        drop(command);
        (run, File::from(std::os::fd::OwnedFd::from(writer)))
    }

    /// Starts a copy to standard output.
    fn piped_to(&self, options: &[&str], source: &str) -> Child {
        let mut command = self.command(options);
        command.arg(self.routed.source(source)).arg("-").stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    fn copied_to(&self, options: &[&str], source: &str) -> Output {
        self.piped_to(options, source).wait_with_output().unwrap()
    }

    /// Nothing is left of what came too early.
    fn assert_clean(&self) {
        assert_eq!(fs::read_dir(&self.temporary).unwrap().count(), 0);
    }
}

#[test]
fn standard_input_becomes_a_file() {
    for route in [Route::Local, Route::Push, Route::ToDaemon] {
        let streams = Streams::new(route);
        for length in LENGTHS {
            let bytes = noise(length, length);
            let ended = streams.copied_from(&[], &bytes, "copy").expect_code(0);
            let copy = streams.routed.path("copy");
            assert!(fs::read(&copy).unwrap() == bytes, "{route:?}, {length}");
            let digest = blake3::hash(&bytes).to_hex();
            assert_eq!(ended.summary()["digest"], digest.as_str(), "{route:?}, {length}: {ended}");
            assert_eq!((ended.number("files"), ended.number("bytes")), (1, length), "{route:?}: {ended}");
            let mode = fs::metadata(&copy).unwrap().permissions().mode() & 0o777;
            let plain = streams.routed.path("plain");
            File::create(&plain).unwrap();
            assert_eq!(mode, fs::metadata(&plain).unwrap().permissions().mode() & 0o777, "as of any new file");
        }
        assert_no_leftovers(streams.routed.site.root());
    }
}

#[test]
fn several_connections_and_reading_back_carry_a_stream() {
    for route in [Route::Push, Route::ToDaemon] {
        let streams = Streams::new(route);
        let bytes = noise(60 * MIB + 5, 3);
        streams.copied_from(&["--streams", "4", "--verify"], &bytes, "copy").expect_code(0);
        assert!(fs::read(streams.routed.path("copy")).unwrap() == bytes, "{route:?}");
    }
}

#[test]
fn a_stream_replaces_a_file_only_when_it_is_complete() {
    for route in [Route::Push, Route::ToDaemon] {
        let streams = Streams::new(route);
        let copy = streams.routed.path("copy");
        fs::write(&copy, "before").unwrap();
        let (run, mut input) = streams.piped_from(&[], "copy");
        input.write_all(&noise(3 * BLOCK, 1)).unwrap();
        assert!(run.wait_for(|event| bytes_done(event) >= BLOCK), "{}", run.finish());
        assert_eq!(fs::read(&copy).unwrap(), b"before", "{route:?}");
        // The producer still holds the pipe.
        run.signal(Signal::INT);
        run.finish().expect_code(4);
        assert_eq!(fs::read(&copy).unwrap(), b"before", "{route:?}");
        drop(input);
        assert!(eventually(|| crate::support::leftovers(streams.routed.site.root()).is_empty()), "{route:?}");
        // What was stopped is in nobody's way.
        streams.copied_from(&[], b"after", "copy").expect_code(0);
        assert_eq!(fs::read(&copy).unwrap(), b"after", "{route:?}");
    }
}

#[test]
fn a_stream_whose_far_end_is_killed_leaves_no_file() {
    let streams = Streams::new(Route::Push);
    let (run, mut input) = streams.piped_from(&[], "copy");
    input.write_all(&noise(3 * BLOCK, 1)).unwrap();
    assert!(run.wait_for(|event| bytes_done(event) >= BLOCK), "{}", run.finish());
    let far = run.far_end().unwrap();
    rustix::process::kill_process(far, Signal::KILL).unwrap();
    run.finish().expect_code(4);
    assert!(!fs::exists(streams.routed.path("copy")).unwrap());
    streams.copied_from(&[], b"again", "copy").expect_code(0);
    assert_no_leftovers(streams.routed.site.root());
}

/// Number of bytes that the last event told as durable.
fn durable(ended: &Ended) -> u64 {
    ended.all("stream_durable").last().map_or(0, |event| event["bytes"].as_u64().unwrap())
}

/// Whether the events of a stream's durable bytes grow, and end with this number.
fn assert_durable(ended: &Ended, bytes: u64) {
    let told: Vec<_> = ended.all("stream_durable").map(|event| event["bytes"].as_u64().unwrap()).collect();
    assert!(told.windows(2).all(|pair| pair[0] < pair[1]) && told.last() == Some(&bytes), "{bytes}: {told:?} {ended}");
}

impl Streams {
    /// Copies the start of a stream that is kept, whose far end or this one is killed, or which is
    /// interrupted, once some of it is durable.
    fn cut_off(&self, options: &[&str], bytes: &[u8], by: Cut) -> u64 {
        let (run, mut input) = self.piped_from(options, "copy");
        let most = bytes.len() as u64;
        std::thread::scope(|scope| {
            scope.spawn(|| drop(input.write_all(bytes)));
            let is_some =
                |event: &serde_json::Value| event["type"] == "stream_durable" && event["bytes"].as_u64() > Some(BLOCK);
            assert!(run.wait_for(is_some), "{}", run.finish());
            let ended = match by {
                Cut::Near => run.kill(),
                Cut::Far => {
                    rustix::process::kill_process(run.far_end().unwrap(), Signal::KILL).unwrap();
                    run.finish().expect_code(4)
                }
                Cut::Stop => {
                    run.signal(Signal::INT);
                    let ended = run.finish().expect_code(4);
                    let told = format!("continue it from there with --resume-stream {}", durable(&ended));
                    assert!(ended.stderr.contains(&told), "{told}: {ended}");
                    ended
                }
            };
            assert!(durable(&ended) <= most);
            durable(&ended)
        })
    }

    fn continued_from(&self, from: u64, bytes: &[u8]) -> Ended {
        self.copied_from(&["--resume-stream", &from.to_string()], &bytes[from as usize..], "copy")
    }
}

#[derive(Clone, Copy, Debug)]
enum Cut {
    Near,
    Far,
    Stop,
}

#[test]
fn what_is_durable_of_a_stream_is_told_and_all_of_it_at_the_end() {
    for route in [Route::Local, Route::Push, Route::ToDaemon] {
        let streams = Streams::new(route);
        for length in [2 * BLOCK, 5 * BLOCK + 77] {
            for options in [&["--resume-stream", "0"][..], &[]] {
                let bytes = noise(length, length);
                let ended = streams.copied_from(options, &bytes, "copy").expect_code(0);
                assert_durable(&ended, length);
                assert!(fs::read(streams.routed.path("copy")).unwrap() == bytes, "{route:?}");
            }
        }
        assert_no_leftovers(streams.routed.site.root());
    }
}

#[test]
fn a_stream_that_was_cut_off_goes_on_from_what_was_told_as_durable() {
    let bytes = noise(30 * BLOCK + 5, 8);
    for (route, by) in [
        (Route::Local, Cut::Near),
        (Route::Push, Cut::Far),
        (Route::Push, Cut::Stop),
        (Route::ToDaemon, Cut::Near),
        (Route::ToDaemon, Cut::Stop),
    ] {
        let streams = Streams::new(route);
        let options = ["--resume-stream", "0", "--rate", "400mbit"];
        let told = streams.cut_off(&options, &bytes[..20 * BLOCK as usize], by);
        assert!(told >= BLOCK && told.is_multiple_of(BLOCK), "{route:?} {by:?}: {told}");
        let copy = streams.routed.path("copy");
        assert!(!fs::exists(&copy).unwrap(), "{route:?} {by:?}");
        let ended = streams.continued_from(told, &bytes).expect_code(0);
        assert!(fs::read(&copy).unwrap() == bytes, "{route:?} {by:?}");
        assert_eq!(ended.summary()["digest"], blake3::hash(&bytes).to_hex().as_str(), "{ended}");
        assert_eq!(ended.number("bytes_sent"), bytes.len() as u64 - told, "{ended}");
        assert_durable(&ended, bytes.len() as u64);
        assert_no_leftovers(streams.routed.site.root());
    }
}

#[test]
fn a_stream_may_go_on_from_an_earlier_place_with_other_bytes_and_be_cut_off_again() {
    let streams = Streams::new(Route::ToDaemon);
    let options = ["--resume-stream", "0", "--rate", "80mbit"];
    let told = streams.cut_off(&options, &noise(20 * BLOCK, 1), Cut::Stop);
    // The first block stays, and others come in place of those behind it, not all of which are there yet.
    let mut bytes = noise(30 * BLOCK + 9, 2);
    bytes[..BLOCK as usize].copy_from_slice(&noise(BLOCK, 1));
    let options = ["--resume-stream", &BLOCK.to_string(), "--rate", "80mbit"];
    let again = streams.cut_off(&options, &bytes[BLOCK as usize..10 * BLOCK as usize], Cut::Near);
    assert!(again > BLOCK, "{told} {again}");
    let beyond = streams.continued_from(25 * BLOCK, &bytes).expect_code(1);
    assert!(beyond.stderr.contains("bytes of the unfinished stream are there"), "{beyond}");
    streams.continued_from(again, &bytes).expect_code(0);
    assert!(fs::read(streams.routed.path("copy")).unwrap() == bytes);
    assert_no_leftovers(streams.routed.site.root());
}

#[test]
fn a_place_that_the_far_end_does_not_hold_is_refused_and_what_is_there_stays() {
    for route in [Route::Local, Route::Push] {
        let streams = Streams::new(route);
        let bytes = noise(12 * BLOCK + 1, 3);
        let nothing = streams.continued_from(BLOCK, &bytes).expect_code(1);
        assert!(nothing.stderr.contains("no unfinished stream is there"), "{route:?}: {nothing}");
        let options = ["--resume-stream", "0", "--rate", "80mbit"];
        let told = streams.cut_off(&options, &bytes[..12 * BLOCK as usize], Cut::Stop);
        let refused = streams.copied_from(&["--resume-stream", &(90 * BLOCK).to_string()], b"x", "copy").expect_code(1);
        assert!(refused.stderr.contains("--resume-stream 0"), "{route:?}: {refused}");
        let empty = streams.copied_from(&["--resume-stream", &told.to_string()], b"", "copy").expect_code(1);
        assert!(empty.stderr.contains("ended before its first byte"), "{route:?}: {empty}");
        assert!(!fs::exists(streams.routed.path("copy")).unwrap(), "{route:?}");
        streams.continued_from(told, &bytes).expect_code(0);
        assert!(fs::read(streams.routed.path("copy")).unwrap() == bytes, "{route:?}");
    }
}

#[test]
fn a_stream_is_not_continued_behind_data_that_have_changed_on_the_disk() {
    let streams = Streams::new(Route::Push);
    let bytes = noise(12 * BLOCK + 1, 3);
    let options = ["--resume-stream", "0", "--rate", "80mbit"];
    let told = streams.cut_off(&options, &bytes[..12 * BLOCK as usize], Cut::Stop);
    let left = crate::support::leftovers(streams.routed.site.root());
    let part = left.iter().find(|path| path.to_string_lossy().ends_with(".part")).unwrap();
    let file = File::options().write(true).open(part).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"rot", 100).unwrap();
    drop(file);
    let ended = streams.continued_from(told, &bytes);
    assert!(ended.code != Some(0) && !fs::exists(streams.routed.path("copy")).unwrap(), "{ended}");
}

#[test]
fn only_standard_input_is_continued_and_from_whole_blocks() {
    let streams = Streams::new(Route::Local);
    fs::write(streams.routed.path("file"), "x").unwrap();
    for (words, reason) in [
        (&["--resume-stream", "0", "file", "copy"][..], "for standard input"),
        (&["--resume-stream", "5", "-", "copy"], "stream_durable"),
        (&["--resume-stream", "4MiB", "-", "copy"], "stream_durable"),
    ] {
        let run = streams.command(words).start().finish().expect_code(2);
        assert!(run.stderr.contains(reason), "{words:?}: {run}");
    }
}

#[test]
fn directories_above_a_stream_are_made() {
    for route in [Route::Local, Route::Push, Route::ToDaemon] {
        let streams = Streams::new(route);
        for (destination, code) in [("a/b/c", 0), ("d/e/", 2)] {
            let ended = streams.copied_from(&["--mkpath"], b"stream", destination).expect_code(code);
            assert_eq!(ended.stderr.contains("has no name"), code == 2, "{route:?}: {ended}");
        }
        assert_eq!(fs::read(streams.routed.path("a/b/c")).unwrap(), b"stream", "{route:?}");
    }
}

#[test]
fn a_standard_input_that_is_closed_is_refused() {
    let streams = Streams::new(Route::Local);
    let (site, file) = (&streams.routed.site, streams.routed.path("file"));
    fs::write(&file, "contents").unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$@\" <&-", "sh"]);
    let mut command = site.icdc(&["copy", "-"]);
    command.arg(&file);
    let ended = started_by(shell, &command).start().finish().expect_code(2);
    assert!(ended.stderr.contains("standard input is closed"), "{ended}");
    assert_eq!(fs::read(&file).unwrap(), b"contents");
    // An empty stream is one.
    let mut command = site.icdc(&["copy", "-"]);
    command.arg(&file).stdin(File::open("/dev/null").unwrap()).start().finish().expect_code(0);
    assert_eq!(fs::read(&file).unwrap(), b"");
}

#[test]
fn a_drop_box_takes_a_stream_and_replaces_nothing() {
    let site = Site::new();
    let inbox = site.directory("inbox");
    let grant = format!("root=\"{}\",rights=drop-box,owner=keep", inbox.display());
    let daemon = crate::support::daemon::Daemon::named(&site, "daemon", &grant);
    let push = |bytes: &'static [u8]| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut command = site.copy(&["-"]);
        let run = command.arg(daemon.location("dump")).stdin(reader).start();
        drop(command);
        writer.write_all(bytes).unwrap();
        drop(writer);
        run.finish()
    };
    push(b"first").expect_code(0);
    push(b"second").expect_code(1);
    assert_eq!(fs::read(inbox.join("dump")).unwrap(), b"first");
}

#[test]
fn what_a_stream_cannot_be_is_refused_before_anything_is_read() {
    let streams = Streams::new(Route::Local);
    fs::create_dir(streams.routed.path("directory")).unwrap();
    let refused = [
        (&["-", "directory"][..], "has no name"),
        (&["-", "missing/"], "has no name"),
        (&["-", "-", "copy"], "copied alone"),
        (&["-", "home", "copy"], "copied alone"),
        (&["-", "-"], "one file of another host"),
        (&["home", "-"], "one file of another host"),
        (&["--update", "-", "copy"], "--update is for files"),
        (&["--dry-run", "-", "copy"], "--dry-run is for files"),
        (&["--move", "-", "copy"], "--move is for files"),
        (&["--filter-from", "-", "-", "copy"], "cannot both come from standard input"),
    ];
    for (words, reason) in refused {
        let run = streams.command(words).start().finish().expect_code(2);
        assert!(run.stderr.contains(reason), "{words:?}: {run}");
    }
    let from = format!("{HERE}:/etc/hostname");
    for option in [&["--verify"][..], &["--json"], &["--receipt", "receipt"]] {
        let run = streams.command(&[option, &[&from, "-"]].concat()).start().finish().expect_code(2);
        assert!(run.stderr.contains("nothing of it is on this host's disk"), "{option:?}: {run}");
    }
    assert!(!fs::exists(streams.routed.path("receipt")).unwrap());
    // A file of this name has a path.
    fs::write(streams.routed.path("-"), "dash").unwrap();
    streams.command(&["./-", "copy"]).start().finish().expect_code(0);
    assert_eq!(fs::read(streams.routed.path("copy")).unwrap(), b"dash");
    streams.command(&["copy", "./-"]).start().finish().expect_code(0);
}

#[test]
fn a_terminal_is_no_stream() {
    let streams = Streams::new(Route::Pull);
    let copy = |words: &[&str]| {
        let terminal = Terminal::start(&mut streams.command(words));
        terminal.wait_for("is a terminal");
    };
    copy(&["-", "copy"]);
    copy(&[&format!("{HERE}:/etc/hostname"), "-"]);
    assert!(!fs::exists(streams.routed.path("copy")).unwrap());
}

#[test]
fn a_file_of_another_host_goes_to_standard_output() {
    for route in [Route::Pull, Route::FromDaemon] {
        let streams = Streams::new(route);
        for length in LENGTHS {
            let bytes = noise(length, length);
            fs::write(streams.routed.path("file"), &bytes).unwrap();
            let output = streams.copied_to(&[], "file");
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && output.stdout == bytes, "{route:?}, {length}: {stderr}");
            assert!(stderr.contains(blake3::hash(&bytes).to_hex().as_str()), "{route:?}, {length}: {stderr}");
            streams.assert_clean();
        }
    }
}

#[test]
fn blocks_that_come_too_early_are_written_in_their_order() {
    for route in [Route::Pull, Route::FromDaemon] {
        let streams = Streams::new(route);
        let bytes = noise(400 * MIB + 9, 6);
        fs::write(streams.routed.path("file"), &bytes).unwrap();
        // The ring has fewer blocks than the connections bring.
        let output = streams.copied_to(&["--streams", "8", "--ring", "64MiB"], "file");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{route:?}: {stderr}");
        assert!(output.stdout == bytes, "{route:?}: other bytes");
        streams.assert_clean();
    }
}

#[test]
fn holes_are_zeros_at_standard_output() {
    let streams = Streams::new(Route::Pull);
    let file = streams.routed.path("file");
    data::sparse(&file, 40 * MIB, 4, &[(0, MIB), (20 * MIB, MIB)]);
    assert!(fs::metadata(&file).unwrap().blocks() * 512 < 10 * MIB);
    let output = streams.copied_to(&[], "file");
    assert!(output.status.success() && output.stdout == fs::read(&file).unwrap());
}

#[test]
fn a_directory_and_a_missing_file_are_no_streams() {
    for route in [Route::Pull, Route::FromDaemon] {
        let streams = Streams::new(route);
        fs::create_dir(streams.routed.path("directory")).unwrap();
        std::os::unix::fs::symlink("directory", streams.routed.path("link")).unwrap();
        for (source, reason) in [
            ("directory", "takes one file"),
            ("link", "regular file"),
            ("missing", "missing"),
            ("directory/", "one file"),
        ] {
            let output = streams.copied_to(&[], source);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && output.stdout.is_empty(), "{route:?}, {source}: {stderr}");
            assert!(stderr.contains(reason), "{route:?}, {source}: {stderr}");
            streams.assert_clean();
        }
    }
}

#[test]
fn a_reader_that_goes_or_stands_still_ends_the_copy() {
    for route in [Route::Pull, Route::FromDaemon] {
        let streams = Streams::new(route);
        data::file(&streams.routed.path("file"), 600 * MIB, 2);
        let mut child = streams.piped_to(&[], "file");
        let mut start = vec![0; 1 << 20];
        child.stdout.as_mut().unwrap().read_exact(&mut start).unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{route:?}: {stderr}");
        assert!(stderr.contains("standard output: Broken pipe"), "{route:?}: {stderr}");
        streams.assert_clean();

        let mut child = streams.piped_to(&[], "file");
        child.stdout.as_mut().unwrap().read_exact(&mut start).unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, Signal::INT).unwrap();
        let code = child.wait().unwrap().code();
        assert_eq!(code, Some(4), "{route:?}");
        streams.assert_clean();
    }
}

#[test]
fn a_far_end_that_is_killed_is_told_and_what_was_written_is_the_start_of_the_file() {
    let streams = Streams::new(Route::Pull);
    data::file(&streams.routed.path("file"), 400 * MIB, 2);
    let mut child = streams.piped_to(&[], "file");
    let mut start = vec![0; 5 << 20];
    child.stdout.as_mut().unwrap().read_exact(&mut start).unwrap();
    let near = rustix::process::Pid::from_child(&child);
    let is_far_end = |pid: &rustix::process::Pid| {
        let words = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
        words.split(|byte| *byte == 0).nth(1) == Some(b"far-end")
    };
    let far = descendants(near).into_iter().find(is_far_end).unwrap();
    rustix::process::kill_process(far, Signal::KILL).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    let written = [start, output.stdout].concat();
    assert!(fs::read(streams.routed.path("file")).unwrap().starts_with(&written));
    streams.assert_clean();
}
