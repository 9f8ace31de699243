//! Sessions without disks (`Diskless`): source file, engine and digests.

use std::fs::File;
use std::io;
use std::path::Path;

use icdc_disk::EngineKind;
use icdc_protocol::digest;
use icdc_protocol::message::{Digest, Diskless};

/// Name of the artificial file that a session without disks sends.
pub const NAME: &str = "zeros";

/// Makes the artificial source file [`NAME`] in `directory`: a file of the right length, whose
/// contents are not read.
///
/// # Errors
/// Error that the kernel returned.
pub fn make(directory: &Path, diskless: Diskless) -> io::Result<()> {
    File::create_new(directory.join(NAME))?.set_len(diskless.length.as_u64())
}

/// Kind of disk engine for a session: [`EngineKind::None`] if the session uses no disks.
pub(crate) fn engine(diskless: Option<Diskless>) -> EngineKind {
    if diskless.is_some() { EngineKind::None } else { EngineKind::Auto }
}

/// Digest of the block `data` at `offset` in a file of `size` bytes ([`digest::block_value`]); a
/// constant if a session without disks digests nothing.
pub(crate) fn block_value(diskless: Option<Diskless>, offset: u64, data: &[u8], size: u64) -> Digest {
    match diskless {
        Some(Diskless { hashed: false, .. }) => Digest::default(),
        _ => digest::block_value(offset, data, size),
    }
}
