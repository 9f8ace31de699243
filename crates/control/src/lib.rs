//! Rates and bursts, without sockets or clocks: what is observed goes in with its time, what it means
//! comes out.
//!
//! | part | file |
//! |---|---|
//! | how bursty traffic is, in the papers' measure | [`Burstiness`] |
//! | what a slow disk leaves of the rate | [`ring`] |
//! | what is remembered of a path | [`known_paths`] |
//! | the rate where the kernel's own algorithms must do | [`steering`] |

#![forbid(unsafe_code)]

mod burstiness;
pub mod known_paths;
pub mod ring;
pub mod steering;

pub use burstiness::{Burstiness, Window};
