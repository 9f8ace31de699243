//! A copy in parts, which any number of hosts carry out: planned, each part copied by a run of its
//! own, joined.
//!
//! ```text
//! sources ─► survey ─► divide ─► plan/ ── shard 0 ─► icdc copy ─► result 0 ─┐
//!                                   ├──── shard 1 ─► icdc copy ─► result 1 ─┼─► join: what is missing is
//!                                   └──── …                                 │   planned again; else directories,
//!                                         directories ──────────────────────┘   one digest of the whole
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`divide`] | which items a shard has (pure) |
//! | [`list`] | the file of a shard: its items, checked when they are read |
//! | [`outcome`] | the file of what became of a shard |
//! | [`plan`] | the directory of a plan |
//! | [`sources`] | what a plan is of |
//! | [`joining`] | what the results make together (pure) |
//!
//! The directory of a plan may be on a network: files of it are written once, under a name of their
//! own first, by one host each, and nothing is locked.

#![forbid(unsafe_code)]

pub mod divide;
mod files;
pub mod joining;
pub mod list;
pub mod outcome;
pub mod plan;
pub mod sources;

pub use plan::{Plan, PlanError};
