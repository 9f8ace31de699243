//! Results of an examination: findings, changes, and errors.

use icdc_doctor::remedy::Set;
use icdc_doctor::{Aim, Finding, HostFacts, PathFacts};

/// Text of the error of an examination that the user stopped.
pub(super) const INTERRUPTED: &str = "interrupted";

/// Results of one run of the doctor: facts, findings, the changes that it made, and errors.
pub(super) struct Examination {
    pub(super) host: HostFacts,
    pub(super) path: Option<PathFacts>,
    pub(super) aim: Aim,
    pub(super) findings: Vec<Finding>,
    pub(super) applied: Vec<Set>,
    pub(super) troubles: Troubles,
}

/// Errors during the examination, and the exit code that follows; 0 without any.
#[derive(Default)]
pub(super) struct Troubles {
    pub(super) texts: Vec<String>,
    pub(super) code: u8,
}

impl Troubles {
    /// Adds an error; the first one decides on the exit code.
    pub(super) fn add(&mut self, text: String, code: u8) {
        self.texts.push(text);
        if self.code == 0 {
            self.code = code;
        }
    }
}
