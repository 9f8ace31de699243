//! Which blocks travel in parts.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use icdc_disk::BlockPool;
use icdc_protocol::message::BlockHeader;

use super::*;

const RING: u32 = 64;

/// A run of whole blocks, all of one file, over `connections` connections.
struct Run {
    last: LastBlocks,
    pool: BlockPool,
    blocks: u64,
    connections: u64,
    ring: ReceiverRing,
}

impl Run {
    fn new(blocks: u64, connections: u64, ring: u32) -> Self {
        Self {
            last: LastBlocks::default(),
            pool: BlockPool::new(1).unwrap(),
            blocks,
            connections,
            ring: ReceiverRing { blocks: ring, joins_parts: true },
        }
    }

    /// The frames that are queued for a block.
    fn queue(&self, length: usize, ranges: Vec<(u32, u32)>) -> Vec<Parcel> {
        let header = BlockHeader { id: 1, index: 2, value: [3; 32], ranges };
        let mut block = self.pool.take().unwrap();
        block.iter_mut().enumerate().for_each(|(offset, byte)| *byte = (offset / PART_SIZE) as u8);
        let parcel = Parcel { message: Message::Block(header), payload: Some((block, length).into()) };
        let all = ByteCount::from(BLOCK_SIZE) * self.blocks;
        let left = |queued| all - ByteCount::new(queued);
        match self.last.divide(parcel, self.connections, self.ring, left) {
            Frames::Whole(parcel) | Frames::Undivided(parcel, _) => vec![*parcel],
            Frames::Parts(parts) => parts,
        }
    }

    /// One in which each connection has had a block.
    fn at_its_end(connections: u64, ring: u32) -> Self {
        let run = Self::new(connections, connections, ring);
        (0..connections).for_each(|_| drop(run.queue(BLOCK_SIZE, vec![(0, BLOCK_SIZE as u32)])));
        run
    }

    /// How many of the blocks go in parts; those before go whole.
    fn divided(&self) -> u64 {
        let frames: Vec<usize> = (0..self.blocks).map(|_| self.queue(BLOCK_SIZE, Vec::new()).len()).collect();
        let parts = BLOCK_SIZE / PART_SIZE;
        let whole = frames.iter().take_while(|count| **count == 1).count();
        assert!(frames[whole..].iter().all(|count| *count == parts), "{frames:?}");
        (frames.len() - whole) as u64
    }
}

#[test]
fn all_blocks_go_whole_to_a_receiver_that_takes_no_parts() {
    let run = Run { ring: ReceiverRing { blocks: RING, joins_parts: false }, ..Run::new(100, 16, RING) };
    assert_eq!(run.divided(), 0);
    assert!(run.last.kept_whole.load(Ordering::Relaxed));
}

#[test]
fn as_many_blocks_as_there_are_connections_go_in_parts_at_the_end() {
    for connections in [2, 16, 32] {
        assert_eq!(Run::new(100, connections, RING).divided(), connections);
    }
    assert_eq!(Run::new(100, 1, RING).divided(), 0, "one connection carries them in order");
    assert_eq!([Run::new(20, 16, RING).divided(), Run::new(16, 16, RING).divided()], [4, 0], "each has one before");
}

#[test]
fn no_more_than_half_of_the_ring() {
    assert_eq!(Run::new(100, 64, RING).divided(), u64::from(RING / 2));
    assert_eq!(Run::new(100, 64, 1).divided(), 0);
    let run = Run::at_its_end(64, 4);
    let divided = (0..9).filter(|_| run.queue(BLOCK_SIZE, Vec::new()).len() > 1).count();
    assert_eq!(divided, 2, "what is sent once more counts as well");
}

#[test]
fn a_part_carries_its_range_of_the_block() {
    let run = Run::at_its_end(2, RING);
    let length = 2 * PART_SIZE + 1;
    let frames = run.queue(length, Vec::new());
    let lengths: Vec<usize> = frames.iter().map(Parcel::payload_length).collect();
    assert_eq!(lengths, [PART_SIZE, PART_SIZE, 1]);
    for (number, frame) in (0..).zip(&frames) {
        let expected = Part { id: 1, index: 2, value: [3; 32], length: length as u32, number };
        assert_eq!(frame.message, Message::Part(expected));
        assert!(frame.payload.as_ref().unwrap().iter().all(|byte| *byte == number));
    }
    drop(frames);
    assert_eq!(run.pool.in_use(), 0);
}

#[test]
fn what_is_short_or_has_holes_goes_whole() {
    let run = Run::at_its_end(2, RING);
    assert_eq!(run.queue(PART_SIZE, Vec::new()).len(), 1);
    assert_eq!(run.queue(2 * PART_SIZE, vec![(0, 2 * PART_SIZE as u32)]).len(), 1);
}
