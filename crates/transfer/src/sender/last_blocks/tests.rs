//! The parts of a block, and what has none.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use icdc_disk::BlockPool;
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::BlockHeader;

use super::*;

/// A block of the pool, in which each byte has the number of its part.
fn block(pool: &BlockPool, length: usize, ranges: Vec<(u32, u32)>) -> Parcel {
    let header = BlockHeader { id: 1, index: 2, value: [3; 32], ranges };
    let mut block = pool.take().unwrap();
    block.iter_mut().enumerate().for_each(|(offset, byte)| *byte = (offset / PART_SIZE) as u8);
    Parcel { message: Message::Block(header), payload: Some((block, length).into()) }
}

#[test]
fn a_part_carries_its_range_of_the_block() {
    let pool = BlockPool::new(1).unwrap();
    let length = 2 * PART_SIZE + 1;
    let frames = divided(block(&pool, length, Vec::new()));
    let lengths: Vec<usize> = frames.iter().map(Parcel::payload_length).collect();
    assert_eq!(lengths, [PART_SIZE, PART_SIZE, 1]);
    for (number, frame) in (0..).zip(&frames) {
        let expected = Part { id: 1, index: 2, value: [3; 32], length: length as u32, number };
        assert_eq!(frame.message, Message::Part(expected));
        assert!(frame.payload.as_ref().unwrap().iter().all(|byte| *byte == number));
    }
    drop(frames);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn only_a_block_of_more_than_a_part_and_without_holes_can_be_divided() {
    let pool = BlockPool::new(1).unwrap();
    assert_eq!(form(&block(&pool, BLOCK_SIZE, Vec::new())), Form::Divisible);
    assert_eq!(form(&block(&pool, PART_SIZE, Vec::new())), Form::Indivisible);
    assert_eq!(form(&block(&pool, 2 * PART_SIZE, vec![(0, 2 * PART_SIZE as u32)])), Form::Indivisible);
    assert_eq!(form(&Message::Ping.into()), Form::Indivisible);
}
