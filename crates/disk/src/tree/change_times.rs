//! Trust in change times: whether a file whose change time is the same has the same contents.

use std::os::fd::AsFd;

use rustix::fs::{FsWord, fstatfs};

use super::metadata::FileTime;

/// Magic numbers of file systems of this kernel (`linux/magic.h`) that give a file another change time
/// whenever its contents change.
const LOCAL: [FsWord; 7] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // btrfs
    0xf2f5_2010, // F2FS
    0x2fc1_2fc1, // ZFS
    0xca45_1a4e, // bcachefs
    0x794c_7630, // overlayfs
];
/// Magic numbers (`linux/magic.h`) of network file systems, whose servers set the change time and
/// give a file another one whenever its contents change.
const DISTANT: [FsWord; 5] = [
    0x6969,      // NFS
    0x0bd0_0bd0, // Lustre
    0x00c3_6400, // Ceph
    0x4750_4653, // GPFS
    0x1983_0326, // BeeGFS
];
/// Age in seconds above which the change time of a file on a local file system tells any later
/// change: ext3 has whole seconds. Finer ones advance with the kernel's tick, at least a hundred
/// times a second.
const LOCAL_GRANULARITY: i64 = 2;
/// Largest difference in seconds between a server's clock and this host's that is allowed for.
const CLOCKS: i64 = 3600;

/// Whether a change time of an open file lies so far before `now`, the present time of this host, that
/// any later change of the contents gives the file another one. Never on file systems that are not known
/// to do so: tmpfs, for one, does not notice what is written by way of a memory mapping.
///
/// What is written to a memory mapping shows when its page is written back: data that was written
/// before must be flushed before the file is looked at.
#[must_use]
pub fn tells_changes(file: impl AsFd, ctime: FileTime, now: FileTime) -> bool {
    let distance = match fstatfs(file).map(|found| found.f_type) {
        Ok(kind) if LOCAL.contains(&kind) => LOCAL_GRANULARITY,
        Ok(kind) if DISTANT.contains(&kind) => CLOCKS,
        _ => return false,
    };
    ctime.seconds.saturating_add(distance) < now.seconds
}

/// Whether a file system of this magic number is a local one.
pub(crate) fn is_local(kind: FsWord) -> bool {
    LOCAL.contains(&kind)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_recent_change_time_tells_nothing_nor_does_one_of_memory() {
        let now = FileTime { seconds: 1_000_000, nanos: 0 };
        let back = |seconds| FileTime { seconds: now.seconds - seconds, nanos: 999_999_999 };
        if let Ok(memory) = File::open("/dev/shm") {
            assert!(!tells_changes(&memory, back(100_000), now));
        }
        assert!(!tells_changes(File::open("/proc/version").unwrap(), back(100_000), now));
        let here = tempfile::tempfile().unwrap();
        for recent in [-5, 0, 1, 2] {
            assert!(!tells_changes(&here, back(recent), now), "{recent} s ago");
        }
    }
}
