//! Files whose events come in any order, and whose disk fails at any time.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

const SEEDS: u64 = 3000;
const FILES: EntryId = 3;

/// Pseudorandom numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % bound
    }

    fn once_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn take<T>(&mut self, from: &mut Vec<T>) -> Option<T> {
        (!from.is_empty()).then(|| from.swap_remove(self.below(from.len())))
    }
}

/// An arrival from the link.
enum Arrival {
    Block(EntryId, u32),
    End(FileEnd),
    Confirmed,
}

/// An operation in progress.
enum Job {
    Do(Action<u32>),
    Compare(Read),
}

/// State of a file on the disk.
#[derive(Default)]
struct OnDisk {
    blocks: u32,
    /// Whether it is written where it stays.
    in_place: bool,
    written: BTreeSet<u32>,
    /// Blocks that were written when the sync in progress was requested.
    syncing: BTreeSet<u32>,
    durable: BTreeSet<u32>,
    noted: BTreeSet<u32>,
    sync_failed: bool,
    note_failed: bool,
    read: BTreeSet<u32>,
    ends: u32,
}

impl OnDisk {
    /// Whether the file has a journal: it is made durable by itself.
    fn is_journaled(&self) -> bool {
        self.blocks > 1 || self.in_place
    }
}

struct World {
    dice: Dice,
    now: Time,
    machine: Files<u32>,
    files: BTreeMap<EntryId, OnDisk>,
    arrivals: Vec<Arrival>,
    /// Number of times that the sender was asked whether it is there.
    asked: u64,
    jobs: Vec<Job>,
    verify: bool,
    /// One in this number of operations fails.
    fails: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let verify = dice.once_in(2);
        let mut machine = Files::new(verify);
        let mut arrivals = vec![Arrival::Confirmed];
        let mut files = BTreeMap::new();
        for id in 0..FILES {
            let blocks = 1 + dice.below(40) as u32;
            let held: BTreeSet<u32> = if blocks > 1 && dice.once_in(3) {
                (0..blocks).filter(|_| dice.once_in(2)).collect()
            } else {
                BTreeSet::new()
            };
            let expected = if held.is_empty() {
                Expected { length: Length::Known(whole(blocks)), sparse: false, held: None, in_place: false }
            } else {
                super::held(held.iter().copied(), blocks)
            };
            let in_place = dice.once_in(4);
            let expected = Expected { in_place, ..expected };
            machine.expect(id, expected);
            let missing = (0..blocks).filter(|index| !held.contains(index));
            arrivals.extend(missing.clone().map(|index| Arrival::Block(id, index)));
            arrivals.extend((0..blocks).filter(|_| dice.once_in(9)).map(|index| Arrival::Block(id, index)));
            let sent = missing.count() as u32;
            arrivals.push(Arrival::End(match dice.below(8) {
                0 => FileEnd { id, ..given_up(true) },
                1 => FileEnd { id, ..given_up(false) },
                _ => FileEnd { id, ..end(sent, digest(blocks)) },
            }));
            let on_disk = OnDisk {
                blocks,
                in_place,
                written: held.clone(),
                durable: held.clone(),
                noted: held,
                ..OnDisk::default()
            };
            files.insert(id, on_disk);
        }
        let fails = [usize::MAX, 30, 8][dice.below(3)];
        Self { dice, now: Time::ORIGIN, machine, files, arrivals, asked: 1, jobs: Vec::new(), verify, fails }
    }

    fn run(mut self) -> [u32; 3] {
        let mut ends = [0; 3];
        let cut = if self.dice.once_in(3) { self.dice.below(100) } else { 0 };
        while self.arrivals.len() > cut || !self.jobs.is_empty() {
            self.drain(&mut ends);
            if self.dice.once_in(2) && self.arrivals.len() > cut {
                self.arrive();
            } else {
                self.work();
            }
        }
        // Everything has come: nothing may wait for more but a file whose blocks are missing.
        self.machine.on_link_ended();
        loop {
            self.drain(&mut ends);
            if self.jobs.is_empty() {
                break;
            }
            self.work();
        }
        assert!(self.machine.is_empty(), "a file has not ended");
        assert!(self.files.values().all(|file| file.ends == 1), "every file ends once");
        ends
    }

    fn drain(&mut self, ends: &mut [u32; 3]) {
        while let Some(action) = self.machine.poll() {
            self.note(&action, ends);
            self.jobs.push(Job::Do(action));
        }
        if !self.dice.once_in(3)
            && let Some(read) = self.machine.next_read()
        {
            self.jobs.push(Job::Compare(read));
        }
    }

    /// Checks the conditions that must hold when an action is requested.
    fn note(&mut self, action: &Action<u32>, ends: &mut [u32; 3]) {
        let verify = self.verify;
        let (Action::Sync { id }
        | Action::Note { id, .. }
        | Action::Stored { id, .. }
        | Action::Lost { id, .. }
        | Action::Left { id, .. }) = action
        else {
            return;
        };
        let file = self.files.get_mut(id).unwrap();
        match action {
            Action::Sync { .. } => file.syncing = file.written.clone(),
            Action::Note { blocks, .. } => {
                assert!(!file.sync_failed, "noted after a sync that failed");
                assert!(blocks.iter().all(|(index, _)| file.durable.contains(index)), "noted and not durable");
            }
            Action::Stored { .. } => {
                file.ends += 1;
                ends[0] += 1;
                assert_eq!(file.written.len() as u32, file.blocks, "stored without all of its blocks");
                if file.is_journaled() {
                    assert_eq!(file.durable.len() as u32, file.blocks, "stored and not durable");
                    assert!(!verify || file.read.len() as u32 == file.blocks, "stored and not read back");
                }
            }
            Action::Lost { loss, keep, .. } => {
                file.ends += 1;
                ends[1] += 1;
                assert!(*loss != Loss::DigestsDiffer, "what arrived is what was sent");
                assert!(*keep || !loss.is_passing() || file.noted.is_empty() || file.written.is_empty());
            }
            Action::Left { .. } => {
                file.ends += 1;
                ends[2] += 1;
                if file.is_journaled() && !file.sync_failed && !file.note_failed {
                    assert_eq!(file.written, file.durable, "what has arrived is not durable");
                    assert_eq!(file.durable, file.noted, "what is durable is not noted");
                }
            }
            _ => {}
        }
    }

    fn arrive(&mut self) {
        match self.dice.take(&mut self.arrivals) {
            Some(Arrival::Block(id, index)) => self.machine.on_block(id, index, value(index), index),
            Some(Arrival::End(end)) => self.machine.on_end(end),
            Some(Arrival::Confirmed) => self.machine.on_confirmed(),
            None => {}
        }
    }

    fn work(&mut self) {
        let fails = self.dice.once_in(self.fails);
        let outcome = if fails { Err(passing()) } else { Ok(()) };
        match self.dice.take(&mut self.jobs) {
            Some(Job::Compare(Read { id, index, contents })) => {
                assert_eq!(contents, Contents::Value(value(index)));
                let file = self.files.get_mut(&id).unwrap();
                assert!(file.written.contains(&index));
                file.read.insert(index);
                if fails {
                    // A damaged block is written again.
                    file.written.remove(&index);
                    file.syncing.remove(&index);
                    file.durable.remove(&index);
                    file.noted.remove(&index);
                }
                self.machine.on_compared(id, index, !fails);
            }
            Some(Job::Do(action)) => self.carry_out(action, outcome),
            None => {}
        }
    }

    fn carry_out(&mut self, action: Action<u32>, outcome: Result<(), Failure>) {
        match action {
            Action::Open { id } => {
                let journaled = self.files[&id].is_journaled();
                let needs_sender = journaled && self.files[&id].noted.is_empty() && self.dice.once_in(5);
                self.machine.on_opened(id, outcome.map(|()| Opened { journaled, needs_sender }));
            }
            Action::Write { id, index, block } => {
                assert_eq!(index, block);
                let file = self.files.get_mut(&id).unwrap();
                let is_new = outcome.is_err() || file.written.insert(index);
                assert!(is_new, "written twice");
                // So that some checkpoints are due by the time.
                self.now += Span::from_millis(self.dice.below(400) as u64);
                self.machine.on_written(id, index, outcome, self.now);
            }
            Action::Sync { id } => {
                let file = self.files.get_mut(&id).unwrap();
                let synced = std::mem::take(&mut file.syncing);
                match outcome {
                    Ok(()) => file.durable.extend(synced),
                    Err(_) => file.sync_failed = true,
                }
                self.machine.on_synced(id, outcome);
            }
            Action::Note { id, blocks } => {
                let file = self.files.get_mut(&id).unwrap();
                match outcome {
                    Ok(()) => file.noted.extend(blocks.iter().map(|(index, _)| *index)),
                    Err(_) => file.note_failed = true,
                }
                self.machine.on_noted(id, outcome);
            }
            Action::Finish { id, .. } => self.machine.on_finished(id, outcome),
            Action::FindData { id } => {
                let all = 0..self.files[&id].blocks;
                self.files.get_mut(&id).unwrap().read.clear();
                self.machine.on_data_found(id, outcome.map(|()| vec![all]));
            }
            Action::Probe => {
                self.asked += 1;
                self.machine.on_asked(self.asked);
                self.arrivals.push(Arrival::Confirmed);
            }
            Action::Resend { id, index } => self.arrivals.push(Arrival::Block(id, index)),
            Action::Durable(_)
            | Action::StreamDurable { .. }
            | Action::Foreign(_)
            | Action::Stored { .. }
            | Action::Lost { .. }
            | Action::Left { .. } => {}
        }
    }
}

#[test]
fn whatever_happens_every_file_ends_once_and_nothing_is_promised_that_is_not_there() {
    let mut all = [0; 3];
    for seed in 0..SEEDS {
        let ends = std::panic::catch_unwind(|| World::new(seed).run());
        let ends = ends.unwrap_or_else(|_| panic!("seed {seed}"));
        all.iter_mut().zip(ends).for_each(|(sum, count)| *sum += count);
    }
    assert!(all.iter().all(|count| *count > SEEDS as u32 / 10), "stored, lost and left: {all:?}");
}
