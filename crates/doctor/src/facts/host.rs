//! Facts of a host, from all its parts.

use std::net::IpAddr;

use icdc_units::ByteCount;

use super::abilities::Abilities;
use super::clock::Clock;
use super::device::{self, Device};
use super::disk::Disk;
use super::processors::listed;
use crate::{Sysctls, System};

/// Facts of a host. What could not be read is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// Settings of the kernel (sysctl).
    pub sysctls: Sysctls,
    /// Network devices that the traffic takes.
    pub devices: Vec<Device>,
    /// Processors that are on, by number.
    pub processors: Vec<usize>,
    /// Memory of the host in all; `None` if unknown.
    pub memory: Option<ByteCount>,
    /// State of the host's clock.
    pub clock: Clock,
    /// Kernel features available to this process; `None` of a system that is not the running one.
    pub abilities: Option<Abilities>,
    /// A disk, if one was measured.
    pub disk: Option<Disk>,
}

impl HostFacts {
    /// Reads all facts but those of a disk. The devices are the one of the route to `target`, else
    /// those of the default routes, else those that are up.
    #[must_use]
    pub fn gather(system: &System, target: Option<IpAddr>) -> Self {
        Self {
            sysctls: Sysctls::read(system),
            devices: device::gather(system, target),
            processors: system.text("/sys/devices/system/cpu/online").map_or_else(Vec::new, |text| listed(&text)),
            memory: memory(system),
            clock: Clock::read(system),
            abilities: system.is_running().then(Abilities::find),
            disk: None,
        }
    }
}

/// Memory of the host in all (`MemTotal` of proc(5)); `None` if it cannot be read.
fn memory(system: &System) -> Option<ByteCount> {
    let text = system.text("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok().map(ByteCount::from_kib)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_of_files_is_a_host() {
        let root = tempfile::tempdir().unwrap();
        let system = System::at(root.path().to_owned());
        assert_eq!(HostFacts::gather(&system, None).devices, []);
        let write = |path: &str, text: &str| {
            let path = system.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("/proc/meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB\n");
        write("/sys/devices/system/cpu/online", "0-1\n");
        write("/proc/sys/net/core/rmem_max", "212992\n");
        let host = HostFacts::gather(&system, None);
        assert_eq!((host.memory, host.processors), (Some(ByteCount::from_mib(16)), vec![0, 1]));
        assert_eq!(host.sysctls.number("net.core.rmem_max"), Some(212_992));
        assert_eq!(host.abilities, None);
    }

    #[test]
    fn this_host_has_facts() {
        let host = HostFacts::gather(&System::running(), None);
        assert!(host.sysctls.number("net.ipv4.tcp_sack").is_some());
        assert!(host.memory.is_some() && !host.processors.is_empty() && host.abilities.is_some());
    }
}
