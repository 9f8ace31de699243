//! The policies of one cgroup, pinned.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use icdc_units::Prefix;
use libbpf_rs::query::LinkTypeInfo;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object};

use super::access::may;
use super::failure::{failed, refused};
use super::layout::{self, POLICY};
use super::object::{self, GOVERN, NOTES, PLACE, V4, V6};
use super::places::{directory, homes, notes};
use crate::policy::{Cgroup, Listed, Policy, PolicyError};

/// All policies of one cgroup, as they are pinned in the BPF file system: maps of prefixes, and the
/// program attached to the cgroup.
pub(super) struct Group {
    home: PathBuf,
    cgroup: PathBuf,
    /// The kernel's number of the cgroup; zero once it has been removed.
    id: u64,
    v4: MapHandle,
    v6: MapHandle,
}

impl Group {
    /// Pins and attaches the group of a cgroup that has none yet, with its first policy. After an
    /// error nothing of it is left.
    pub(super) fn make(home: &Path, cgroup: &Cgroup, first: &Policy) -> Result<(), PolicyError> {
        let made = Self::try_make(home, cgroup, first);
        if made.is_err() {
            // The first error is reported; what cannot be removed now is swept later.
            let _ = dismantle(home);
        }
        made
    }

    /// Like [`make`](Self::make), but an error leaves what was pinned before it.
    fn try_make(home: &Path, cgroup: &Cgroup, first: &Policy) -> Result<(), PolicyError> {
        for place in [directory().as_path(), home] {
            if !place.exists() {
                std::fs::DirBuilder::new().mode(0o700).create(place).map_err(failed(place, "mkdir"))?;
            }
        }
        let mut object = object::govern(cgroup)?;
        for (name, path) in
            [(V4, home.join("v4")), (V6, home.join("v6")), (PLACE, home.join("place")), (NOTES, notes())]
        {
            if !path.exists() {
                let mut map = object.maps_mut().find(|map| map.name() == name).ok_or_else(|| lacks(home, "map"))?;
                map.pin(&path).map_err(refused(&path, "pin"))?;
            }
        }
        let place = home.join("place");
        let map = MapHandle::from_pinned_path(&place).map_err(refused(&place, "open"))?;
        let mut text = cgroup.path.as_os_str().as_bytes().to_vec();
        text.resize(map.value_size() as usize, 0);
        map.update(&0_u32.to_ne_bytes(), &text, MapFlags::ANY).map_err(refused(&place, "update"))?;
        write(&open_map(home, first.to)?, first, home)?;
        attach(&mut object, home, cgroup)
    }

    /// Opens the group pinned at `home`; `None` if it is not there, or was not finished.
    pub(super) fn open(home: &Path) -> Result<Option<Self>, PolicyError> {
        let pinned = home.join("link");
        if !pinned.exists() {
            return Ok(None);
        }
        let link = Link::open(&pinned).map_err(refused(&pinned, "open"))?;
        let id = match link.info().map_err(refused(&pinned, "info"))?.info {
            LinkTypeInfo::Cgroup(info) => info.cgroup_id,
            _ => 0,
        };
        let open = |name: &str| {
            let path = home.join(name);
            MapHandle::from_pinned_path(&path).map_err(refused(&path, "open"))
        };
        let (v4, v6, place) = (open("v4")?, open("v6")?, open("place")?);
        if [&v4, &v6].iter().any(|map| map.value_size() as usize != POLICY) {
            return Err(PolicyError::OtherVersion { path: home.to_owned() });
        }
        let text = place.lookup(&0_u32.to_ne_bytes(), MapFlags::empty()).map_err(refused(home, "lookup"))?;
        let text = text.unwrap_or_default();
        let path = text.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(Some(Self { home: home.to_owned(), cgroup: OsStr::from_bytes(path).into(), id, v4, v6 }))
    }

    /// Path of the cgroup when the group was made.
    pub(super) fn cgroup(&self) -> &Path {
        &self.cgroup
    }

    /// The kernel's number of the cgroup; zero once it has been removed.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Whether the cgroup has been removed, so that no connection can ever get these policies.
    pub(super) fn is_orphaned(&self) -> bool {
        self.id == 0
    }

