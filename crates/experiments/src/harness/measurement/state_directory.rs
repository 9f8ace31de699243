//! Where a measured icdc keeps what it knows of paths.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::error::ExperimentError;

/// Where the measured icdc keeps what it knows of paths: this user's own is neither used nor
/// changed. It goes with the lab.
pub(crate) struct StateDirectory {
    /// To be given as `XDG_STATE_HOME`.
    pub(crate) home: PathBuf,
}

impl StateDirectory {
    pub(crate) fn make(lab: &Path, known: Option<&str>) -> Result<Self, ExperimentError> {
        let state = Self { home: lab.join("state") };
        let file = state.file();
        let directory = file.parent().expect("the file has a directory");
        let written = fs::create_dir_all(directory).and_then(|()| match known {
            Some(known) => fs::write(&file, known),
            None => Ok(()),
        });
        written.map_err(|error| ExperimentError::io(format!("write {}", file.display()), error))?;
        Ok(state)
    }

    fn file(&self) -> PathBuf {
        self.home.join("icdc/paths.json")
    }

    /// What is known of paths by now.
    pub(crate) fn known(&self) -> Option<String> {
        fs::read_to_string(self.file()).ok()
    }
}
