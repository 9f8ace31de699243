//! Policies in the kernel, by libbpf.
//!
//! | file | what |
//! |---|---|
//! | `commands` | adding, listing and removing policies |
//! | `group` | the policies of one cgroup: made, opened, changed, removed |
//! | `object` | the object, as the kernel gets it |
//! | `watch` | sockets under a policy |
//! | `places` | where in the BPF file system they are pinned |
//! | `access` | who may look at policies and change them |
//! | `failure` | errors of libbpf and of files, told as those of a policy |
//! | `layout` | the structures of `c/policy.c` as bytes |
//!
//! Who changes something holds a lock on the directory of pins, so that two commands at once do one
//! after the other.

mod access;
mod commands;
mod failure;
mod group;
mod layout;
mod object;
mod places;
mod watch;

pub use commands::{add, list, remove, remove_all};
pub use watch::Watch;
