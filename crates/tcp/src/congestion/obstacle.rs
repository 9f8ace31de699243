//! Obstacles to loading eBPF: of this kernel or this process.

use std::path::Path;

use icdc_cc::Algorithm;
use thiserror::Error;

/// Reason why eBPF cannot be loaded here, with its remedy as message.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// This program was built without eBPF support, for this reason.
    #[error("this icdc was built without eBPF ({0}); build it with clang, libelf and zlib at hand (scripts/setup.sh)")]
    NotBuilt(&'static str),
    /// The kernel, of this release, is too old: it lacks struct_ops, or functions for eBPF
    /// programs.
    #[error("kernel {0} is too old for eBPF as icdc uses it, which takes Linux 5.15 or newer")]
    Kernel(String),
    /// The kernel does not provide its type information (BTF).
    #[error(
        "the kernel has no type information (/sys/kernel/btf/vmlinux); it takes one built with CONFIG_DEBUG_INFO_BTF"
    )]
    NoTypes,
    /// The kernel interprets eBPF instead of compiling it (JIT).
    #[error("eBPF is not compiled here; as root: sysctl net.core.bpf_jit_enable=1")]
    Interpreted,
    /// The process lacks these capabilities.
    #[error("{} missing; run as root, or: setcap cap_bpf,cap_perfmon,cap_net_admin+ep icdc", missing(.0))]
    Capability(Vec<&'static str>),
    /// The process is in a user namespace, whose privileges do not count.
    #[error("root of a user namespace may not load eBPF; load it outside: it holds in every network namespace")]
    UserNamespace,
}

/// The names of missing capabilities and the verb behind them, for a message.
fn missing(names: &[&str]) -> String {
    format!("{} {}", names.join(", "), if names.len() == 1 { "is" } else { "are" })
}

/// First obstacle to loading `algorithm`; `None` if there is none.
pub(super) fn obstacle(algorithm: &Algorithm) -> Option<Obstacle> {
    match algorithm.has_object() {
        Err(reason) if cfg!(feature = "ebpf") => Some(Obstacle::NotBuilt(reason)),
        _ => ebpf_obstacle(),
    }
}

/// Obstacle of this kernel, process or build to loading any eBPF; `None` if there is none.
#[must_use]
pub fn ebpf_obstacle() -> Option<Obstacle> {
    if !cfg!(feature = "ebpf") {
        return Some(Obstacle::NotBuilt("without the feature ebpf"));
    }
    of_kernel().or_else(of_process)
}

/// Obstacle of this kernel to loading eBPF; `None` if there is none.
fn of_kernel() -> Option<Obstacle> {
    if !release_is_at_least(5, 15) {
        return Some(Obstacle::Kernel(release()));
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Some(Obstacle::NoTypes);
    }
    // Where the file is not for this process to read, the kernel will say.
    let switched_off =
        std::fs::read_to_string("/proc/sys/net/core/bpf_jit_enable").is_ok_and(|text| text.trim() == "0");
    switched_off.then_some(Obstacle::Interpreted)
}

/// Number of the capability (linux/capability.h).
const CAP_NET_ADMIN: u32 = 12;
/// Number of the capability (linux/capability.h).
const CAP_SYS_ADMIN: u32 = 21;
/// Number of the capability (linux/capability.h).
const CAP_PERFMON: u32 = 38;
/// Number of the capability (linux/capability.h).
const CAP_BPF: u32 = 39;

/// Obstacle of this process, such as missing capabilities; `None` if there is none.
fn of_process() -> Option<Obstacle> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let set = u64::from_str_radix(effective.trim(), 16).ok()?;
    let has = |capability: u32| set & (1 << capability) != 0;
    let needed =
        [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")].map(|(it, name)| (has(it) || has(CAP_SYS_ADMIN), name));
    let lacking: Vec<&str> = needed
        .into_iter()
        .chain([(has(CAP_NET_ADMIN), "CAP_NET_ADMIN")])
        .filter(|(held, _)| !held)
        .map(|(_, name)| name)
        .collect();
    if !lacking.is_empty() {
        return Some(Obstacle::Capability(lacking));
    }
    let map = std::fs::read_to_string("/proc/self/uid_map").ok()?;
    let words: Vec<&str> = map.split_whitespace().collect();
    (words != ["0", "0", "4294967295"]).then_some(Obstacle::UserNamespace)
}

/// Release of the running kernel, such as `6.1.0-28-amd64`.
fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Whether the running kernel is of this version or a newer one.
pub(super) fn release_is_at_least(major: u32, minor: u32) -> bool {
    version(&release()) >= (major, minor)
}

/// Major and minor version in the text of a kernel release; 0 for what cannot be parsed.
fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(|digits| digits.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_as_numbers() {
        assert_eq!(version("6.18.44-fc-v657"), (6, 18));
        assert_eq!(version("5.4"), (5, 4));
        assert!(version("6.4.0") > version("5.15.0-91-generic") && version("6.10-rc1") > version("6.4.12"));
        assert_eq!(version("unknown"), (0, 0));
    }

    #[test]
    fn what_is_missing_is_named() {
        let text = Obstacle::Capability(vec!["CAP_BPF", "CAP_PERFMON"]).to_string();
        assert!(text.starts_with("CAP_BPF, CAP_PERFMON are missing;"), "{text}");
        assert!(Obstacle::Capability(vec!["CAP_BPF"]).to_string().starts_with("CAP_BPF is missing;"));
    }
}
