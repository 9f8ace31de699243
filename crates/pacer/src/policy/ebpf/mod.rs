//! Policies in the kernel, by libbpf.
//!
//! | file | what |
//! |---|---|
//! | `group` | the policies of one cgroup: made, opened, changed, removed |
//! | `object` | the object, as the kernel gets it |
//! | `watch` | sockets under a policy |
//! | `layout` | the structures of `c/policy.c` as bytes |
//!
//! Who changes something holds a lock on the directory of pins, so that two commands at once do one after the other.

mod group;
mod layout;
mod object;
mod watch;

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use icdc_control::Prefix;
use icdc_tcp::algorithm::{self, PINS};
use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;

use super::{Added, Cgroup, Listed, Policy, PolicyError, burst, congestion};
use group::Group;

pub use watch::Watch;

/// Puts a policy in force, in place of one for the same prefix.
///
/// # Errors
/// See [`PolicyError`]; nothing has changed then, but an algorithm may have been loaded.
pub fn add(policy: &Policy, cgroup: Option<&Path>) -> Result<Added, PolicyError> {
    policy.check()?;
    let cgroup = Cgroup::at(cgroup)?;
    if let Some(obstacle) = algorithm::ebpf_obstacle() {
        return Err(PolicyError::Obstacle(obstacle));
    }
    let (mut policy, mut notes) = (policy.clone(), Vec::new());
    if let Some(name) = &policy.congestion {
        let (kernel_name, note) = congestion::provide(name)?;
        policy.congestion = Some(kernel_name);
        notes.extend(note);
    }
    if algorithm::prepare_pins()? {
        notes.push("the BPF file system was not mounted; it is now, at /sys/fs/bpf".to_owned());
    }
    let _lock = lock()?;
    sweep();
    match policy.burst {
        Some(segments) => notes.push(burst::limit(cgroup.id, policy.to, segments)?),
        None => burst::release(cgroup.id, policy.to)?,
    }
    let replaced = put(&policy, &cgroup).inspect_err(|_| {
        // That error is told.
        let _ = burst::release(cgroup.id, policy.to);
    })?;
    Ok(Added { cgroup: cgroup.path, policy, replaced, notes })
}

fn put(policy: &Policy, cgroup: &Cgroup) -> Result<bool, PolicyError> {
    match Group::open(&home(cgroup.id))? {
        Some(group) => group.put(policy),
        None => Group::make(&home(cgroup.id), cgroup, policy).map(|()| false),
    }
}

/// The policies in force, by cgroup and prefix.
///
/// # Errors
/// See [`PolicyError`].
pub fn list() -> Result<Vec<Listed>, PolicyError> {
    let mut listed = Vec::new();
    for group in groups()? {
        let with_burst = |mut one: Listed| {
            one.policy.burst = burst::of(group.id(), one.policy.to);
            one
        };
        listed.extend(group.policies()?.into_iter().map(with_burst));
    }
    listed.sort_by(|a, b| (&a.cgroup, a.policy.to).cmp(&(&b.cgroup, b.policy.to)));
    Ok(listed)
}

/// Takes the policy for `to` out of force.
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
    burst::release(cgroup.id, to)?;
    if group.policies()?.is_empty() {
        group.dismantle()?;
    }
    sweep();
    Ok(())
}

/// Takes all policies of all cgroups out of force, also what another version has left. Gives the number of cgroups that had any.
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
    burst::release_all()?;
    sweep();
    Ok(homes.len())
}

/// All that can be opened; none if nothing is pinned.
fn groups() -> Result<Vec<Group>, PolicyError> {
    may()?;
    homes().iter().filter_map(|home| Group::open(home).transpose()).collect()
}

fn may() -> Result<(), PolicyError> {
    algorithm::ebpf_obstacle().map_or(Ok(()), |obstacle| Err(PolicyError::Obstacle(obstacle)))
}

fn directory() -> PathBuf {
    Path::new(PINS).join("policy")
}

/// Where the policies of a cgroup are.
fn home(id: u64) -> PathBuf {
    directory().join(id.to_string())
}

/// Where notes in sockets are kept.
fn notes() -> PathBuf {
    directory().join("governed")
}

fn homes() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory()).into_iter().flatten().flatten();
    // A symbolic link leads elsewhere: nothing there is ours to remove.
    let homes = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    homes.map(|entry| entry.path()).collect()
}

/// Removes what a killed command left unfinished, what belongs to cgroups that are gone, and what nobody needs then.
/// What resists is left to the next command.
fn sweep() {
    for home in homes() {
        let is_wanted = Group::open(&home).map(|group| group.is_some_and(|group| !group.is_orphaned()));
        if let Ok(false) = is_wanted {
            let _ = group::dismantle(&home);
            let number = home.file_name().and_then(|name| name.to_str()?.parse().ok());
            let _ = number.map(burst::release_cgroup);
        }
    }
    if homes().is_empty() {
        let _ = std::fs::remove_file(notes());
        let _ = std::fs::remove_dir(directory());
    }
}

/// The right to change policies, until dropped.
fn lock() -> Result<File, PolicyError> {
    let failed =
        |call, reason: std::io::Error| PolicyError::Call { path: PINS.into(), call, reason: reason.to_string() };
    let pins = File::open(PINS).map_err(|error| failed("open", error))?;
    // Everybody may make directories in some BPF file systems: what is in another user's is not to be believed or removed.
    let owner = pins.metadata().map_err(|error| failed("fstat", error))?.uid();
    if owner != geteuid().as_raw() {
        let reason = format!("it belongs to user {owner}, not to this one: run as that user, or remove it");
        return Err(failed("open", std::io::Error::other(reason)));
    }
    flock(&pins, FlockOperation::LockExclusive).map_err(|errno| failed("flock", errno.into()))?;
    Ok(pins)
}

/// An error of libbpf with its causes in one line.
fn refused(path: &Path, call: &'static str) -> impl Fn(libbpf_rs::Error) -> PolicyError {
    let path = path.to_owned();
    move |error| PolicyError::Call { path: path.clone(), call, reason: format!("{error:#}") }
}

fn failed(path: &Path, call: &'static str) -> impl Fn(std::io::Error) -> PolicyError {
    let path = path.to_owned();
    move |error| PolicyError::Call { path: path.clone(), call, reason: error.to_string() }
}
