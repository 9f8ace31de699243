//! Trust in the sizes that a file system states of its files.

use std::os::fd::AsFd;

use rustix::fs::{FsWord, fstatfs};

/// Relation of the file sizes that a file system states to the lengths of the contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatedSizes {
    /// Sizes are true: the file system keeps contents, and knows their length.
    True,
    /// Sizes may be wrong: programs behind FUSE may state 0 for what they make when it is read. So
    /// are taken all file systems that are not known here, too.
    Unknown,
    /// Sizes are meaningless: contents are made by the kernel when they are read, and 0, or a
    /// page, is stated.
    Invented,
}

/// Magic numbers of the file systems that keep what was written (`linux/magic.h`).
const KEEPING: [FsWord; 12] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // btrfs
    0xf2f5_2010, // F2FS
    0x2fc1_2fc1, // ZFS
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x794c_7630, // overlayfs
    0x6969,      // NFS
    0x4d44,      // FAT
    0x2011_bab0, // exFAT
    0x0bd0_0bd0, // Lustre
];
/// Magic numbers of the file systems whose contents the kernel makes (`linux/magic.h`).
const INVENTING: [FsWord; 11] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0x6265_6570, // configfs
    0xf97c_ff8c, // selinuxfs
    0x4341_5d53, // smackfs
    0x4249_4e4d, // binfmt_misc
];

impl StatedSizes {
    /// Reliability of the sizes on the file system of an open file; `Unknown` if the kernel does
    /// not tell which it is.
    #[must_use]
    pub fn of(file: impl AsFd) -> Self {
        match fstatfs(file) {
            Ok(found) if KEEPING.contains(&found.f_type) => Self::True,
            Ok(found) if INVENTING.contains(&found.f_type) => Self::Invented,
            _ => Self::Unknown,
        }
    }
}
