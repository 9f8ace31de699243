//! Files that travel while they grow, and what may become of them before they are closed.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::kill_process;

use crate::support::compare::leftovers;
use crate::support::{MIB, Noise, Route, RoutedSite, Run, Signal, assert_no_leftovers, assert_same};
use crate::{await_followed, followed, is_followed};

/// Options with which a file that is written soon travels while it grows.
const OPTIONS: [&str; 3] = ["--follow", "--settle", "100ms"];
/// Length in bytes of what is written of a file before anything happens to it.
const BEGUN: u64 = 40 * MIB;
/// Length in bytes that the destination has of it while it is open: the last block is kept back.
const AHEAD: u64 = BEGUN - 4 * MIB;

/// A directory that is followed, and a file in it that grows.
struct Growing {
    routed: RoutedSite,
    run: Run,
    file: File,
    noise: Noise,
}

impl Growing {
    /// Follows a directory, and writes the beginning of a file in it, which travels.
    #[track_caller]
    fn begin(route: Route, options: &[&str]) -> Self {
        let routed = RoutedSite::new(route);
        let source = routed.site.directory("source");
        fs::create_dir(source.join("inner")).unwrap();
        fs::write(source.join("first"), "1").unwrap();
        let run = start(&routed, options);
        await_followed(&run, "source/first");
        let (file, mut noise) = (File::create(source.join("inner/grows")).unwrap(), Noise::new(5));
        let mut growing = Self { routed, run, file, noise: Noise::new(6) };
        growing.file.write_all(&noise.bytes(BEGUN as usize)).unwrap();
        growing.await_ahead();
        growing
    }

    /// Waits until all has travelled that does while the file is open.
    #[track_caller]
    fn await_ahead(&mut self) {
        let mut written = 0;
        // The next look follows a change.
        while arrived(&self.routed.path("copy")) < AHEAD {
            assert!(!self.run.has_ended() && written < 600, "nothing travels: {}", self.run.stderr());
            self.file.write_all(&self.noise.bytes(100)).unwrap();
            written += 1;
            sleep(Duration::from_millis(100));
        }
    }

    /// Writes so much more.
    fn write(&mut self, bytes: u64) {
        self.file.write_all(&self.noise.bytes(bytes as usize)).unwrap();
    }

    /// Path of this name in the directory of the file.
    fn beside(&self, name: &str) -> PathBuf {
        self.routed.path("source/inner").join(name)
    }
}

fn start(routed: &RoutedSite, options: &[&str]) -> Run {
    routed.start(&[&OPTIONS, options].concat(), &["source/"], "copy")
}

/// Number of times that this has become durable.
fn times(run: &Run, path: &str) -> usize {
    run.events().iter().filter(|event| is_followed(event, path)).count()
}

/// Ends the following; what has arrived is what the source has.
#[track_caller]
fn end(routed: &RoutedSite, run: Run) -> crate::support::Ended {
    run.signal(Signal::INT);
    let ended = run.finish().expect_code(0);
    assert_same(&routed.path("source"), &routed.path("copy"));
    assert_no_leftovers(&routed.path("copy"));
    assert_eq!(ended.number("errors"), 0, "{ended}");
    ended
}

#[test]
fn a_file_travels_while_it_grows_and_has_its_name_when_it_is_closed() {
    for route in [Route::Local, Route::Push, Route::ToDaemon] {
        let mut growing = Growing::begin(route, &[]);
        assert!(!growing.routed.path("copy/inner/grows").exists(), "{route:?}: it is not complete");
        // Others are not held up by it.
        fs::write(growing.beside("other"), "other").unwrap();
        await_followed(&growing.run, "source/inner/other");
        growing.write(5 * MIB + 17);
        fs::set_permissions(growing.beside("grows"), fs::Permissions::from_mode(0o640)).unwrap();
        let Growing { routed, run, file, .. } = growing;
        let size = file.metadata().unwrap().len();
        drop(file);
        await_followed(&run, "source/inner/grows");
        let ended = end(&routed, run);
        assert_eq!(
            followed(&ended.events).iter().filter(|path| *path == "source/inner/grows").count(),
            1,
            "{route:?}: {ended}"
        );
        let sent = ended.number("bytes_sent");
        assert!(sent < size + MIB, "{route:?}: each byte travels once, {sent} of {size}: {ended}");
    }
}

