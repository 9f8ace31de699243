//! Checks that every block is what its header promises, between the socket and the disk.

use std::sync::Arc;

use crossbeam_channel::{Receiver as Queue, SendError, Sender as Channel};
use icdc_disk::Block;
use icdc_protocol::block_map::{block_count, block_length, block_offset};
use icdc_protocol::delta::{CopiedPart, copied_bytes, sent_ranges};
use icdc_protocol::digest::{self, block_value_of_leaves, leaf_value};
use icdc_protocol::limits::LEAF_SIZE;
use icdc_protocol::message::{Assembled, BlockHeader, Digest, Diskless, EntryId};
use icdc_session::SessionError;
use icdc_session::receiver::files::Length;
use icdc_units::ByteCount;

use super::bases::Existing;
use super::disk_rate::Arrived;
use super::jobs::{DiskJob, HashJob, NameJob, StoreJob};
use super::large_file::Gaps;
use super::shared::Shared;
use crate::diskless;

/// Where jobs go that the hashing threads are done with.
#[derive(Clone)]
pub(super) struct Checked {
    /// Blocks that are right.
    pub(super) store: Channel<StoreJob>,
    /// Comparisons that can go on.
    pub(super) reads: Channel<DiskJob>,
    /// Packs that were compressed.
    pub(super) names: Channel<NameJob>,
}

/// Body of a hashing thread: expands what is compressed and compares blocks with the digests in
/// their headers until the queue is closed. Good blocks go to the disk.
pub(super) fn run(shared: &Shared<'_>, queue: &Queue<HashJob>, to: &Checked) {
    let Checked { store, reads, names } = to;
    for mut job in queue {
        if let Err(error) = job.expand(&shared.expanding) {
            shared.fail(SessionError::Protocol(error));
            continue;
        }
        let handed = match job {
            HashJob::Pack(items, payload, _) => {
                let _ = names.send(NameJob::Pack(items, Some(payload)));
                Ok(())
            }
            HashJob::Confirmed => store.send(StoreJob::Confirmed),
            HashJob::End(end) => shared.large_files.on_end(end).map_or(Ok(()), |end| store.send(StoreJob::End(end))),
            HashJob::Block { header, payload, .. } => {
                let (id, index) = (header.id, header.index);
                let job = block(shared, header, payload);
                DiskJob::describe_on(reads, shared.bases.on_arrived(id, index, false));
                pass_on(shared, id, job, store)
            }
            HashJob::Difference { header, payload, .. } => {
                let (id, index) = (header.id, header.index);
                let job = difference(shared, header, payload);
                DiskJob::describe_on(reads, shared.bases.on_arrived(id, index, true));
                pass_on(shared, id, job, store)
            }
            HashJob::Assembled { assembled, payload, sent, .. } => {
                let id = assembled.header.id;
                let job = self::assembled(shared, assembled, payload, sent);
                pass_on(shared, id, job, store)
            }
        };
        if handed.is_err() {
            return;
        }
    }
}

/// Passes on the job of storing a checked block, if there is one, and behind it the end of the file
/// `id`, if that has waited for this block.
fn pass_on(
    shared: &Shared<'_>,
    id: EntryId,
    job: Option<StoreJob>,
    store: &Channel<StoreJob>,
) -> Result<(), SendError<StoreJob>> {
    job.map_or(Ok(()), |job| store.send(job))?;
    let end = shared.large_files.on_checked(id);
    end.map_or(Ok(()), |end| store.send(StoreJob::End(end)))
}

/// Checks a block that differs from the file with which it is compared, put together from that or written over
/// it, and returns the job to store it; or, if it does not have its digest then, the job to ask for all of it.
/// `None` for a block of a file that has failed, or where the session fails.
fn difference(shared: &Shared<'_>, header: BlockHeader, arrived: Arrived) -> Option<StoreJob> {
    let Length::Known(size) = shared.large_files.length(header.id)? else { return None };
    let size = size.as_u64();
    let BlockHeader { id, index, value, ranges } = header;
    if index >= block_count(size) {
        return wrong(shared, (id, index), "is beyond its end");
    }
    let Arrived { mut block, waits, .. } = arrived;
    let (offset, length) = (block_offset(index), block_length(size, index));
    let checked = match shared.bases.take_leaves(id, index) {
        Some(leaves) => spread(&mut block, &ranges, length, |_, _| ())
            .map(|()| (value_over(&leaves, &ranges, (offset, &block[..length]), size), Gaps::Kept)),
        None => {
            // It may be gone by now.
            let existing = shared.bases.existing(id);
            let mut is_whole = existing.is_some();
            let equal = |at: usize, gap: &mut [u8]| {
                let fills = |existing: &Arc<Existing>| existing.fill(offset + at as u64, gap);
                is_whole = is_whole && existing.as_ref().is_some_and(fills);
            };
            let filled = spread(&mut block, &ranges, length, equal);
            filled.map(|()| (is_whole.then(|| digest::block_value(offset, &block[..length], size)), Gaps::Filled))
        }
    };
    match checked {
        Ok((Some(found), gaps)) if found == value => {
            let sent = ranges.iter().map(|(_, length)| *length as usize).sum::<usize>();
            shared.tally().on_unchanged(ByteCount::from(length - sent));
            let ranges = if gaps == Gaps::Kept { ranges } else { Vec::new() };
            let header = BlockHeader { id, index, value, ranges };
            Some(StoreJob::Block { header, block: Arrived { block, length, waits }, gaps })
        }
        Ok(_) => Some(StoreJob::Outdated { id, index }),
        Err(()) => wrong(shared, (id, index), "has data beyond its end"),
    }
}

