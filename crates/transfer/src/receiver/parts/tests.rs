//! Blocks put together from parts.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use icdc_disk::BlockPool;
use icdc_protocol::limits::BLOCK_SIZE;

use super::*;

const RING: usize = 4;

fn part(index: u32, length: usize, number: u8) -> Part {
    Part { id: 1, index, value: [index as u8; 32], length: length as u32, number }
}

/// What the byte at `offset` of every block is.
fn byte(offset: usize) -> u8 {
    (offset / 1000 % 251) as u8
}

fn data(pool: &BlockPool, part: &Part) -> Block {
    let mut block = pool.take().unwrap();
    block.fill(0xff);
    for (offset, place) in part.range().zip(&mut block[..]) {
        *place = byte(offset);
    }
    block
}

#[test]
fn parts_make_their_block_in_any_order_and_count_once() {
    let pool = BlockPool::new(RING).unwrap();
    for length in [1, PART_SIZE, PART_SIZE + 1, 3 * PART_SIZE - 7, BLOCK_SIZE] {
        let mut parts = Parts::default();
        let count = length.div_ceil(PART_SIZE) as u8;
        let mut numbers: Vec<u8> = (0..count).rev().collect();
        numbers.rotate_left(usize::from(count) / 3);
        let last = numbers.pop().unwrap();
        for number in numbers.iter().chain(&numbers) {
            let part = part(5, length, *number);
            assert_eq!(parts.arrived(&part, data(&pool, &part), RING).map(|whole| whole.is_some()), Ok(false));
        }
        let last = part(5, length, last);
        let (header, block) = parts.arrived(&last, data(&pool, &last), RING).unwrap().unwrap();
        assert_eq!(header, BlockHeader { id: 1, index: 5, value: [5; 32], ranges: Vec::new() });
        assert!((0..length).all(|offset| block[offset] == byte(offset)), "{length}");
        drop(block);
        assert!(parts.arrived(&last, data(&pool, &last), RING).unwrap().is_none(), "it was complete");
        assert_eq!(pool.in_use(), 0);
    }
}

#[test]
fn what_comes_whole_waits_for_no_part() {
    let pool = BlockPool::new(RING).unwrap();
    let mut parts = Parts::default();
    let [first, second] = [0, 1].map(|number| part(2, 2 * PART_SIZE, number));
    assert!(parts.arrived(&first, data(&pool, &first), RING).unwrap().is_none());
    assert_eq!(pool.in_use(), 1);
    parts.came_whole(1, 2);
    parts.came_whole(1, 3);
    assert_eq!(pool.in_use(), 0);
    assert!(parts.arrived(&second, data(&pool, &second), RING).unwrap().is_none());
    assert_eq!((pool.in_use(), parts.filling), (0, 0));
}

#[test]
fn they_leave_half_of_the_ring_to_what_arrives_besides() {
    let pool = BlockPool::new(RING).unwrap();
    let mut parts = Parts::default();
    let mut arrive = |index, number| {
        let part = part(index, 2 * PART_SIZE, number);
        parts.arrived(&part, data(&pool, &part), RING).map(|whole| whole.is_some())
    };
    assert_eq!([arrive(0, 0), arrive(1, 0), arrive(2, 0)], [Ok(false), Ok(false), Err(TOO_MANY)]);
    assert_eq!([arrive(0, 1), arrive(2, 0)], [Ok(true), Ok(false)]);
    assert_eq!([arrive(1, 1), arrive(2, 1), arrive(3, 0), arrive(3, 1)], [Ok(true), Ok(true), Ok(false), Ok(true)]);
    assert_eq!(arrive(4, 0), Err(TOO_MANY), "a sender that goes on is refused");
}

#[test]
fn parts_that_differ_are_refused() {
    let pool = BlockPool::new(RING).unwrap();
    let first = part(0, 3 * PART_SIZE, 0);
    for other in [Part { value: [9; 32], ..first }, Part { length: first.length - 1, ..first }] {
        let mut parts = Parts::default();
        parts.arrived(&first, data(&pool, &first), RING).unwrap();
        let other = Part { number: 1, ..other };
        assert_eq!(parts.arrived(&other, data(&pool, &other), RING).unwrap_err(), DIFFERENT);
        assert_eq!(pool.in_use(), 0);
    }
}
