//! Adding, listing and removing policies.

use std::path::Path;

use icdc_tcp::congestion::{PINS, ebpf_obstacle, prepare_pins};
use icdc_units::Prefix;

use super::access::{lock, may};
use super::group::{self, Group, groups};
use super::places::{directory, home, homes, notes};
use crate::policy::{Added, Cgroup, Listed, Policy, PolicyError, congestion, segment_limit};

/// Puts a policy in force for a cgroup (without one, for the whole host), in place of one for the
/// same prefix.
///
/// # Errors
/// See [`PolicyError`]; nothing has changed then, but an algorithm may have been loaded.
pub fn add(policy: &Policy, cgroup: Option<&Path>) -> Result<Added, PolicyError> {
    policy.check()?;
    let cgroup = Cgroup::at(cgroup)?;
    if let Some(obstacle) = ebpf_obstacle() {
        return Err(PolicyError::Obstacle(obstacle));
    }
    let (mut policy, mut notes) = (policy.clone(), Vec::new());
    if let Some(name) = &policy.congestion {
        let (kernel_name, note) = congestion::provide(name)?;
        policy.congestion = Some(kernel_name);
        notes.extend(note);
    }
    if prepare_pins()? {
        notes.push("the BPF file system was not mounted; it is now, at /sys/fs/bpf".to_owned());
    }
    let _lock = lock()?;
    sweep();
    match policy.burst {
        Some(segments) => notes.push(segment_limit::limit(cgroup.id, policy.to, segments)?),
        None => segment_limit::release(cgroup.id, policy.to)?,
    }
    let replaced = put(&policy, &cgroup).inspect_err(|_| {
        // The first error is reported.
        let _ = segment_limit::release(cgroup.id, policy.to);
    })?;
    Ok(Added { cgroup: cgroup.path, policy, replaced, notes })
}

/// Pins the policy in the group of its cgroup, which is made if it is the first; true if it
/// replaced one for the same prefix.
fn put(policy: &Policy, cgroup: &Cgroup) -> Result<bool, PolicyError> {
    match Group::open(&home(cgroup.id))? {
        Some(group) => group.put(policy),
        None => Group::make(&home(cgroup.id), cgroup, policy).map(|()| false),
    }
}

/// Lists the policies in force, sorted by cgroup and prefix.
///
/// # Errors
/// See [`PolicyError`].
pub fn list() -> Result<Vec<Listed>, PolicyError> {
    let mut listed = Vec::new();
    for group in groups()? {
        let with_burst = |mut one: Listed| {
            one.policy.burst = segment_limit::of(group.id(), one.policy.to);
            one
        };
        listed.extend(group.policies()?.into_iter().map(with_burst));
    }
    listed.sort_by(|a, b| (&a.cgroup, a.policy.to).cmp(&(&b.cgroup, b.policy.to)));
    Ok(listed)
}

/// Takes the policy of a cgroup (without one, of the whole host) for the prefix `to` out of force.
/// Connections that have it keep it.
///
/// # Errors
/// See [`PolicyError`].
pub fn remove(to: Prefix, cgroup: Option<&Path>) -> Result<(), PolicyError> {
    let cgroup = Cgroup::at(cgroup)?;
    may()?;
    let not_there = || PolicyError::NotThere { to, cgroup: cgroup.path.clone() };
    if !Path::new(PINS).exists() {
        return Err(not_there());
    }
    let _lock = lock()?;
    let group = Group::open(&home(cgroup.id))?.ok_or_else(not_there)?;
    if !group.take(to)? {
        return Err(not_there());
    }
    segment_limit::release(cgroup.id, to)?;
    if group.policies()?.is_empty() {
        group.dismantle()?;
    }
    sweep();
    Ok(())
}

/// Takes all policies of all cgroups out of force, also those that another version has left.
/// Returns the number of cgroups that had any.
///
/// # Errors
/// See [`PolicyError`].
pub fn remove_all() -> Result<usize, PolicyError> {
    may()?;
    if !Path::new(PINS).exists() {
        return Ok(0);
    }
    let _lock = lock()?;
    let homes = homes();
    for home in &homes {
        group::dismantle(home)?;
    }
    segment_limit::release_all()?;
    sweep();
    Ok(homes.len())
}

/// Removes pins that a killed command left unfinished, those of removed cgroups, and what is not
/// needed any more then. What cannot be removed is left to the next command.
fn sweep() {
    for home in homes() {
        let is_wanted = Group::open(&home).map(|group| group.is_some_and(|group| !group.is_orphaned()));
        if let Ok(false) = is_wanted {
            let _ = group::dismantle(&home);
            let number = home.file_name().and_then(|name| name.to_str()?.parse().ok());
            let _ = number.map(segment_limit::release_cgroup);
        }
    }
    if homes().is_empty() {
        let _ = std::fs::remove_file(notes());
        let _ = std::fs::remove_dir(directory());
    }
}
