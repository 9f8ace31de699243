//! Judges all facts, and gives the findings in order.

use std::cmp::Reverse;

use super::finding::Finding;
use super::{buffers, device, host, path, tcp};
use crate::{Aim, HostFacts, PathFacts};

/// Findings on the host and on the path, judged by the aim: those of the host first, in each group
/// the most severe first. `path` is `None` if no path was measured.
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
    use super::super::finding::{Group, Severity};
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
