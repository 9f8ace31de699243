//! A directory for the names that a session without disks makes, and for the file that it sends, which holds
//! nothing.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use icdc_disk::tree::Tree;
use icdc_protocol::message::Diskless;
use icdc_transfer::diskless;
use tempfile::TempDir;

/// Where the system has memory as a file system.
const MEMORY: &str = "/dev/shm";
const PREFIX: &str = "icdc-measure-";

/// See the module. It is removed when dropped.
pub(crate) struct Scratch {
    tree: Tree,
    _directory: TempDir,
}

impl Scratch {
    /// An empty one, or one with what is `sent` from there.
    ///
    /// # Errors
    /// What cannot be made, and why.
    pub(crate) fn new(sent: Option<Diskless>) -> Result<Self, String> {
        let others = std::env::temp_dir();
        let in_memory = Self::make(Path::new(MEMORY), sent);
        in_memory.or_else(|_| Self::make(&others, sent)).map_err(|error| format!("{}: {error}", others.display()))
    }

    fn make(place: &Path, sent: Option<Diskless>) -> Result<Self, String> {
        let text = |error: io::Error| error.to_string();
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).permissions(Permissions::from_mode(0o700));
        let directory = builder.tempdir_in(place).map_err(text)?;
        if let Some(sent) = sent {
            diskless::make(directory.path(), sent).map_err(text)?;
        }
        let tree = Tree::open(directory.path()).map_err(|error| error.to_string())?;
        Ok(Self { tree, _directory: directory })
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }
}
