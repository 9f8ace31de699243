//! The rest of a host: clock, io_uring, eBPF, disk.

use icdc_units::Rate;

use super::finding::{Finding, Severity};
use crate::facts::Ability;
use crate::sysctl::URING_DISABLED;
use crate::{Aim, HostFacts};

/// Clock sources that take a trip to a slow device for every reading.
const SLOW_SOURCES: [&str; 4] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies"];

/// Findings on the host's clock, io_uring, eBPF and the measured disk.
pub(super) fn judge(host: &HostFacts, aim: Aim) -> Vec<Finding> {
    let findings = [clock_source(host), synchronized(host), io_uring(host), ebpf(host)];
    findings.into_iter().flatten().chain(disk(host, aim)).collect()
}

/// Finding on the clock source: a warning for one that is slow to read; `None` if unknown.
fn clock_source(host: &HostFacts) -> Option<Finding> {
    const ID: &str = "clock.source";
    const WHY: &str = "TCP reads the clock for every packet that it paces";
    const PLACE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = host.clock.source.as_deref()?;
    let found = format!("the clock is read from {source}");
    if !SLOW_SOURCES.contains(&source) {
        return Some(Finding::host(ID, Severity::Ok, found, WHY));
    }
    let finding = Finding::host(ID, Severity::Warning, found, WHY);
    let better = host.clock.sources.iter().find(|source| !SLOW_SOURCES.contains(&source.as_str()));
    Some(match better {
        Some(better) => finding.with_fix(format!("sh -c 'echo {better} >{PLACE}'")),
        None => finding,
    })
}

/// Finding on whether the host's clock is synchronized; `None` if unknown.
fn synchronized(host: &HostFacts) -> Option<Finding> {
    const ID: &str = "clock.synchronized";
    const WHY: &str = "times of files and lines of logs are compared between hosts (--update goes by them)";
    Some(match host.clock.synchronized? {
        true => Finding::host(ID, Severity::Ok, "the clock is kept right", WHY),
        false => {
            Finding::host(ID, Severity::Note, "nothing keeps the clock right", WHY).with_fix("timedatectl set-ntp true")
        }
    })
}

/// Finding on io_uring; `None` if it was not checked.
fn io_uring(host: &HostFacts) -> Option<Finding> {
    const ID: &str = "disk.io_uring";
    const WHY: &str = "without it copies use threads for the disk, which takes more of the processors";
    let finding = ability(ID, "io_uring can be used", &host.abilities.as_ref()?.io_uring, WHY);
    let is_switched_off = host.sysctls.number(URING_DISABLED).is_some_and(|level| level > 0);
    Some(if finding.severity > Severity::Ok && is_switched_off {
        finding.with_fix(format!("sysctl -w {URING_DISABLED}=0"))
    } else {
        finding
    })
}

/// Finding on congestion control by eBPF; `None` if it was not checked.
fn ebpf(host: &HostFacts) -> Option<Finding> {
    const ID: &str = "tcp.ebpf";
    const WHY: &str = "without it --cc has the kernel's own congestion control only";
    Some(ability(ID, "congestion control can be loaded by eBPF", &host.abilities.as_ref()?.ebpf, WHY))
}

/// Finding on a kernel feature: `good` is its text if the feature is available, else a note with
/// the obstacle.
fn ability(id: &'static str, good: &str, ability: &Ability, why: &'static str) -> Finding {
    let Some(obstacle) = &ability.obstacle else {
        return Finding::host(id, Severity::Ok, good, why);
    };
    let finding = Finding::host(id, Severity::Note, obstacle.as_str(), why);
    match &ability.remedy {
        Some(remedy) => finding.with_fix(remedy.as_str()),
        None => finding,
    }
}