/// Fails the session, as this block breaks the protocol; no job follows.
fn wrong(shared: &Shared<'_>, (id, index): (EntryId, u32), what: &str) -> Option<StoreJob> {
    shared.fail(SessionError::Protocol(format!("block {index} of item {id} {what}")));
    None
}

/// Value of the block at `offset` of a file of `size` bytes that has the leaves of these values but for those in
/// `ranges`, which are in `block`. `None` if a range does not consist of whole leaves, or if one is missing.
fn value_over(leaves: &[Digest], ranges: &[(u32, u32)], (offset, block): (u64, &[u8]), size: u64) -> Option<Digest> {
    let mut values: Vec<_> = (0..block.len().div_ceil(LEAF_SIZE)).map(|number| leaves.get(number).copied()).collect();
    for &(start, length) in ranges {
        let (start, end) = (start as usize, start as usize + length as usize);
        if !start.is_multiple_of(LEAF_SIZE) || !(end.is_multiple_of(LEAF_SIZE) || end == block.len()) {
            return None;
        }
        for (number, leaf) in (start / LEAF_SIZE..).zip(block.get(start..end)?.chunks(LEAF_SIZE)) {
            *values.get_mut(number)? = Some(leaf_value(offset + (number * LEAF_SIZE) as u64, leaf));
        }
    }
    let values: Option<Vec<_>> = values.into_iter().collect();
    block_value_of_leaves(&values?, size)
}

/// Puts a block together from files at the destination and from the `sent` bytes that are in it, and returns
/// the job to store it; or, if it does not have its digest then, the job to ask for all of it. `None` for a
/// block of a file that has failed, or where the session fails.
fn assembled(shared: &Shared<'_>, assembled: Assembled, arrived: Arrived, sent: usize) -> Option<StoreJob> {
    let Length::Known(size) = shared.large_files.length(assembled.header.id)? else { return None };
    let size = size.as_u64();
    let Assembled { header: BlockHeader { id, index, value, ranges }, copies } = assembled;
    let Arrived { mut block, waits, .. } = arrived;
    let wrong = |what| wrong(shared, (id, index), what);
    if index >= block_count(size) {
        return wrong("is beyond its end");
    }
    let length = block_length(size, index);
    let Some(places) = sent_ranges(&ranges, &copies, length) else { return wrong("has data beyond its end") };
    if places.iter().map(|(_, length)| *length as usize).sum::<usize>() != sent {
        return wrong("has another number of bytes than its head says");
    }
    let mut is_whole = true;
    let fill = |offset: usize, gap: &mut [u8]| is_whole = fill_gap(shared, id, &copies, offset, gap) && is_whole;
    if spread(&mut block, &places, length, fill).is_err() {
        return wrong("has data beyond its end");
    }
    if !is_whole || digest::block_value(block_offset(index), &block[..length], size) != value {
        return Some(StoreJob::Outdated { id, index });
    }
    shared.tally().on_unchanged(ByteCount::new(copied_bytes(&copies)));
    let header = BlockHeader { id, index, value, ranges };
    Some(StoreJob::Block { header, block: Arrived { block, length, waits }, gaps: Gaps::Holes })
}

/// Fills a gap at `offset` in a block with what is copied there, and zeros where nothing is: holes. False if
/// a basis cannot be read.
fn fill_gap(shared: &Shared<'_>, id: EntryId, copies: &[CopiedPart], offset: usize, gap: &mut [u8]) -> bool {
    gap.fill(0);
    let end = offset + gap.len();
    let first = copies.partition_point(|copy| copy.end() <= offset as u64);
    copies[first..].iter().take_while(|copy| (copy.at as usize) < end).all(|copy| {
        // No copy reaches over the end of a gap.
        let at = copy.at as usize - offset;
        shared.delta.fill(id, (copy.basis, copy.offset), &mut gap[at..at + copy.length as usize])
    })
}

/// Checks a block and returns the job to store it. One that has no data, lies beyond the end of
/// its file or does not match its digest breaks the protocol, and fails the session: `None` then,
/// and for a block of a file that has failed.
fn block(shared: &Shared<'_>, header: BlockHeader, payload: Option<Arrived>) -> Option<StoreJob> {
    // Blocks of a file that has failed may still arrive.
    let checked = match shared.large_files.length(header.id)? {
        Length::Known(size) => check(shared.options.diskless, size, &header, payload),
        Length::Stream => check_streamed(&header, payload),
    };
    match checked {
        Ok(block) => Some(StoreJob::Block { header, block, gaps: Gaps::Holes }),
        Err(reason) => {
            shared.fail(SessionError::Protocol(reason));
            None
        }
    }
}

