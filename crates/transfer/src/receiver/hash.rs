//! Checks that every block is what its header promises, between the socket and the disk.

use crossbeam_channel::{Receiver as Queue, Sender as Channel};
use icdc_disk::Block;
use icdc_protocol::block_map::{block_count, block_length, block_offset};
use icdc_protocol::message::{BlockHeader, Diskless};
use icdc_session::SessionError;
use icdc_units::ByteCount;

use super::disk_rate::Arrived;
use super::jobs::{HashJob, StoreJob};
use super::shared::Shared;
use crate::diskless;

/// Checks blocks until the queue is closed, beside other threads that do the same; good blocks go
/// to `store`.
pub(super) fn run(shared: &Shared<'_>, queue: &Queue<HashJob>, store: &Channel<StoreJob>) {
    for job in queue {
        let handed = match job {
            HashJob::Confirmed => store.send(StoreJob::Confirmed),
            HashJob::End(end) => shared.large_files.on_end(end).map_or(Ok(()), |end| store.send(StoreJob::End(end))),
            HashJob::Block { header, payload } => {
                let id = header.id;
                let handed = block(shared, header, payload).map_or(Ok(()), |job| store.send(job));
                let end = shared.large_files.on_checked(id);
                handed.and_then(|()| end.map_or(Ok(()), |end| store.send(StoreJob::End(end))))
            }
        };
        if handed.is_err() {
            return;
        }
    }
}

/// Checks a block and returns the job to store it; `None` for a block of a file that has failed,
/// or where the session fails.
fn block(shared: &Shared<'_>, header: BlockHeader, payload: Option<Arrived>) -> Option<StoreJob> {
    // Blocks of a file that has failed may still arrive.
    let size = shared.large_files.size(header.id)?;
    match check(shared.options.diskless, size, &header, payload) {
        Ok(block) => Some(StoreJob::Block { header, block }),
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
        spread(&mut block, ranges, length)
            .map_err(|()| format!("block {index} of item {id} has data beyond its end"))?;
    }
    if diskless::block_value(diskless, block_offset(*index), &block[..length], size) != *value {
        return Err(format!("block {index} of item {id} does not match its digest"));
    }
    Ok(Arrived { block, length, waits })
}

/// Moves data that lies back to back in a block to the (offset, length) `ranges` where it belongs,
/// and fills with zeros between.
fn spread(block: &mut Block, ranges: &[(u32, u32)], length: usize) -> Result<(), ()> {
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
        block[offset + data..end].fill(0);
        end = offset;
    }
    block[..end].fill(0);
    Ok(())
}
