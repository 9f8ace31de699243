//! One connection's algorithm outside the kernel: the caller plays the kernel, sets the socket's
//! fields and calls the operations.

mod connection;
mod delivery_rate;
mod replay;
mod socket;
pub(crate) mod sys;

pub use connection::{CongestionState, Connection, WindowEvent};
pub use delivery_rate::{DeliveryRate, Stamp};
pub use replay::{Difference, Replay};
pub use socket::{PACING_NEEDED, Socket};
pub use sys::{AckSample, RateSample};
