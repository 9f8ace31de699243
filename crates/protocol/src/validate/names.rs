//! Names and paths from the other end: one that could lead out of its directory is refused. What is
//! opened by a name is confined once more by `icdc-disk`, whose operations take a checked `Name`.

use super::rules::{Checked, require};
use crate::acl;
use crate::limits::{MAX_NAME, MAX_PATH, MAX_XATTR_BYTES};

/// Whether `name` can be one component of a path: not empty, `.` or `..`, no `/` or NUL, at most
/// [`MAX_NAME`] bytes.
#[must_use]
pub fn is_component(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME
        && name != b"."
        && name != b".."
        && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

/// Checks a path of any number of components.
pub(super) fn path(path: &[u8]) -> Checked {
    require(path.len() <= MAX_PATH, "a path too long")?;
    require(!path.contains(&0), "a path with a NUL")
}

/// Checks extended attributes: names and values.
pub(super) fn xattrs(xattrs: &[(Vec<u8>, Vec<u8>)]) -> Checked {
    let bytes: usize = xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
    require(bytes <= MAX_XATTR_BYTES, "too many bytes of extended attributes")?;
    let names_fit = xattrs.iter().all(|(name, _)| !name.is_empty() && name.len() <= MAX_NAME && !name.contains(&0));
    require(names_fit, "an extended attribute without a proper name")?;
    let mut acls = xattrs.iter().filter(|(name, _)| acl::is_acl(name));
    require(acls.all(|(_, value)| acl::is_list(value)), "an access control list that is none")
}
