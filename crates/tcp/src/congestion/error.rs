//! Errors of loading and unloading an algorithm.

use icdc_cc::ParameterError;
use thiserror::Error;

use super::holder::Holder;
use super::obstacle::Obstacle;

/// Reason why an algorithm was not loaded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The algorithm has no such parameter, or does not accept the value.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// This kernel, process or build cannot load the algorithm.
    #[error("{name} cannot be loaded: {obstacle}")]
    Obstacle {
        /// Name of the algorithm.
        name: &'static str,
        /// Obstacle to loading.
        obstacle: Obstacle,
    },
    /// The name is already registered in the kernel.
    #[error("{name} is loaded already, {holder}; the name {kernel_name} can be there once only")]
    Taken {
        /// Name of the algorithm.
        name: &'static str,
        /// Name of the algorithm in the kernel.
        kernel_name: String,
        /// Holder that keeps the existing registration loaded.
        holder: Holder,
    },
    /// The kernel refused to load the algorithm.
    #[error("{name} cannot be loaded: {step}: {reason}; RUST_LOG=debug shows what the kernel's verifier says")]
    Refused {
        /// Name of the algorithm.
        name: &'static str,
        /// Step that failed.
        step: &'static str,
        /// Error that the kernel returned.
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

/// Reason why an algorithm could not be unloaded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UnloadError {
    /// The algorithm is not loaded.
    #[error("{name} is not loaded; `icdc cc list` tells what is")]
    NotLoaded {
        /// Name of the algorithm.
        name: &'static str,
    },
    /// Another process keeps the algorithm loaded.
    #[error("{name} is loaded {holder}: {}", advice(.holder))]
    Held {
        /// Name of the algorithm.
        name: &'static str,
        /// Holder that keeps the algorithm loaded.
        holder: Holder,
    },
    /// The pin could not be removed, or the registration not be taken back.
    #[error("{name} cannot be unloaded: {call}: {reason}")]
    Call {
        /// Name of the algorithm.
        name: &'static str,
        /// Name of the system call that failed.
        call: String,
        /// Error that the kernel returned.
        reason: String,
        /// Whether the call failed for lack of privilege.
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

/// Advice on how to unload an algorithm that this holder keeps loaded.
fn advice(holder: &Holder) -> &'static str {
    match holder {
        Holder::Process { .. } => "it goes when that ends",
        Holder::Hidden => "run this as root",
        _ => "remove it by the tool that loaded it (`bpftool link`, `bpftool struct_ops`)",
    }
}
