//! Stand-ins of a build without eBPF: no policy can be made.

use std::convert::Infallible;
use std::path::Path;

use icdc_tcp::congestion::{Obstacle, ebpf_obstacle};
use icdc_units::Prefix;

use super::{Added, Cgroup, Governed, Listed, Policy, PolicyError};

/// Error of every operation in a build without eBPF: the obstacle to it.
fn not_built() -> PolicyError {
    PolicyError::Obstacle(ebpf_obstacle().unwrap_or(Obstacle::NotBuilt("without the feature ebpf")))
}

/// Reports that this build has no eBPF.
///
/// # Errors
/// Always.
pub fn add(policy: &Policy, cgroup: Option<&Path>) -> Result<Added, PolicyError> {
    policy.check()?;
    Cgroup::at(cgroup)?;
    Err(not_built())
}

/// Reports that this build has no eBPF.
///
/// # Errors
/// Always.
pub fn list() -> Result<Vec<Listed>, PolicyError> {
    Err(not_built())
}

/// Reports that this build has no eBPF.
///
/// # Errors
/// Always.
pub fn remove(_to: Prefix, _cgroup: Option<&Path>) -> Result<(), PolicyError> {
    Err(not_built())
}

/// Reports that this build has no eBPF.
///
/// # Errors
/// Always.
pub fn remove_all() -> Result<usize, PolicyError> {
    Err(not_built())
}

/// Lister of the sockets under a policy, of which a build without eBPF makes none.
#[derive(Debug)]
pub struct Watch(Infallible);

impl Watch {
    /// Reports that this build has no eBPF.
    ///
    /// # Errors
    /// Always.
    pub fn open() -> Result<Self, PolicyError> {
        Err(not_built())
    }

    /// The sockets under a policy.
    ///
    /// # Errors
    /// None, as there is nothing to watch.
    pub fn sockets(&self) -> Result<Vec<Governed>, PolicyError> {
        match self.0 {}
    }
}
