//! A directory for what a session without disks makes: names, and files that hold nothing.

use std::path::Path;

use icdc_disk::tree::Tree;
use icdc_protocol::message::Diskless;
use icdc_transfer::diskless;
use tempfile::TempDir;

/// In memory where there is one.
const MEMORY: &str = "/dev/shm";

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
        let mut builder = tempfile::Builder::new();
        builder.prefix("icdc-measure-");
        let made = builder.tempdir_in(MEMORY).or_else(|_| builder.tempdir());
        let directory = made.map_err(|error| format!("cannot make a temporary directory: {error}"))?;
        let path: &Path = directory.path();
        if let Some(sent) = sent {
            diskless::make(path, sent).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let tree = Tree::open(path).map_err(|error| error.to_string())?;
        Ok(Self { tree, _directory: directory })
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }
}
