//! Settings of the kernel (`sysctl`), by name.

use std::collections::BTreeMap;

use crate::{Reading, System};

/// Greatest size that a program may ask for a receive buffer, in bytes.
pub(crate) const RECEIVE_LIMIT: &str = "net.core.rmem_max";
/// Greatest size that a program may ask for a send buffer, in bytes.
pub(crate) const SEND_LIMIT: &str = "net.core.wmem_max";
/// Least, initial and greatest size of TCP's receive buffer, in bytes.
pub(crate) const TCP_RECEIVE: &str = "net.ipv4.tcp_rmem";
/// Least, initial and greatest size of TCP's send buffer, in bytes.
pub(crate) const TCP_SEND: &str = "net.ipv4.tcp_wmem";
/// Memory of all of TCP: low mark, pressure and limit, in pages.
pub(crate) const TCP_MEMORY: &str = "net.ipv4.tcp_mem";
/// Autotuning of TCP's receive buffer: 1 for on.
pub(crate) const MODERATE_RECEIVE: &str = "net.ipv4.tcp_moderate_rcvbuf";
/// Window scaling (RFC 7323): 1 for on.
pub(crate) const WINDOW_SCALING: &str = "net.ipv4.tcp_window_scaling";
/// Selective acknowledgements (RFC 2018): 1 for on.
pub(crate) const SACK: &str = "net.ipv4.tcp_sack";
/// TCP timestamps (RFC 7323): 1 or 2 for on.
pub(crate) const TIMESTAMPS: &str = "net.ipv4.tcp_timestamps";
/// Discovery of the path MTU by probes (RFC 4821): 0 for never.
pub(crate) const MTU_PROBING: &str = "net.ipv4.tcp_mtu_probing";
/// Whether the kernel forgets a path's measurements between connections: 1 for yes.
pub(crate) const NO_METRICS_SAVE: &str = "net.ipv4.tcp_no_metrics_save";
/// Whether the window shrinks in a pause (RFC 2861): 1 for yes.
pub(crate) const SLOW_START_AFTER_IDLE: &str = "net.ipv4.tcp_slow_start_after_idle";
/// Name of the default congestion control.
pub(crate) const CONGESTION: &str = "net.ipv4.tcp_congestion_control";
/// Names of the congestion controls that are loaded.
pub(crate) const AVAILABLE: &str = "net.ipv4.tcp_available_congestion_control";
/// Names of the congestion controls that any user may choose.
pub(crate) const ALLOWED: &str = "net.ipv4.tcp_allowed_congestion_control";
/// Name of the default queueing discipline.
pub(crate) const DEFAULT_QDISC: &str = "net.core.default_qdisc";
/// Permission to use io_uring: 0 for everybody, 2 for nobody.
pub(crate) const URING_DISABLED: &str = "kernel.io_uring_disabled";

/// Names of the kernel settings that are read.
const NAMES: [&str; 17] = [
    RECEIVE_LIMIT,
    SEND_LIMIT,
    TCP_RECEIVE,
    TCP_SEND,
    TCP_MEMORY,
    MODERATE_RECEIVE,
    WINDOW_SCALING,
    SACK,
    TIMESTAMPS,
    MTU_PROBING,
    NO_METRICS_SAVE,
    SLOW_START_AFTER_IDLE,
    CONGESTION,
    AVAILABLE,
    ALLOWED,
    DEFAULT_QDISC,
    URING_DISABLED,
];

/// Settings that this program changes; an undo note that names anything else is not icdc's.
pub(crate) const CHANGEABLE: [&str; 12] = [
    RECEIVE_LIMIT,
    SEND_LIMIT,
    TCP_RECEIVE,
    TCP_SEND,
    TCP_MEMORY,
    MODERATE_RECEIVE,
    WINDOW_SCALING,
    SACK,
    TIMESTAMPS,
    MTU_PROBING,
    NO_METRICS_SAVE,
    SLOW_START_AFTER_IDLE,
];

/// Settings that do not exist on every kernel, or in the first network namespace only: their
/// absence is normal.
const OFTEN_MISSING: [&str; 2] = [TCP_MEMORY, URING_DISABLED];

/// Path of a kernel setting below `/proc/sys`.
pub(crate) fn path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

/// Kernel settings that the checks use, by name, each with the result of reading it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sysctls(BTreeMap<&'static str, Reading>);

