//! icdc's own congestion control in the kernel: loading, pinning, listing, and the choice for one socket.
//!
//! | file | what |
//! |---|---|
//! | `choose` | a name becomes the algorithm of a socket; loaded on the way, replaced by another where it cannot be had |
//! | `state` | what may be chosen here, and why not |
//! | `obstacle` | what keeps this kernel or this process from loading |
//! | `pin` | where algorithms live that outlast the process that loaded them |
//! | `privileged` | loading for threads that have given up their privileges |
//! | `ebpf` | loading by libbpf (feature `ebpf`) |
//! | `without` | the same names in a build without it |
//!
//! A registration belongs to its link: it ends when the last descriptor is closed and the last pin removed, also after a
//! SIGKILL. Kernels before 6.4 have no such links; there [`Loaded`] takes the registration back when it is dropped. Sockets
//! keep the algorithm that they have until they are closed, whatever becomes of its registration. Names are global over
//! network namespaces.

mod choose;
#[cfg(feature = "ebpf")]
mod ebpf;
mod obstacle;
mod pin;
mod privileged;
mod state;
#[cfg(not(feature = "ebpf"))]
mod without;

use std::path::PathBuf;

use icdc_cc::{Algorithm, ParameterError};
use thiserror::Error;

pub use choose::{Chosen, Hold, begin_anew, choose, choose_best, choose_in_advance, finds_the_rate};
#[cfg(feature = "ebpf")]
pub use ebpf::{Loaded, Traced, load, load_traced, log_by_tracing, parameters, unload};
pub use obstacle::{Obstacle, ebpf_obstacle};
#[cfg(feature = "ebpf")]
pub use pin::prepare as prepare_pins;
pub use pin::{DIRECTORY as PINS, PinError, Pinned};
pub use privileged::keep_privileges;
pub use state::{Listed, State, list};
#[cfg(not(feature = "ebpf"))]
pub use without::{Loaded, load, parameters, unload};

#[cfg(feature = "ebpf")]
use ebpf::{holder, tell};
#[cfg(not(feature = "ebpf"))]
use without::{holder, tell};

/// Why an algorithm was not loaded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A parameter that it does not have, or a value that it cannot do with.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// This kernel, this process or this build cannot.
    #[error("{name} cannot be loaded: {obstacle}")]
    Obstacle {
        /// The algorithm.
        name: &'static str,
        /// What is in the way.
        obstacle: Obstacle,
    },
    /// The name is registered already.
    #[error("{name} is loaded already, {holder}; the name {kernel_name} can be there once only")]
    Taken {
        /// The algorithm.
        name: &'static str,
        /// Its name in the kernel.
        kernel_name: String,
        /// By whom.
        holder: Holder,
    },
    /// The kernel refused it.
    #[error("{name} cannot be loaded: {step}: {reason}; RUST_LOG=debug shows what the kernel's verifier says")]
    Refused {
        /// The algorithm.
        name: &'static str,
        /// What was being done.
        step: &'static str,
        /// What the kernel said.
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

/// Who keeps an algorithm loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// It outlasts processes by a pin that `icdc cc load --pin` made.
    Pinned(PathBuf),
    /// It goes when this process ends.
    Process {
        /// Process id.
        id: u32,
        /// Its command line.
        command: String,
    },
    /// It is there until somebody takes it back; kernels before 6.4 know nothing else.
    Nobody,
    /// Neither a pin of ours nor a process that can be seen: a pin in another place, or something else of that name.
    Elsewhere,
    /// Only root may ask.
    Hidden,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pinned(path) => write!(out, "pinned at {}", path.display()),
            Self::Process { id, command } => write!(out, "by process {id} ({command})"),
            Self::Nobody => out.write_str("until it is unloaded"),
            Self::Elsewhere => out.write_str("by something other than icdc, or by a pin in another place"),
            Self::Hidden => out.write_str("by whom only root may ask"),
        }
    }
}

/// Why an algorithm is still loaded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UnloadError {
    /// It is not.
    #[error("{name} is not loaded; `icdc cc list` tells what is")]
    NotLoaded {
        /// The algorithm.
        name: &'static str,
    },
    /// Somebody else holds it.
    #[error("{name} is loaded {holder}: {}", advice(.holder))]
    Held {
        /// The algorithm.
        name: &'static str,
        /// By whom.
        holder: Holder,
    },
    /// The pin could not be removed, or the registration not be taken back.
    #[error("{name} cannot be unloaded: {call}: {reason}")]
    Call {
        /// The algorithm.
        name: &'static str,
        /// What was being done.
        call: String,
        /// What the kernel said.
        reason: String,
        /// It failed for want of privilege.
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

/// The algorithms that can be loaded.
pub fn ours() -> impl Iterator<Item = &'static Algorithm> {
    // The others are the kernel's own, which the simulator has under the same name.
    icdc_cc::all().iter().filter(|algorithm| algorithm.kernel_name() != algorithm.name)
}

/// The algorithm of ours that has this name, also with the kernel's prefix `icdc_`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Algorithm> {
    ours().find(|algorithm| algorithm.name == name || algorithm.kernel_name() == name)
}

/// Whether the kernel has the name now.
fn registered(algorithm: &Algorithm) -> bool {
    is_available(&algorithm.kernel_name())
}

fn is_available(kernel_name: &str) -> bool {
    crate::available_congestion().iter().any(|name| name == kernel_name)
}
