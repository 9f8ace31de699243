//! Random damage to everything that interrupted copies have left: unfinished files, journals, files that have their
//! names already (their modification times restored). The next run ends with exit code 0 and a copy that is identical
//! to its source. Without `--verify`, files that an earlier run published are not read; the summary says so.
//!
//! `ICDC_TEST_DAMAGES` is the number of interrupted copies of each test, `ICDC_TEST_SEED` the seed of the first.

use std::fmt::Write as _;
use std::fs::{self, FileTimes, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, kill_process, test_kill_process};

use crate::support::compare::differences;
use crate::support::process::eventually;
use crate::support::{KIB, MIB, Noise, Signal, Site, Start, assert_no_leftovers, data};

/// Interrupted copies of each test, unless the environment says otherwise.
const COUNT: u64 = 20;
const BLOCK: u64 = 4 * MIB;
/// Names of files with the same contents in the source: what is done to one is done to the other.
const LINKED: [&str; 2] = ["d0/f000", "second name"];

/// Dense and sparse files of some blocks, files of one block and small ones, links.
fn make_source(root: &Path, noise: &mut Noise) {
    for number in 0..60 {
        let directory = root.join(format!("d{}", number / 20));
        fs::create_dir_all(&directory).unwrap();
        let size = 1 + noise.below(8 * KIB) as usize;
        let path = directory.join(format!("f{number:03}"));
        fs::write(&path, noise.bytes(size)).unwrap();
        data::age(&path, 1_500_000_000 + number, 7);
    }
    data::file(&root.join("dense"), 2 * BLOCK + 1, noise.next());
    data::file(&root.join("later"), BLOCK + 70 * KIB, noise.next());
    data::file(&root.join("one block"), 700 * KIB, noise.next());
    fs::hard_link(root.join(LINKED[0]), root.join(LINKED[1])).unwrap();
    std::os::unix::fs::symlink("dense", root.join("link")).unwrap();
    let stretches = [(0, BLOCK), (2 * BLOCK, 50 * KIB), (5 * BLOCK - KIB, 2 * KIB), (7 * BLOCK, 9)];
    data::sparse(&root.join("sparse"), 9 * BLOCK + 100, noise.next(), &stretches);
    let stretches = [(BLOCK + MIB, MIB), (4 * BLOCK, BLOCK)];
    data::sparse(&root.join("more sparse"), 6 * BLOCK, noise.next(), &stretches);
    data::sparse(&root.join("holes"), 3 * BLOCK + 5, noise.next(), &[]);
    data::sparse(&root.join("sparse block"), 2 * MIB, noise.next(), &[(MIB, 100 * KIB)]);
}

/// A copy, interrupted at some moment once or twice.
struct Scene<'a> {
    site: &'a Site,
    source: &'a Path,
    copy: PathBuf,
    /// Files that may be wrong if they are not read, relative to the copy.
    unknowable: Vec<PathBuf>,
    log: String,
}

impl Scene<'_> {
    fn start(&self, options: &[&str]) -> crate::support::Run {
        let mut words = vec!["--ssh"];
        let ssh = self.site.ssh();
        words.push(&ssh);
        words.extend_from_slice(options);
        let mut from = self.source.as_os_str().to_owned();
        from.push("/");
        let to = self.site.by_ssh(&self.copy);
        self.site.copy(&words).arg(from).arg(to).start()
    }

    fn interrupt(&mut self, noise: &mut Noise) {
        let run = self.start(&["--rate", "200mbit"]);
        let bytes = noise.below(18 * MIB);
        let far = if run.wait_for_bytes(bytes) { run.far_end() } else { None };
        let done = run.events().iter().map(crate::support::bytes_done).max().unwrap_or(0);
        let signal = if noise.below(3) == 0 { Signal::INT } else { Signal::KILL };
        // It may have ended meanwhile.
        let _ = kill_process(run.pid(), signal);
        let _ = write!(self.log, "{signal:?} after {} MiB; ", done / MIB);
        if let (Some(far), 0) = (far, noise.below(3)) {
            let _ = kill_process(far, Signal::KILL);
            self.log += "far end killed; ";
        }
        run.finish();
        assert!(far.is_none_or(|far| eventually(|| has_ended(far))), "{}", self.log);
    }

    /// Every regular file at the destination of one kind, picked at random, or none.
    fn pick(&self, noise: &mut Noise) -> Option<(PathBuf, &'static str)> {
        let kinds = ["part", "blocks", "run", "published"];
        let kind = kinds[noise.below(4) as usize];
        let mut found = files(&self.copy);
        found.retain(|path| kind_of(path) == kind);
        let index = noise.below(found.len() as u64) as usize;
        found.get(index).map(|path| (path.clone(), kind))
    }

    fn damage(&mut self, noise: &mut Noise) -> u64 {
        let mut done = 0;
        for _ in 0..20 {
            let Some((path, kind)) = self.pick(noise) else { continue };
            let before = fs::metadata(&path).unwrap();
            let other = self.pick(noise).map(|(path, _)| path);
            let what = alter(&path, other.as_deref(), noise);
            let _ = write!(self.log, "{kind} {what}; ");
            if kind == "published"
                && let Ok(file) = OpenOptions::new().write(true).open(&path)
            {
                file.set_times(FileTimes::new().set_modified(before.modified().unwrap())).unwrap();
                self.suspect(&path);
            }
            done += 1;
            if noise.below(3) == 0 {
                break;
            }
        }
        done
    }

    /// A file whose size and time look right may have any contents now, and so may its other name.
    fn suspect(&mut self, path: &Path) {
        let name = path.strip_prefix(&self.copy).unwrap();
        if LINKED.iter().any(|linked| Path::new(linked) == name) {
            self.unknowable.extend(LINKED.iter().map(PathBuf::from));
        }
        self.unknowable.push(name.to_owned());
    }

    /// Continues, and judges what is there then. Answers the number of files that were not read.
    fn finish(&mut self, options: &[&str], verify: bool) -> u64 {
        let ended = self.start(options).finish();
        assert_eq!(ended.code, Some(0), "{}\n{ended}", self.log);
        let mut wrong = differences(self.source, &self.copy);
        let unread = ended.number("taken_over_files");
        if !verify {
            assert_eq!(ended.summary()["verified"], unread == 0, "{}\n{ended}", self.log);
            if unread > 0 {
                wrong.retain(|text| {
                    let unknowable = self.unknowable.iter().map(|name| format!("{}: ", self.copy.join(name).display()));
                    !unknowable.into_iter().any(|start| text.starts_with(&start))
                });
            }
        } else {
            assert_eq!((&ended.summary()["verified"], unread), (&true.into(), 0), "{}\n{ended}", self.log);
        }
        assert!(wrong.is_empty(), "{}\n{wrong:#?}\n{ended}", self.log);
        assert_no_leftovers(&self.copy);
        let _ = write!(self.log, "{} MiB resumed, {unread} files not read", ended.resumed() / MIB);
        unread
    }
}