/// A kernel setting read as numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// The setting has the expected number of values.
    Are(Vec<u64>),
    /// The setting could not be read.
    Unseen,
    /// The setting has another form; its text.
    Strange(String),
}

impl Sysctls {
    /// Reads the settings of the `system`; one that cannot be read is kept with the reason.
    pub(crate) fn read(system: &System) -> Self {
        Self(NAMES.iter().map(|name| (*name, system.read(&path(name)))).collect())
    }

    /// All settings that were read, as names and readings, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Reading)> {
        self.0.iter().map(|(name, reading)| (*name, reading))
    }

    /// Reads a setting that has to consist of `count` numbers.
    pub(crate) fn numbers(&self, name: &str, count: usize) -> Numbers {
        match self.0.get(name) {
            Some(Reading::Value(text)) => numbers(text)
                .filter(|numbers| numbers.len() == count)
                .map_or_else(|| Numbers::Strange(text.clone()), Numbers::Are),
            _ => Numbers::Unseen,
        }
    }

    /// The number that a setting consists of; `None` if it is not one number.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        match self.numbers(name, 1) {
            Numbers::Are(numbers) => numbers.first().copied(),
            Numbers::Unseen | Numbers::Strange(_) => None,
        }
    }

    /// Words of a setting's text, such as names of algorithms; empty if it was not read.
    pub(crate) fn words(&self, name: &str) -> Vec<&str> {
        match self.0.get(name) {
            Some(Reading::Value(text)) => text.split_whitespace().collect(),
            _ => Vec::new(),
        }
    }

    /// Names of settings that should exist and were not read, with the reason where there is one.
    pub(crate) fn unseen(&self) -> Vec<String> {
        let expected = self.0.iter().filter(|(name, _)| !OFTEN_MISSING.contains(*name));
        expected
            .filter_map(|(name, reading)| match reading {
                Reading::Value(_) => None,
                Reading::Missing => Some((*name).to_owned()),
                Reading::Unreadable(reason) => Some(format!("{name} ({reason})")),
            })
            .collect()
    }

    /// Settings with these values, by their names.
    #[cfg(test)]
    pub(crate) fn of(settings: &[(&'static str, &str)]) -> Self {
        Self(settings.iter().map(|(name, text)| (*name, Reading::Value((*text).to_owned()))).collect())
    }
}

/// Numbers between white space; `None` if there is anything else, or nothing.
pub(crate) fn numbers(text: &str) -> Option<Vec<u64>> {
    let numbers: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    numbers.filter(|numbers| !numbers.is_empty())
}

/// Numbers as they are written to a setting.
pub(crate) fn text(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_strange_and_what_is_missing_unseen() {
        let settings =
            Sysctls::of(&[(RECEIVE_LIMIT, "4194304"), (TCP_RECEIVE, "4096\t131072\t6291456"), (SACK, "yes")]);
        assert_eq!(settings.numbers(RECEIVE_LIMIT, 1), Numbers::Are(vec![4_194_304]));
        assert_eq!(settings.numbers(TCP_RECEIVE, 3), Numbers::Are(vec![4096, 131_072, 6_291_456]));
        assert_eq!(settings.numbers(SACK, 1), Numbers::Strange("yes".to_owned()));
        assert_eq!(settings.numbers(SEND_LIMIT, 1), Numbers::Unseen);
        for text in ["", "-1", "1 two", "99999999999999999999", "\u{fffd}"] {
            assert_eq!(numbers(text), None, "{text}");
        }
        assert_eq!(settings.numbers(TCP_RECEIVE, 1), Numbers::Strange("4096\t131072\t6291456".to_owned()));
    }

    #[test]
    fn only_what_ought_to_be_there_is_missed() {
        let settings = Sysctls(BTreeMap::from([
            (RECEIVE_LIMIT, Reading::Missing),
            (URING_DISABLED, Reading::Missing),
            (SACK, Reading::Unreadable("Permission denied".to_owned())),
        ]));
        assert_eq!(settings.unseen(), ["net.core.rmem_max", "net.ipv4.tcp_sack (Permission denied)"]);
    }

    #[test]
    fn everything_that_can_be_changed_is_looked_at() {
        assert!(CHANGEABLE.iter().all(|name| NAMES.contains(name)));
        assert_eq!(path(TCP_RECEIVE), "/proc/sys/net/ipv4/tcp_rmem");
    }
}
