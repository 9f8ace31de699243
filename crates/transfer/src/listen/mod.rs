//! The listening side: what keeps strangers out and says what the others may do.
//!
//! [`guard`] accepts connections and survives strangers, [`admission`] turns a key into rights, and
//! [`credentials`] lets a session act as a system user. The far end that ssh starts
//! ([`crate::far_end`]) and the daemon ([`crate::serve`]) are two houses behind the same guard.

pub(crate) mod admission;
pub(crate) mod credentials;
pub(crate) mod guard;
pub(crate) mod temporary;

pub(crate) use credentials::Credentials;
