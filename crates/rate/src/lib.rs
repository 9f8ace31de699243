//! The rate of a transfer, without sockets or clocks: what is observed goes in with its time, what
//! may be sent comes out.
//!
//! | part | file |
//! |---|---|
//! | the rate where the kernel's own congestion control must do | [`steering`] |
//! | what a slow disk leaves of the rate | [`ring`] |
//! | one rate for several connections | [`sharing`] |
//! | what is remembered of a path | [`known_paths`] |

#![forbid(unsafe_code)]

pub mod known_paths;
pub mod ring;
pub mod sharing;
pub mod steering;
