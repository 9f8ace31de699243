//! Limits of socket buffers, by what the aim has in flight.

use icdc_units::ByteCount;

use super::finding::{Finding, Severity};
use crate::remedy::{Change, Setting};
use crate::sysctl::{self, Numbers};
use crate::{Aim, HostFacts};

/// Check of a setting that limits the size of a socket buffer, with the texts of its finding.
struct Limit {
    id: &'static str,
    name: &'static str,
    /// Index of the number in the setting.
    place: usize,
    count: usize,
    why: &'static str,
}

/// Checks of the settings that limit socket buffers.
const LIMITS: [Limit; 4] = [
    Limit {
        id: "socket.rmem_max",
        name: sysctl::RECEIVE_LIMIT,
        place: 0,
        count: 1,
        why: "a receive buffer that a program without privilege asks for is cut to this, and the window with it",
    },
    Limit {
        id: "socket.wmem_max",
        name: sysctl::SEND_LIMIT,
        place: 0,
        count: 1,
        why: "a send buffer that a program without privilege asks for is cut to this, and it holds all that is in flight",
    },
    Limit {
        id: "tcp.rmem",
        name: sysctl::TCP_RECEIVE,
        place: 2,
        count: 3,
        why: "the receive buffer grows by itself up to this; about half of it is announced as window",
    },
    Limit {
        id: "tcp.wmem",
        name: sysctl::TCP_SEND,
        place: 2,
        count: 3,
        why: "the send buffer grows by itself up to this, and it holds all that is in flight, with overhead",
    },
];

/// Findings on socket buffers and TCP's memory, by the bandwidth-delay product of the aim.
pub(super) fn judge(host: &HostFacts, aim: Aim) -> Vec<Finding> {
    let limits = LIMITS.iter().filter_map(|limit| judge_limit(limit, host, aim));
    limits.chain(memory(host, aim)).chain(connections(aim)).chain(unseen(host)).collect()
}

/// Finding on one limit, with a change where it is too low; `None` if the setting could not be
/// read.
fn judge_limit(limit: &Limit, host: &HostFacts, aim: Aim) -> Option<Finding> {
    let &Limit { id, name, place, count, why } = limit;
    let numbers = match host.sysctls.numbers(name, count) {
        Numbers::Are(numbers) => numbers,
        Numbers::Strange(text) => return Some(strange(name, &text)),
        Numbers::Unseen => return None,
    };
    let (most, wanted) = (ByteCount::new(numbers[place]), aim.buffer());
    if most >= wanted {
        return Some(Finding::host(id, Severity::Ok, format!("{name} allows {most}"), why));
    }
    let severity = if most < aim.in_flight() { Severity::Problem } else { Severity::Warning };
    let found = format!("{name} allows {most}; {wanted} are wanted, 3 x {} in flight", aim.in_flight());
    let mut least = vec![0; count];
    least[place] = wanted.as_u64();
    let change = Change { name, to: Setting::AtLeast(least) };
    Some(Finding::host(id, severity, found, why).with_change(change, &numbers))
}

/// A finding about a setting that does not have the form it should.
pub(super) fn strange(name: &str, text: &str) -> Finding {
    const WHY: &str = "the kernel does not write such a thing: another file system may be mounted over it";
    let found = format!("{name} says {:?}, which is not what is expected there", shortened(text));
    Finding::host("sysctl.strange", Severity::Warning, found, WHY).about(name)
}

/// First 60 characters of a text, for a message.
fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}

/// Finding on the memory for all of TCP (`tcp_mem`), which is to hold two buffers of the aim
/// without pressure; `None` if the setting could not be read.
fn memory(host: &HostFacts, aim: Aim) -> Option<Finding> {
    const ID: &str = "tcp.mem";
    const WHY: &str = "beyond the second number TCP shrinks the windows of all connections, beyond the third it drops";
    let name = sysctl::TCP_MEMORY;
    let numbers = match host.sysctls.numbers(name, 3) {
        Numbers::Are(numbers) => numbers,
        Numbers::Strange(text) => return Some(strange(name, &text)),
        Numbers::Unseen => return None,
    };
    let page = rustix::param::page_size() as u64;
    let pressure = ByteCount::new(numbers[1].saturating_mul(page));
    let wanted = aim.buffer() * 2;
    if pressure >= wanted {
        return Some(Finding::host(ID, Severity::Ok, format!("{name} lets TCP use {pressure} without pressure"), WHY));
    }
    let found = format!("{name} puts TCP under pressure from {pressure}; two buffers of {} are wanted", aim.buffer());
    let finding = Finding::host(ID, Severity::Warning, found, WHY);
    // More than half of the memory is not to be given away.
    if host.memory.is_none_or(|memory| wanted > memory / 2) {
        return Some(finding);
    }
    let pages = wanted.as_u64().div_ceil(page);
    let change = Change { name, to: Setting::AtLeast(vec![0, pages, pages]) };
    Some(finding.with_change(change, &numbers))
}

/// Finding that the aim takes several connections, because a buffer has 2 GiB at most; `None` if
/// one is enough.
fn connections(aim: Aim) -> Option<Finding> {
    const WHY: &str = "the kernel counts a buffer in an int, so one connection cannot have more than 2 GiB";
    let count = aim.connections();
    let found = || format!("{} in flight need the buffers of {count} connections", aim.in_flight());
    (count > 1).then(|| {
        Finding::host("socket.connections", Severity::Note, found(), WHY)
            .with_fix(format!("icdc copy --streams {count} SRC DST"))
    })
}