fn has_ended(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    test_kill_process(pid).is_err() || stat.contains(") Z ")
}

/// All regular files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(directory) else { return found };
    for entry in entries {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(files(&entry.path()));
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

fn kind_of(path: &Path) -> &str {
    let name = path.file_name().unwrap();
    let ending = path.extension().and_then(|ending| ending.to_str());
    if name.as_bytes().starts_with(b".icdc-") { ending.unwrap_or_default() } else { "published" }
}

/// Does something to a file, and tells what. A `swap` is with `other`.
fn alter(path: &Path, other: Option<&Path>, noise: &mut Noise) -> String {
    let size = fs::metadata(path).unwrap().len();
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let offset = noise.below(size.max(1));
    let longest = [10, 5 * KIB, MIB, 5 * MIB][noise.below(4) as usize];
    let length = (1 + noise.below(longest)).min(size - offset.min(size));
    match noise.below(8) {
        0 | 1 => {
            let count = 1 + noise.below(20);
            for _ in 0..count.min(size) {
                file.write_all_at(&noise.bytes(1), noise.below(size)).unwrap();
            }
            format!("{count} bytes changed")
        }
        2 | 3 => {
            file.write_all_at(&noise.bytes(length as usize), offset).unwrap();
            format!("{length} bytes of garbage at {offset}")
        }
        4 => {
            file.write_all_at(&vec![0; length as usize], offset).unwrap();
            format!("{length} zeros at {offset}")
        }
        5 => {
            file.set_len(offset).unwrap();
            format!("cut to {offset}")
        }
        6 => {
            let bytes = if noise.below(2) == 0 { vec![0; length as usize] } else { noise.bytes(length as usize) };
            file.write_all_at(&bytes, size).unwrap();
            format!("extended by {length}")
        }
        _ => match other {
            Some(other) if other != path => {
                let aside = path.with_extension("aside");
                fs::rename(path, &aside).unwrap();
                fs::rename(other, path).unwrap();
                fs::rename(&aside, other).unwrap();
                format!("swapped with {}", kind_of(other))
            }
            _ => {
                fs::remove_file(path).unwrap();
                "removed".into()
            }
        },
    }
}

fn torment(what: &str, verify: bool) {
    let given = std::env::var("ICDC_TEST_DAMAGES").ok().and_then(|text| text.parse().ok());
    let base = Noise::seed(what);
    let site = Site::new();
    let source = site.directory("source");
    make_source(&source, &mut Noise::new(70));
    let (mut damages, mut unread) = (0, 0);
    let count = given.unwrap_or(COUNT);
    for seed in (0..count).map(|number| base.wrapping_add(number)) {
        let mut noise = Noise::new(seed);
        let copy = site.directory(format!("copy-{seed}"));
        let log = format!("ICDC_TEST_SEED={seed}: ");
        let mut scene = Scene { site: &site, source: &source, copy, unknowable: Vec::new(), log };
        scene.interrupt(&mut noise);
        if noise.below(4) == 0 {
            damages += scene.damage(&mut noise);
            scene.interrupt(&mut noise);
        }
        damages += scene.damage(&mut noise);
        let mut options = if verify { vec!["--verify"] } else { Vec::new() };
        if noise.below(3) == 0 {
            options.push("--buffered");
        }
        unread += scene.finish(&options, verify);
        eprintln!("{}", scene.log);
        fs::remove_dir_all(&scene.copy).unwrap();
    }
    eprintln!("{what}: {count} interrupted copies, {damages} damages, {unread} files not read, 0 wrong files");
}

#[test]
fn random_damage_without_verify() {
    torment("random damage without --verify", false);
}

#[test]
fn random_damage_with_verify() {
    torment("random damage with --verify", true);
}
