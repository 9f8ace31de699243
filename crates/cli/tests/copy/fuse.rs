//! A file system of this process, behind FUSE, whose files have other contents than it states.
//!
//! It speaks version 7.31 of the kernel's protocol (`include/uapi/linux/fuse.h`), as far as files are
//! looked up and read.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use rustix::fs::OFlags;
use rustix::io::{Errno, FdFlags, fcntl_setfd};

use crate::support::{is_root, skip};

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const RELEASE: u32 = 18;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const RELEASEDIR: u32 = 29;
const BATCH_FORGET: u32 = 42;

const NOT_THERE: i32 = 2;
const NOT_IMPLEMENTED: i32 = 38;
/// Reads go past the stated size.
const DIRECT_IO: u32 = 1;
/// Number of the top directory; files follow.
const TOP: u64 = 1;
const REQUEST_HEAD: usize = 40;

/// Name of a file that has nothing yet for those who do not wait.
pub(crate) const LATER: &str = "later";

/// A file: its name, the size that is stated, and its contents.
pub(crate) type Misstated = (&'static str, u64, Vec<u8>);

/// The file system while it is mounted.
pub(crate) struct Fuse {
    path: PathBuf,
}

impl Fuse {
    /// Mounts these files at `path`, which is made. `None` where that is not possible, with the reason on standard
    /// error.
    pub(crate) fn mount(path: PathBuf, files: Vec<Misstated>) -> Option<Self> {
        if !is_root() {
            skip("mounting needs root");
            return None;
        }
        let device = match OpenOptions::new().read(true).write(true).open("/dev/fuse") {
            Ok(device) => device,
            Err(error) => {
                skip(&format!("/dev/fuse: {error}"));
                return None;
            }
        };
        std::fs::create_dir_all(&path).unwrap();
        fcntl_setfd(&device, FdFlags::empty()).unwrap();
        let options = format!("fd={},rootmode=40755,user_id=0,group_id=0", device.as_raw_fd());
        let mounted = Command::new("mount").args(["-i", "-t", "fuse", "-o", &options, "misstated"]).arg(&path).output();
        fcntl_setfd(&device, FdFlags::CLOEXEC).unwrap();
        let mounted = mounted.unwrap();
        if !mounted.status.success() {
            skip(&format!("cannot mount: {}", String::from_utf8_lossy(&mounted.stderr)));
            return None;
        }
        thread::spawn(move || serve(device, &files));
        Some(Self { path })
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).output();
    }
}

/// Answers until the file system is gone.
fn serve(mut device: File, files: &[Misstated]) {
    let mut buffer = vec![0; 256 << 10];
    while let Ok(length) = device.read(&mut buffer) {
        let request = &buffer[..length];
        let (operation, unique) = (number(request, 4) as u32, &request[8..16]);
        if matches!(operation, FORGET | BATCH_FORGET) {
            continue;
        }
        let (error, body) = match answer(operation, request, files) {
            Ok(body) => (0, body),
            Err(error) => (-error, Vec::new()),
        };
        let head = [&((16 + body.len()) as u32).to_le_bytes()[..], &i32::to_le_bytes(error), unique].concat();
        // One that was interrupted is not waited for.
        let _ = device.write(&[head, body].concat());
    }
}

fn answer(operation: u32, request: &[u8], files: &[Misstated]) -> Result<Vec<u8>, i32> {
    let node = u64::from_le_bytes(request[16..24].try_into().unwrap());
    let rest = &request[REQUEST_HEAD..];
    match operation {
        INIT => {
            let mut reply = [7, 31, 0, 0, 0, 64 << 10, 1].map(u32::to_le_bytes).concat();
            reply.resize(64, 0);
            Ok(reply)
        }
        LOOKUP => {
            let name = rest.split(|byte| *byte == 0).next().unwrap_or_default();
            let found = files.iter().position(|(known, ..)| known.as_bytes() == name).ok_or(NOT_THERE)?;
            let node = TOP + 1 + found as u64;
            Ok([[node, 0, 0, 0, 0].map(u64::to_le_bytes).concat(), attributes(node, files)].concat())
        }
        GETATTR => Ok([vec![0; 16], attributes(node, files)].concat()),
        OPEN => Ok([0, 0, DIRECT_IO, 0].map(u32::to_le_bytes).concat()),
        OPENDIR => Ok(vec![0; 16]),
        READ => {
            let (name, _, contents) = &files[(node - TOP - 1) as usize];
            if *name == LATER && number(rest, 32) as u32 & OFlags::NONBLOCK.bits() != 0 {
                return Err(Errno::AGAIN.raw_os_error());
            }
            let from =
                usize::try_from(u64::from_le_bytes(rest[8..16].try_into().unwrap())).unwrap().min(contents.len());
            let most = number(rest, 16) as usize;
            Ok(contents[from..].iter().copied().take(most).collect())
        }
        READDIR | RELEASE | RELEASEDIR => Ok(Vec::new()),
        _ => Err(NOT_IMPLEMENTED),
    }
}

/// `struct fuse_attr` of a file, or of the top directory.
fn attributes(node: u64, files: &[Misstated]) -> Vec<u8> {
    let (mode, size) = if node == TOP { (0o40_755, 0) } else { (0o100_644, files[(node - TOP - 1) as usize].1) };
    let wide = [node, size, 0, 1_700_000_000, 1_700_000_000, 1_700_000_000].map(u64::to_le_bytes).concat();
    let narrow: [u32; 10] = [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0];
    [wide, narrow.map(u32::to_le_bytes).concat()].concat()
}

/// The number of 32 bits at this place.
fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()))
}
