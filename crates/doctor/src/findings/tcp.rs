//! Switches of TCP, and its congestion control.

use super::buffers::strange;
use super::finding::{Finding, Severity};
use crate::remedy::{Change, Setting};
use crate::sysctl::{self, Numbers};
use crate::{Aim, HostFacts};

/// A setting that is a switch, and how it should be.
struct Switch {
    id: &'static str,
    name: &'static str,
    /// The setting should be 0; otherwise anything but 0.
    off: bool,
    severity: Severity,
    good: &'static str,
    bad: &'static str,
    why: &'static str,
}

/// Checks of the switches of TCP.
const SWITCHES: [Switch; 7] = [
    Switch {
        id: "tcp.window_scaling",
        name: sysctl::WINDOW_SCALING,
        off: false,
        severity: Severity::Problem,
        good: "windows are scaled",
        bad: "windows are not scaled",
        why: "without scaling a window has at most 64 KiB, whatever the buffers are (RFC 7323)",
    },
    Switch {
        id: "tcp.sack",
        name: sysctl::SACK,
        off: false,
        severity: Severity::Problem,
        good: "selective acknowledgements are on",
        bad: "selective acknowledgements are off",
        why: "without them one lost segment is repaired per round trip (RFC 2018)",
    },
    Switch {
        id: "tcp.timestamps",
        name: sysctl::TIMESTAMPS,
        off: false,
        severity: Severity::Warning,
        good: "time stamps are on",
        bad: "time stamps are off",
        why: "they tell old segments from new ones when sequence numbers come round, after 34 s at 1 Gbit/s (RFC 7323)",
    },
    Switch {
        id: "tcp.moderate_rcvbuf",
        name: sysctl::MODERATE_RECEIVE,
        off: false,
        severity: Severity::Warning,
        good: "receive buffers grow by themselves",
        bad: "receive buffers do not grow by themselves",
        why: "a receiver without privilege keeps the window that it begins with",
    },
    Switch {
        id: "tcp.mtu_probing",
        name: sysctl::MTU_PROBING,
        off: false,
        severity: Severity::Note,
        good: "TCP finds smaller packets by itself where large ones vanish",
        bad: "TCP does not look for smaller packets where large ones vanish",
        why: "a firewall on the way that drops ICMP lets a transfer with large packets hang (RFC 4821)",
    },
    Switch {
        id: "tcp.no_metrics_save",
        name: sysctl::NO_METRICS_SAVE,
        off: false,
        severity: Severity::Note,
        good: "connections begin without the memory of earlier ones",
        bad: "connections begin with the threshold at which an earlier one had loss",
        why: "one bad moment ends the slow start of the transfers after it early, for about an hour",
    },
    Switch {
        id: "tcp.slow_start_after_idle",
        name: sysctl::SLOW_START_AFTER_IDLE,
        off: true,
        severity: Severity::Note,
        good: "a pause does not cost the window",
        bad: "after a pause the window opens anew",
        why: "a source that pauses longer than a round trip begins slowly again, which takes seconds on a long path",
    },
];

/// Findings on TCP's switches, its congestion control and the default queueing discipline.
pub(super) fn judge(host: &HostFacts, aim: Aim) -> Vec<Finding> {
    let switches = SWITCHES.iter().filter_map(|switch| judge_switch(switch, host));
    switches.chain(congestion(host, aim)).chain(choices(host)).chain(default_qdisc(host)).collect()
}

/// Finding on one switch, with the change if it is set wrong; `None` if it could not be read.
fn judge_switch(switch: &Switch, host: &HostFacts) -> Option<Finding> {
    let &Switch { id, name, off, severity, good, bad, why } = switch;
    let numbers = match host.sysctls.numbers(name, 1) {
        Numbers::Are(numbers) => numbers,
        Numbers::Strange(text) => return Some(strange(name, &text)),
        Numbers::Unseen => return None,
    };
    if (numbers[0] == 0) == off {
        return Some(Finding::host(id, Severity::Ok, good, why));
    }
    let severity =
        if id == MTU_PROBING && has_large_packets(host) { severity.max(Severity::Warning) } else { severity };
    let change = Change { name, to: Setting::Exactly(u64::from(!off)) };
    Some(Finding::host(id, severity, bad, why).with_change(change, &numbers))
}

