//! The listening side: accepts connections, authenticates clients, and decides what they may do.
//!
//! [`guard`] accepts connections and limits unauthenticated ones, [`admission`] turns a key into
//! rights. The far end that ssh starts ([`crate::far_end`]) and the daemon ([`crate::serve`]) are two
//! services behind the same guard.

pub(crate) mod admission;
mod authorized_keys_file;
mod beside;
pub(crate) mod guard;
pub(crate) mod neighbours;
pub(crate) mod refused;
pub(crate) mod revocation;
mod temporary;
mod usage;
mod usage_file;
