//! Files whose contents are longer or shorter than their file system states: those that the kernel
//! makes when they are read (`/proc`, `/sys`), and those of programs behind FUSE.
//!
//! They are read before they are announced, and kept in memory until they have arrived: another
//! reading may return other contents. Of all other files, only one byte behind the stated end is
//! read, to detect more.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use icdc_disk::tree::{Directory, Name, Stat, StatedSizes};
use icdc_protocol::limits::PACK_FILE_LIMIT;
use icdc_protocol::message::GivenUp;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::given_up::unreadable;

/// Contents of a file that were read before it was announced.
pub(super) type Held = Arc<[u8]>;

/// Types of the file systems that files were found on, by device, to detect misstated sizes.
#[derive(Default)]
pub(super) struct Misstated {
    devices: HashMap<u64, StatedSizes>,
}

impl Misstated {
    /// Contents of a file, if its size may be misstated. The stated size of a file that grows
    /// during the reading is true.
    ///
    /// # Errors
    /// The file cannot be copied: unreadable, or too long to be kept in memory.
    pub(super) fn contents(&mut self, directory: &Directory, name: &Name, stat: &Stat) -> Result<Option<Held>, String> {
        let known = self.devices.get(&stat.dev).copied();
        if stat.size > PACK_FILE_LIMIT || known.is_some_and(|known| !is_doubtful(known, stat)) {
            return Ok(None);
        }
        let Ok((file, found)) = directory.open_file(name) else { return Ok(None) };
        let sizes = known.unwrap_or_else(|| StatedSizes::of(&file));
        self.devices.insert(found.dev, sizes);
        if !is_doubtful(sizes, &found) || (found.dev, found.ino, found.size) != (stat.dev, stat.ino, stat.size) {
            return Ok(None);
        }
        // Such as `/proc/kmsg` has the reader wait for what comes.
        let contents =
            set_nonblocking(&file).and_then(|()| read_to_end(&file)).map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock => {
                    "a reader has to wait for its contents; copy what a program like cat reads of it".to_owned()
                }
                _ => format!("it cannot be read: {error}"),
            })?;
        if Stat::of(&file).is_ok_and(|after| after.size != stat.size) {
            return Ok(None);
        }
        match contents {
            Some(contents) => Ok((sizes == StatedSizes::Invented || !contents.is_empty()).then(|| contents.into())),
            None => Err(format!(
                "it has more than {PACK_FILE_LIMIT} bytes, but its file system states {}; copy what a program like cat \
                 reads of it",
                stat.size
            )),
        }
    }
}

/// Whether the size in `stat` may differ from the length of the contents.
fn is_doubtful(sizes: StatedSizes, stat: &Stat) -> bool {
    match sizes {
        StatedSizes::True => false,
        StatedSizes::Unknown => stat.size == 0,
        StatedSizes::Invented => true,
    }
}

/// Makes reads fail instead of waiting where there is nothing to read yet.
fn set_nonblocking(file: &File) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    Ok(rustix::fs::fcntl_setfl(file, flags | OFlags::NONBLOCK)?)
}

/// Reads all bytes of a file; `None` if it has more than a small file may have.
fn read_to_end(file: &File) -> io::Result<Option<Vec<u8>>> {
    let mut contents = Vec::new();
    let most = PACK_FILE_LIMIT as usize;
    let mut part = [0; 16 << 10];
    while contents.len() <= most {
        match file.read_at(&mut part, contents.len() as u64) {
            Ok(0) => return Ok(Some(contents)),
            Ok(read) => contents.extend_from_slice(&part[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Reads a file into `target`, whose length is the stated size; returns how the length of the
/// file's contents compares with it.
pub(super) fn read_whole(file: &File, target: &mut [u8]) -> io::Result<Ordering> {
    let mut behind = [0; 1];
    let mut filled = 0;
    loop {
        let buffers = &mut [io::IoSliceMut::new(&mut target[filled..]), io::IoSliceMut::new(&mut behind)];
        match rustix::io::preadv(file, buffers, filled as u64) {
            Ok(0) => return Ok(filled.cmp(&target.len())),
            Ok(read) if filled + read > target.len() => return Ok(Ordering::Greater),
            Ok(read) => filled += read,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        // The file's end, by what was read and what was not, unless nothing was there to be read.
        if filled == target.len() && !target.is_empty() {
            return Ok(Ordering::Equal);
        }
    }
}

/// Whether the file has a byte at offset `size`, behind its stated end.
pub(super) fn extends_beyond(file: &File, size: u64) -> bool {
    file.read_at(&mut [0; 1], size).is_ok_and(|read| read > 0)
}

/// Failure of a file that has not changed and whose `contents` are shorter or longer than the
/// stated `size`.
pub(super) fn misstated(contents: Ordering, size: u64) -> GivenUp {
    let than = if contents == Ordering::Less { "fewer" } else { "more" };
    unreadable(format!(
        "it has {than} bytes than the {size} that its file system states; copy what a program like cat reads of it"
    ))
}
