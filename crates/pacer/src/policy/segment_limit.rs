//! Limit of the segments that a paced connection sends at once: the kernel hands packets of many
//! segments to the device, up to a millisecond of its rate, and paces between those. A device can
//! be configured to take fewer (`gso_max_segs`), which applies to every connection that begins
//! there.
//!
//! ```text
//! /run/icdc/bursts/NAMESPACE-DEVICE  as numbers, which are unique; removed by a restart
//!   eth0 65535                       the device by name, and its setting before
//!   1234 192.0.2.0/24 2              a policy (cgroup, prefix), its segments; the smallest applies
//! ```
//!
//! When the last policy that limits it is removed, the device gets its earlier setting back.
//! Whoever changes something holds the lock on policies.

use std::fs;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use icdc_netlink::{Link, LinkChange, change_link, device_towards, link, links};
use icdc_tcp::{OptionError, namespace_cookie};
use icdc_units::Prefix;

use super::PolicyError;

/// Directory of the records of limited devices, a file for each device.
const NOTES: &str = "/run/icdc/bursts";

/// Record of a device of this network namespace whose bursts are limited: its name, its setting
/// before (`gso_max_segs`), and the limits that policies ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DeviceRecord {
    device: String,
    before: u32,
    limits: Vec<Limit>,
}

/// Limit of bursts that one policy (of a cgroup, for a prefix) asks for, in segments.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Limit {
    cgroup: u64,
    to: Prefix,
    segments: u32,
}

/// Limits the bursts of a policy (of a cgroup, for a prefix) at the device by which the prefix is
/// reached; returns a sentence for the user on what that changes.
pub(super) fn limit(cgroup: u64, to: Prefix, segments: u32) -> Result<String, PolicyError> {
    let device = device_to(to)?;
    // Up to here an error leaves what was there.
    release(cgroup, to)?;
    let path = Path::new(NOTES).join(format!("{}-{}", namespace()?, device.index));
    let before = device.batch_segments.unwrap_or(65_535);
    let mut record = read(&path)?.unwrap_or(DeviceRecord { device: device.name.clone(), before, limits: Vec::new() });
    record.limits.push(Limit { cgroup, to, segments });
    // Noted first: whatever ends this process, what the device had is known.
    write(&path, &record)?;
    if let Err(error) = set(&record) {
        release(cgroup, to)?;
        return Err(error);
    }
    Ok(format!(
        "{} takes packets of at most {} segments from connections that begin from now on, also from those of no policy, until \
         the policy is removed",
        device.name,
        record.least()
    ))
}

/// Removes the limit that the policy of a cgroup for a prefix asked for; its device gets the
/// smallest of the other limits, or its setting before.
pub(super) fn release(cgroup: u64, to: Prefix) -> Result<(), PolicyError> {
    release_those(|limit| limit.cgroup == cgroup && limit.to == to)
}

/// Removes the limits that all policies of a cgroup asked for.
pub(super) fn release_cgroup(cgroup: u64) -> Result<(), PolicyError> {
    release_those(|limit| limit.cgroup == cgroup)
}

/// Removes the limits that any policy asked for, in this network namespace.
pub(super) fn release_all() -> Result<(), PolicyError> {
    release_those(|_| true)
}

/// Number of segments to which the policy of a cgroup for a prefix limits bursts; `None` if it does
/// not limit them, or if the records cannot be read.
pub(super) fn of(cgroup: u64, to: Prefix) -> Option<u32> {
    let records = records().ok()?;
    let mut limits = records.iter().flat_map(|(_, record)| &record.limits);
    limits.find(|limit| limit.cgroup == cgroup && limit.to == to).map(|limit| limit.segments)
}

/// Removes the limits that `is_meant` selects from all records, and sets their devices anew.
fn release_those(is_meant: impl Fn(&Limit) -> bool) -> Result<(), PolicyError> {
    for (path, mut record) in records()? {
        let before = record.limits.len();
        record.limits.retain(|limit| !is_meant(limit));
        if record.limits.len() == before {
            continue;
        }
        set(&record)?;
        if record.limits.is_empty() {
            fs::remove_file(&path).map_err(failed(&path, "unlink"))?;
        } else {
            write(&path, &record)?;
        }
    }
    Ok(())
}

impl DeviceRecord {
    /// The smallest of the limits, in segments; the device's setting before if there is none.
    fn least(&self) -> u32 {
        self.limits.iter().map(|limit| limit.segments).min().unwrap_or(self.before)
    }

    /// Parses the text of a record; `None` if it is malformed.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let (device, before) = lines.next()?.split_once(' ')?;
        let limit = |line: &str| {
            let mut words = line.split(' ');
            let (cgroup, to, segments) = (words.next()?, words.next()?, words.next()?);
            Some(Limit { cgroup: cgroup.parse().ok()?, to: to.parse().ok()?, segments: segments.parse().ok()? })
        };
        let limits = lines.map(limit).collect::<Option<Vec<_>>>()?;
        Some(Self { device: device.to_owned(), before: before.parse().ok()?, limits })
    }

    /// The record as text for its file.
    fn text(&self) -> String {
        let limits = self.limits.iter().map(|Limit { cgroup, to, segments }| format!("{cgroup} {to} {segments}\n"));
        format!("{} {}\n{}", self.device, self.before, limits.collect::<String>())
    }
}

