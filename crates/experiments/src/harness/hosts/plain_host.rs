//! A host that belongs to no lab: a network namespace, which ends with this process in any case.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use icdc_lab::namespaces::{inside, path_of, unnamed};
use icdc_lab::placement;

use crate::harness::error::ExperimentError;

/// A network namespace that belongs to no lab.
pub(crate) struct PlainHost {
    namespace: File,
    /// Processors that are kept free for labs' wires.
    wire_processors: Vec<usize>,
}

impl PlainHost {
    /// Makes a host without a device; requires root. Its threads avoid `wire_processors`.
    pub(crate) fn new(wire_processors: Vec<usize>) -> Result<Self, ExperimentError> {
        Ok(Self { namespace: unnamed()?, wire_processors })
    }

    /// Runs a function on this host, on a thread of its own.
    pub(crate) fn inside<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, ExperimentError> + Send,
    ) -> Result<T, ExperimentError> {
        inside(&self.namespace, || {
            placement::keep_off(&self.wire_processors);
            work()
        })?
    }

    /// Path by which other processes may open the host's namespace while this one lives.
    pub(crate) fn path(&self) -> PathBuf {
        path_of(&self.namespace)
    }

    /// Inode number of the host's namespace, by which the kernel knows it.
    pub(crate) fn inode(&self) -> Result<u64, ExperimentError> {
        let metadata = self.namespace.metadata();
        metadata
            .map(|metadata| metadata.ino())
            .map_err(|error| ExperimentError::io("look at a network namespace", error))
    }
}
