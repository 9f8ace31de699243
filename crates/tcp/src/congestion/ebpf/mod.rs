//! Loading by libbpf.
//!
//! | file | what |
//! |---|---|
//! | `load` | from an object to a registered algorithm, and to a pin |
//! | `unload` | taking a registration back |
//! | `registered` | the kernel's registrations of a name, and their holders |
//! | `trace` | the tracing build and its records |
//! | `hint` | hints on a socket's path and its bundle, stored before the socket takes the algorithm |
//! | `libelf` | functions that the static libelf of some distributions lacks |
//! | `rodata` | parameters: read-only variables, found by name in the type information |

mod hint;
mod libelf;
mod load;
mod registered;
mod rodata;
mod trace;
mod unload;

pub(super) use hint::tell;
pub use load::{Loaded, load};
pub(super) use registered::holder;
pub use registered::parameters;
pub use trace::{Traced, load_traced};
pub use unload::unload;

use std::ffi::OsStr;

use libbpf_rs::{PrintLevel, set_print};

/// Whether the map with this name holds the read-only variables; libbpf puts the object's name
/// before `.rodata`.
fn is_rodata(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.ends_with(".rodata"))
}

/// Passes libbpf's messages, the verifier's log included, to this program's log at level debug.
pub fn log_by_tracing() {
    set_print(Some((PrintLevel::Debug, |_, text| tracing::debug!(target: "icdc_tcp::ebpf", "{}", text.trim_end()))));
}

/// Text of a libbpf error with its causes in one line.
fn text(error: &libbpf_rs::Error) -> String {
    format!("{error:#}")
}
