//! Takes the block device that is the destination.
//!
//! ```text
//! name ── found once ──► node, by descriptor ── for nobody else (O_EXCL), locked ──► written in place
//! ```
//!
//! What the kernel or another program has in use, such as a mounted file system, is refused; another
//! icdc that writes the device is waited for: it holds the device's advisory lock as well.

use std::fs::File;
use std::time::Duration;

use icdc_disk::tree::{DeviceNode, Directory, Name, TreeError, try_lock};
use icdc_session::SessionError;
use icdc_units::Span;

use super::device::Device;
use super::holder::holder;
use super::leftovers::busy;
use super::placement::{refusal, refuse};
use super::waiting::WaitPolicy;
use crate::clock;

/// Interval at which a device that another session holds is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// Time after which a device that is in use, and whose lock is free, is in use by something else than
/// a session that begins or ends.
const GRACE: Span = Span::from_millis(200);

/// Takes the device that has this name; true if another session had to be waited for.
///
/// # Errors
/// It is no block device, in use, or cannot be written.
pub(super) fn take_device(
    (directory, name): (&Directory, &Name),
    waits: &dyn WaitPolicy,
    buffered: bool,
) -> Result<(Device, bool), SessionError> {
    let node = directory.find_device(name).map_err(|error| match error {
        TreeError::NotADevice { .. } => refusal(format!("{error}; without --write-device a file is written there")),
        error => refuse(error),
    })?;
    let (file, has_waited) = claim(&node, waits)?;
    let device = Device::new(file, node.path(), buffered).map_err(|error| refusal(error.to_string()))?;
    Ok((device, has_waited))
}

/// Opens a device for nobody else, and takes its lock; waits for another icdc that has it. Returns
/// whether it has waited.
fn claim(node: &DeviceNode, waits: &dyn WaitPolicy) -> Result<(File, bool), SessionError> {
    let begun = clock::now();
    let mut has_waited = false;
    let mut free_since = None;
    let lock = |file: &File| try_lock(file).map_err(|error| refusal(format!("{}: {error}", node.path())));
    loop {
        let claimed = node.claim().map_err(refuse)?;
        let is_claimed = claimed.is_some();
        let file = claimed.map_or_else(|| node.open().map_err(refuse), Ok)?;
        match (is_claimed, lock(&file)?) {
            (true, true) => {
                waits.ends();
                return Ok((file, has_waited));
            }
            // One that begins has the device before its lock.
            (false, true) if clock::now() - *free_since.get_or_insert_with(clock::now) >= GRACE => {
                return Err(in_use(node.path()));
            }
            (false, true) => {}
            (_, false) => {
                if !waits.keep_waiting(&file, node.path(), clock::now() - begun) {
                    waits.ends();
                    return Err(refusal(busy(node.path(), holder(&file))));
                }
                (has_waited, free_since) = (true, None);
            }
        }
        drop(file);
        #[expect(clippy::disallowed_methods, reason = "no event tells of a device that another process has let go")]
        std::thread::sleep(RETRY_INTERVAL);
    }
}

/// Error for a device that something else than an icdc has in use.
fn in_use(path: &str) -> SessionError {
    refusal(format!(
        "{path}: is in use: it or a partition of it is mounted, or belongs to swap, a volume group, a RAID or another program (lsblk \
         shows by what); release it, nothing was written"
    ))
}
