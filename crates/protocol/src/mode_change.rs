//! Changes of permission bits on the way (`--chmod`), with the meaning of rsync's option of this
//! name.

use serde::{Deserialize, Serialize};

/// One change of the permission bits of items; several are made in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeChange {
    /// Items that are changed.
    pub of: ChangedItems,
    /// Bits that stay as they are; the others are cleared.
    pub kept: u16,
    /// Bits that are set.
    pub set: u16,
    /// Items to which the execute bits of `set` are given.
    pub execution: Execution,
    /// Permissions of users that are given to others, or taken from them; `None` for none.
    pub copied: Option<CopiedBits>,
}

/// Items that a change of permission bits is about. Symbolic links are never changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangedItems {
    /// All items.
    All,
    /// Directories.
    Directories,
    /// Everything that is no directory.
    Others,
}

/// Items to which a change gives execute bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Execution {
    /// All items.
    Given,
    /// Directories, and files that somebody might execute before all changes (`X`).
    IfExecutable,
}

/// Permissions of the owner, the group or all others, copied within the mode of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedBits {
    /// Class whose permissions are copied.
    pub from: UserClass,
    /// Permission bits that may be affected.
    pub to: u16,
    /// Use of the copied permissions.
    pub how: Copied,
}

/// Users that have permissions of their own in a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UserClass {
    /// The owner.
    Owner,
    /// The group.
    Group,
    /// All others.
    Others,
}

/// Effect of permissions that are copied from one class of users to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Copied {
    /// They are given.
    Given,
    /// They are taken away.
    Taken,
}

impl ModeChange {
    /// Whether the change is about directories, if `is_directory`, otherwise whether it is about
    /// everything else.
    #[must_use]
    pub fn is_of(&self, is_directory: bool) -> bool {
        match self.of {
            ChangedItems::All => true,
            ChangedItems::Directories => is_directory,
            ChangedItems::Others => !is_directory,
        }
    }

    /// Permission bits of an item after this change. `mode` has those that earlier changes have
    /// left; the pair says whether it is a directory, and whether it was executable before all
    /// changes.
    fn apply(&self, mode: u16, (is_directory, was_executable): (bool, bool)) -> u16 {
        let copied = self.copied.map_or(0, |copied| copied.bits(mode));
        let withheld = match self.execution {
            Execution::IfExecutable if !is_directory && !was_executable => EXECUTION,
            _ => 0,
        };
        let changed = (mode & self.kept) | (self.set & !withheld);
        match self.copied.map(|copied| copied.how) {
            Some(Copied::Taken) => changed & !copied,
            _ => changed | copied,
        }
    }
}

impl CopiedBits {
    /// The permission bits that are copied within `mode`, for all classes that are affected.
    fn bits(self, mode: u16) -> u16 {
        let shift = match self.from {
            UserClass::Owner => 6,
            UserClass::Group => 3,
            UserClass::Others => 0,
        };
        (((mode >> shift) & 0o7) * 0o111) & self.to
    }
}

/// Execute bits of owner, group and others.
const EXECUTION: u16 = 0o111;

/// Permission bits (lower 12 bits) of an item after these changes.
#[must_use]
pub fn changed(changes: &[ModeChange], mode: u16, is_directory: bool) -> u16 {
    let was_executable = mode & EXECUTION != 0;
    let own = changes.iter().filter(|change| change.is_of(is_directory));
    own.fold(mode, |mode, change| change.apply(mode, (is_directory, was_executable))) & 0o7777
}
