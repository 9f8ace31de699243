//! The file that is written into a block device: it must fit, and only what differs from the device's
//! contents is wanted.

use icdc_protocol::limits::{LEAF_SIZE, PACK_FILE_LIMIT};
use icdc_protocol::message::{EntryKind, ReceiveOptions};
use icdc_units::ByteCount;

use super::super::action::{Basis, ReferencePlace};
use super::super::item::Item;
use super::facts::Facts;
use super::verdict::Verdict;
use crate::Failure;

/// Verdict on an item that is to be written into the device which is the destination.
///
/// # Errors
/// The item is no file, may have holes, through which the device's old contents would show, or is
/// larger than the device.
pub(super) fn into_device(item: &Item, options: &ReceiveOptions, facts: &mut impl Facts) -> Result<Verdict, Failure> {
    let path = facts.shown();
    let room = facts.device().ok_or_else(|| format!("{path}: is not a block device"))?;
    let EntryKind::File { size, sparse, .. } = item.entry.kind else {
        return Err(format!(
            "{path}: only a regular file, or a device by --copy-devices, can be written into a device"
        )
        .into());
    };
    if sparse {
        return Err(format!(
            "{path}: the sender leaves holes out, and a device has none; copy without sparse in --preserve"
        )
        .into());
    }
    if ByteCount::new(size) > room {
        let (size, room) = (size, room.as_u64());
        return Err(format!(
            "{path}: the device has {room} bytes, too few for the {size} of the file; nothing was written, choose a larger device"
        )
        .into());
    }
    if options.dry_run || size <= PACK_FILE_LIMIT {
        return Ok(Verdict::Contents { held: None });
    }
    let is_described = !options.whole_files && facts.describes_files() && room >= ByteCount::from(LEAF_SIZE);
    Ok(match is_described {
        true => Verdict::Difference { held: None, basis: Basis::AtSamePlace(ReferencePlace::Itself) },
        false => Verdict::Contents { held: None },
    })
}