/// Findings on the measured rates of a disk, compared with the aim's, and on direct I/O; none if no
/// disk was measured.
fn disk(host: &HostFacts, aim: Aim) -> Vec<Finding> {
    const WHY: &str = "a disk slower than the path is what limits a transfer";
    const WHY_DIRECT: &str =
        "through the page cache data is copied once more and pushes out what other programs keep there";
    let Some(disk) = &host.disk else { return Vec::new() };
    let place = disk.directory.display();
    let rate = |id, does: &str, rate: Rate| {
        let enough = rate >= aim.rate;
        let found =
            format!("{place}: {does} at {rate}{}", if enough { String::new() } else { format!(" of {}", aim.rate) });
        Finding::host(id, if enough { Severity::Ok } else { Severity::Warning }, found, WHY)
    };
    let direct = match disk.is_direct {
        true => {
            Finding::host("disk.direct", Severity::Ok, format!("{place}: Direct I/O by {}", disk.engine), WHY_DIRECT)
        }
        false => Finding::host("disk.direct", Severity::Note, format!("{place}: no Direct I/O there"), WHY_DIRECT),
    };
    let findings = [rate("disk.write", "written", disk.write), rate("disk.read", "read", disk.read), direct];
    findings.map(|finding| finding.about(place.to_string())).into()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use icdc_units::ByteCount;

    use super::*;
    use crate::Sysctls;
    use crate::facts::{Abilities, Clock, Disk};

    fn findings(host: &HostFacts) -> Vec<(&'static str, Severity, String)> {
        let findings = judge(host, Aim::new(None, None, host, None));
        findings.into_iter().map(|finding| (finding.id, finding.severity, finding.fix.join("; "))).collect()
    }

    fn clock(source: &str, sources: &[&str]) -> HostFacts {
        let sources = sources.iter().map(|source| (*source).to_owned()).collect();
        let clock = Clock { source: Some(source.to_owned()), sources, synchronized: None };
        HostFacts { clock, ..HostFacts::default() }
    }

    #[test]
    fn slow_clocks_are_told() {
        assert_eq!(findings(&clock("tsc", &["tsc", "hpet"])), [("clock.source", Severity::Ok, String::new())]);
        let fix = "sh -c 'echo tsc >/sys/devices/system/clocksource/clocksource0/current_clocksource'".to_owned();
        assert_eq!(findings(&clock("hpet", &["hpet", "tsc"])), [("clock.source", Severity::Warning, fix)]);
        assert_eq!(findings(&clock("acpi_pm", &["hpet"])), [("clock.source", Severity::Warning, String::new())]);
    }

    #[test]
    fn a_clock_that_nobody_keeps_right_is_told() {
        let host = |synchronized| HostFacts {
            clock: Clock { synchronized: Some(synchronized), ..Clock::default() },
            ..HostFacts::default()
        };
        assert_eq!(findings(&host(true)), [("clock.synchronized", Severity::Ok, String::new())]);
        let fix = "timedatectl set-ntp true".to_owned();
        assert_eq!(findings(&host(false)), [("clock.synchronized", Severity::Note, fix)]);
    }

    #[test]
    fn what_is_in_the_way_is_told_with_what_removes_it() {
        let obstacle = Some("not allowed".to_owned());
        let abilities = Abilities {
            io_uring: Ability { obstacle: obstacle.clone(), remedy: None },
            ebpf: Ability { obstacle, remedy: Some("setcap".to_owned()) },
        };
        let host = |level| HostFacts {
            sysctls: Sysctls::of(&[("kernel.io_uring_disabled", level)]),
            abilities: Some(abilities.clone()),
            ..HostFacts::default()
        };
        let fix = "sysctl -w kernel.io_uring_disabled=0".to_owned();
        let ebpf = ("tcp.ebpf", Severity::Note, "setcap".to_owned());
        assert_eq!(findings(&host("2")), [("disk.io_uring", Severity::Note, fix), ebpf.clone()]);
        assert_eq!(findings(&host("0")), [("disk.io_uring", Severity::Note, String::new()), ebpf]);
        let able = HostFacts { abilities: Some(Abilities::default()), ..HostFacts::default() };
        assert!(findings(&able).iter().all(|(_, severity, _)| *severity == Severity::Ok));
    }

    #[test]
    fn disks_are_compared_with_the_aim() {
        let disk = Disk {
            directory: PathBuf::from("/data"),
            engine: "io_uring",
            is_direct: false,
            bytes: ByteCount::from_mib(1024),
            write: Rate::from_bits_per_second(800_000_000),
            read: Rate::from_bits_per_second(1_000_000_000),
        };
        let host = HostFacts { disk: Some(disk), ..HostFacts::default() };
        let severities: Vec<_> = findings(&host).into_iter().map(|(id, severity, _)| (id, severity)).collect();
        let expected =
            [("disk.write", Severity::Warning), ("disk.read", Severity::Ok), ("disk.direct", Severity::Note)];
        assert_eq!(severities, expected);
    }
}
