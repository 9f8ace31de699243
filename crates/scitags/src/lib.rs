//! SciTags: which experiment and activity a data connection belongs to, told to the networks that
//! it crosses by fireflies.
//!
//! A firefly is a UDP datagram that goes to the other end of the connection, port 10514, when the
//! connection begins, each minute, and when it ends; networks on the path read it as it passes. A
//! copy may go to a collector. Format: SciTags technical specification (scitags.org), "UDP
//! fireflies", and its JSON schema `firefly.schema.json` version 1.0.0.
//!
//! | module | what |
//! |---|---|
//! | [`tag`] | experiment and activity, by number or by the names of a registry |
//! | [`firefly`] | the datagram; no I/O, time is a parameter |
//! | [`marker`] | sends fireflies for connections as long as they last |
//!
//! The specification's other method, the flow label of IPv6 packets, is not supported: the kernel
//! takes one from a process only before it connects, and not for a connection that was accepted.

#![forbid(unsafe_code)]

pub mod firefly;
pub mod marker;
pub mod tag;

pub use marker::{Flows, Marker, MarkerConfig};
pub use tag::{Registry, Tag, TagError};