/// Finding that names the settings which should exist and could not be read; `None` if there are
/// none.
fn unseen(host: &HostFacts) -> Option<Finding> {
    const WHY: &str = "in a container or network namespace some settings are the host's: look there as well";
    let unseen = host.sysctls.unseen();
    let found = || format!("not to be seen from here: {}", unseen.join(", "));
    (!unseen.is_empty()).then(|| Finding::host("sysctl.unseen", Severity::Note, found(), WHY))
}

#[cfg(test)]
mod tests {
    use icdc_units::{Rate, Span};

    use super::*;
    use crate::Sysctls;

    /// 1 Gbit/s and 300 ms: 37.5 MB in flight, 112.5 MB of buffer.
    fn findings(settings: &[(&'static str, &str)]) -> Vec<Finding> {
        let host = HostFacts { sysctls: Sysctls::of(settings), ..HostFacts::default() };
        judge(&host, Aim::new(None, None, &host, None))
    }

    fn one(settings: &[(&'static str, &str)]) -> Finding {
        let mut findings = findings(settings);
        assert_eq!(findings.len(), 1, "{findings:?}");
        findings.remove(0)
    }

    #[test]
    fn limits_are_compared_with_three_times_what_is_in_flight() {
        let cases = [
            ("net.core.rmem_max", "212992", Severity::Problem, Some("112500000")),
            ("net.core.rmem_max", "37499999", Severity::Problem, Some("112500000")),
            ("net.core.rmem_max", "37500000", Severity::Warning, Some("112500000")),
            ("net.core.wmem_max", "112499999", Severity::Warning, Some("112500000")),
            ("net.core.wmem_max", "112500000", Severity::Ok, None),
            ("net.core.wmem_max", "2147483647", Severity::Ok, None),
            ("net.ipv4.tcp_rmem", "4096\t131072\t6291456", Severity::Problem, Some("'4096 131072 112500000'")),
            ("net.ipv4.tcp_wmem", "4096 16384 67108864", Severity::Warning, Some("'4096 16384 112500000'")),
            ("net.ipv4.tcp_wmem", "4096 16384 1073741824", Severity::Ok, None),
        ];
        for (name, text, severity, value) in cases {
            let finding = one(&[(name, text)]);
            assert_eq!(finding.severity, severity, "{name} {text}");
            let fix = value.map(|value| format!("sysctl -w {name}={value}"));
            assert_eq!(finding.fix, Vec::from_iter(fix), "{name} {text}");
            assert_eq!(finding.change.is_some(), value.is_some());
        }
    }

    #[test]
    fn what_is_no_number_is_told_and_left_alone() {
        for (name, text) in [
            ("net.core.rmem_max", "much"),
            ("net.core.rmem_max", ""),
            ("net.core.wmem_max", "1 2"),
            ("net.ipv4.tcp_rmem", "4096 131072"),
            ("net.ipv4.tcp_wmem", "4096 16384 99999999999999999999"),
            ("net.ipv4.tcp_mem", "-1 2 3"),
        ] {
            let finding = one(&[(name, text)]);
            assert_eq!((finding.id, finding.severity), ("sysctl.strange", Severity::Warning), "{name} {text}");
            assert!(finding.fix.is_empty() && finding.change.is_none());
            assert_eq!(finding.subject.as_deref(), Some(name));
        }
    }

    #[test]
    fn memory_of_tcp_is_raised_where_there_is_enough() {
        let judged = |pages: &str, memory| {
            let sysctls = Sysctls::of(&[("net.ipv4.tcp_mem", pages)]);
            let host = HostFacts { sysctls, memory, ..HostFacts::default() };
            judge(&host, Aim::new(None, None, &host, None)).remove(0)
        };
        let plenty = Some(ByteCount::from_mib(16 << 10));
        assert_eq!(judged("1 9999999 9999999", plenty).severity, Severity::Ok);
        let low = judged("1000 2000 9999999", plenty);
        let pages = 225_000_000_u64.div_ceil(rustix::param::page_size() as u64);
        assert_eq!(low.fix, [format!("sysctl -w net.ipv4.tcp_mem='1000 {pages} 9999999'")]);
        for memory in [None, Some(ByteCount::from_mib(256))] {
            let small = judged("1000 2000 3000", memory);
            assert_eq!((small.severity, small.fix.len()), (Severity::Warning, 0));
        }
    }

    #[test]
    fn more_than_one_connection_can_hold_takes_several() {
        let host = HostFacts { sysctls: Sysctls::of(&[("net.core.rmem_max", "2147483647")]), ..HostFacts::default() };
        let aim = Aim { rate: Rate::from_bits_per_second(100_000_000_000), round_trip: Span::from_millis(300) };
        let findings = judge(&host, aim);
        // The limit is as high as it can be, though not enough.
        assert_eq!((findings[0].id, findings[0].severity), ("socket.rmem_max", Severity::Ok));
        assert_eq!(
            (findings[1].id, findings[1].fix[0].as_str()),
            ("socket.connections", "icdc copy --streams 6 SRC DST")
        );
    }
}
