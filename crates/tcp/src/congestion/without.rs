//! Stand-ins of a build without eBPF: no algorithm can be loaded.

use std::convert::Infallible;
use std::os::fd::AsFd;

use icdc_cc::Algorithm;

use super::error::{LoadError, UnloadError};
use super::holder::Holder;
use super::names::registered;
use super::obstacle::{Obstacle, obstacle};
use super::path_hints::PathHints;
use super::pin::{self, PinError, Pinned};

/// An algorithm that this process has loaded; never made in a build without eBPF.
#[derive(Debug)]
pub struct Loaded(Infallible);

impl Loaded {
    /// Pins the algorithm, so that it outlasts this process.
    ///
    /// # Errors
    /// None, as there is nothing to pin.
    pub fn pin(self) -> Result<Pinned, PinError> {
        match self.0 {}
    }
}

/// Always fails, because this build has no eBPF.
///
/// # Errors
/// Always.
pub fn load(algorithm: &'static Algorithm, settings: &[(&str, i64)]) -> Result<Loaded, LoadError> {
    algorithm.values(settings)?;
    let obstacle = obstacle(algorithm).unwrap_or(Obstacle::NotBuilt("without the feature ebpf"));
    Err(LoadError::Obstacle { name: algorithm.name, obstacle })
}

/// Always fails, because this build has no eBPF.
///
/// # Errors
/// Always.
pub fn unload(algorithm: &'static Algorithm) -> Result<(), UnloadError> {
    match registered(algorithm) {
        false => Err(UnloadError::NotLoaded { name: algorithm.name }),
        true => Err(UnloadError::Held { name: algorithm.name, holder: holder(algorithm) }),
    }
}

/// Parameters of the loaded algorithm, which this build cannot read: always `None`.
#[must_use]
pub fn parameters(_algorithm: &Algorithm) -> Option<Vec<(String, i64)>> {
    None
}

/// Holder that keeps the registered `algorithm` loaded, as far as this build can tell: icdc's pin
/// or something else.
pub(super) fn holder(algorithm: &Algorithm) -> Holder {
    let path = pin::path(algorithm.name);
    if path.exists() { Holder::Pinned(path) } else { Holder::Elsewhere }
}

/// Stores no hint and returns false, as this build has no eBPF.
pub(super) fn tell(_fd: &impl AsFd, _algorithm: &Algorithm, _loaded: Option<&Loaded>, _what: &PathHints) -> bool {
    false
}
