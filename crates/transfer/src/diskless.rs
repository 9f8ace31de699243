//! Sessions without disks (`Diskless`): source file, engine and digests.

use std::fs::File;
use std::io;
use std::path::Path;

use icdc_disk::EngineKind;
use icdc_protocol::digest;
use icdc_protocol::message::{Digest, Diskless};

/// Name of what is sent.
pub const NAME: &str = "zeros";

/// Makes what is sent, [`NAME`] in `directory`: a file of the right length, which is not read.
///
/// # Errors
/// The kernel's.
pub fn make(directory: &Path, diskless: Diskless) -> io::Result<()> {
    File::create_new(directory.join(NAME))?.set_len(diskless.length.as_u64())
}

/// Disk engine of a session: [`EngineKind::None`] where it is diskless.
pub(crate) fn engine(diskless: Option<Diskless>) -> EngineKind {
    if diskless.is_some() { EngineKind::None } else { EngineKind::Auto }
}

/// [`digest::block_value`], unless nothing is to be digested.
pub(crate) fn block_value(diskless: Option<Diskless>, offset: u64, data: &[u8], size: u64) -> Digest {
    match diskless {
        Some(Diskless { hashed: false, .. }) => Digest::default(),
        _ => digest::block_value(offset, data, size),
    }
}
