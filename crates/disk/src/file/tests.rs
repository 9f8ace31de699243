//! Opening, flags and space of real files.

use super::*;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;

fn new_file() -> File {
    tempfile::tempfile().unwrap()
}

#[test]
fn descriptors_that_cannot_serve_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, b"x").unwrap();
    let error = DiskFile::for_writing(File::open(&path).unwrap()).unwrap_err().to_string();
    assert!(error.contains("file\": it cannot be written"), "{error}");
    assert!(error.ends_with("the file is not open for this"), "{error}");
    let writer = OpenOptions::new().write(true).open(&path).unwrap();
    assert!(DiskFile::for_reading(writer).is_err());
    let error = DiskFile::for_reading(File::open(directory.path()).unwrap()).unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
    assert!(DiskFile::for_reading(File::open("/dev/null").unwrap()).is_err());
}

#[test]
fn harmful_flags_are_cleared() {
    let directory = tempfile::tempdir().unwrap();
    let flags = (OFlags::NONBLOCK | OFlags::APPEND).bits() as i32;
    let path = directory.path().join("file");
    let file = OpenOptions::new().write(true).create(true).truncate(false).custom_flags(flags).open(path).unwrap();
    let file = DiskFile::for_writing(file).unwrap();
    let flags = fcntl_getfl(file.as_file()).unwrap();
    assert!(!flags.intersects(OFlags::NONBLOCK | OFlags::APPEND));
}

#[test]
fn the_direct_descriptor_is_another_open_file_of_the_same_inode() {
    let file = DiskFile::for_writing(new_file()).unwrap();
    let Some(alignment) = file.alignment() else {
        return;
    };
    assert!(alignment >= PAGE && BLOCK_SIZE.is_multiple_of(alignment));
    assert!(fcntl_getfl(file.descriptor(true)).unwrap().contains(OFlags::DIRECT));
    assert!(!fcntl_getfl(file.descriptor(false)).unwrap().contains(OFlags::DIRECT));
    let inodes = [true, false].map(|direct| fstat(file.descriptor(direct)).unwrap().st_ino);
    assert_eq!(inodes[0], inodes[1]);
    file.refuse_direct();
    assert!(!file.is_direct());
}

#[test]
fn memory_file_systems_are_buffered() {
    let Ok(file) = tempfile::tempfile_in("/dev/shm") else {
        return;
    };
    assert!(!DiskFile::for_reading(file).unwrap().is_direct());
}

#[test]
fn preallocation_reserves_and_extends() {
    let file = DiskFile::for_writing(new_file()).unwrap();
    assert_eq!(file.preallocate(0..0).unwrap(), Preallocation::Reserved);
    assert_eq!(file.size().unwrap(), 0);
    if file.preallocate(0..1_000_001).unwrap() == Preallocation::Reserved {
        let size = file.size().unwrap();
        assert!((1_000_001..1_000_001 + BLOCK_SIZE as u64).contains(&size));
        assert!(!crate::sparse::is_sparse(&file.as_file().metadata().unwrap()));
    }
    file.set_len(10).unwrap();
    assert_eq!(file.size().unwrap(), 10);
    file.forget_cache();
}

#[test]
fn preallocation_of_too_much_says_so() {
    let file = DiskFile::for_writing(new_file()).unwrap();
    assert!(file.preallocate(0..u64::MAX).is_err());
    let error = file.preallocate(0..1 << 43).unwrap_err();
    assert_eq!(error.call, "fallocate");
    // Too much for the disk, or for one file of this file system.
    let too_large = error.cause.raw_os_error() == Some(Errno::FBIG.raw_os_error());
    assert!(error.is_out_of_space() || too_large, "{error}");
    // The kernel would first give it all that there is: others must not find the disk full
    // meanwhile.
    assert_eq!(fstat(file.as_file()).unwrap().st_blocks, 0);
}
