//! Any order of events, with anything that may fail: everything is answered once and done once.

use std::collections::{BTreeMap, BTreeSet};

use icdc_protocol::limits::PACK_FILE_LIMIT;
use icdc_protocol::message::{Entry, EntryId, EntryKind, FileDigest, FileEnd, GivenUp, Message, Parent, Want};

use super::desk::{DIGEST, Desk, SHOWN, directory, entry, file, link, linked, settings, source};
use crate::Failure;
use crate::receiver::book::resume::verdict::Verdict;

/// Numbers that follow from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn is_one_of(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}

/// A sender that sends what is wanted, in any order.
struct Sender {
    dice: Dice,
    /// The remaining announcements, ends of directories included.
    script: Vec<Message>,
    entries: BTreeMap<EntryId, Entry>,
    answers: BTreeMap<EntryId, Want>,
    done: BTreeMap<EntryId, bool>,
    /// Files that are wanted and not sent.
    wanted: BTreeSet<EntryId>,
    comparing: Vec<EntryId>,
}

impl Sender {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let (mut script, mut entries) = (Vec::new(), vec![source(0, 0)]);
        let mut open = vec![0];
        let mut first_names = Vec::new();
        for id in 1..2 + dice.below(40) as u32 {
            let parent = open[dice.below(open.len() as u64) as usize];
            // Few names, so that items wait for each other.
            let name = dice.below(4).to_string();
            let size = [1, PACK_FILE_LIMIT + 1, 9 << 20][dice.below(3) as usize];
            entries.push(match dice.below(7) {
                0 => {
                    open.push(id);
                    directory(id, parent, &format!("d{id}"))
                }
                1 => entry(id, Parent::Directory(parent), &name, EntryKind::Symlink { target: b"t".to_vec() }),
                2 => {
                    first_names.push(id);
                    linked(id, parent, &name, size)
                }
                3 if !first_names.is_empty() => {
                    let to = first_names[dice.below(first_names.len() as u64) as usize];
                    link(id, parent, &name, to)
                }
                _ => file(id, parent, &name, size),
            });
            if dice.is_one_of(4) {
                script.push(Message::Entries(std::mem::take(&mut entries)));
                if open.len() > 1 && dice.is_one_of(2) {
                    let end = 1 + dice.below(open.len() as u64 - 1) as usize;
                    script.push(Message::DirEnd { id: open.remove(end) });
                }
            }
        }
        script.push(Message::Entries(entries));
        script.extend(open.into_iter().rev().map(|id| Message::DirEnd { id }));
        script.push(Message::End);
        script.reverse();
        let (entries, answers, done) = Default::default();
        Self { dice, script, entries, answers, done, wanted: BTreeSet::new(), comparing: Vec::new() }
    }

    /// Decides what fails and what is found at the destination.
    fn spoil(&mut self, desk: &mut Desk, ids: impl Iterator<Item = EntryId>) {
        for id in ids {
            for action in ["make", "examine", "stage", "rename", "finish", "link", "symlink", "note-staged"] {
                if self.dice.is_one_of(12) {
                    let reason = action.to_owned();
                    let failure =
                        if self.dice.is_one_of(2) { Failure::Final(reason) } else { Failure::Passing(reason) };
                    desk.fails.insert((action, id), failure);
                }
            }
            let digest = FileDigest::Blake3(DIGEST);
            let verdicts = [
                Verdict::Have(digest),
                Verdict::TakenOver(digest),
                Verdict::Skip { amend: false },
                Verdict::Compare { digest, is_noted: self.dice.is_one_of(2), shown: SHOWN },
            ];
            if self.dice.is_one_of(3) {
                desk.verdicts.insert(id, vec![verdicts[self.dice.below(4) as usize].clone()]);
            }
        }
    }

    /// Does one thing; false if there is nothing to be done.
    fn step(&mut self, desk: &mut Desk) -> bool {
        for action in ["flush", "flush-names"] {
            if self.dice.is_one_of(20) {
                desk.fails.insert((action, 0), action.into());
            } else {
                desk.fails.remove(&(action, 0));
            }
        }
        match self.dice.below(4) {
            0 if !self.script.is_empty() => {
                let message = self.script.pop().expect("a message");
                if let Message::Entries(entries) = &message {
                    self.entries.extend(entries.iter().map(|entry| (entry.id, entry.clone())));
                    let ids: Vec<_> = entries.iter().map(|entry| entry.id).collect();
                    self.spoil(desk, ids.into_iter());
                }
                desk.say(message);
            }
            1 if !self.comparing.is_empty() => {
                let at = self.dice.below(self.comparing.len() as u64) as usize;
                let same = self.dice.is_one_of(2);
                desk.compared(self.comparing.swap_remove(at), same);
            }
            2 if !self.wanted.is_empty() => self.send(desk),
            3 if desk.book.next_deadline().is_some() => desk.wait(),
            _ => {
                self.hear(desk);
                let idle = self.script.is_empty() && self.comparing.is_empty() && self.wanted.is_empty();
                return !idle || desk.book.next_deadline().is_some();
            }
        }
        self.hear(desk);
        true
    }

    fn send(&mut self, desk: &mut Desk) {
        let at = self.dice.below(self.wanted.len() as u64) as usize;
        let id = *self.wanted.iter().nth(at).expect("a wanted file");
        self.wanted.remove(&id);
        let EntryKind::File { size, .. } = self.entries[&id].kind else { return };
        if self.dice.is_one_of(6) {
            let outcome = Err(GivenUp { reason: "unreadable".into(), same_version: self.dice.is_one_of(2) });
            desk.say(Message::FileEnd(FileEnd { id, blocks: 0, outcome }));
        } else if size <= PACK_FILE_LIMIT {
            desk.pack(&[(id, size as u32)]);
        } else if self.dice.is_one_of(6) {
            desk.lost(id, Failure::Passing("disk".into()));
        } else {
            desk.stored(id);
        }
    }

    fn hear(&mut self, desk: &mut Desk) {
        self.comparing.append(&mut desk.compares);
        for reply in std::mem::take(&mut desk.replies) {
            match reply {
                Message::Wants(wants) => {
                    for (id, want) in (wants.first..).zip(wants.answers) {
                        assert!(self.answers.insert(id, want).is_none(), "{id} is answered twice");
                        let is_file = matches!(self.entries[&id].kind, EntryKind::File { .. });
                        if is_file && matches!(want, Want::All | Want::Rest) {
                            self.wanted.insert(id);
                        }
                    }
                }
                Message::Done(items) => {
                    for item in items {
                        let is_new = self.done.insert(item.id, item.outcome.is_ok()).is_none();
                        assert!(is_new, "{} is done twice", item.id);
                    }
                }
                _ => {}
            }
        }
        // What has failed at the other end is not sent.
        let done = &self.done;
        self.wanted.retain(|id| !done.contains_key(id));
    }
}

#[test]
fn everything_is_answered_once_and_done_once_in_whatever_order() {
    for seed in 0..2000 {
        let mut desk = Desk::new(settings());
        let mut sender = Sender::new(seed);
        desk.begin_and_answer();
        while sender.step(&mut desk) {}
        let log = desk.log();
        assert!(!log.iter().any(|line| line.starts_with("fail:")), "{seed}: {log:#?}");
        assert!(desk.book.is_complete(), "{seed}: {log:#?}");
        for id in sender.entries.keys() {
            let is_done = sender.done.get(id).copied();
            match sender.answers.get(id) {
                None => panic!("{seed}: {id} is not answered"),
                Some(Want::All | Want::Rest) => assert!(is_done.is_some(), "{seed}: {id} is not done"),
                Some(Want::Failed) => assert_eq!(is_done, Some(false), "{seed}: {id}"),
                Some(_) => assert_eq!(is_done, None, "{seed}: {id}"),
            }
        }
        let book = &desk.book;
        assert!(book.items.is_empty() && book.finishing.is_empty() && book.levels.is_empty(), "{seed}");
        assert_eq!((book.wanted, book.weight), (0, 0), "{seed}");
    }
}
