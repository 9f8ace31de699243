//! Congestion control algorithms, one C file each in `c/`, built twice: as eBPF for the kernel, natively for the
//! simulator.
//!
//! | part | file |
//! |---|---|
//! | the algorithms: model on top, then the code | `c/*.c` |
//! | the kernel's fields that they use | `c/kernel.h` |
//! | names, parameters, eBPF objects | [`Algorithm`] |
//! | one simulated connection's algorithm | [`native::Connection`] |
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
mod trace;

pub use algorithm::{Algorithm, Parameter, ParameterError, all, find};
pub use trace::{TraceRecord, TraceState};
