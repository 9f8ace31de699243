//! Order in which a file that grows is read and sent, and its end. Sans-I/O.
//!
//! ```text
//!            its writer has it open                      its writer has closed it
//!  ┌───────┬───────────────────────┬───────┐   sent:     the first one, and those behind n
//!  │ first │ 1 … n: sent as they   │ last  │   compared: blocks 1 … n, as they are now, with what was sent
//!  └───────┴─── become whole ──────┴───────┘   then its end, with digest, length and time
//! ```
//!
//! What is missing is sent before anything is compared: it travels meanwhile, and the windows of connections that were idle
//! until then would have to grow again.
//!
//! Programs go back to the beginning of what they write, for a header, and to its end: the first block and the last one
//! are kept back until the file is closed. What is behind a hole is not there yet: a program may have reserved the space.
//! A file of which another block was changed after it was sent, which has become shorter, or which has holes, is not to
//! travel so: it travels as any other when it has settled.

use std::ops::Range;

use icdc_protocol::block_map::{block_count, block_length};
use icdc_protocol::digest;
use icdc_protocol::limits::{BLOCK_SIZE, MAX_FILE_SIZE};
use icdc_protocol::message::Digest;

use super::fingerprint::Fingerprint;

/// Most blocks that are compared in one step, 256 MiB: several for each of as many threads as there may be.
const MOST_COMPARED: u32 = 64;

/// Blocks that were sent of a file which grows, and what comes next.
#[derive(Debug, Default)]
pub(super) struct Growth {
    /// Blocks that were sent, without gaps; the first one is unset until it is sent.
    blocks: Vec<Option<SentBlock>>,
    /// Number of the next block to be compared, and of the one behind the last; `None` while the file is open.
    compared: Option<(u32, u32)>,
}

/// A block that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentBlock {
    pub(super) value: Digest,
    /// Fingerprint of what was sent, to be compared with what the block is later.
    pub(super) fingerprint: Fingerprint,
}

/// A file that grows as it was found just now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Length in bytes.
    pub(super) size: u64,
    /// Length in bytes of what comes before the first hole.
    pub(super) filled: u64,
    /// Whether its writer has closed it.
    pub(super) is_closed: bool,
}

/// Next step for a file that grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Wait until it has grown or was closed.
    Wait,
    /// Read and send this block, of so many bytes.
    Send { index: u32, length: usize },
    /// Read these blocks, which were sent, and compare them.
    Compare { blocks: Range<u32> },
    /// Send its end: everything is sent and was compared.
    End,
    /// Give it up: it is not what was sent of it.
    GiveUp,
}

impl Growth {
    /// Next step, as the file is now.
    pub(super) fn next(&mut self, seen: Seen) -> Next {
        let Seen { size, filled, is_closed } = seen;
        let sent = self.blocks.len() as u32;
        if size < u64::from(sent) * BLOCK_SIZE as u64 && self.compared.is_none() || size > MAX_FILE_SIZE {
            return Next::GiveUp;
        }
        if !is_closed {
            let index = sent.max(1);
            let is_followed = u64::from(index) + 2 <= size.min(filled) / BLOCK_SIZE as u64;
            return if is_followed { Next::Send { index, length: BLOCK_SIZE } } else { Next::Wait };
        }
        if filled < size {
            return Next::GiveUp;
        }
        let (next, end) = *self.compared.get_or_insert((1, sent));
        let missing = if self.blocks.first().is_some_and(Option::is_some) { sent } else { 0 };
        if missing < block_count(size) {
            return Next::Send { index: missing, length: block_length(size, missing) };
        }
        if next < end {
            return Next::Compare { blocks: next..end.min(next + MOST_COMPARED) };
        }
        if sent == block_count(size) { Next::End } else { Next::GiveUp }
    }

    /// Notes that a block is going to be sent, as [`next`](Self::next) has asked for.
    pub(super) fn sent(&mut self, index: u32, block: SentBlock) {
        let index = index as usize;
        if self.blocks.len() <= index {
            self.blocks.resize(index + 1, None);
        }
        self.blocks[index] = Some(block);
    }

    /// Notes that the blocks before this one, which were to be compared, are as they were sent.
    pub(super) fn compared(&mut self, end: u32) {
        if let Some((next, _)) = &mut self.compared {
            *next = end;
        }
    }

    /// Value with which the block was sent, if it was as it is now.
    pub(super) fn value_if_same(&self, index: u32, now: Fingerprint) -> Option<Digest> {
        let sent = self.blocks.get(index as usize).copied().flatten();
        sent.filter(|sent| sent.fingerprint == now).map(|sent| sent.value)
    }