/// Identifier of the finding on path MTU discovery by probes.
const MTU_PROBING: &str = "tcp.mtu_probing";
/// MTU of Ethernet; every path supports it, except for tunnels.
const USUAL_MTU: u64 = 1500;

/// Whether a device of the host has an MTU above 1500 bytes.
fn has_large_packets(host: &HostFacts) -> bool {
    host.devices.iter().any(|device| device.mtu.is_some_and(|mtu| mtu.as_u64() > USUAL_MTU))
}

/// Finding on the default congestion control; `None` if that could not be read. Reno gains one
/// segment per round trip, so half of what is in flight takes half as many round trips to come
/// back.
fn congestion(host: &HostFacts, aim: Aim) -> Option<Finding> {
    const ID: &str = "tcp.congestion_control";
    const WHY: &str = "it is what every connection gets that does not ask; icdc asks by --cc";
    const WHY_RENO: &str = "after a loss reno gains one segment per round trip: minutes to hours on a long fast path";
    /// Segments in flight from which on that is too slow.
    const MANY: u64 = 1000;
    let name = *host.sysctls.words(sysctl::CONGESTION).first()?;
    if name != "reno" {
        return Some(Finding::host(ID, Severity::Ok, format!("congestion control is {name}"), WHY));
    }
    let severity = if aim.in_flight().as_u64() / USUAL_MTU > MANY { Severity::Warning } else { Severity::Note };
    let finding = Finding::host(ID, severity, "congestion control is reno", WHY_RENO);
    let available = host.sysctls.words(sysctl::AVAILABLE);
    let finding = if available.contains(&"cubic") { finding } else { finding.with_fix("modprobe tcp_cubic") };
    Some(finding.with_fix(format!("sysctl -w {}=cubic", sysctl::CONGESTION)))
}

/// Finding on the congestion controls that unprivileged users may choose; `None` if they could not
/// be read.
fn choices(host: &HostFacts) -> Option<Finding> {
    const ID: &str = "tcp.allowed_congestion_control";
    const WHY: &str =
        "--cc of a user without privilege chooses among these; which ones that shall be is a matter of policy";
    let (available, allowed) = (host.sysctls.words(sysctl::AVAILABLE), host.sysctls.words(sysctl::ALLOWED));
    if available.is_empty() || allowed.is_empty() {
        return None;
    }
    let found = format!("there are {}; any user may choose {}", available.join(", "), allowed.join(", "));
    if allowed.iter().any(|name| *name != "reno") {
        return Some(Finding::host(ID, Severity::Ok, found, WHY));
    }
    let finding = Finding::host(ID, Severity::Note, found, WHY);
    let better = available.iter().any(|name| *name != "reno");
    let fix = || format!("sysctl -w {}='{}'", sysctl::ALLOWED, available.join(" "));
    Some(if better { finding.with_fix(fix()) } else { finding })
}

/// Finding on the queueing discipline that new devices get; `None` if it could not be read.
fn default_qdisc(host: &HostFacts) -> Option<Finding> {
    const ID: &str = "qdisc.default";
    const WHY: &str =
        "fq keeps the gaps that TCP asks for; without it TCP has a timer per connection, which costs more";
    let name = *host.sysctls.words(sysctl::DEFAULT_QDISC).first()?;
    let found = format!("devices that come up get the queueing discipline {name}");
    Some(match name {
        "fq" => Finding::host(ID, Severity::Ok, found, WHY),
        _ => Finding::host(ID, Severity::Note, found, WHY).with_fix(format!("sysctl -w {}=fq", sysctl::DEFAULT_QDISC)),
    })
}

#[cfg(test)]
mod tests {
    use icdc_units::ByteCount;

    use super::*;
    use crate::Sysctls;
    use crate::facts::Device;

