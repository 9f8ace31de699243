//! Congestion control algorithms, one C file each in `c/`, built twice: as eBPF for the kernel,
//! natively for the simulator.
//!
//! | part | file |
//! |---|---|
//! | the algorithms: model on top, then the code | `c/*.c` |
//! | the kernel's fields that they use | `c/kernel.h` |
//! | names, parameters, eBPF objects | [`Algorithm`] |
//! | one simulated connection's algorithm | [`native::Connection`] |
//! | what an algorithm did in the kernel, and whether the native build does the same | [`TraceRecord`], [`native::Replay`] |
//!
//! The C sources are under MIT or GPL 2.0: the kernel offers its functions only to programs under a
//! license that is compatible with the GPL. Building the eBPF objects takes clang 12 or newer
//! (`CLANG` names another); without it, or with `ICDC_WITHOUT_EBPF=1`, [`Algorithm::object`]
//! returns the reason.
//!
//! ```
//! use icdc_cc::{find, native::Connection};
//!
//! let mut connection = Connection::new(find("reno").ok_or("no such algorithm")?, &[])?;
//! connection.socket.snd_cwnd = 10;
//! connection.socket.snd_ssthresh = 10;
//! connection.socket.is_cwnd_limited = 1;
//! connection.cong_avoid(0, 10);
//! assert_eq!(connection.socket.snd_cwnd, 11);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod algorithm;
pub mod native;
mod packed;
mod trace;

pub use algorithm::{Algorithm, Parameter, ParameterError, all, find};
pub use packed::EbpfObject;
pub use trace::{TraceRecord, TraceState};
