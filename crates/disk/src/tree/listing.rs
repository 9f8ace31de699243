//! The entries of one directory, sorted by bytes, in two allocations however many there are.

use std::os::fd::AsFd;

use rustix::fs::{FileType, RawDir};
use rustix::io::Errno;

use super::kind::Kind;

/// List of all entries of a directory but `.` and `..`, sorted by the bytes of their names.
///
/// It costs 16 bytes beside the name for each entry, so that directories of millions of
/// files are listed without trouble.
#[derive(Debug)]
pub struct Listing {
    names: Vec<u8>,
    entries: Vec<Slot>,
}

/// One entry of a [`Listing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedEntry<'a> {
    /// Name as the file system gave it; not yet a [`Name`](super::Name).
    pub name: &'a [u8],
    /// Kind of the entry according to the directory; `None` where directories do not store it. It
    /// may have changed since: only `stat` and `open_*` are reliable.
    pub hint: Option<Kind>,
}

/// Entry of a listing: place of its name in the common buffer, and kind.
#[derive(Clone, Copy, Debug)]
struct Slot {
    start: usize,
    length: u16,
    hint: FileType,
}

impl Listing {
    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the directory has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entry at `index` in sorted order; `None` beyond the end.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<ListedEntry<'_>> {
        self.entries.get(index).map(|slot| self.entry(*slot))
    }

    /// Iterates over all entries, in sorted order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = ListedEntry<'_>> {
        self.entries.iter().map(|slot| self.entry(*slot))
    }

    /// Reads the entries of `directory`, a descriptor of its own that nothing was read from yet.
    pub(super) fn read(directory: impl AsFd) -> Result<Self, Errno> {
        let mut listing = Self { names: Vec::new(), entries: Vec::new() };
        for_each(directory, |name, hint| {
            let length = u16::try_from(name.len()).map_err(|_| Errno::NAMETOOLONG)?;
            let start = listing.names.len();
            listing.names.extend_from_slice(name);
            listing.entries.push(Slot { start, length, hint });
            Ok(true)
        })?;
        let Self { names, entries } = &mut listing;
        entries.sort_unstable_by(|one, other| one.name(names).cmp(other.name(names)));
        Ok(listing)
    }

    fn entry(&self, slot: Slot) -> ListedEntry<'_> {
        ListedEntry { name: slot.name(&self.names), hint: Kind::from_file_type(slot.hint) }
    }
}

impl Slot {
    fn name(self, names: &[u8]) -> &[u8] {
        &names[self.start..self.start + usize::from(self.length)]
    }
}

/// Size of the buffer for one system call in bytes: enough for about a thousand entries.
const BUFFER: usize = 32 << 10;

/// Whether `directory`, a descriptor of its own that nothing was read from yet, has an entry with
/// exactly these bytes as its name.
pub(super) fn has_name(directory: impl AsFd, wanted: &[u8]) -> Result<bool, Errno> {
    let mut found = false;
    for_each(directory, |name, _| {
        found = name == wanted;
        Ok(!found)
    })?;
    Ok(found)
}

/// Passes name and kind of each entry but `.` and `..` to `take`, until that returns false.
fn for_each(directory: impl AsFd, mut take: impl FnMut(&[u8], FileType) -> Result<bool, Errno>) -> Result<(), Errno> {
    let mut buffer: Vec<u8> = Vec::with_capacity(BUFFER);
    let mut raw = RawDir::new(directory, buffer.spare_capacity_mut());
    while let Some(entry) = raw.next() {
        let entry = match entry {
            Err(Errno::INTR) => continue,
            // Removed while it is being read: what it held is gone as well.
            Err(Errno::NOENT) => break,
            outcome => outcome?,
        };
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." && !take(name, entry.file_type())? {
            break;
        }
    }
    Ok(())
}
