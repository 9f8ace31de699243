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
//! | `near` | the end that asks |
//! | `far` | the end that answers |
//! | `expected` | data connections that come by the port of the control link |
//! | `admission` | which connections are those of this measurement |
//! | `sending`, `receiving` | the two ends of the data, whichever end they are at |
//! | `arrivals` | bytes per millisecond, from packets at the device or from reads of the socket |
//! | `control_link` | what is said, what is heard, until when |
//! | `sockets` | buffers of the data connections |
//!
//! The receiver decides when it is over: so long after its first byte, or when everything has
//! arrived. That the data is not encrypted proves nothing to anybody and costs nothing: it is
//! zeros. They go to the port of the control link, which takes every route to it; where buffers or
//! congestion control are to be chosen before the handshake, the far end opens another, and that
//! one is used if it can be reached.
//!
//! The link comes connected from `icdc-client` or `icdc-daemon` above, which also decides who may measure; the data
//! connections are made here.

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
pub use far::{Finish, answer};
pub use measurement::{MeasureEvent, MeasureOptions, MeasureSink, Measurement};
pub use near::{Dial, FarSide, NoMeasurement, measure};
