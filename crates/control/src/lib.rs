//! Rates and bursts, without sockets or clocks: what is observed goes in with its time, what it means
//! comes out.
//!
//! | part | file |
//! |---|---|
//! | how bursty traffic is, in the papers' measure | [`Burstiness`] |

#![forbid(unsafe_code)]

mod burstiness;

pub use burstiness::{Burstiness, Window};
