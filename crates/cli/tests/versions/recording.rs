//! What both ends of a session said, as bytes in the order in which they came, and playing one end of it.
//!
//! ```text
//! recording: (direction: '>' from the client, '<' from the server; length: u32 LE; frame)*
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use crate::wire::{PATIENCE, Wire, head, payload};

/// Which end said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Client,
    Server,
}

/// The messages of version 2, by the first byte of the head.
pub(crate) const ACCEPTED: u8 = 1;
const BLOCK: u8 = 5;
const PACK: u8 = 6;
const DIR_END: u8 = 8;
const TOTALS: u8 = 10;
const END: u8 = 11;
const WANTS: u8 = 15;
const DONE: u8 = 17;
const FEEDBACK: u8 = 18;
const PING: u8 = 19;
const CONFIRMED: u8 = 27;
/// They come as often as time allows.
const SIGNS_OF_LIFE: [u8; 4] = [TOTALS, FEEDBACK, PING, CONFIRMED];
/// Whatever the host, the directory and the clock are, they are the same bytes.
const THE_SAME: [u8; 5] = [ACCEPTED, BLOCK, PACK, DIR_END, END];

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recording {
    pub(crate) frames: Vec<(End, Vec<u8>)>,
}

impl Recording {
    fn place(name: &str) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/versions/recorded").join(name)
    }

    pub(crate) fn load(name: &str) -> Self {
        let bytes = std::fs::read(Self::place(name)).unwrap();
        let (mut rest, mut frames) = (bytes.as_slice(), Vec::new());
        while let Some((direction, after)) = rest.split_first() {
            let end = if *direction == b'>' { End::Client } else { End::Server };
            let (length, after) = after.split_first_chunk().unwrap();
            let (frame, after) = after.split_at(u32::from_le_bytes(*length) as usize);
            frames.push((end, frame.to_vec()));
            rest = after;
        }
        Self { frames }
    }

    pub(crate) fn save(&self, name: &str) {
        let mut bytes = Vec::new();
        for (end, frame) in &self.frames {
            bytes.push(if *end == End::Client { b'>' } else { b'<' });
            bytes.extend_from_slice(&(frame.len() as u32).to_le_bytes());
            bytes.extend_from_slice(frame);
        }
        std::fs::write(Self::place(name), bytes).unwrap();
    }

    /// With another frame in the place of all of its kind.
    pub(crate) fn with(mut self, frame: &[u8]) -> Self {
        let of_its_kind = |(_, other): &&mut (End, Vec<u8>)| head(other)[0] == head(frame)[0];
        self.frames.iter_mut().filter(of_its_kind).for_each(|(_, other)| *other = frame.to_vec());
        self
    }

    /// Plays one end: what it said, each frame once the other end has said what it had said before it then.
    /// Afterwards the other end must have said as much as then.
    pub(crate) fn play(&self, end: End, wire: &mut Wire) {
        let (mut due, mut heard) = (Said::default(), Said::default());
        for (by, frame) in &self.frames {
            if *by != end {
                due.add(frame);
                continue;
            }
            heard.up_to(&due, wire);
            wire.send(frame);
        }
        heard.up_to(&due, wire);
        wire.say_farewell();
        wire.rest().iter().for_each(|frame| heard.add(frame));
        assert_eq!(heard.counts, due.counts, "the other end says something else than the recorded one");
        assert_eq!(heard.fixed(), due.fixed(), "the encoding has changed, and the version of the protocol has not");
    }
}

/// What one end has said so far.
#[derive(Debug, Default)]
struct Said {
    /// How much of each kind: items of messages that may be divided otherwise, or messages.
    counts: BTreeMap<u8, u64>,
    frames: Vec<Vec<u8>>,
}

impl Said {
    fn add(&mut self, frame: &[u8]) {
        let head = head(frame);
        if !SIGNS_OF_LIFE.contains(&head[0]) {
            *self.counts.entry(head[0]).or_default() += items(head);
            self.frames.push(frame.to_vec());
        }
    }

    /// Listens until it is as much as `due`.
    fn up_to(&mut self, due: &Self, wire: &mut Wire) {
        let begun = Instant::now();
        let lacks =
            |said: &Self| due.counts.iter().any(|(kind, count)| said.counts.get(kind).is_none_or(|n| n < count));
        while lacks(self) {
            match wire.frame() {
                Some(frame) => self.add(&frame),
                None if wire.has_ended() => {
                    panic!("the other end closes after {:?} of {:?}: {self:?}", self.counts, due.counts)
                }
                None => assert!(begun.elapsed() < PATIENCE, "only {:?} of {:?} came", self.counts, due.counts),
            }
        }
    }

    /// The frames that are the same in each session, in no order.
    fn fixed(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let same = self.frames.iter().filter(|frame| THE_SAME.contains(&head(frame)[0]));
        let mut fixed: Vec<_> = same.map(|frame| (head(frame).to_vec(), payload(frame).to_vec())).collect();
        fixed.sort();
        fixed
    }
}

/// How many items a message has, if it may have several.
fn items(head: &[u8]) -> u64 {
    match head[0] {
        WANTS => number(number(&head[1..]).1).0,
        DONE => number(&head[1..]).0,
        _ => 1,
    }
}

/// A number of postcard's (LEB128) at the start of `bytes`, and what follows it.
fn number(bytes: &[u8]) -> (u64, &[u8]) {
    let end = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap();
    let digits = bytes[..=end].iter().rev();
    (digits.fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f)), &bytes[end + 1..])
}
