//! Messages that no end would send as things stand: of items that are not there, out of turn, twice,
//! beyond the end of a file, or in the wrong direction.
//!
//! What is not forged is a lie that nobody could find out: other contents with the digest that they have.

use std::collections::BTreeMap;

use icdc_protocol::block_map::block_count;
use icdc_protocol::chunking::Chunking;
use icdc_protocol::delta::CopiedPart;
use icdc_protocol::limits::{BLOCK_SIZE, MAX_PARTS};
use icdc_protocol::message::{
    Assembled, Begin, BlockHeader, Chunks, Done, Entry, EntryId, EntryKind, Feedback, FileDigest, FileEnd, GivenUp,
    Goodbye, Held, Message, PackItem, Parent, Part, Refusal, RefusalKind, StreamEnd, Streamed, Want, Wants,
};

use icdc_units::ByteCount;

use crate::environment::Side;
use crate::random::Random;
use crate::sender::scan::Announced;
use crate::source::{Body, value_of};
use crate::wire::{Frame, Payload};

/// What has been announced so far.
type Items = BTreeMap<EntryId, Announced>;

/// Something to be said to `side`.
pub(crate) fn forge(side: Side, items: &Items, random: &mut Random) -> Frame {
    match side {
        Side::Receiver => to_receiver(items, random),
        Side::Sender => to_sender(items, random).into(),
    }
}

/// Mostly that of an item.
fn any_id(items: &Items, random: &mut Random) -> EntryId {
    if random.once_in(8) {
        return u32::MAX - random.below(2) as u32;
    }
    random.below(items.len() as u64 + 2) as EntryId
}

/// Mostly within the file.
fn any_index(size: u64, random: &mut Random) -> u32 {
    match random.below(6) {
        0 => u32::MAX,
        1 => block_count(size),
        _ => random.below(u64::from(block_count(size)) + 1) as u32,
    }
}

fn any_digest(random: &mut Random) -> FileDigest {
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&random.below(u64::MAX).to_le_bytes());
    if random.once_in(4) { FileDigest::SparseMap(digest) } else { FileDigest::Blake3(digest) }
}

fn given_up(random: &mut Random) -> GivenUp {
    GivenUp { reason: "forged".into(), same_version: random.once_in(2) }
}

fn refusal(random: &mut Random) -> Refusal {
    let kind = *random.pick(&[RefusalKind::Protocol, RefusalKind::Busy, RefusalKind::Path]);
    Refusal { kind, reason: "forged".into() }
}

fn to_receiver(items: &Items, random: &mut Random) -> Frame {
    let id = any_id(items, random);
    let file = items.get(&id).and_then(|announced| announced.file.as_ref());
    // One that is announced next might have these contents from then on.
    let known = if items.contains_key(&id) { id } else { u32::MAX };
    let message = match random.below(17) {
        0..=2 => return block(known, items, random),
        3 | 4 => return pack(known, items, random),
        5 => match (random.below(6) as u32, any_digest(random)) {
            (blocks @ 4.., FileDigest::Blake3(digest)) => {
                let size = u64::from(blocks) * BLOCK_SIZE as u64;
                Message::StreamEnd(StreamEnd {
                    id,
                    digest,
                    streamed: Streamed { size, mtime_seconds: 3, mtime_nanos: 0 },
                })
            }
            (blocks, digest) => Message::FileEnd(FileEnd { id, blocks, outcome: Ok(digest) }),
        },
        6 => Message::FileEnd(FileEnd { id, blocks: random.below(3) as u32, outcome: Err(given_up(random)) }),
        7 => Message::DirEnd { id },
        8 => Message::Begin(Begin { job: [7; 32], sources: Vec::new() }),
        9 => Message::End,
        10 => Message::Goodbye(Goodbye::default()),
        11 | 12 => Message::Entries(vec![entry(items, random)]),
        13 => Message::Left { connection: random.below(6) as u8, frames: random.below(4) },
        14 => *random.pick(&[Turn::Wants, Turn::Done, Turn::Resend, Turn::Held]).message(id, file.is_some()),
        15 => {
            let header = BlockHeader { id: known, index: random.below(4) as u32, value: [4; 32], ranges: Vec::new() };
            let (at, length) = (random.below(1 << 20) as u32, random.within(1, 1 << 20) as u32);
            let copies = vec![CopiedPart { at, length, basis: random.below(3) as u8, offset: random.below(1 << 24) }];
            return Frame { message: Message::Assembled(Assembled { header, copies }), payload: None };
        }
        _ if random.once_in(2) => Message::Interrupt,
        _ => Message::Abort(refusal(random)),
    };
    message.into()
}

/// Messages of the receiver.
#[derive(Clone, Copy)]
enum Turn {
    Wants,
    Done,
    Resend,
    Held,
}

impl Turn {
    fn message(self, id: EntryId, is_file: bool) -> Box<Message> {
        Box::new(match self {
            Self::Wants => Message::Wants(Wants { first: id, answers: vec![Want::All] }),
            Self::Done => Message::Done(vec![Done { id, outcome: Ok(is_file.then_some(FileDigest::Blake3([0; 32]))) }]),
            Self::Resend => Message::Resend { id, index: 0 },
            Self::Held => Message::Held(Held { id, first: 0, values: vec![[0; 32]] }),
        })
    }
}