    /// Puts a policy in force for this cgroup; true if it replaced one for the same prefix.
    pub(super) fn put(&self, policy: &Policy) -> Result<bool, PolicyError> {
        let map = self.map(policy.to);
        let there = map.lookup(&layout::key(policy.to), MapFlags::empty()).map_err(refused(&self.home, "lookup"))?;
        // A shorter prefix may answer for one that is not there.
        let replaced = there.and_then(|bytes| layout::policy(&bytes)).is_some_and(|(there, _)| there.to == policy.to);
        write(map, policy, &self.home)?;
        Ok(replaced)
    }

    /// Takes the policy for the prefix `to` out of force; false if there is none.
    pub(super) fn take(&self, to: Prefix) -> Result<bool, PolicyError> {
        match self.map(to).delete(&layout::key(to)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(refused(&self.home, "delete")(error)),
        }
    }

    /// Lists the policies of this cgroup.
    pub(super) fn policies(&self) -> Result<Vec<Listed>, PolicyError> {
        let is_gone = !Cgroup { path: self.cgroup.clone(), id: self.id }.is_there();
        let mut found = Vec::new();
        for (map, key) in [&self.v4, &self.v6].into_iter().flat_map(|map| map.keys().map(move |key| (map, key))) {
            // One that another command removes meanwhile is not there any more.
            let value = map.lookup(&key, MapFlags::empty()).map_err(refused(&self.home, "lookup"))?;
            if let Some((policy, connections)) = value.and_then(|value| layout::policy(&value)) {
                found.push(Listed { policy, cgroup: self.cgroup.clone(), cgroup_is_gone: is_gone, connections });
            }
        }
        Ok(found)
    }

    /// Removes everything of the group from the kernel.
    pub(super) fn dismantle(self) -> Result<(), PolicyError> {
        dismantle(&self.home)
    }

    /// The map that holds prefixes of the same address family.
    fn map(&self, to: Prefix) -> &MapHandle {
        if to.address().is_ipv4() { &self.v4 } else { &self.v6 }
    }
}

/// Opens the groups of all cgroups that have policies; empty if nothing is pinned.
pub(super) fn groups() -> Result<Vec<Group>, PolicyError> {
    may()?;
    homes().iter().filter_map(|home| Group::open(home).transpose()).collect()
}

/// Removes everything that is pinned at `home`, whatever is there: the program first, so that none
/// runs without its policies.
pub(super) fn dismantle(home: &Path) -> Result<(), PolicyError> {
    let link = home.join("link");
    if let Ok(link) = Link::open(&link) {
        // Ends it now, not when the kernel gets to it. That of a cgroup that is gone has ended.
        let _ = link.detach();
    }
    for entry in std::fs::read_dir(home).into_iter().flatten().flatten() {
        std::fs::remove_file(entry.path()).map_err(failed(&entry.path(), "unlink"))?;
    }
    match std::fs::remove_dir(home) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(home, "rmdir")(error)),
        _ => Ok(()),
    }
}

/// Attaches the program to the cgroup, and pins that attachment.
fn attach(object: &mut Object, home: &Path, cgroup: &Cgroup) -> Result<(), PolicyError> {
    let directory = File::open(&cgroup.path).map_err(failed(&cgroup.path, "open"))?;
    let program = object.progs_mut().find(|program| program.name() == GOVERN).ok_or_else(|| lacks(home, "program"))?;
    let mut link = program.attach_cgroup(directory.as_raw_fd()).map_err(refused(&cgroup.path, "attach"))?;
    let path = home.join("link");
    link.pin(&path).map_err(refused(&path, "pin"))
}

/// Opens the pinned map that holds prefixes of this address family.
fn open_map(home: &Path, to: Prefix) -> Result<MapHandle, PolicyError> {
    let path = home.join(if to.address().is_ipv4() { "v4" } else { "v6" });
    MapHandle::from_pinned_path(&path).map_err(refused(&path, "open"))
}

/// Writes a policy into a map of prefixes.
fn write(map: &MapHandle, policy: &Policy, home: &Path) -> Result<(), PolicyError> {
    let value = layout::policy_bytes(policy);
    map.update(&layout::key(policy.to), &value, MapFlags::ANY).map_err(refused(home, "update"))
}

/// Error for a part that the eBPF object should have, and has not.
fn lacks(home: &Path, call: &'static str) -> PolicyError {
    PolicyError::Call { path: home.to_owned(), call, reason: "the object lacks it".to_owned() }
}
