//! The block device into which the only file is written (`--write-device`).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use icdc_disk::{DiskFile, FileError};
use icdc_units::ByteCount;

use super::failure::{self, Failure};

/// A block device that is written by this session and nobody else.
pub(super) struct Device {
    disk: Arc<DiskFile>,
    size: ByteCount,
    path: String,
}

impl Device {
    /// The device `file`, which is open for nobody else and was found at `path`.
    ///
    /// # Errors
    /// It is no block device, or its size is not known.
    pub(super) fn new(file: File, path: &str, buffered: bool) -> Result<Self, FileError> {
        let disk = DiskFile::of_device(file)?.through_page_cache(buffered);
        let size = ByteCount::new(disk.size()?);
        Ok(Self { disk: Arc::new(disk), size, path: path.to_owned() })
    }

    /// The open device.
    pub(super) fn disk(&self) -> &Arc<DiskFile> {
        &self.disk
    }

    /// Size of the device.
    pub(super) fn size(&self) -> ByteCount {
        self.size
    }

    /// Writes a small file at the device's start, and reads it back from the medium.
    pub(super) fn write_small(&self, contents: &[u8]) -> Result<(), Failure> {
        let file = self.disk.as_file();
        let failed = |call: &'static str| move |error| failure::of_disk(&self.path, call, &error);
        let written = || {
            file.write_all_at(contents, 0).map_err(failed("write"))?;
            file.sync_all().map_err(failed("flush"))?;
            // The pages are clean after the flush, so they can be dropped: the read goes to the medium.
            self.disk.forget_cache();
            let mut found = vec![0; contents.len()];
            file.read_exact_at(&mut found, 0).map_err(failed("read back"))?;
            let is_equal = found == contents;
            let reason = "what the medium gives back differs from what was written; check the disk";
            if is_equal { Ok(()) } else { Err(Failure::Final(format!("{}: {reason}", self.path))) }
        };
        written().map_err(|failure| failure::inconsistent(failure, "device"))
    }
}
