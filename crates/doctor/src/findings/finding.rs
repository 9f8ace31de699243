//! A finding: what is the case, how much it matters and what changes it.

use crate::remedy::Change;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The state is as it should be.
    Ok,
    /// Good to know; there may be something to gain.
    Note,
    /// Transfers will be slower than they need to be.
    Warning,
    /// The aim cannot be reached like this.
    Problem,
}

/// Subject of a finding, under which it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// This host.
    Host,
    /// The path to another host.
    Path,
}

/// Finding: the result of one check.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Name that stays the same from run to run and from host to host.
    pub id: &'static str,
    /// Subject under which the finding is shown.
    pub group: Group,
    /// Item of several (a device, a setting, a directory); `None` if there is only one.
    pub subject: Option<String>,
    /// Severity of the finding.
    pub severity: Severity,
    /// Observed state, in words.
    pub found: String,
    /// Reason why it matters, in one line.
    pub why: &'static str,
    /// Commands that change the observed state.
    pub fix: Vec<String>,
    /// Change that makes the fix by [`apply`](crate::remedy::apply()), where it can; `None`
    /// otherwise.
    pub change: Option<Change>,
}

impl Finding {
    /// Makes a finding on this host.
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

    /// Makes a finding on the path.
    pub(super) fn path(id: &'static str, severity: Severity, found: impl Into<String>, why: &'static str) -> Self {
        Self { group: Group::Path, ..Self::host(id, severity, found, why) }
    }

    /// Sets the item that the finding is about.
    pub(super) fn about(self, subject: impl Into<String>) -> Self {
        Self { subject: Some(subject.into()), ..self }
    }

    /// Adds a command to the fix.
    pub(super) fn with_fix(mut self, command: impl Into<String>) -> Self {
        self.fix.push(command.into());
        self
    }

    /// Adds the change of a setting with the numbers `current`; the fix is then the command that
    /// makes it.
    pub(super) fn with_change(self, change: Change, current: &[u64]) -> Self {
        Self { fix: vec![change.command(current)], change: Some(change), ..self }
    }
}