/// Puts the data ranges in their places and compares the block's digest with the header; the
/// returned block has the length that it has in the file.
fn check(
    diskless: Option<Diskless>,
    size: ByteCount,
    header: &BlockHeader,
    payload: Option<Arrived>,
) -> Result<Arrived, String> {
    let BlockHeader { id, index, value, ranges } = header;
    let size = size.as_u64();
    if *index >= block_count(size) {
        return Err(format!("block {index} of item {id} is beyond its end"));
    }
    let length = block_length(size, *index);
    let Arrived { mut block, length: received, waits } =
        payload.ok_or_else(|| format!("block {index} of item {id} has no data"))?;
    if ranges.is_empty() {
        if received != length {
            return Err(format!("block {index} of item {id} has {received} bytes in place of {length}"));
        }
    } else {
        spread(&mut block, ranges, length, |_, gap| gap.fill(0))
            .map_err(|()| format!("block {index} of item {id} has data beyond its end"))?;
    }
    if diskless::block_value(diskless, block_offset(*index), &block[..length], size) != *value {
        return Err(format!("block {index} of item {id} does not match its digest"));
    }
    Ok(Arrived { block, length, waits })
}

/// Compares the digest of a block of a stream with its header; only the last block may be shorter than
/// a whole one, which is known at the end.
fn check_streamed(header: &BlockHeader, payload: Option<Arrived>) -> Result<Arrived, String> {
    let BlockHeader { id, index, value, ranges } = header;
    let arrived = payload.ok_or_else(|| format!("block {index} of item {id} has no data"))?;
    if !ranges.is_empty() {
        return Err(format!("block {index} of item {id}, a stream, has holes"));
    }
    if !digest::is_block(block_offset(*index), &arrived.block[..arrived.length], value) {
        return Err(format!("block {index} of item {id} does not match its digest"));
    }
    Ok(arrived)
}

/// Moves data that lies back to back at the start of a block to the (offset, length) `ranges` where
/// it belongs; `fill` fills each gap, of which it gets the offset.
fn spread(
    block: &mut Block,
    ranges: &[(u32, u32)],
    length: usize,
    mut fill: impl FnMut(usize, &mut [u8]),
) -> Result<(), ()> {
    let mut packed: usize = ranges.iter().map(|(_, data)| *data as usize).sum();
    let mut end = length;
    // From the back, because every range lies at or behind the place of its data.
    for (offset, data) in ranges.iter().rev() {
        let (offset, data) = (*offset as usize, *data as usize);
        packed = packed.checked_sub(data).ok_or(())?;
        if packed > offset || offset + data > end {
            return Err(());
        }
        block.copy_within(packed..packed + data, offset);
        fill(offset + data, &mut block[offset + data..end]);
        end = offset;
    }
    fill(0, &mut block[..end]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use icdc_protocol::limits::BLOCK_SIZE;

    use super::*;

    /// A block in which each leaf has the byte of its number, the last one being short.
    fn block() -> Vec<u8> {
        let leaves = (0..5_u8).flat_map(|number| [number; LEAF_SIZE]);
        leaves.chain([9; 100]).collect()
    }

    #[test]
    fn the_value_of_a_block_follows_from_leaves_that_are_there_and_those_that_were_sent() {
        let (old, mut new) = (block(), block());
        let (offset, length, leaf) = (BLOCK_SIZE as u64, old.len(), LEAF_SIZE as u32);
        let size = offset + length as u64;
        new[LEAF_SIZE + 7] ^= 1;
        new[length - 1] ^= 1;
        let there: Vec<_> =
            (offset..).step_by(LEAF_SIZE).zip(old.chunks(LEAF_SIZE)).map(|(at, leaf)| leaf_value(at, leaf)).collect();
        let sent = [(leaf, leaf), (5 * leaf, 100)];
        let value = |leaves: &[Digest], ranges: &[_]| value_over(leaves, ranges, (offset, &new), size);
        assert_eq!(value(&there, &sent), Some(digest::block_value(offset, &new, size)));
        assert_eq!(value_over(&there, &[], (offset, &old), size), Some(digest::block_value(offset, &old, size)));
        // What is sent need not be known, and what is known need not be sent.
        assert_eq!(value(&there[..5], &sent), value(&there, &sent));
        assert_eq!(value(&there[..4], &[(leaf, leaf), (4 * leaf, leaf + 100)]), value(&there, &sent));
        assert_eq!(value(&there[..4], &sent), None, "a leaf is missing");
        assert_ne!(value(&there, &sent[..1]), value(&there, &sent), "a leaf that differs was not sent");
        for misaligned in [(leaf + 1, leaf - 1), (leaf, leaf - 1), (5 * leaf, 99)] {
            assert_eq!(value(&there, &[misaligned]), None, "{misaligned:?}");
        }
    }
}
