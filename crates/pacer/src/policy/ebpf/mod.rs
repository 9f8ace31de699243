//! Policies in the kernel, by libbpf.
//!
//! | file | what |
//! |---|---|
//! | `commands` | adding, listing and removing policies |
//! | `group` | the policies of one cgroup: made, opened, changed, removed |
//! | `object` | the object, as the kernel gets it |
//! | `watch` | sockets under a policy |
//! | `places` | paths of the pins in the BPF file system |
//! | `access` | rights to list and to change policies |
//! | `failure` | conversion of errors of libbpf and of files |
//! | `layout` | the structures of `c/policy.c` as bytes |
//!
//! Whoever changes something holds a lock on the directory of pins, which serializes commands.

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
