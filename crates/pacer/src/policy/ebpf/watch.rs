//! Sockets under a policy, over all network namespaces: those whose storage has a record.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::PathBuf;

use libbpf_rs::{Iter, Link, MapCore, Object};

use super::access::may;
use super::failure::{failed, refused};
use super::group::groups;
use super::layout::{self, RECORD};
use super::object::{self, NOTES, REPORT};
use super::places::notes;
use crate::policy::{Governed, PolicyError};

/// Lister of the sockets under a policy in all network namespaces, by a program that is loaded into
/// the kernel.
#[derive(Debug)]
pub struct Watch {
    /// The loaded iterator; `None` if no map of records was pinned when this was opened, because no
    /// policy was in force.
    report: Option<Report>,
}

/// The loaded program that lists sockets, attached to the map of their records.
#[derive(Debug)]
struct Report {
    // Dropped before the object.
    link: Link,
    _object: Object,
}

impl Watch {
    /// Loads the program that lists sockets, unless no policy is in force.
    ///
    /// # Errors
    /// See [`PolicyError`].
    pub fn open() -> Result<Self, PolicyError> {
        may()?;
        if !notes().exists() {
            return Ok(Self { report: None });
        }
        let object = object::report()?;
        let lacks = || PolicyError::Call { path: notes(), call: "open", reason: "the object lacks it".to_owned() };
        let link = {
            let map = object.maps().find(|map| map.name() == NOTES).ok_or_else(lacks)?;
            let program = object.progs_mut().find(|program| program.name() == REPORT).ok_or_else(lacks)?;
            program.attach_iter(map.as_fd()).map_err(refused(&notes(), "attach"))?
        };
        Ok(Self { report: Some(Report { link, _object: object }) })
    }

    /// The sockets under a policy now, in all network namespaces, sorted by remote and local
    /// address; none if no policy was in force when this was opened.
    ///
    /// # Errors
    /// See [`PolicyError`].
    pub fn sockets(&self) -> Result<Vec<Governed>, PolicyError> {
        let Some(report) = &self.report else { return Ok(Vec::new()) };
        let mut records = Vec::new();
        let mut iteration = Iter::new(&report.link).map_err(refused(&notes(), "iterate"))?;
        iteration.read_to_end(&mut records).map_err(failed(&notes(), "read"))?;
        let cgroups: BTreeMap<u64, PathBuf> =
            groups()?.iter().map(|group| (group.id(), group.cgroup().to_owned())).collect();
        let mut found: Vec<Governed> = records
            .chunks_exact(RECORD)
            .filter_map(layout::record)
            .map(|(governed, cgroup)| Governed { cgroup: cgroups.get(&cgroup).cloned(), ..governed })
            .collect();
        found.sort_by_key(|one| (one.remote, one.local, one.cookie));
        Ok(found)
    }
}
