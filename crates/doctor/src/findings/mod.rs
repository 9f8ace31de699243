//! From facts to findings: pure functions, one file per subject.

mod buffers;
mod device;
mod host;
mod path;
mod tcp;

use std::cmp::Reverse;

use crate::remedy::Change;
use crate::{Aim, HostFacts, PathFacts};

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
    fn host(id: &'static str, severity: Severity, found: impl Into<String>, why: &'static str) -> Self {
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

    fn path(id: &'static str, severity: Severity, found: impl Into<String>, why: &'static str) -> Self {
        Self { group: Group::Path, ..Self::host(id, severity, found, why) }
    }

    fn about(self, subject: impl Into<String>) -> Self {
        Self { subject: Some(subject.into()), ..self }
    }

    fn with_fix(mut self, command: impl Into<String>) -> Self {
        self.fix.push(command.into());
        self
    }

    /// A change of a setting that is `current` now.
    fn with_change(self, change: Change, current: &[u64]) -> Self {
        Self { fix: vec![change.command(current)], change: Some(change), ..self }
    }
}

/// Judges what was found by the aim: the host first, and what matters most first.
#[must_use]
pub fn judge(host: &HostFacts, path: Option<&PathFacts>, aim: Aim) -> Vec<Finding> {
    let mut findings = buffers::judge(host, aim);
    findings.extend(tcp::judge(host, aim));
    findings.extend(host.devices.iter().flat_map(|device| device::judge(device, host, aim)));
    findings.extend(host::judge(host, aim));
    findings.extend(path.into_iter().flat_map(|path| path::judge(path, host, aim)));
    findings.sort_by_key(|finding| (finding.group, Reverse(finding.severity)));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sysctls;
    use crate::facts::Device;

    #[test]
    fn what_matters_most_comes_first_and_the_path_last() {
        let sysctls = Sysctls::of(&[("net.core.rmem_max", "4096"), ("net.ipv4.tcp_sack", "1")]);
        let host = HostFacts { sysctls, devices: vec![Device::default()], ..HostFacts::default() };
        let path = PathFacts::default();
        let findings = judge(&host, Some(&path), Aim::new(None, None, &host, Some(&path)));
        assert_eq!((findings[0].id, findings[0].severity), ("socket.rmem_max", Severity::Problem));
        assert!(findings.iter().map(|finding| finding.group).is_sorted());
        let of_host = findings.iter().filter(|finding| finding.group == Group::Host);
        assert!(of_host.map(|finding| Reverse(finding.severity)).is_sorted());
    }

    #[test]
    fn nothing_known_is_no_reason_to_panic() {
        let host = HostFacts::default();
        let findings = judge(&host, None, Aim::new(None, None, &host, None));
        assert!(findings.iter().all(|finding| finding.severity <= Severity::Note), "{findings:?}");
    }
}
