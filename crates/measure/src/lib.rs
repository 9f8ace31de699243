//! Measurements from memory to memory: zeros in clear over plain TCP, counted where they arrive.
//!
//! ```text
//!  near end ═══ control link (TLS, both keys known): order, messages, results ═══ far end
//!     │                                                                           │
//!     └── data: plain TCP, one or more connections, each begun by a secret token ─┘
//!           sender: writes, TCP_INFO each 10 ms        receiver: discards, bytes per millisecond
//! ```
//!
//! | file | what |
//! |---|---|
//! | `near` | the end that requests |
//! | `far` | the end that serves |
//! | `expected` | data connections to the port of the control link |
//! | `admission` | admission of this measurement's connections |
//! | `sending`, `receiving` | the two ends of the data, whichever end they are at |
//! | `arrivals` | bytes per millisecond, from packets at the device or from reads of the socket |
//! | `control_link` | messages between the two ends, with time limits |
//! | `sockets` | buffers of the data connections |
//!
//! The receiver decides when it is over: a given time after its first byte, or when everything has
//! arrived. The data is zeros, so it needs no encryption. It goes to the port of the control link,
//! by the same route; where buffers or congestion control must be chosen before the handshake, the
//! far end opens another port, which is used if it can be reached.
//!
//! The link comes connected from `icdc-client` or `icdc-daemon` above, which also decides who may
//! measure; the data connections are made here.

#![forbid(unsafe_code)]

mod admission;
mod arrivals;
mod control_link;
mod expected;
mod far;
mod measurement;
mod near;
mod receiving;
mod sending;
mod sockets;

pub use expected::{Arrived, Expected, Expecting};
pub use far::{Completion, answer};
pub use measurement::{MeasureEvent, MeasureOptions, MeasureSink, Measurement};
pub use near::{Dial, FarSide, NoMeasurement, measure};
