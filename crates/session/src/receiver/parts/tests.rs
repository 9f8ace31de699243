//! Completion of blocks from their parts; a block is the list of the parts that were put into it.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use icdc_protocol::limits::BLOCK_SIZE;

use super::*;

const RING: usize = 4;

type Block = Vec<u8>;

fn part(index: u32, length: usize, number: u8) -> Part {
    Part { id: 1, index, value: [index as u8; 32], length: length as u32, number }
}

fn arrive(parts: &mut Parts<Block>, part: Part) -> Result<Option<(BlockHeader, Block)>, &'static str> {
    parts.arrived(&part, vec![part.number], RING, |before, arrived| [before.unwrap_or_default(), arrived].concat())
}

#[test]
fn parts_make_their_block_in_any_order_and_count_once() {
    for length in [1, PART_SIZE, PART_SIZE + 1, 3 * PART_SIZE - 7, BLOCK_SIZE] {
        let mut parts = Parts::default();
        let count = length.div_ceil(PART_SIZE) as u8;
        let mut numbers: Vec<u8> = (0..count).rev().collect();
        numbers.rotate_left(usize::from(count) / 3);
        let last = numbers.pop().unwrap();
        let twice = [numbers.clone(), numbers].concat();
        for number in &twice {
            assert_eq!(arrive(&mut parts, part(5, length, *number)), Ok(None));
        }
        let header = BlockHeader { id: 1, index: 5, value: [5; 32], ranges: Vec::new() };
        let block = [twice, vec![last]].concat();
        assert_eq!(arrive(&mut parts, part(5, length, last)), Ok(Some((header, block))));
        assert_eq!(arrive(&mut parts, part(5, length, last)), Ok(None), "it was complete");
        assert_eq!(parts.filling(), 0);
    }
}

#[test]
fn what_comes_whole_waits_for_no_part() {
    let mut parts = Parts::default();
    let [first, second] = [0, 1].map(|number| part(2, 2 * PART_SIZE, number));
    assert_eq!((arrive(&mut parts, first), parts.filling()), (Ok(None), 1));
    parts.came_whole(1, 2);
    parts.came_whole(1, 3);
    assert_eq!(parts.filling(), 0);
    assert_eq!((arrive(&mut parts, second), parts.filling()), (Ok(None), 0));
}

#[test]
fn parts_that_come_behind_their_whole_block_take_no_room() {
    let mut parts = Parts::default();
    for index in 0..2 * REMEMBERED as u32 {
        parts.came_whole(1, index);
        assert_eq!(arrive(&mut parts, part(index, 2 * PART_SIZE, 1)), Ok(None));
        assert!(parts.filling() == 0 && parts.came_whole.len() <= REMEMBERED, "{index}");
    }
}

#[test]
fn they_leave_half_of_the_ring_to_what_arrives_besides() {
    let mut parts = Parts::default();
    let mut arrive =
        |index, number| arrive(&mut parts, part(index, 2 * PART_SIZE, number)).map(|whole| whole.is_some());
    assert_eq!([arrive(0, 0), arrive(1, 0), arrive(2, 0)], [Ok(false), Ok(false), Err(TOO_MANY)]);
    assert_eq!([arrive(0, 1), arrive(2, 0)], [Ok(true), Ok(false)]);
    assert_eq!([arrive(1, 1), arrive(2, 1), arrive(3, 0), arrive(3, 1)], [Ok(true), Ok(true), Ok(false), Ok(true)]);
    assert_eq!(arrive(4, 0), Err(TOO_MANY), "a sender that goes on is refused");
}

#[test]
fn parts_that_differ_are_refused() {
    let first = part(0, 3 * PART_SIZE, 0);
    for other in [Part { value: [9; 32], ..first }, Part { length: first.length - 1, ..first }] {
        let mut parts = Parts::default();
        arrive(&mut parts, first).unwrap();
        assert_eq!(arrive(&mut parts, Part { number: 1, ..other }), Err(DIFFERENT));
        assert_eq!(parts.filling(), 0);
    }
}
