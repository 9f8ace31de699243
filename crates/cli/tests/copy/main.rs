//! What a copy carries, what its options do, and where things land.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]

mod acls;
mod apart;
mod as_kernel;
mod as_rsync;
mod as_rsync_attributes;
mod backups;
mod block_devices;
mod chmod;
mod choosing;
mod coming_from;
mod compression;
mod ctl;
mod deep;
mod delete;
mod delta;
mod devices;
mod differences;
mod digest_cache;
mod dirlinks;
mod existing;
mod few;
mod fidelity;
mod fuse;
mod growing;
mod hosts;
mod in_place;
mod inodes;
mod itself;
mod kept;
mod link_dest;
mod listed;
mod misstated;
mod moving;
mod noticed;
mod obstacles;
mod old_kernel;
mod options;
mod owners;
mod patterns;
mod predicted;
mod pruning;
mod published;
mod receipt;
mod reflinks;
mod renames;
mod replaced;
mod rights;
mod rsync;
mod running;
mod semantics;
mod several;
mod snapshots;
mod specials;
mod streams;
#[path = "../support/mod.rs"]
mod support;
mod told;
