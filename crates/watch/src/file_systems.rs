//! File systems that report no changes which other hosts make.

use std::io;
use std::os::fd::AsFd;

/// Magic numbers (`f_type` of statfs(2), `linux/magic.h` and the sources of the file systems) of network and parallel
/// file systems, of file systems in user space, and of those whose files the kernel makes up: inotify(7) reports at
/// most what this host changes.
const SILENT: [u32; 20] = [
    0x6969,      // NFS
    0xff53_4d42, // CIFS
    0xfe53_4d42, // SMB2
    0x517b,      // SMB
    0x6573_5546, // FUSE
    0x0bd0_0bd0, // Lustre
    0x4750_4653, // GPFS
    0x1983_0326, // BeeGFS
    0x00c3_6400, // Ceph
    0x0102_1997, // 9P
    0x5346_414f, // AFS
    0x6b41_4653, // kAFS
    0x7461_636f, // OCFS2
    0x0116_1970, // GFS2
    0x2003_0528, // OrangeFS
    0xaad7_aaea, // PanFS
    0x7375_7245, // Coda
    0x564c,      // NCP
    0x9fa0,      // proc
    0x6265_6572, // sysfs
];

/// Whether the file system of this directory reports all changes of its files to this host, wherever they are made.
///
/// # Errors
/// The file system cannot be examined.
pub fn reports_changes(directory: impl AsFd) -> io::Result<bool> {
    let found = rustix::fs::fstatfs(directory)?;
    // It is signed on some processors, and of 32 bits by its meaning.
    Ok(!SILENT.contains(&(found.f_type as u32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_file_system_reports_changes_and_one_that_is_made_up_does_not() {
        let of = |path: &str| reports_changes(std::fs::File::open(path).unwrap()).unwrap();
        assert!(!of("/proc") && of(env!("CARGO_MANIFEST_DIR")));
    }
}
