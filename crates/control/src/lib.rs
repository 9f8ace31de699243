//! Rates and bursts, without sockets or clocks: what is observed goes in with its time, what it means
//! comes out.
//!
//! | part | file |
//! |---|---|
//! | how bursty traffic is, in the papers' measure | [`Burstiness`] |
//! | pacing by counting bytes, for classes of traffic | [`byte_clock`] |
//! | what a slow disk leaves of the rate | [`ring`] |
//! | one rate for several connections | [`sharing`] |
//! | what is remembered of a path | [`known_paths`] |
//! | a block of addresses, such as a path leads to | [`Prefix`] |
//! | the rate where the kernel's own algorithms must do | [`steering`] |

#![forbid(unsafe_code)]

mod burstiness;
pub mod byte_clock;
pub mod known_paths;
mod prefix;
pub mod ring;
pub mod sharing;
pub mod steering;

pub use burstiness::{Burstiness, Window};
pub use prefix::{ParsePrefixError, Prefix};
