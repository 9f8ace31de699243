//! SIGKILL of either side while a snapshot is made and older ones are removed: what has a snapshot's name is complete, an
//! older one never changes while it has its name, and the next run completes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::compare::{State, differences, state};
use crate::support::process::{eventually, is_running};
use crate::support::{KIB, MIB, Noise, Shape, Site, Start, assert_no_leftovers, data};

/// Directories in `backup` that have the name of a snapshot.
fn snapshots(backup: &Path) -> BTreeSet<PathBuf> {
    let paths = fs::read_dir(backup).into_iter().flatten().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.file_name().is_some_and(|name| name.len() == 20)).filter(|path| path.is_dir()).collect()
}

/// A destination, with what its snapshots were when they were first seen.
struct Watched {
    backup: PathBuf,
    known: BTreeMap<PathBuf, State>,
}

impl Watched {
    /// New snapshots must be the `source`; known ones must be as they were, or gone.
    fn check(&mut self, source: &Path, round: u32) {
        let found = snapshots(&self.backup);
        self.known.retain(|path, _| found.contains(path));
        for path in found {
            match self.known.get(&path) {
                Some(known) => assert!(state(&path) == *known, "round {round}: {} was changed", path.display()),
                None => {
                    let differs = differences(source, &path);
                    assert!(differs.is_empty(), "round {round}: {} is not complete: {differs:?}", path.display());
                    self.known.insert(path.clone(), state(&path));
                }
            }
        }
        if let Ok(target) = fs::read_link(self.backup.join("latest")) {
            assert!(self.known.contains_key(&self.backup.join(&target)), "round {round}: latest leads to {target:?}");
        } else {
            assert!(self.backup.join("latest").symlink_metadata().is_err(), "round {round}: latest is no link");
        }
    }
}

#[test]
fn snapshots_are_complete_or_nameless_whenever_either_side_is_killed() {
    let mut noise = Noise::logged("snapshots");
    let site = Site::new();
    let shape = Shape { small: 600, largest_small: 10 * KIB, large: vec![13 * MIB, 5 * MIB], oddities: true };
    let source = data::tree(&site.path("source"), 24, &shape);
    let backup = site.path("backup");
    let start = || {
        let mut copy = site.copy(&["--ssh", &site.ssh(), "--skip-equal", "--snapshot", "--keep", "1d,2y"]);
        copy.arg(format!("{}/", source.display())).arg(site.by_ssh("backup")).start()
    };
    let mut watched = Watched { backup: backup.clone(), known: BTreeMap::new() };
    for round in 0..18 {
        // Some to be removed, of a year that no other is of.
        for old in 0..2 {
            let place = backup.join(format!("{}-01-0{}T00:00:00Z", 1990 + round, old + 1));
            fs::create_dir_all(place.join("deep/er")).unwrap();
            (0..200).for_each(|number| fs::write(place.join(format!("deep/er/{number}")), "old").unwrap());
            watched.known.insert(place.clone(), state(&place));
        }
        let mut run = start();
        let moment = Duration::from_millis(noise.below(400));
        let is_near = noise.below(2) == 0;
        eprintln!("{round}: the {} side, after {moment:?}", if is_near { "near" } else { "far" });
        if run.runs_after(moment) {
            let far = run.kill_either(is_near);
            assert!(eventually(|| far.is_none_or(|far| !is_running(far))), "round {round}: the far end stays");
        } else {
            run.finish();
        }
        watched.check(&source, round);
        if round % 3 == 2 {
            start().finish().expect_code(0);
            assert_no_leftovers(&backup);
            watched.check(&source, round);
            // One of today, and the newest of the last year before.
            assert_eq!(snapshots(&backup).len(), 2, "round {round}: {:?}", snapshots(&backup));
            fs::write(source.join(format!("d000/f{round:05}")), format!("changed {round}")).unwrap();
            fs::remove_file(source.join(format!("d000/f{:05}", round + 20))).unwrap();
        }
    }
}
