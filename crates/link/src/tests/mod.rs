//! Tests of the links that are not TCP; those that are have theirs in `secure`. The helpers here
//! serve both.

mod memory;
mod stdio;

use std::sync::OnceLock;
use std::thread::{self, JoinHandle};

use icdc_disk::pool::{BLOCK_SIZE, BlockPool};
use icdc_protocol::Message;
use icdc_protocol::message::BlockHeader;

use super::{Inlet, LinkError, Outlet, Parcel, Payload};

/// A block's worth of reproducible noise, one of four.
pub(super) fn noise(seed: u32) -> &'static [u8] {
    static NOISE: [OnceLock<Vec<u8>>; 4] = [const { OnceLock::new() }; 4];
    NOISE[seed as usize % 4].get_or_init(|| {
        // xorshift64 (Marsaglia 2003)
        let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ u64::from(seed % 4);
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        (0..BLOCK_SIZE / 8).flat_map(|_| next().to_le_bytes()).collect()
    })
}

/// Lengths of payload around everything that the code counts in, for block number `index`.
pub(super) fn length(index: u32) -> usize {
    const RECORD: usize = 1 << 14;
    let lengths = [BLOCK_SIZE, BLOCK_SIZE - 1, 1, RECORD, RECORD - 1, RECORD + 1, 5 * RECORD, BLOCK_SIZE - RECORD, 777];
    lengths[index as usize % lengths.len()]
}

/// Block number `index` with its noise.
pub(super) fn block(index: u32, length: usize, pool: &BlockPool) -> Parcel {
    let mut block = pool.take().unwrap();
    block[..length].copy_from_slice(&noise(index)[..length]);
    let message = Message::Block(BlockHeader { id: 7, index, value: [0; 32], ranges: Vec::new() });
    Parcel { message, payload: Some(Payload::Own(block, length)) }
}

/// Sends `count` blocks with a message without payload behind each, and drops the outlet.
pub(super) fn send_all(mut outlet: Box<dyn Outlet>, count: u32, length: fn(u32) -> usize) -> Result<(), LinkError> {
    let pool = BlockPool::new(4).unwrap();
    for index in 0..count {
        outlet.send(block(index, length(index), &pool))?;
        outlet.send(Message::Relay(vec![b'x'; index as usize * 5 % 40_000]).into())?;
    }
    Ok(())
}

/// Receives what [`send_all`] sends and checks every byte of it, until the link ends; how many
/// blocks came, and how it ended.
pub(super) fn receive_all(mut inlet: Box<dyn Inlet>, length: fn(u32) -> usize) -> (u32, LinkError) {
    let pool = BlockPool::new(4).unwrap();
    let mut count = 0;
    loop {
        match inlet.receive(&pool) {
            Ok(Parcel { message: Message::Block(header), payload: Some(Payload::Own(block, filled)) }) => {
                assert_eq!((header.index, filled), (count, length(count)));
                assert!(block[..filled] == noise(count)[..filled], "block {count} differs");
                count += 1;
            }
            Ok(Parcel { message: Message::Relay(text), payload: None }) => {
                assert_eq!(text.len(), (count as usize - 1) * 5 % 40_000);
            }
            Ok(other) => panic!("{other:?} was not sent"),
            Err(error) => {
                assert!(matches!(inlet.receive(&pool), Err(LinkError::Broken)), "an ended inlet stays ended");
                assert_eq!(pool.in_use(), 0, "blocks are kept after the end");
                return (count, error);
            }
        }
    }
}

/// Runs a half in a thread of its own.
pub(super) fn spawn<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
    thread::spawn(work)
}

pub(super) fn whole_block(_index: u32) -> usize {
    BLOCK_SIZE
}