    /// Digest of the file, all `size` bytes of which were sent; `None` if a block is missing.
    pub(super) fn digest(&self, size: u64) -> Option<Digest> {
        let values: Vec<_> = self.blocks.iter().map(|block| block.map(|block| block.value)).collect::<Option<_>>()?;
        digest::root(size, &values)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::super::fingerprint::Fingerprints;
    use super::*;

    const BLOCK: u64 = BLOCK_SIZE as u64;

    fn open(size: u64) -> Seen {
        Seen { size, filled: size, is_closed: false }
    }

    fn closed(size: u64) -> Seen {
        Seen { is_closed: true, ..open(size) }
    }

    fn value(index: u32) -> Digest {
        [index as u8 + 1; 32]
    }

    fn fingerprint(index: u32) -> Fingerprint {
        static ALL: LazyLock<Fingerprints> = LazyLock::new(Fingerprints::default);
        ALL.of(&index.to_le_bytes())
    }

    fn block(index: u32) -> SentBlock {
        SentBlock { value: value(index), fingerprint: fingerprint(index) }
    }

    fn is_same(growth: &Growth, index: u32) -> bool {
        growth.value_if_same(index, fingerprint(index)) == Some(value(index))
    }

    /// Takes the steps that are due, with equal contents whenever a block is read; returns them with the last one.
    fn steps(growth: &mut Growth, seen: Seen) -> Vec<Next> {
        let mut steps = Vec::new();
        loop {
            let next = growth.next(seen);
            steps.push(next.clone());
            match next {
                Next::Send { index, .. } => growth.sent(index, block(index)),
                Next::Compare { blocks } => {
                    assert!(blocks.clone().all(|index| is_same(growth, index)));
                    growth.compared(blocks.end);
                }
                Next::Wait | Next::End | Next::GiveUp => return steps,
            }
        }
    }

    fn send(index: u32) -> Next {
        Next::Send { index, length: BLOCK_SIZE }
    }

    #[test]
    fn the_first_block_and_the_last_are_sent_when_the_file_is_closed() {
        let mut growth = Growth::default();
        assert_eq!(steps(&mut growth, open(3 * BLOCK - 1)), [Next::Wait]);
        assert_eq!(steps(&mut growth, open(5 * BLOCK + 7)), [send(1), send(2), send(3), Next::Wait]);
        let compared = Next::Compare { blocks: 1..4 };
        let last = Next::Send { index: 5, length: 7 };
        assert_eq!(steps(&mut growth, closed(5 * BLOCK + 7)), [send(0), send(4), last, compared, Next::End]);
        let values: Vec<_> = (0..6).map(value).collect();
        assert_eq!(growth.digest(5 * BLOCK + 7), digest::root(5 * BLOCK + 7, &values));
    }

    #[test]
    fn whatever_length_a_file_has_at_its_end_each_block_is_sent_once() {
        for grown in [0, 2, 3, 6] {
            for size in
                [0, 5, BLOCK, 3 * BLOCK, 6 * BLOCK, 6 * BLOCK + 1].into_iter().filter(|size| *size >= grown * BLOCK)
            {
                let mut growth = Growth::default();
                let before = steps(&mut growth, open(grown * BLOCK));
                let after = steps(&mut growth, closed(size));
                let mut sent: Vec<_> = before
                    .iter()
                    .chain(&after)
                    .filter_map(|next| match next {
                        Next::Send { index, .. } => Some(*index),
                        _ => None,
                    })
                    .collect();
                sent.sort_unstable();
                assert!(sent.iter().copied().eq(0..block_count(size)), "{grown}, {size}: {sent:?}");
                assert!(
                    after.last() == Some(&Next::End) && growth.digest(size).is_some(),
                    "{grown}, {size}: {after:?}"
                );
            }
        }
    }

    #[test]
    fn a_file_that_is_not_what_was_sent_is_given_up() {
        let grown = || {
            let mut growth = Growth::default();
            steps(&mut growth, open(5 * BLOCK));
            growth
        };
        for seen in [open(4 * BLOCK - 1), closed(3 * BLOCK), Seen { filled: BLOCK, ..closed(6 * BLOCK) }] {
            assert_eq!(grown().next(seen), Next::GiveUp, "{seen:?}");
        }
        assert_eq!(grown().next(open(MAX_FILE_SIZE + 1)), Next::GiveUp);
        let mut growth = grown();
        assert_eq!(growth.next(closed(5 * BLOCK)), send(0));
        assert_eq!(growth.value_if_same(1, fingerprint(7)), None);
        assert!(!is_same(&growth, 0) && is_same(&growth, 2), "the first one was not sent");
    }

    #[test]
    fn a_long_file_is_compared_in_parts() {
        let mut growth = Growth::default();
        steps(&mut growth, open(202 * BLOCK));
        let parts: Vec<_> = steps(&mut growth, closed(202 * BLOCK))
            .into_iter()
            .filter_map(|next| match next {
                Next::Compare { blocks } => Some(blocks),
                _ => None,
            })
            .collect();
        assert_eq!(parts, [1..65, 65..129, 129..193, 193..201]);
    }

    #[test]
    fn what_is_behind_a_hole_is_not_there_yet() {
        let mut growth = Growth::default();
        let reserved = |filled| Seen { filled, ..open(100 * BLOCK) };
        assert_eq!(steps(&mut growth, reserved(0)), [Next::Wait]);
        assert_eq!(steps(&mut growth, reserved(4 * BLOCK)), [send(1), send(2), Next::Wait]);
    }
}
