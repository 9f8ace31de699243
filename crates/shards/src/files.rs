//! Files that are there as a whole or not at all, also for other hosts.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Writes `parts`, one after the other, to the file `path` atomically, replacing an existing file.
///
/// # Errors
/// The kernel refuses a system call.
pub(crate) fn write_whole(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Another process may write the same file.
    let aside = directory.join(format!(".{name}.{}.{}", host(), std::process::id()));
    // What a process of this number has left that was killed.
    let _ = fs::remove_file(&aside);
    let written = (|| {
        // Readable by the owner only, whatever the umask is.
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
        parts.iter().try_for_each(|part| file.write_all(part))?;
        file.sync_all()?;
        fs::rename(&aside, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&aside);
    }
    written?;
    File::open(directory)?.sync_all()
}

/// Whether `file` is the name of a temporary file of [`write_whole`] for the file `name`.
pub(crate) fn is_aside(file: &[u8], name: &str) -> bool {
    file.strip_prefix(b".").and_then(|file| file.strip_prefix(name.as_bytes())).is_some_and(|end| end.starts_with(b"."))
}

/// Name of this host, by which the plan's files are told apart and notes say who copied.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Reads the file `path`; an error if it has more than `most` bytes.
pub(crate) fn read_bounded(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("longer than {most} bytes")));
    }
    Ok(bytes)
}
