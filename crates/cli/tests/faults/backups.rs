//! SIGKILL of either side of a mirror with backups: each old file is at the destination or in its backup at every moment.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::directories::beside;
use crate::support::process::eventually;
use crate::support::{KIB, MIB, Noise, Shape, Signal, Site, Start, assert_no_leftovers, assert_same, data};

/// Paths of all regular files below a directory, with their contents.
fn files(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_path_buf()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => left.push(entry.path()),
                kind if kind.is_file() => {
                    let path = entry.path().strip_prefix(directory).unwrap().to_owned();
                    found.push((path, fs::read(entry.path()).unwrap()));
                }
                _ => {}
            }
        }
    }
    found
}

#[test]
fn an_old_file_is_in_its_place_or_in_its_backup_whenever_either_side_is_killed() {
    let mut noise = Noise::logged("backups");
    for trial in 0..4 {
        let site = Site::new();
        let shape = Shape { small: 600, largest_small: 10 * KIB, large: vec![5 * MIB, 9 * MIB], ..Shape::default() };
        let source = data::tree(&site.path("source"), trial, &shape);
        let start = |options: &[&str]| {
            let mut copy = site.copy(&["--ssh", &site.ssh()]);
            copy.args(options).arg(format!("{}/", source.display())).arg(site.by_ssh("copy")).start()
        };
        start(&[]).finish().expect_code(0);
        let old = files(&site.path("copy"));
        for (number, (path, contents)) in old.iter().enumerate() {
            let path = source.join(path);
            match number % 3 {
                0 => fs::remove_file(path).unwrap(),
                // Of another size than it was.
                1 => fs::write(path, [b"new ", contents.as_slice()].concat()).unwrap(),
                _ => {}
            }
        }
        // Every file is sent, also what an earlier run has replaced and not noted.
        let options = ["--delete", "--backup-dir", "kept"];
        for round in 0..8 {
            let mut run = start(&options);
            let moment = Duration::from_millis(noise.below(300));
            let is_near = noise.below(2) == 0;
            eprintln!("{trial}.{round}: the {} side, after {moment:?}", if is_near { "near" } else { "far" });
            if run.runs_after(moment) {
                run.kill_either(is_near);
            } else {
                run.finish();
            }
            let has = |root: &str, path: &Path, contents: &[u8]| {
                fs::read(site.path(root).join(path)).is_ok_and(|found| found == contents)
            };
            let lost: Vec<&PathBuf> = old
                .iter()
                .filter(|(path, contents)| !has("copy", path, contents) && !has("kept", path, contents))
                .map(|(path, _)| path)
                .collect();
            assert!(lost.is_empty(), "{trial}.{round}: {lost:?}");
        }
        start(&options).finish().expect_code(0);
        assert_same(&source, &site.path("copy"));
        assert_no_leftovers(&site.path("copy"));
        for (path, contents) in &old {
            let is_replaced = fs::read(source.join(path)).map_or(true, |new| new != *contents);
            let kept = fs::read(site.path("kept").join(path)).ok();
            assert!(!is_replaced || kept.as_ref() == Some(contents), "{trial}: {}", path.display());
        }
    }
}

#[test]
fn what_was_replaced_just_before_a_kill_goes_with_the_next_run() {
    for options in [&[][..], &["--skip-equal"], &["--skip-equal", "--checksum"]] {
        let site = Site::new();
        let source = site.directory("source");
        fs::create_dir(source.join("directory")).unwrap();
        fs::write(source.join("directory/x"), "x").unwrap();
        fs::write(source.join("one"), "contents").unwrap();
        fs::hard_link(source.join("one"), source.join("other")).unwrap();
        data::file(&source.join("large"), 48 * MIB, 1);
        let start = |rate: &str| site.copy(&["--rate", rate]).args(options).args(["source/", "copy"]).start();
        let run = start("160mbit");
        let is_there = |name: &str| site.path("copy").join(name).exists();
        assert!(eventually(|| ["directory/x", "one", "other"].into_iter().all(is_there)));
        assert!(run.wait_for_bytes(16 * MIB), "{}", run.finish());
        run.signal(Signal::KILL);
        run.finish();
        // The one that the directory gives last is the further name.
        let names = fs::read_dir(&source).unwrap().map(|entry| entry.unwrap().file_name());
        let further = names.filter(|name| name == "one" || name == "other").last().unwrap();
        for name in ["directory", further.to_str().unwrap()] {
            fs::write(site.path("copy").join(&beside(name, None)[0]), "what was replaced").unwrap();
        }
        start("10gbit").finish().expect_code(0);
        assert_same(&source, &site.path("copy"));
        assert_no_leftovers(&site.path("copy"));
    }
}
