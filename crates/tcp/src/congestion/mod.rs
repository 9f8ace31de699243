//! The choice of a socket's congestion control, and icdc's own in the kernel: loading, pinning,
//! listing.
//!
//! | file | what |
//! |---|---|
//! | `choose` | a name becomes the algorithm of a socket; loaded on the way, replaced by another where it cannot be had |
//! | `socket_option` | what the kernel has and allows, and the option of the socket |
//! | `hold` | puts one of icdc's on a socket; shares what this process has loaded |
//! | `names` | icdc's algorithms, and the kernel's under their names |
//! | `holder` | holders of a loaded algorithm |
//! | `error` | errors of loading and unloading |
//! | `state` | list of algorithms with their availability here |
//! | `obstacle` | obstacles to loading of this kernel or this process |
//! | `pin` | where algorithms live that outlast the process that loaded them |
//! | `ebpf` | loading by libbpf (feature `ebpf`) |
//! | `path_hints` | hints that an algorithm gets about a socket: its path and its bundle |
//! | `without` | the same names in a build without it |
//!
//! A registration belongs to its link: it ends when the last descriptor is closed and the last pin
//! removed, also after a SIGKILL. Kernels before 6.4 have no such links; there [`Loaded`] takes the
//! registration back when it is dropped. Sockets keep the algorithm that they have until they are
//! closed, whatever becomes of its registration. Names are global over network namespaces.

mod choose;
#[cfg(feature = "ebpf")]
mod ebpf;
mod error;
mod hold;
mod holder;
mod names;
mod obstacle;
mod path_hints;
mod pin;
pub(crate) mod socket_option;
mod state;
#[cfg(not(feature = "ebpf"))]
mod without;

pub use choose::{
    Chosen, begin_anew, choose, choose_best, choose_in_advance, finds_the_rate, keep, load_ahead, may_find_the_rate,
    set_ours,
};
#[cfg(feature = "ebpf")]
pub use ebpf::{Loaded, Traced, load, load_traced, log_by_tracing, parameters, unload};
pub use error::{LoadError, UnloadError};
pub use hold::{Hold, SetResult};
pub use holder::Holder;
pub use names::{find, ours};
pub use obstacle::{Obstacle, ebpf_obstacle};
pub use path_hints::{BundleNumber, PathHints};
#[cfg(feature = "ebpf")]
pub use pin::prepare as prepare_pins;
pub use pin::{DIRECTORY as PINS, PinError, Pinned};
pub use state::{Availability, Listed, list};
#[cfg(not(feature = "ebpf"))]
pub use without::{Loaded, load, parameters, unload};
