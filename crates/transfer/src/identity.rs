//! Identities of files and directories that both ends of a session can compare, so that a copy onto
//! itself is noticed even through a bind mount or another end on the same host.
//!
//! ```text
//! identity = BLAKE3(boot id of the kernel, job, device, inode)
//! ```
//!
//! Containers share the boot id of their host, and with it the numbers of its devices. The boot id
//! is random: the other end learns nothing unless it runs on the same kernel.

use icdc_disk::tree::Stat;
use icdc_protocol::message::{Digest, Identity};

/// File with the kernel's boot id, a random number made at each boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Computes identities of files on this host for one job, which both ends compare so that a copy
/// onto itself is noticed.
pub(crate) struct Identities {
    hasher: blake3::Hasher,
}

impl Identities {
    /// Hasher for the identities of one job; `None` where the kernel's boot id cannot be read.
    pub(crate) fn of(job: &Digest) -> Option<Self> {
        let boot_id = std::fs::read(BOOT_ID).ok().filter(|found| !found.is_empty())?;
        let mut hasher = blake3::Hasher::new_derive_key("icdc identity 1");
        hasher.update(&boot_id).update(job);
        Some(Self { hasher })
    }

    /// Identity of the file or directory that `stat` describes.
    pub(crate) fn identity(&self, stat: &Stat) -> Identity {
        self.numbered(stat.dev, stat.ino)
    }

    /// Identity of the inode `inode` on the device `device`.
    pub(crate) fn numbered(&self, device: u64, inode: u64) -> Identity {
        let mut hasher = self.hasher.clone();
        hasher.update(&device.to_le_bytes()).update(&inode.to_le_bytes());
        let mut identity = Identity::default();
        hasher.finalize_xof().fill(&mut identity);
        identity
    }
}