/// Configures the device with the smallest limit of its record, or with its setting before if there
/// is no limit any more. A device that was removed has nothing to be set.
fn set(record: &DeviceRecord) -> Result<(), PolicyError> {
    if let Some(device) = link(&record.device)? {
        change_link(&device, &LinkChange { batch_segments: Some(record.least()), ..LinkChange::default() })?;
    }
    Ok(())
}

/// Finds the device by which hosts of a prefix are reached. The first three addresses are looked
/// up, and one that is not this host's own decides; an error if there is no route to one.
fn device_to(to: Prefix) -> Result<Link, PolicyError> {
    let mut found = Err(PolicyError::NoRoute(to));
    for address in within(to) {
        let outgoing = device_towards(address)?.ok_or(PolicyError::NoRoute(to))?;
        let device = links()?.into_iter().find(|link| link.index == outgoing.device);
        found = device.ok_or(PolicyError::NoRoute(to));
        if !outgoing.is_local {
            break;
        }
    }
    found
}

/// Up to three addresses of a prefix that hosts may have: not that of the network itself, if there
/// are others.
fn within(to: Prefix) -> Vec<IpAddr> {
    match to.address() {
        IpAddr::V4(address) if to.length() < 31 => {
            (1..4).map(|host| IpAddr::V4((u32::from(address) | host).into())).collect()
        }
        IpAddr::V6(address) if to.length() < 127 => {
            (1..4).map(|host| IpAddr::V6((u128::from(address) | host).into())).collect()
        }
        address => vec![address],
    }
}

/// The kernel's number (cookie) of this thread's network namespace.
fn namespace() -> Result<u64, PolicyError> {
    let unknown = |error: OptionError| PolicyError::Call {
        path: PathBuf::from("/proc/thread-self/ns/net"),
        call: error.call,
        reason: error.cause.to_string(),
    };
    namespace_cookie().map_err(unknown)
}

/// Reads the records of devices of this network namespace, with their paths; malformed ones are
/// left out.
fn records() -> Result<Vec<(PathBuf, DeviceRecord)>, PolicyError> {
    let prefix = format!("{}-", namespace()?);
    let entries = fs::read_dir(NOTES).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    let records = ours.map(|entry| Ok(read(&entry.path())?.map(|record| (entry.path(), record))));
    records.filter_map(Result::transpose).collect()
}

/// Reads a record; `None` if there is none, or it is malformed.
fn read(path: &Path) -> Result<Option<DeviceRecord>, PolicyError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(DeviceRecord::parse(&text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, "read")(error)),
    }
}

/// Replaces the file of a record atomically.
fn write(path: &Path, record: &DeviceRecord) -> Result<(), PolicyError> {
    fs::create_dir_all(NOTES).map_err(failed(Path::new(NOTES), "mkdir"))?;
    let aside = path.with_extension("new");
    fs::write(&aside, record.text()).map_err(failed(&aside, "write"))?;
    fs::rename(&aside, path).map_err(failed(path, "rename"))
}

/// Makes the error of a system call on this path a [`PolicyError`].
fn failed(path: &Path, call: &'static str) -> impl Fn(std::io::Error) -> PolicyError {
    let path = path.to_owned();
    move |error| PolicyError::Call { path: path.clone(), call, reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_what_was_before_and_who_limits() {
        let limit = |to: &str, segments| Limit { cgroup: 17, to: to.parse().unwrap(), segments };
        let limits = vec![limit("192.0.2.0/24", 4), limit("2001:db8::/32", 2)];
        let record = DeviceRecord { device: "eth0".to_owned(), before: 65_535, limits };
        assert_eq!(DeviceRecord::parse(&record.text()), Some(record.clone()));
        assert_eq!(record.least(), 2);
        assert_eq!(DeviceRecord { limits: Vec::new(), ..record }.least(), 65_535);
        for text in ["", "eth0", "eth0 many\n", "eth0 1\n17 192.0.2.0/33 2\n"] {
            assert_eq!(DeviceRecord::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_route_is_asked_for_by_addresses_that_hosts_may_have() {
        for (prefix, addresses) in [
            ("192.0.2.0/24", &["192.0.2.1", "192.0.2.2", "192.0.2.3"][..]),
            ("192.0.2.4/32", &["192.0.2.4"]),
            ("2001:db8::/32", &["2001:db8::1", "2001:db8::2", "2001:db8::3"]),
        ] {
            let expected: Vec<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
            assert_eq!(within(prefix.parse().unwrap()), expected);
        }
    }
}