#[test]
fn a_header_that_is_written_last_travels_and_so_does_what_else_was_changed() {
    for (offset, is_again) in [(0, false), (10 * MIB, true)] {
        let mut growing = Growing::begin(Route::Push, &[]);
        growing.write(6 * MIB);
        growing.file.seek(SeekFrom::Start(offset)).unwrap();
        growing.write(1000);
        let Growing { routed, run, file, .. } = growing;
        drop(file);
        await_followed(&run, "source/inner/grows");
        let ended = end(&routed, run);
        let is_more = ended.number("bytes_sent") > BEGUN + 10 * MIB;
        assert_eq!(is_more, is_again, "changed at {offset}: {ended}");
    }
}

/// Fate of a file while it grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Truncated,
    Replaced,
    Renamed,
    Unlinked,
    InRenamedDirectory,
    Reserved,
}

#[test]
fn whatever_becomes_of_a_file_while_it_grows_what_is_there_at_the_end_arrives() {
    use Fate::{InRenamedDirectory, Renamed, Replaced, Reserved, Truncated, Unlinked};
    for fate in [Truncated, Replaced, Renamed, Unlinked, InRenamedDirectory, Reserved] {
        let mut growing = Growing::begin(Route::Push, &[]);
        let grows = growing.beside("grows");
        let mut last = "source/inner/grows";
        match fate {
            Truncated => {
                growing.file.set_len(MIB).unwrap();
                growing.file.seek(SeekFrom::End(0)).unwrap();
                growing.write(100);
            }
            Replaced => {
                let aside = growing.beside("aside.tmp");
                fs::write(&aside, "another file").unwrap();
                fs::rename(aside, &grows).unwrap();
                await_followed(&growing.run, "source/inner/grows");
                growing.write(9 * MIB);
            }
            Renamed => {
                last = "source/inner/renamed";
                fs::rename(&grows, growing.beside("renamed")).unwrap();
                growing.write(9 * MIB);
            }
            Unlinked => {
                last = "source/inner/other";
                fs::remove_file(&grows).unwrap();
                growing.write(9 * MIB);
                fs::write(growing.beside("other"), "other").unwrap();
            }
            InRenamedDirectory => {
                last = "source/after/grows";
                let source = growing.routed.path("source");
                fs::rename(source.join("inner"), source.join("after")).unwrap();
                growing.write(9 * MIB);
            }
            Reserved => growing.file.set_len(BEGUN + 30 * MIB).unwrap(),
        }
        let Growing { routed, run, file, .. } = growing;
        drop(file);
        assert!(run.wait_for(|event| is_followed(event, last)), "{fate:?}: {}", run.stderr());
        // What was begun of it and given up is gone, and nothing stands at its former name.
        run.signal(Signal::INT);
        let ended = run.finish().expect_code(0);
        assert_no_leftovers(&routed.path("copy"));
        let is_left = [Renamed, Unlinked, InRenamedDirectory].contains(&fate);
        assert!(!is_left || !routed.path("copy/inner/grows").exists(), "{fate:?}: {ended}");
        // A directory that was renamed stays at the destination.
        let [source, copy] =
            if fate == InRenamedDirectory { ["source/after", "copy/after"] } else { ["source", "copy"] };
        assert_same(&routed.path(source), &routed.path(copy));
        assert_eq!(ended.number("errors"), 0, "{fate:?}: {ended}");
    }
}

#[test]
fn a_file_that_is_never_closed_gets_no_name_however_the_following_ends() {
    for (options, is_signalled) in [(&[][..], true), (&["--idle", "1s"], false), (&["--until", "20s"], false)] {
        let growing = Growing::begin(Route::Push, options);
        let Growing { routed, run, file, .. } = growing;
        if is_signalled {
            run.signal(Signal::TERM);
        }
        let ended = run.finish().expect_code(0);
        assert!(
            ended.stderr.contains("had not settled: source/inner/grows; the same command copies"),
            "{options:?}: {ended}"
        );
        assert!(!routed.path("copy/inner/grows").exists(), "{options:?}: {ended}");
        assert_no_leftovers(&routed.path("copy"));
        drop(file);
        let again = routed.copy(&["--follow", "--settle", "100ms", "--idle", "300ms"], &["source/"], "copy");
        again.expect_code(0);
        assert_same(&routed.path("source"), &routed.path("copy"));
    }
}

