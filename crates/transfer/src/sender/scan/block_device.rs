//! A source that is a block device, announced as a regular file with its contents.

use icdc_disk::tree::Name;
use icdc_protocol::limits::{MAX_FILE_SIZE, PACK_FILE_LIMIT};
use icdc_protocol::message::{EntryKind, Parent};

use super::super::block_device::SourceDevice;
use super::super::executor::PendingItem;
use super::super::source_version::held_version;
use super::super::sources::Root;
use super::Scan;

impl Scan<'_> {
    /// Announces the device that `root` is as a file. `None` when the session is over.
    pub(super) fn visit_device(&mut self, root: &Root, device: SourceDevice, name: Name) -> Option<()> {
        let (path, stat) = (root.source.name.clone(), *device.stat());
        if stat.size > MAX_FILE_SIZE {
            return self.fail(path, "larger than icdc can address".to_owned());
        }
        let held = match (stat.size <= PACK_FILE_LIMIT).then(|| device.contents()).transpose() {
            Ok(held) => held,
            Err(reason) => return self.fail(path, reason),
        };
        if let Some(problem) = self.merging.note(&path) {
            self.report(problem)?;
        }
        let version = held.as_ref().map_or_else(|| device.version(), |held| held_version(&stat, held));
        let kind = EntryKind::File { size: stat.size, version, sparse: false, linked: false };
        let mut found = self.found(Parent::Source(self.source), Vec::new(), kind, &stat, Vec::new(), path);
        found.held = held.as_ref().map_or(0, |held| held.len());
        self.await_room()?;
        let directory = root.directory.clone();
        let device = Some(device);
        let place = PendingItem {
            directory,
            name,
            // Read beside what other devices hold.
            device: stat.device_node,
            held,
            leaving: None,
            followed: None,
            block_device: device,
        };
        self.executor.announce(found, place);
        Some(())
    }
}
