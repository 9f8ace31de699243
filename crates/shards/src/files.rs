//! Files that are there as a whole or not at all, also for other hosts.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

/// Puts `parts`, one after the other, into `path`, in place of what is there.
pub(crate) fn write_whole(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // Another process may write the same file.
    let aside = directory.join(format!(".{name}.{host}.{}", std::process::id()));
    let written = (|| {
        let mut file = File::create(&aside)?;
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

/// The contents of `path`, which has at most so many bytes.
pub(crate) fn read_bounded(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("longer than {most} bytes")));
    }
    Ok(bytes)
}