#[test]
fn either_end_is_killed_while_a_file_grows_and_the_same_command_goes_on() {
    for is_near in [true, false] {
        let growing = Growing::begin(Route::Push, &[]);
        let Growing { routed, mut run, mut file, mut noise } = growing;
        if is_near {
            run.kill();
            run = start(&routed, &[]);
        } else {
            let far = run.far_end().expect("a far end");
            kill_process(far, Signal::KILL).unwrap();
            assert!(run.wait_for(|event| event["type"] == "reconnecting"));
        }
        file.write_all(&noise.bytes(9 * MIB as usize)).unwrap();
        fs::write(routed.path("source/inner/other"), "other").unwrap();
        await_followed(&run, "source/inner/other");
        drop(file);
        await_followed(&run, "source/inner/grows");
        assert_eq!(times(&run, "source/inner/grows"), 1);
        end(&routed, run);
    }
}

#[test]
fn of_many_files_that_grow_some_travel_and_the_others_when_they_have_settled() {
    let routed = RoutedSite::new(Route::Push);
    let source = routed.site.directory("source");
    fs::write(source.join("first"), "1").unwrap();
    let run = start(&routed, &[]);
    await_followed(&run, "source/first");
    let mut noise = Noise::new(9);
    let names: Vec<_> = (0..8).map(|number| format!("grows{number}")).collect();
    let files: Vec<_> = names.iter().map(|name| File::create(source.join(name)).unwrap()).collect();
    for _ in 0..10 {
        for mut file in &files {
            file.write_all(&noise.bytes(2 * MIB as usize)).unwrap();
        }
        sleep(Duration::from_millis(50));
    }
    fs::write(source.join("other"), "other").unwrap();
    await_followed(&run, "source/other");
    assert!(begun(&routed.path("copy")).count() <= 4, "{:?}", leftovers(&routed.path("copy")));
    drop(files);
    names.iter().for_each(|name| await_followed(&run, &format!("source/{name}")));
    end(&routed, run);
}

/// Files of which a part has arrived.
fn begun(copy: &Path) -> impl Iterator<Item = PathBuf> {
    let all = if copy.exists() { leftovers(copy) } else { Vec::new() };
    all.into_iter().filter(|path| path.extension().is_some_and(|end| end == "part"))
}

/// Greatest length in bytes of what has arrived of a file.
fn arrived(copy: &Path) -> u64 {
    begun(copy).filter_map(|path| fs::metadata(path).ok()).map(|stat| stat.len()).max().unwrap_or(0)
}

#[test]
fn files_under_temporary_names_and_those_that_are_moved_wait_until_they_have_settled() {
    for (options, name) in [(&[][..], "grows.part"), (&["--move"][..], "grows")] {
        let routed = RoutedSite::new(Route::Push);
        let source = routed.site.directory("source");
        fs::write(source.join("first"), "1").unwrap();
        let run = start(&routed, options);
        await_followed(&run, "source/first");
        let (mut noise, path) = (Noise::new(3), source.join(name));
        let contents = noise.bytes(BEGUN as usize);
        let mut file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        for part in contents.chunks(contents.len() / 8) {
            file.write_all(part).unwrap();
            sleep(Duration::from_millis(50));
        }
        fs::write(source.join("other"), "other").unwrap();
        await_followed(&run, "source/other");
        assert_eq!(begun(&routed.path("copy")).count(), 0, "{name}");
        drop(file);
        await_followed(&run, &format!("source/{name}"));
        run.signal(Signal::INT);
        let ended = run.finish().expect_code(0);
        assert!(fs::read(routed.path("copy").join(name)).unwrap() == contents, "{ended}");
        assert_eq!(path.exists(), options.is_empty(), "{ended}");
    }
}
