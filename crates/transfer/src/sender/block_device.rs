//! Block devices as sources (`--copy-devices`): each is sent as a regular file with the contents of the
//! device, by a descriptor that is opened once.
//!
//! Nothing tells which blocks of a device have changed since an earlier run. So its version is one of
//! the run only, and an unfinished copy of an earlier run is not continued as if it were right.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use icdc_disk::DiskFile;
use icdc_disk::tree::{Directory, Name, Stat, TreeError};
use icdc_protocol::message::{GivenUp, TransferId};

use super::given_up::{changed, unreadable};
use super::misstated::Held;

/// A block device that is a source, open for reading.
#[derive(Clone)]
pub(crate) struct SourceDevice {
    disk: Arc<DiskFile>,
    /// Description of the node, with the size of the device.
    stat: Stat,
    version: [u8; 16],
}

impl SourceDevice {
    /// Opens the device that has this name, or to which symbolic links of this name lead; `None` if
    /// what has the name is no block device. `run` is the run that reads it.
    ///
    /// # Errors
    /// The device cannot be opened.
    pub(super) fn open(
        (directory, name): (&Directory, &Name),
        run: &TransferId,
        buffered: bool,
    ) -> Result<Option<Self>, TreeError> {
        let Ok(node) = directory.find_device(name) else { return Ok(None) };
        let of_device = |error: icdc_disk::FileError| TreeError::System {
            path: node.path().to_owned(),
            call: "open",
            cause: error.cause,
        };
        let disk = DiskFile::of_device(node.open()?).map_err(of_device)?.through_page_cache(buffered);
        let stat = Stat { size: disk.size().map_err(of_device)?, ..*node.stat() };
        Ok(Some(Self { disk: Arc::new(disk), version: version(&stat, run), stat }))
    }

    /// The open device.
    pub(super) fn disk(&self) -> &Arc<DiskFile> {
        &self.disk
    }

    /// Description of the device's node, with the size of the device.
    pub(super) fn stat(&self) -> &Stat {
        &self.stat
    }

    /// Version of the contents that is announced: another one in each run.
    pub(super) fn version(&self) -> [u8; 16] {
        self.version
    }

    /// Contents of a small device.
    ///
    /// # Errors
    /// It cannot be read; a sentence for the user.
    pub(super) fn contents(&self) -> Result<Held, String> {
        let mut contents = vec![0; self.stat.size as usize];
        let read = self.disk.as_file().read_exact_at(&mut contents, 0);
        read.map_err(|error| format!("the device cannot be read between offsets 0 and {}: {error}", contents.len()))?;
        Ok(contents.into())
    }

    /// Checks that the device has its size, and that no program has written to it by this node.
    pub(super) fn check(&self) -> Result<(), GivenUp> {
        let announced = self.stat.size;
        let size = self.disk.size().map_err(|error| unreadable(error.to_string()))?;
        if size != announced {
            let how = if size < announced { "shrank" } else { "grew" };
            let reason = format!(
                "the device {how} from {announced} to {size} bytes while it was read: from offset {} on it is not what was \
                 announced; copy it again",
                size.min(announced)
            );
            return Err(GivenUp { reason, same_version: false });
        }
        let now = Stat::of(self.disk.as_file()).map_err(|error| unreadable(error.to_string()))?;
        let is_same = (now.mtime, now.ctime) == (self.stat.mtime, self.stat.ctime);
        if is_same { Ok(()) } else { Err(changed()) }
    }
}

/// Version of the device that `stat` describes, in this run.
fn version(stat: &Stat, run: &TransferId) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_derive_key("icdc device version 1");
    hasher.update(run).update(&stat.device_node.to_le_bytes()).update(&stat.size.to_le_bytes());
    for time in [stat.mtime, stat.ctime] {
        hasher.update(&time.seconds.to_le_bytes()).update(&time.nanos.to_le_bytes());
    }
    let mut version = [0; 16];
    version.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    version
}
