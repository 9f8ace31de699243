//! Shapers of the sender's rate, and cross-traffic.
//!
//! | what | file |
//! |---|---|
//! | a discipline of the kernel | `shaper.rs` |
//! | the wire pacer | `wire_pacer.rs` |
//! | traffic of others | `cross_traffic.rs` |
//! | a flow within this process | `loopback.rs` |

pub(crate) mod cross_traffic;
pub(crate) mod loopback;
pub(crate) mod shaper;
pub(crate) mod wire_pacer;
