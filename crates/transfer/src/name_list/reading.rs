//! Names of a list in scan order: its runs are merged while they are read.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use icdc_protocol::listed::list_order;

use super::{Run, Stored};

/// Bytes that are read of a stored run at a time.
const BUFFER: usize = 256 << 10;

/// Reader of a list's names, in scan order and each once: it merges the list's runs.
#[derive(Debug)]
pub struct Names {
    stored: Arc<Stored>,
    /// The next name of each run that has one.
    next: BinaryHeap<Reverse<Head>>,
    readers: Vec<Reader>,
    /// The name that was given last.
    last: Option<Vec<u8>>,
    has_begun: bool,
}

/// The next name of a run, with the number of the run.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    name: Vec<u8>,
    run: usize,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        list_order(&self.name, &other.name).then(self.run.cmp(&other.run))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Position in one run of a list, and the bytes that were read ahead of it.
#[derive(Debug, Default)]
struct Reader {
    /// Bytes of the run that were read.
    read: u64,
    buffer: Vec<u8>,
    /// Bytes of the buffer that were taken.
    taken: usize,
}

impl Names {
    /// Reader that stands before the first name of a list.
    pub(super) fn new(stored: Arc<Stored>) -> Self {
        let readers = stored.runs.iter().map(|_| Reader::default()).collect();
        Self { stored, next: BinaryHeap::new(), readers, last: None, has_begun: false }
    }

    /// The next name; `None` at the end.
    ///
    /// # Errors
    /// The list cannot be read.
    #[expect(clippy::should_implement_trait, reason = "an iterator would hide that an error is the end")]
    pub fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        if !self.has_begun {
            (0..self.readers.len()).try_for_each(|run| self.refill(run))?;
            self.has_begun = true;
        }
        loop {
            let Some(Reverse(Head { name, run })) = self.next.pop() else { return Ok(None) };
            self.refill(run)?;
            if self.last.as_ref() != Some(&name) {
                self.last = Some(name.clone());
                return Ok(Some(name));
            }
        }
    }

    /// Reads the next name of run number `run`, if it has one left, to be merged with those of the
    /// other runs.
    fn refill(&mut self, run: usize) -> io::Result<()> {
        if let Some(name) = self.readers[run].next(&self.stored, run)? {
            self.next.push(Reverse(Head { name, run }));
        }
        Ok(())
    }
}

impl Reader {
    /// The next name of run number `run`; `None` at its end.
    fn next(&mut self, stored: &Stored, run: usize) -> io::Result<Option<Vec<u8>>> {
        let Some(length) = self.take(stored, run, 2)? else { return Ok(None) };
        let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
        self.take(stored, run, length)
    }

    /// Takes the next `length` bytes of run number `run`; `None` if there are fewer.
    fn take(&mut self, stored: &Stored, run: usize, length: usize) -> io::Result<Option<Vec<u8>>> {
        if self.buffer.len() - self.taken < length {
            self.buffer.drain(..self.taken);
            self.taken = 0;
            self.fill(stored, run)?;
        }
        let bytes = self.buffer.get(self.taken..self.taken + length).map(<[u8]>::to_vec);
        self.taken += bytes.as_ref().map_or(0, Vec::len);
        Ok(bytes)
    }

    /// Reads the next bytes of run number `run`, at most [`BUFFER`], into the buffer.
    fn fill(&mut self, stored: &Stored, run: usize) -> io::Result<()> {
        let held = self.buffer.len();
        let more = match (&stored.runs[run], &stored.file) {
            (Run::Held(bytes), _) => {
                let rest = &bytes[self.read as usize..];
                let more = rest.len().min(BUFFER);
                self.buffer.extend_from_slice(&rest[..more]);
                more
            }
            (Run::Stored { start, end }, Some(file)) => {
                let position = start + self.read;
                let more = (end - position).min(BUFFER as u64) as usize;
                self.buffer.resize(held + more, 0);
                file.read_exact_at(&mut self.buffer[held..], position)?;
                more
            }
            (Run::Stored { .. }, None) => 0,
        };
        self.read += more as u64;
        Ok(())
    }
}
