//! Names and directories that are resolved beneath a root and never outside of it.
//!
//! A path as a user or the other end wrote it is resolved once, by [`Tree::resolve`]: the kernel
//! (`openat2`, `RESOLVE_BENEATH`) walks it and returns a descriptor. From there on everything is
//! done relative to descriptors by single checked [`Name`]s that are not followed. So directories
//! that are replaced by links during a transfer cannot lead it elsewhere: a descriptor stays with
//! its directory, and a name that became a link is refused.
//!
//! ```
//! use icdc_disk::tree::{Metadata, Name, StagingKind, StagingName, Tree};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let temporary = tempfile::tempdir()?;
//! let tree = Tree::open(temporary.path())?;
//! let directory = tree.root().make_directory(&Name::new(b"data")?, 0o755)?;
//! let staging = StagingName::new(StagingKind::Part, [7; 8]).name();
//! let file = directory.create_file(&staging, 0o640)?;
//! let wanted = Metadata { mode: Some(0o640), ..Metadata::default() };
//! directory.set_metadata(&staging, &file, &wanted)?;
//! directory.rename(&staging, &directory, &Name::new(b"result")?)?;
//! assert!(tree.resolve(b"data/result")?.stat.is_some());
//! assert!(tree.resolve(b"data/../../outside").is_err());
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod attributes;
mod beneath;
mod block_device;
mod change_times;
mod directory;
mod error;
mod failure;
mod file_system;
mod holder;
mod kind;
mod listing;
mod located;
mod lock;
mod metadata;
mod names;
mod opening;
mod resolving;
mod scope;
mod special;
mod stated_sizes;
mod trail;
mod walk;

pub use attributes::{AttributeKinds, CAPABILITY, FoundXattrs, Xattrs};
pub use block_device::DeviceNode;
pub(crate) use change_times::is_local;
pub use change_times::tells_changes;
pub use directory::{Directory, Whereabouts};
pub(crate) use error::operation;
pub use error::{Result, TreeError};
pub use file_system::FileSystem;
pub use holder::{Holder, RunState};
pub use kind::Kind;
pub use listing::{ListedEntry, Listing};
pub use located::Located;
pub use lock::{try_lock, unlock};
pub use metadata::{FileTime, Incarnation, Metadata, Stat, set_time};
pub use names::{MAX_NAME, Name, NameError, StagingKind, StagingName, is_staging, printable, resembles_staging};
pub use opening::Followed;
pub use resolving::Tree;
pub use special::{Special, device_node, device_number};
pub use stated_sizes::StatedSizes;
pub use walk::{Visitor, WalkFailure, WalkItem, walk};

pub use crate::user::{file_user, umask};