/// A block that the file has, or that none has, or that is not what its header says; or a part of one.
fn block(id: EntryId, items: &Items, random: &mut Random) -> Frame {
    let file = items.get(&id).and_then(|announced| announced.file.as_ref());
    let index = any_index(file.map_or(0, |file| file.size()), random);
    let contents = match file.map(|file| &file.body) {
        Some(Body::Blocks { size, blocks, .. }) if index < block_count(*size) => {
            blocks.get(&index).copied().unwrap_or_default()
        }
        _ => random.below(1 << 60),
    };
    let value = if random.once_in(8) { [3; 32] } else { value_of(contents) };
    if random.once_in(4) {
        // One of several, or of none: the codec refuses what has no data.
        let (length, number) = (random.below(BLOCK_SIZE as u64 + 1) as u32, random.below(MAX_PARTS as u64 + 1) as u8);
        let part = Part { id, index, value, length, number };
        return Frame { message: Message::Part(part), payload: Some(Payload::Block(contents)) };
    }
    let header = BlockHeader { id, index, value, ranges: Vec::new() };
    Frame { message: Message::Block(header), payload: Some(Payload::Block(contents)) }
}

/// A small file, of the right or of another length.
fn pack(id: EntryId, items: &Items, random: &mut Random) -> Frame {
    let file = items.get(&id).and_then(|announced| announced.file.as_ref());
    let bytes = match file.map(|file| &file.body) {
        Some(Body::Small(bytes)) => bytes.clone(),
        _ => vec![7; random.below(40) as usize],
    };
    let is_damaged = random.once_in(3);
    let digest = if is_damaged { [9; 32] } else { *blake3::hash(&bytes).as_bytes() };
    let length = bytes.len() as u32 + u32::from(random.once_in(3));
    let mut items = vec![PackItem { id, length, digest }];
    if random.once_in(3) {
        items.push(PackItem { id, length: 0, digest });
    }
    Frame { message: Message::Pack(items), payload: Some(Payload::Small(bytes)) }
}

/// An entry out of turn or in an odd place.
fn entry(items: &Items, random: &mut Random) -> Entry {
    let next = items.len() as EntryId;
    let id = if random.once_in(2) { next } else { any_id(items, random) };
    let parent = if random.once_in(3) {
        Parent::Source(random.below(4) as u32)
    } else {
        Parent::Directory(any_id(items, random))
    };
    let names: [&[u8]; 7] = [b"", b"..", b"a/b", b"nul\0", b".icdc-a.part", b"a", b"forged"];
    let name = random.pick(&names).to_vec();
    let kind = match random.below(4) {
        // In the place of a file it would stay there.
        0 if name == b"forged" && matches!(parent, Parent::Directory(_)) => EntryKind::Directory,
        1 => EntryKind::HardLink { to: any_id(items, random), size: 5, version: [7; 16], sparse: false },
        2 => match (random.below(1 << 40), random.once_in(2)) {
            (size, _) if size.is_multiple_of(4) => EntryKind::Stream,
            (size, sparse) => EntryKind::File { size, version: [5; 16], sparse, linked: true },
        },
        _ => EntryKind::Symlink { target: b"forged".to_vec() },
    };
    let (owner, xattrs) = (None, Vec::new());
    Entry { id, parent, name, kind, mode: 0o644, mtime_seconds: 3, mtime_nanos: 0, owner, xattrs }
}

fn to_sender(items: &Items, random: &mut Random) -> Message {
    let id = any_id(items, random);
    let size = items.get(&id).and_then(|announced| announced.file.as_ref()).map_or(0, |file| file.size());
    match random.below(15) {
        0..=2 => {
            let answers = (0..random.within(1, 3)).map(|_| want(random)).collect();
            Message::Wants(Wants { first: id, answers })
        }
        3 => Message::Done(vec![Done { id, outcome: Err("forged".into()) }; random.within(1, 2) as usize]),
        4 => Message::Done(vec![Done { id, outcome: Ok(Some(any_digest(random))) }]),
        5 => Message::Done(vec![Done { id, outcome: Ok(None) }]),
        6 | 7 => Message::Held(Held { id, first: any_index(size, random), values: vec![[1; 32]; 2] }),
        8 => Message::Resend { id, index: any_index(size, random) },
        9 => Message::Left { connection: random.below(6) as u8, frames: random.below(4) },
        10 => random
            .pick(&[Message::End, Message::DirEnd { id: 0 }, Message::Entries(Vec::new()), Message::Pack(Vec::new())])
            .clone(),
        11 => Message::Feedback(Feedback::default()),
        12 => Message::Interrupt,
        13 => Message::Chunks(Chunks {
            id,
            chunking: Chunking::for_bytes(ByteCount::ZERO),
            basis: random.below(3) as u8,
            offset: random.below(1 << 30),
            chunks: vec![(random.within(1, 64 << 10) as u32, [5; 16]); random.within(1, 3) as usize],
            covered: random.below(1 << 40),
            complete: random.once_in(2),
        }),
        _ => Message::Abort(refusal(random)),
    }
}

fn want(random: &mut Random) -> Want {
    match random.below(7) {
        0 => Want::All,
        1 => Want::Rest,
        2 => Want::Failed,
        3 => Want::Skip,
        4 => Want::Have(any_digest(random)),
        5 => Want::Delta,
        _ => Want::TakenOver(any_digest(random)),
    }
}
