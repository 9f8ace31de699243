//! Errors of loading and unloading an algorithm.

use icdc_cc::ParameterError;
use thiserror::Error;

use super::holder::Holder;
use super::obstacle::Obstacle;

/// Reason why an algorithm was not loaded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A parameter that it does not have, or a value that it cannot do with.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// This kernel, process or build cannot load it.
    #[error("{name} cannot be loaded: {obstacle}")]
    Obstacle {
        /// The algorithm.
        name: &'static str,
        /// Obstacle to loading.
        obstacle: Obstacle,
    },
    /// The name is registered already.
    #[error("{name} is loaded already, {holder}; the name {kernel_name} can be there once only")]
    Taken {
        /// The algorithm.
        name: &'static str,
        /// Its name in the kernel.
        kernel_name: String,
        /// Its holder.
        holder: Holder,
    },
    /// The kernel refused it.
    #[error("{name} cannot be loaded: {step}: {reason}; RUST_LOG=debug shows what the kernel's verifier says")]
    Refused {
        /// The algorithm.
        name: &'static str,
        /// Step that failed.
        step: &'static str,
        /// The kernel's error.
        reason: String,
    },
}

impl LoadError {
    /// Whether another user, such as root, could load it.
    #[must_use]
    pub fn lacks_privilege(&self) -> bool {
        matches!(self, Self::Obstacle { obstacle: Obstacle::Capability(_) | Obstacle::UserNamespace, .. })
    }
}

/// Reason why an algorithm is still loaded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UnloadError {
    /// It is not loaded.
    #[error("{name} is not loaded; `icdc cc list` tells what is")]
    NotLoaded {
        /// The algorithm.
        name: &'static str,
    },
    /// Another process holds it.
    #[error("{name} is loaded {holder}: {}", advice(.holder))]
    Held {
        /// The algorithm.
        name: &'static str,
        /// Its holder.
        holder: Holder,
    },
    /// The pin could not be removed, or the registration not be taken back.
    #[error("{name} cannot be unloaded: {call}: {reason}")]
    Call {
        /// The algorithm.
        name: &'static str,
        /// System call that failed.
        call: String,
        /// The kernel's error.
        reason: String,
        /// The call failed for lack of privilege.
        denied: bool,
    },
}

impl UnloadError {
    /// Whether another user, such as root, could unload it.
    #[must_use]
    pub fn lacks_privilege(&self) -> bool {
        matches!(self, Self::Held { holder: Holder::Hidden, .. } | Self::Call { denied: true, .. })
    }
}

fn advice(holder: &Holder) -> &'static str {
    match holder {
        Holder::Process { .. } => "it goes when that ends",
        Holder::Hidden => "run this as root",
        _ => "remove it by the tool that loaded it (`bpftool link`, `bpftool struct_ops`)",
    }
}
