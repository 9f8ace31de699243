//! The record of a running lab: `lab.json` in the lab's directory, written by its wire and read by
//! all other commands.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::process::Process;
use crate::settings::Settings;

/// Name of the record's file in a lab's directory.
const FILE: &str = "lab.json";

/// Description of a running lab for other processes: name, settings, wire process and namespaces.
/// Its wire writes it to `lab.json` in the lab's directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LabRecord {
    /// Name of the lab.
    pub name: String,
    /// Settings of the lab.
    pub settings: Settings,
    /// The wire process, which is the lab's path.
    pub wire: Process,
    /// Whether the lab has a user namespace of its own.
    pub user_namespace: bool,
    /// Path and inode of the namespaces of host a, host b and the wire.
    pub namespaces: [(PathBuf, u64); 3],
    /// Processors that the wire has to itself as far as the lab is concerned.
    pub wire_processors: Vec<usize>,
}

impl LabRecord {
    /// Writes the record to `lab.json` in `directory`, replacing the file as a whole.
    pub(crate) fn save(&self, directory: &Path) -> Result<(), LabError> {
        let text = serde_json::to_vec_pretty(self).expect("plain data");
        let (path, aside) = (directory.join(FILE), directory.join("lab.json.new"));
        fs::write(&aside, text)
            .and_then(|()| fs::rename(&aside, &path))
            .map_err(|error| LabError::io(format!("write {}", path.display()), error))
    }

    /// Reads the record in a lab's directory; `None` if there is none, as long as the lab is not
    /// complete, or it cannot be read.
    pub(crate) fn load(directory: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(directory.join(FILE)).ok()?).ok()
    }
}
