//! Lists of names that a user has chosen one by one, of any length: sorted, without duplicates, and
//! mostly on disk.
//!
//! ```text
//! names in any order ─► runs of up to 32 MiB, each sorted ─► a file without a name
//!                                                              │ merged while it is read
//!                                    names in scan order ◄─────┘ as often as a session begins
//! ```
//!
//! Memory: a run while names are added; a buffer for each run while they are read.

mod reading;
mod serving;

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use icdc_protocol::Digest;
use icdc_protocol::listed::list_order;

pub use self::reading::Names;
pub use self::serving::ListServer;

/// Most bytes of names in memory, [`OVERHEAD`] included, before they are sorted and stored as a
/// run.
const RUN: usize = 32 << 20;
/// Bytes that are kept in memory of each name of a run, besides the name.
const OVERHEAD: usize = size_of::<(u32, u16)>() + 2;

/// Finished list of names that a user has chosen one by one (`--files-from`): sorted, mostly in a
/// temporary file that clones share.
#[derive(Clone, Debug)]
pub struct NameList {
    stored: Arc<Stored>,
    digest: Digest,
    /// Number of names, those that were added twice included.
    added: u64,
}

/// The names of a list as sorted runs, with the temporary file that has those not in memory.
#[derive(Debug)]
struct Stored {
    runs: Vec<Run>,
    file: Option<File>,
}

/// A sorted part of the list: names, each after its length.
#[derive(Debug)]
enum Run {
    /// The run is in memory.
    Held(Vec<u8>),
    /// The run is in the file, from `start` to before `end`.
    Stored { start: u64, end: u64 },
}

/// List under construction, to which names are added in any order; [`finish`](Self::finish) makes
/// the list.
#[derive(Debug, Default)]
pub struct NewNameList {
    bytes: Vec<u8>,
    /// Place of each name in `bytes`.
    names: Vec<(u32, u16)>,
    runs: Vec<Run>,
    file: Option<File>,
    length: u64,
    added: u64,
}

impl NewNameList {
    /// Adds a name of at most 65,535 bytes.
    ///
    /// # Errors
    /// The names do not fit in memory, and cannot be written to a temporary file.
    pub fn add(&mut self, name: &[u8]) -> io::Result<()> {
        if self.bytes.len() + self.names.len() * OVERHEAD >= RUN {
            self.store()?;
        }
        let length = u16::try_from(name.len()).map_err(|_| io::Error::other("a name is too long"))?;
        self.names.push((self.bytes.len() as u32, length));
        self.bytes.extend_from_slice(name);
        self.added += 1;
        Ok(())
    }

    /// Sorts the names that were added, without duplicates, and returns the finished list.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn finish(mut self) -> io::Result<NameList> {
        if self.runs.is_empty() {
            let run = self.sorted();
            self.runs.push(Run::Held(run));
        } else {
            self.store()?;
        }
        let Self { runs, file, added, .. } = self;
        let stored = Arc::new(Stored { runs, file });
        let mut hasher = blake3::Hasher::new_derive_key("icdc list of names 1");
        let mut names = Names::new(Arc::clone(&stored));
        while let Some(name) = names.next()? {
            hasher.update(&(name.len() as u64).to_le_bytes()).update(&name);
        }
        Ok(NameList { stored, digest: *hasher.finalize().as_bytes(), added })
    }

    /// Takes the names that are in memory and returns them as a run: sorted, without duplicates,
    /// each after its length.
    fn sorted(&mut self) -> Vec<u8> {
        let bytes = std::mem::take(&mut self.bytes);
        let name = |(start, length): (u32, u16)| &bytes[start as usize..][..usize::from(length)];
        let mut places = std::mem::take(&mut self.names);
        places.sort_unstable_by(|one, other| list_order(name(*one), name(*other)));
        places.dedup_by(|one, other| name(*one) == name(*other));
        let mut run = Vec::with_capacity(bytes.len() + 2 * places.len());
        for place in places {
            run.extend_from_slice(&place.1.to_le_bytes());
            run.extend_from_slice(name(place));
        }
        run
    }

    /// Sorts the names that are in memory and appends them to the temporary file as a run.
    fn store(&mut self) -> io::Result<()> {
        let run = self.sorted();
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(unnamed_file()?),
        };
        file.write_all(&run)?;
        let start = self.length;
        self.length += run.len() as u64;
        self.runs.push(Run::Stored { start, end: self.length });
        Ok(())
    }
}

impl NameList {
    /// All names in scan order, from the first one on.
    #[must_use]
    pub fn names(&self) -> Names {
        Names::new(Arc::clone(&self.stored))
    }

    /// Digest of the names, by which a later run recognizes the same list.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Whether there is no name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added == 0
    }
}

/// Makes a temporary file without a name, which vanishes when it is closed.
fn unnamed_file() -> io::Result<File> {
    let place = std::env::temp_dir();
    let flags = rustix::fs::OFlags::TMPFILE.bits() as i32;
    let opened = File::options().read(true).write(true).mode(0o600).custom_flags(flags).open(&place);
    opened.map_err(|error| shown(&place, &error))
}

/// Error of making a temporary file, with its directory and the advice to set TMPDIR.
fn shown(place: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("no temporary file can be made in {}: {error}; set TMPDIR", place.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: impl IntoIterator<Item = String>) -> NameList {
        let mut list = NewNameList::default();
        names.into_iter().for_each(|name| list.add(name.as_bytes()).unwrap());
        list.finish().unwrap()
    }

    fn all(list: &NameList) -> Vec<String> {
        let mut names = list.names();
        let mut all = Vec::new();
        while let Some(name) = names.next().unwrap() {
            all.push(String::from_utf8(name).unwrap());
        }
        all
    }

    #[test]
    fn names_come_in_scan_order_and_once() {
        let list = list(["b", "a.c", "a/z", "a", "b", "a/b/c", "a-"].map(str::to_owned));
        assert_eq!(all(&list), ["a", "a/b/c", "a/z", "a-", "a.c", "b"]);
        assert_eq!(all(&list), all(&list), "it can be read again");
        assert!(!list.is_empty() && super::NewNameList::default().finish().unwrap().is_empty());
    }

    #[test]
    fn a_list_longer_than_a_run_is_the_same_as_a_short_one() {
        // Three runs, with the same names in several of them.
        let long = |number: u64| format!("{:016x}/{}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15), "x".repeat(200));
        let numbers = || (0..300_000_u64).map(|number| number % 250_000);
        let list = list(numbers().map(long));
        assert!(list.stored.runs.len() > 1 && list.stored.file.is_some());
        let mut expected: Vec<String> = (0..250_000).map(long).collect();
        expected.sort_unstable();
        assert!(all(&list) == expected);
        assert_eq!(list.digest(), self::list(expected.into_iter().rev()).digest(), "in whatever order they come");
    }
}
