//! Either end is killed, connections are reset, the link goes down for a moment, again and again: the same command, started
//! as often as it takes, ends with a copy that is identical to its source, and leaves nothing behind.
//!
//! `ICDC_TEST_CYCLES` says how many copies are troubled so, `ICDC_TEST_SEED` repeats a run.

use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::kill_process;

use crate::support::network::Pair;
use crate::support::{
    Ended, HERE, KIB, MIB, Noise, Run, Shape, Signal, Site, Start, assert_no_leftovers, assert_same, data, leftovers,
};

/// Cycles where the environment does not say how many.
const CYCLES: u64 = 10;
/// How often one copy is troubled at most.
const MOST_TROUBLES: u64 = 3;
/// A copy that is still not complete after so many commands makes no progress.
const MOST_COMMANDS: u32 = 20;
/// Trouble comes within this time of the command's start or of the last trouble, and an outage is shorter.
const SPAN_MILLIS: u64 = 500;
const RATE: &str = "640mbit";

#[derive(Clone, Copy)]
enum Direction {
    Push,
    Pull,
}

/// What has happened, over all cycles.
#[derive(Default)]
struct Tally {
    near_kills: u32,
    far_kills: u32,
    resets: u32,
    outages: u32,
    commands: u32,
    bytes_sent: u64,
    /// Far ends killed after the near one knew that all had arrived: the next command put the journal away.
    journals_left: u32,
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { near_kills, far_kills, resets, outages, commands, bytes_sent, journals_left } = self;
        write!(
            formatter,
            "{near_kills} near ends killed, {far_kills} far ends killed, {resets} times connections reset, {outages} outages, \
             {commands} commands, {bytes_sent} bytes sent by those that ended, {journals_left} journals left to a further command"
        )
    }
}

/// A tree that is copied between two hosts, or over loopback where there are no namespaces.
struct Course {
    site: Site,
    pair: Option<Pair>,
    source: PathBuf,
}

impl Course {
    fn new() -> Self {
        let site = Site::new();
        let shape =
            Shape { small: 2000, largest_small: 6 * KIB, large: vec![16 * MIB, 9 * MIB + 1, 5 * MIB], oddities: true };
        let source = data::tree(&site.path("source"), 110, &shape);
        let sparse = File::create(source.join("islands")).unwrap();
        sparse.set_len(48 * MIB).unwrap();
        let mut noise = Noise::new(111);
        for island in [3, 30, 31, 46] {
            sparse.write_all_at(&noise.bytes(700 * KIB as usize), island * MIB).unwrap();
        }
        for (first, further) in [("large0", "odd/large-again"), ("d001/f00060", "d000/again")] {
            fs::hard_link(source.join(first), source.join(further)).unwrap();
        }
        fs::create_dir_all(source.join("hollow/inner")).unwrap();
        Self { site, pair: Pair::new(), source }
    }

    fn start(&self, direction: Direction, place: &str) -> Run {
        let host = self.pair.as_ref().map_or(HERE, |pair| pair.far.address());
        let ssh = self.pair.as_ref().map_or_else(|| self.site.ssh(), |pair| self.site.ssh_to(&pair.far));
        let mut command = self.site.copy(&["--ring", "64MiB", "--rate", RATE, "--ssh", &ssh]);
        match direction {
            Direction::Push => command.arg(self.site.path("source/")).arg(self.site.on_host(host, place)),
            Direction::Pull => command.arg(self.site.on_host(host, "source/")).arg(self.site.path(place)),
        };
        match &self.pair {
            Some(pair) => pair.near.run(&command).start(),
            None => command.start(),
        }
    }

    /// One copy, troubled a few times, until it is complete.
    fn cycle(&self, number: u64, noise: &mut Noise, tally: &mut Tally) {
        let direction = if noise.below(2) == 0 { Direction::Push } else { Direction::Pull };
        let place = format!("in/{number}");
        self.site.directory("in");
        let mut troubles = 1 + noise.below(MOST_TROUBLES);
        for _ in 0..MOST_COMMANDS {
            tally.commands += 1;
            let Some(ended) = self.troubled(direction, &place, &mut troubles, noise, tally) else { continue };
            match ended.code {
                Some(0) => {
                    tally.bytes_sent += ended.number("bytes_sent");
                    let copy = self.site.path(&place);
                    self.assert_complete(&copy);
                    if is_journal_left(&copy) {
                        tally.journals_left += 1;
                        continue;
                    }
                    assert_no_leftovers(self.site.root());
                    fs::remove_dir_all(copy).unwrap();
                    return;
                }
                Some(3 | 4) => {}
                _ => panic!("cycle {number}: {ended}"),
            }
        }
        panic!("cycle {number}: not complete after {MOST_COMMANDS} commands");
    }

    /// Runs the command, with trouble on the way as long as there is some left. `None` if its process was killed.
    fn troubled(
        &self,
        direction: Direction,
        place: &str,
        left: &mut u64,
        noise: &mut Noise,
        tally: &mut Tally,
    ) -> Option<Ended> {
        let mut run = self.start(direction, place);
        while *left > 0 && run.runs_after(Duration::from_millis(noise.below(SPAN_MILLIS))) {
            *left -= 1;
            match (noise.below(4), &self.pair) {
                (0, _) => {
                    tally.near_kills += 1;
                    run.kill();
                    return None;
                }
                (1, Some(pair)) => tally.resets += u32::from(pair.cut()),
                (2, Some(pair)) => {
                    tally.outages += 1;
                    pair.unplug();
                    run.runs_after(Duration::from_millis(noise.below(SPAN_MILLIS)));
                    pair.plug();
                }
                _ => {
                    // It may just be started again.
                    let killed = run.far_end().is_some_and(|far| kill_process(far, Signal::KILL).is_ok());
                    tally.far_kills += u32::from(killed);
                }
            }
        }
        Some(run.finish())
    }

    fn assert_complete(&self, copy: &Path) {
        let left = leftovers(copy);
        if left.is_empty() {
            assert_same(&self.source, copy);
        }
        for (first, further) in [("large0", "odd/large-again"), ("d001/f00060", "d000/again")] {
            let inode = |name| fs::metadata(copy.join(name)).unwrap().ino();
            assert_eq!(inode(first), inode(further), "{further} is a file of its own");
        }
        let room = |path: &Path| fs::metadata(path.join("islands")).unwrap().blocks();
        assert!(room(copy) <= room(&self.source) + 8 * MIB / 512, "the holes are gone");
    }
}

/// Whether a far end that was killed in its last moment has left the journal of the run, and nothing else.
fn is_journal_left(copy: &Path) -> bool {
    matches!(leftovers(copy).as_slice(), [journal] if journal.extension().is_some_and(|kind| kind == "run"))
}

#[test]
fn copies_survive_kills_resets_and_outages() {
    let cycles = std::env::var("ICDC_TEST_CYCLES").ok().map_or(CYCLES, |text| text.parse().unwrap());
    let mut noise = Noise::logged("cycles");
    let course = Course::new();
    let mut tally = Tally::default();
    let start = Instant::now();
    for number in 0..cycles {
        course.cycle(number, &mut noise, &mut tally);
    }
    let (size, seconds) = (data::size(&course.source), start.elapsed().as_secs());
    eprintln!("{cycles} copies of {size} bytes, all identical, nothing left, in {seconds} s: {tally}");
}