    fn host(settings: &[(&'static str, &str)]) -> HostFacts {
        HostFacts { sysctls: Sysctls::of(settings), ..HostFacts::default() }
    }

    fn one(host: &HostFacts, id: &str) -> Finding {
        let findings = judge(host, Aim::new(None, None, host, None));
        findings.into_iter().find(|finding| finding.id == id).unwrap_or_else(|| panic!("no {id}"))
    }

    #[test]
    fn switches_are_as_they_should_be_or_told() {
        let cases: [(&str, &'static str, &str, Severity, Option<&str>); 12] = [
            ("tcp.window_scaling", "net.ipv4.tcp_window_scaling", "1", Severity::Ok, None),
            ("tcp.window_scaling", "net.ipv4.tcp_window_scaling", "0", Severity::Problem, Some("1")),
            ("tcp.sack", "net.ipv4.tcp_sack", "0", Severity::Problem, Some("1")),
            ("tcp.timestamps", "net.ipv4.tcp_timestamps", "2", Severity::Ok, None),
            ("tcp.timestamps", "net.ipv4.tcp_timestamps", "0", Severity::Warning, Some("1")),
            ("tcp.moderate_rcvbuf", "net.ipv4.tcp_moderate_rcvbuf", "0", Severity::Warning, Some("1")),
            ("tcp.mtu_probing", "net.ipv4.tcp_mtu_probing", "0", Severity::Note, Some("1")),
            ("tcp.mtu_probing", "net.ipv4.tcp_mtu_probing", "2", Severity::Ok, None),
            ("tcp.no_metrics_save", "net.ipv4.tcp_no_metrics_save", "0", Severity::Note, Some("1")),
            ("tcp.slow_start_after_idle", "net.ipv4.tcp_slow_start_after_idle", "0", Severity::Ok, None),
            ("tcp.slow_start_after_idle", "net.ipv4.tcp_slow_start_after_idle", "1", Severity::Note, Some("0")),
            ("sysctl.strange", "net.ipv4.tcp_sack", "on", Severity::Warning, None),
        ];
        for (id, name, text, severity, value) in cases {
            let finding = one(&host(&[(name, text)]), id);
            assert_eq!(finding.severity, severity, "{name} {text}");
            let fix = value.map(|value| format!("sysctl -w {name}={value}"));
            assert_eq!(finding.fix, Vec::from_iter(fix), "{name} {text}");
        }
    }

    #[test]
    fn vanishing_packets_matter_more_where_packets_are_large() {
        let mut host = host(&[("net.ipv4.tcp_mtu_probing", "0")]);
        host.devices = vec![Device { mtu: Some(ByteCount::new(9000)), ..Device::default() }];
        assert_eq!(one(&host, "tcp.mtu_probing").severity, Severity::Warning);
    }

    #[test]
    fn reno_is_too_slow_for_a_long_fast_path() {
        let (now, available) = ("net.ipv4.tcp_congestion_control", "net.ipv4.tcp_available_congestion_control");
        let id = "tcp.congestion_control";
        assert_eq!(one(&host(&[(now, "bbr")]), id).severity, Severity::Ok);
        let reno = one(&host(&[(now, "reno"), (available, "reno cubic")]), id);
        assert_eq!(
            (reno.severity, reno.fix.join(";").as_str()),
            (Severity::Warning, "sysctl -w net.ipv4.tcp_congestion_control=cubic")
        );
        assert_eq!(one(&host(&[(now, "reno"), (available, "reno")]), id).fix[0], "modprobe tcp_cubic");
        assert!(reno.change.is_none());
    }

    #[test]
    fn a_choice_of_one_is_none() {
        let (available, allowed) =
            ("net.ipv4.tcp_available_congestion_control", "net.ipv4.tcp_allowed_congestion_control");
        let id = "tcp.allowed_congestion_control";
        assert_eq!(one(&host(&[(available, "reno cubic"), (allowed, "reno cubic")]), id).severity, Severity::Ok);
        let fix = one(&host(&[(available, "reno cubic"), (allowed, "reno")]), id).fix;
        assert_eq!(fix, ["sysctl -w net.ipv4.tcp_allowed_congestion_control='reno cubic'"]);
        assert!(one(&host(&[(available, "reno"), (allowed, "reno")]), id).fix.is_empty());
    }

    #[test]
    fn the_discipline_of_new_devices_is_a_hint() {
        assert_eq!(one(&host(&[("net.core.default_qdisc", "fq")]), "qdisc.default").severity, Severity::Ok);
        let other = one(&host(&[("net.core.default_qdisc", "pfifo_fast")]), "qdisc.default");
        assert_eq!((other.severity, other.change), (Severity::Note, None));
        assert_eq!(other.fix, ["sysctl -w net.core.default_qdisc=fq"]);
    }
}
