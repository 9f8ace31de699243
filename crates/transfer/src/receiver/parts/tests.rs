//! Blocks put together from parts.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use icdc_disk::BlockPool;
use icdc_protocol::limits::{BLOCK_SIZE, PART_SIZE};
use icdc_protocol::message::Part;
use icdc_session::receiver::parts::Parts;

use super::*;

const RING: usize = 4;

fn part(length: usize, number: u8) -> Part {
    Part { id: 1, index: 5, value: [5; 32], length: length as u32, number }
}

/// Byte at `offset` of every block.
fn byte(offset: usize) -> u8 {
    (offset / 1000 % 251) as u8
}

/// As a part arrives: at the start of a block.
fn data(pool: &BlockPool, part: &Part) -> Block {
    let mut block = pool.take().unwrap();
    block.fill(0xff);
    for (offset, place) in part.range().zip(&mut block[..]) {
        *place = byte(offset);
    }
    block
}

#[test]
fn every_part_goes_where_it_belongs_and_its_block_back_to_the_pool() {
    let pool = BlockPool::new(RING).unwrap();
    for length in [1, PART_SIZE, PART_SIZE + 1, 3 * PART_SIZE - 7, BLOCK_SIZE] {
        let mut parts = Parts::default();
        let mut arrive = |number| {
            let part = part(length, number);
            let put = |before, arrived| put(before, arrived, part.range());
            parts.arrived(&part, data(&pool, &part), RING, put).unwrap()
        };
        let count = length.div_ceil(PART_SIZE) as u8;
        let mut numbers: Vec<u8> = (0..count).rev().collect();
        numbers.rotate_left(usize::from(count) / 3);
        let last = numbers.pop().unwrap();
        assert!(numbers.iter().chain(&numbers).all(|number| arrive(*number).is_none()));
        let (_, block) = arrive(last).unwrap();
        assert!((0..length).all(|offset| block[offset] == byte(offset)), "{length}");
        drop(block);
        assert!(arrive(last).is_none(), "it was complete");
        assert_eq!(pool.in_use(), 0);
    }
}
