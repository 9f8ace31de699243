//! Record of the settings that this program has changed, with the values to restore.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::RemedyError;
use super::outcome::Set;
use crate::sysctl::{CHANGEABLE, numbers};

/// Version of the format of the record's file.
const VERSION: u32 = 1;

/// Settings that this program has changed, by name, each with the value before and the value set,
/// so that it can be restored. A value is text of one or several numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Note {
    pub(super) entries: BTreeMap<&'static str, Remembered>,
}

/// A setting that was changed, with its values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Remembered {
    /// Value before the first change.
    pub(super) before: String,
    /// Value that was set last.
    pub(super) set: String,
}

/// Format of the record in its file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    settings: BTreeMap<String, Remembered>,
}

impl Note {
    /// Reads the record from the file at `path`; an empty one if there is no file. An error if the
    /// file is damaged, or names a setting that this program does not change.
    pub(super) fn load(path: &Path) -> Result<Self, RemedyError> {
        let damaged = |reason: String| RemedyError::Note { path: path.to_owned(), reason };
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(RemedyError::io("read", path, error)),
        };
        let written: Written = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if written.version != VERSION {
            return Err(damaged(format!("version {}", written.version)));
        }
        let mut note = Self::default();
        for (name, entry) in written.settings {
            let known = CHANGEABLE.iter().find(|known| **known == name);
            let known = known.ok_or_else(|| damaged(format!("{name:?} is nothing that it changes")))?;
            if [&entry.before, &entry.set].iter().any(|text| text.contains('\n') || numbers(text).is_none()) {
                return Err(damaged(format!("the values of {name} are no numbers")));
            }
            note.entries.insert(known, entry);
        }
        Ok(note)
    }

    /// The record as JSON text for its file.
    pub(super) fn text(&self) -> String {
        let settings = self.entries.iter().map(|(name, entry)| ((*name).to_owned(), entry.clone())).collect();
        let written = Written { version: VERSION, settings };
        let text = serde_json::to_string_pretty(&written).expect("names and texts can be written");
        text + "\n"
    }

    /// Records a change that is about to be made; the value before the first change stays. Returns
    /// the setting's earlier record, if it had one.
    pub(super) fn record(&mut self, set: &Set) -> Option<Remembered> {
        let earlier = self.entries.get(set.name).cloned();
        let before = earlier.as_ref().map_or(&set.before, |earlier| &earlier.before).clone();
        self.entries.insert(set.name, Remembered { before, set: set.now.clone() });
        earlier
    }

    /// Puts the `earlier` record of a setting in the place of that of a change that was not made;
    /// the setting is not recorded any more if it had none.
    pub(super) fn withdraw(&mut self, name: &'static str, earlier: Option<Remembered>) {
        match earlier {
            Some(earlier) => self.entries.insert(name, earlier),
            None => self.entries.remove(name),
        };
    }
}
