//! The device that is the destination: claimed when the session begins, and written in place.

use icdc_disk::tree::{Directory, Name};
use icdc_protocol::message::Begin;
use icdc_session::SessionError;
use icdc_session::receiver::book::action::{NotStaged, Placed};

use super::super::claiming::take_device;
use super::super::device::Device;
use super::super::failure::Failure;
use super::super::onto_itself::{SourcesHere, refuse_onto_itself};
use super::super::placement::{Placement, refusal, refuse};
use super::super::publishing::{Made, Staged};
use super::super::waiting::{LockWait, Locked};
use super::{FileExecutor, Opening};

impl FileExecutor<'_> {
    /// Claims the device that is the destination, for the only file of the session.
    pub(super) fn find_device(&mut self, begin: &Begin, is_journaled: bool) -> Result<Placed, SessionError> {
        let shared = self.shared;
        if shared.only_new() {
            return Err(refusal("in a drop box no device is written; leave --write-device out".into()));
        }
        let located = shared.order.tree.resolve(shared.order.destination).map_err(refuse)?;
        let path = located.path();
        let name = located.name.ok_or_else(|| refusal(format!("{path}: is a directory, not a block device")))?;
        let placement = Placement::in_device(begin, located.directory.clone(), name.clone())?;
        refuse_onto_itself(&placement, begin)?;
        let waiting = LockWait::of(shared, Locked::Everything);
        let (device, has_waited) = take_device((&located.directory, &name), &waiting, shared.options.buffered)?;
        if shared.device.set(device).is_err() {
            return Err(SessionError::Protocol("a session began twice".into()));
        }
        self.sources = SourcesHere::of(begin).map(Into::into);
        self.opening = Some(Opening { job: begin.job, placement, is_journaled });
        Ok(Placed { resuming: false, has_waited, peer_is_gone: shared.link.is_hung_up() })
    }
}

/// Writes a small file into a device; its name is that of the device in its directory.
pub(super) fn stage_in_device(
    device: &Device,
    (directory, name): (&Directory, &Name),
    contents: &[u8],
) -> Result<Staged, NotStaged> {
    let written: Result<(), Failure> = device.write_small(contents);
    written.map_err(NotStaged::Failed)?;
    Ok(Staged::new(directory, name.clone(), Made::in_device(name.clone(), device.disk().clone())))
}
