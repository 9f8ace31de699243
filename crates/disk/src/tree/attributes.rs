//! Extended attributes: which are copied, reading, setting and removing them.

use std::os::fd::AsFd;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::failure::{Failure, at};
use super::kind::Kind;
use super::names::printable;

/// Extended attributes as (name, value).
pub type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// Name of the extended attribute with a file's capabilities. Like set-id bits it gives rights to
/// whoever runs the file, so that it is to be copied together with the owner only. A change of
/// data or owner removes it.
pub const CAPABILITY: &[u8] = b"security.capability";
/// Name of the extended attribute with the ACL of a file or directory.
pub(super) const ACCESS_ACL: &[u8] = b"system.posix_acl_access";
/// Name of the extended attribute with the ACL that a directory passes on to new items in it.
const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";

/// A set of kinds of extended attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttributeKinds(u8);

impl AttributeKinds {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// Attributes of users (`user.*`).
    pub const USER: Self = Self(1);
    /// POSIX ACLs.
    pub const ACL: Self = Self(1 << 1);
    /// Capabilities of a program file ([`CAPABILITY`]).
    pub const CAPABILITY: Self = Self(1 << 2);
    /// The `security` namespace but for capabilities: labels, which mean something on hosts of one
    /// policy.
    pub const SECURITY: Self = Self(1 << 3);

    /// The kinds of both sets.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// This set if `condition` holds, else the empty set.
    #[must_use]
    pub const fn only_if(self, condition: bool) -> Self {
        if condition { self } else { Self::NONE }
    }

    /// Whether all of these kinds are in the set.
    #[must_use]
    pub const fn has(self, kinds: Self) -> bool {
        self.0 & kinds.0 == kinds.0
    }

    /// Kind of the attribute of this name; `None` for one that is never copied.
    fn of(name: &[u8]) -> Option<Self> {
        match name {
            CAPABILITY => Some(Self::CAPABILITY),
            ACCESS_ACL | DEFAULT_ACL => Some(Self::ACL),
            _ if name.starts_with(b"user.") => Some(Self::USER),
            _ if name.starts_with(b"security.") => Some(Self::SECURITY),
            _ => None,
        }
    }

    /// Whether the attribute of this name is of one of these kinds.
    fn has_kind_of(self, name: &[u8]) -> bool {
        Self::of(name).is_some_and(|kind| self.has(kind))
    }
}

/// Extended attributes found on an item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundXattrs {
    /// Attributes of the kinds that were asked for, sorted by name.
    pub carried: Xattrs,
    /// Whether the file has attributes that are not copied because they belong to one machine: those
    /// of the `trusted` namespace and of file systems, and labels that were not asked for.
    pub has_others: bool,
}

/// Reads the extended attributes of an open file that are of these kinds, and whether it has others
/// that belong to its machine; none on a file system without attributes.
pub(super) fn found(file: impl AsFd, kinds: AttributeKinds) -> Result<FoundXattrs, Failure> {
    let file = file.as_fd();
    let names = match whole(|buffer| rustix::fs::flistxattr(file, buffer)) {
        Err(Errno::NOTSUP) => return Ok(FoundXattrs::default()),
        outcome => outcome.map_err(at("flistxattr"))?,
    };
    let names = || names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let is_other = |name: &[u8]| match AttributeKinds::of(name) {
        None => true,
        Some(kind) => kind == AttributeKinds::SECURITY && !kinds.has(kind),
    };
    let has_others = names().any(is_other);
    let mut carried = Vec::new();
    for name in names().filter(|name| kinds.has_kind_of(name)) {
        match whole(|buffer| rustix::fs::fgetxattr(file, name, buffer)) {
            Ok(value) => carried.push((name.to_vec(), value)),
            // Removed since it was listed, or listed by the file system and not supported.
            Err(Errno::NODATA | Errno::NOTSUP) => {}
            Err(errno) => return Err(Failure { call: "fgetxattr", attribute: Some(printable(name)), errno }),
        }
    }
    carried.sort();
    Ok(FoundXattrs { carried, has_others })
}

/// Sets an attribute, which must be of one of these kinds.
pub(super) fn set(file: impl AsFd, (name, value): (&[u8], &[u8]), kinds: AttributeKinds) -> Result<(), Failure> {
    let file = file.as_fd();
    let outcome = if kinds.has_kind_of(name) {
        rustix::fs::fsetxattr(file, name, value, XattrFlags::empty())
    } else {
        Err(Errno::PERM)
    };
    outcome.map_err(|errno| {
        // Said of a full disk, and of more attributes than the file system keeps of one file.
        let is_full = errno == Errno::NOSPC && rustix::fs::fstatvfs(file).is_ok_and(|disk| disk.f_bavail == 0);
        Failure { call: "fsetxattr", attribute: (!is_full).then(|| printable(name)), errno }
    })
}

/// Removes an attribute.
pub(super) fn remove(file: impl AsFd, name: &[u8]) -> Result<(), Failure> {
    rustix::fs::fremovexattr(file, name).map_err(|errno| Failure {
        call: "fremovexattr",
        attribute: Some(printable(name)),
        errno,
    })
}

/// Removes the ACLs of an item of this kind that are not among `wanted`. Returns whether there was
/// one.
pub(super) fn remove_other_acls(file: impl AsFd, kind: Kind, wanted: &[(Vec<u8>, Vec<u8>)]) -> Result<bool, Failure> {
    let file = file.as_fd();
    let acls = if kind == Kind::Directory { &[ACCESS_ACL, DEFAULT_ACL][..] } else { &[ACCESS_ACL] };
    let mut has_removed = false;
    for acl in acls.iter().filter(|acl| wanted.iter().all(|(name, _)| name != *acl)) {
        match remove(file, acl) {
            Ok(()) => has_removed = true,
            Err(Failure { errno: Errno::NODATA | Errno::NOTSUP, .. }) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(has_removed)
}

/// Whether a directory passes an ACL on to items that are made in it; false if that cannot be read.
pub(super) fn has_default_acl(directory: impl AsFd) -> bool {
    rustix::fs::fgetxattr(directory, DEFAULT_ACL, &mut [0_u8; 0][..]).is_ok()
}

/// Reads a value of unknown length into a buffer that grows until it fits. The kernel bounds both
/// lists and values to 64 KiB.
fn whole(mut read: impl FnMut(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut buffer = vec![0; 1 << 10];
    loop {
        match read(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                return Ok(buffer);
            }
            Err(Errno::RANGE) if buffer.len() < 1 << 20 => buffer.resize(buffer.len() * 8, 0),
            Err(errno) => return Err(errno),
        }
    }
}
