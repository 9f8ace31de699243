//! The decision about an item, by what is known of the destination.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod device;
mod existing;
mod in_place;
mod journal;
mod known;
mod reference;
