//! A finding: what is the case, how much it matters and what changes it.

use crate::remedy::Change;

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Good to know; there may be something to gain.
    Note,
    /// Transfers will be slower than they need to be.
    Warning,
    /// The aim cannot be reached like this.
    Problem,
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// This host.
    Host,
    /// The path to another one.
    Path,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Name that stays the same from run to run and from host to host.
    pub id: &'static str,
    /// Where it belongs.
    pub group: Group,
    /// Which of several: a device, a setting, a directory.
    pub subject: Option<String>,
    /// How much it matters.
    pub severity: Severity,
    /// What is the case.
    pub found: String,
    /// Why that matters, in one line.
    pub why: &'static str,
    /// Commands that change it.
    pub fix: Vec<String>,
    /// The same for [`apply`](crate::remedy::apply()), where it can do it.
    pub change: Option<Change>,
}

impl Finding {
    /// A finding on this host.
    pub(super) fn host(id: &'static str, severity: Severity, found: impl Into<String>, why: &'static str) -> Self {
        Self {
            id,
            group: Group::Host,
            subject: None,
            severity,
            found: found.into(),
            why,
            fix: Vec::new(),
            change: None,
        }
    }

    /// A finding on the path.
    pub(super) fn path(id: &'static str, severity: Severity, found: impl Into<String>, why: &'static str) -> Self {
        Self { group: Group::Path, ..Self::host(id, severity, found, why) }
    }

    /// The same about one of several.
    pub(super) fn about(self, subject: impl Into<String>) -> Self {
        Self { subject: Some(subject.into()), ..self }
    }

    /// The same with one more command.
    pub(super) fn with_fix(mut self, command: impl Into<String>) -> Self {
        self.fix.push(command.into());
        self
    }

    /// A change of a setting that is `current` now.
    pub(super) fn with_change(self, change: Change, current: &[u64]) -> Self {
        Self { fix: vec![change.command(current)], change: Some(change), ..self }
    }
}
