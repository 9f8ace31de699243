//! State directory of a measured icdc.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::error::ExperimentError;

/// Directory of the measured icdc's known paths; this user's own is neither used nor changed. It is
/// removed with the lab.
pub(crate) struct StateDirectory {
    /// Value of `XDG_STATE_HOME` for the measured program.
    pub(crate) home: PathBuf,
}

impl StateDirectory {
    /// Makes the directory inside the `lab`'s, with `known` as the file of known paths, if there is
    /// one.
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

    /// Path of the file of known paths.
    fn file(&self) -> PathBuf {
        self.home.join("icdc/paths.json")
    }

    /// Current contents of the file of known paths; `None` if it cannot be read, as before it is
    /// first written.
    pub(crate) fn known(&self) -> Option<String> {
        fs::read_to_string(self.file()).ok()
    }
}
