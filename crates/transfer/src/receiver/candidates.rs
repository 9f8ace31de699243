//! Files of a mirror's destination, by size and modification time: an item that is new there may be
//! one of them under another name.
//!
//! ```text
//! key(size, time) ─► positions ─► directory, name, both by their numbers ─► opened beneath the root, and looked at
//! ```
//!
//! The index is a guess. What is taken from it is looked at when it is found, compared by its contents
//! and looked at again before it gets a name.

use std::sync::Arc;

use icdc_disk::tree::{Directory, FileTime, Kind, Listing, Name, Stat, TreeError, resembles_staging};
use icdc_filter::Rules;
use icdc_protocol::limits::MAX_DEPTH;

use super::failure::{self, Failure};
use super::onto_itself::SourcesHere;
use super::protection::{Protection, Unfinished};

/// Most files in an index. A renamed file beyond is transmitted.
const MAX_FILES: usize = 4 << 20;
/// Most bytes of names in an index.
const MAX_NAMES: usize = 96 << 20;
/// Multiplier of the hash of size and time: the golden ratio (Knuth, The Art of Computer
/// Programming, volume 3, section 6.4).
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Index, by size and modification time, of the files that a mirror's destination has: a new item
/// may be one of them under another name.
#[derive(Default)]
pub(super) struct Candidates {
    /// The copies of sources, with the numbers of these. Their own numbers as directories are those
    /// of their places here.
    roots: Vec<(u32, Directory)>,
    /// Directories below the roots, which have the numbers before: each comes after the one it is in.
    directories: Vec<Entry>,
    /// The files, in the order of their keys and names.
    files: Vec<(u64, Entry)>,
    /// Names, each after its length in one byte.
    names: Vec<u8>,
}

/// A name in the index: a file or directory, and the directory that it is in.
#[derive(Clone, Copy)]
struct Entry {
    /// Number of the directory.
    above: u32,
    /// Offset in bytes of the name in the names.
    name: u32,
}

/// A file that was found in an index as a candidate for an item, with its attributes at that time.
#[derive(Clone)]
pub(super) struct FoundFile {
    /// Its place in the index.
    pub(super) position: usize,
    pub(super) stat: Stat,
}

/// Location of a file at the destination or in a reference directory: an open directory and a name,
/// or a position in an index.
#[derive(Clone)]
pub(super) enum Location {
    /// In an open directory.
    In(Directory, Name),
    /// At this place of an index. Its directory is opened when it is needed: there may be thousands.
    Indexed(Arc<Candidates>, usize),
}

impl Location {
    /// Opens the directory of the file; returns it with the name of the file.
    ///
    /// # Errors
    /// Errors of opening directories.
    pub(super) fn open(&self) -> Result<(Directory, Name), TreeError> {
        match self {
            Self::In(directory, name) => Ok((directory.clone(), name.clone())),
            Self::Indexed(candidates, position) => candidates.open(*position),
        }
    }

    /// Opens the directory of the file; returns it with the name and the present attributes of the
    /// file, which are those that it had `before`.
    ///
    /// # Errors
    /// It was changed, written to or replaced since.
    pub(super) fn open_unchanged(&self, before: &Stat) -> Result<(Directory, Name, Stat), Failure> {
        let (directory, name) = self.open().map_err(|error| failure::of_tree(&error))?;
        let stat = directory.stat(&name).map_err(|error| failure::of_tree(&error))?;
        if !stat.same_version(before) {
            return Err("its candidate was changed meanwhile".into());
        }
        Ok((directory, name, stat))
    }
}

impl Candidates {
    /// Positions in the index of the files that may have this size and modification time: those of
    /// this name first.
    pub(super) fn of(&self, size: u64, time: FileTime, name: &[u8]) -> impl Iterator<Item = usize> + use<> {
        let key = key(size, time);
        let all = self.files.partition_point(|(other, _)| *other < key);
        let end = all + self.files[all..].partition_point(|(other, _)| *other == key);
        let alike = &self.files[all..end];
        let named = all + alike.partition_point(|(_, entry)| self.name_of(*entry) < name);
        let last = all + alike.partition_point(|(_, entry)| self.name_of(*entry) <= name);
        (named..last).chain(all..named).chain(last..end)
    }

    /// Name of the file at this position of the index.
    pub(super) fn name(&self, position: usize) -> &[u8] {
        self.name_of(self.files[position].1)
    }

    /// Number of the source in whose copy a file is, and its path from that copy.
    pub(super) fn path(&self, position: usize) -> (u32, Vec<u8>) {
        let (root, above) = self.above(self.files[position].1);
        let mut path: Vec<&[u8]> = above.into_iter().map(|entry| self.name_of(entry)).collect();
        path.push(self.name(position));
        (self.roots[root].0, path.join(&b'/'))
    }

    /// Opens the directory of a file, beneath its root and not across a mount point.
    fn open(&self, position: usize) -> Result<(Directory, Name), TreeError> {
        let entry = self.files[position].1;
        let (root, above) = self.above(entry);
        let enter = |directory: Directory, entry: Entry| directory.open_directory_on_mount(&self.checked_name(entry));
        let directory = above.into_iter().try_fold(self.roots[root].1.clone(), enter)?;
        Ok((directory, self.checked_name(entry)))
    }

    /// Present attributes of the file at this position of the index.
    pub(super) fn stat(&self, position: usize) -> Result<Stat, TreeError> {
        let (directory, name) = self.open(position)?;
        directory.stat(&name)
    }

    /// Number of the root above an entry, and the directories from there down.
    fn above(&self, entry: Entry) -> (usize, Vec<Entry>) {
        let (mut number, mut found) = (entry.above as usize, Vec::new());
        while let Some(below) = number.checked_sub(self.roots.len()) {
            found.push(self.directories[below]);
            number = self.directories[below].above as usize;
        }
        found.reverse();
        (number, found)
    }

    /// Bytes of an entry's name.
    fn name_of(&self, entry: Entry) -> &[u8] {
        let start = entry.name as usize;
        &self.names[start + 1..=start + usize::from(self.names[start])]
    }

    fn checked_name(&self, entry: Entry) -> Name {
        Name::new(self.name_of(entry)).expect("only checked names are kept")
    }

    /// Adds a name in the directory `above`; `None` if there is no room for it.
    fn add(&mut self, above: u32, name: &Name) -> Option<Entry> {
        let bytes = name.as_bytes();
        let start = self.names.len();
        if start + bytes.len() >= MAX_NAMES || self.files.len() >= MAX_FILES {
            return None;
        }
        self.names.push(u8::try_from(bytes.len()).ok()?);
        self.names.extend_from_slice(bytes);
        Some(Entry { above, name: u32::try_from(start).ok()? })
    }
}

/// Task of finding the files of a mirror's destination that an index is made of.
pub(super) struct Search {
    /// The directories, with the numbers of their sources and their paths from the transfer root.
    pub(super) roots: Vec<(u32, Directory, Vec<u8>)>,
    /// Rules by which names are never deleted, and so not renamed.
    pub(super) rules: Arc<Rules>,
    pub(super) sources: Option<Arc<SourcesHere>>,
}

impl Search {
    /// Makes the index, as long as `goes_on` returns true. What cannot be read is left out.
    pub(super) fn run(self, goes_on: impl Fn() -> bool) -> Candidates {
        let Self { roots, rules, sources } = self;
        let protection =
            Protection { rules: &rules, sources: sources.as_deref(), linked: None, unfinished: Unfinished::Stays };
        let copies = roots.iter().map(|(source, directory, _)| (*source, directory.clone())).collect();
        let mut found = Candidates { roots: copies, ..Candidates::default() };
        for (number, (_, directory, source_path)) in (0..).zip(roots) {
            walk(&mut found, (number, directory, source_path), &protection, &goes_on);
        }
        let mut files = std::mem::take(&mut found.files);
        files.sort_unstable_by(|(one, first), (other, second)| {
            one.cmp(other).then_with(|| found.name_of(*first).cmp(found.name_of(*second)))
        });
        Candidates { files, ..found }
    }
}

/// A directory of the destination that is being walked for the index.
struct Level {
    number: u32,
    directory: Directory,
    source_path: Vec<u8>,
    listing: Listing,
    /// Position in the listing of the next item.
    left: usize,
}

impl Level {
    /// Lists a directory that is to be walked; `None` if it cannot be read, or is a source of this
    /// copy.
    fn open((number, directory, source_path): (u32, Directory, Vec<u8>), protection: &Protection<'_>) -> Option<Self> {
        let own = directory.own_stat().ok()?;
        protection.refuse_source(&own, "").ok()?;
        let listing = directory.entries().ok()?;
        Some(Self { number, directory, source_path, listing, left: 0 })
    }
}

/// Adds the files below a directory to an index.
fn walk(
    found: &mut Candidates,
    root: (u32, Directory, Vec<u8>),
    protection: &Protection<'_>,
    goes_on: &impl Fn() -> bool,
) {
    let mut levels: Vec<Level> = Level::open(root, protection).into_iter().collect();
    loop {
        let depth = levels.len();
        let Some(level) = levels.last_mut() else { return };
        let Some(entry) = level.listing.get(level.left) else {
            levels.pop();
            if !goes_on() {
                return;
            }
            continue;
        };
        level.left += 1;
        let may_be_either = matches!(entry.hint, None | Some(Kind::File | Kind::Directory));
        let Some(name) = Name::new(entry.name).ok().filter(|_| may_be_either && !resembles_staging(entry.name)) else {
            continue;
        };
        let Ok(stat) = level.directory.stat(&name) else { continue };
        let source_path = match level.source_path.as_slice() {
            b"" => entry.name.to_vec(),
            above => [above, entry.name].join(&b'/'),
        };
        match stat.kind {
            kind @ (Kind::File | Kind::Directory) if protection.excludes(&source_path, kind == Kind::Directory) => {}
            Kind::File if stat.size > 0 => {
                let Some(entry) = found.add(level.number, &name) else { return };
                found.files.push((key(stat.size, stat.mtime), entry));
            }
            Kind::Directory if depth < MAX_DEPTH => {
                let above = level.number;
                let Ok(directory) = level.directory.open_directory_on_mount(&name) else { continue };
                let Some(entry) = found.add(above, &name) else { return };
                found.directories.push(entry);
                let number = (found.roots.len() + found.directories.len() - 1) as u32;
                levels.extend(Level::open((number, directory, source_path), protection));
            }
            _ => {}
        }
    }
}

/// Hash of size and modification time, by which an index is sorted; different ones may have the
/// same.
fn key(size: u64, FileTime { seconds, nanos }: FileTime) -> u64 {
    let mixed = size.wrapping_mul(SPREAD).rotate_left(29) ^ seconds.cast_unsigned();
    mixed.wrapping_mul(SPREAD).rotate_left(29) ^ u64::from(nanos).wrapping_mul(SPREAD)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use icdc_disk::tree::Tree;
    use icdc_filter::{Effect, Rule};

    use super::*;

    #[test]
    fn files_are_found_by_size_and_time_and_what_is_protected_is_not() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path();
        for (path, contents) in
            [("a/deep/one", "12345"), ("a/other", "abcde"), ("a/two", "123"), ("keep/one", "12345"), ("b", "12345")]
        {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), contents).unwrap();
            fs::File::open(root.join(path)).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        }
        std::os::unix::fs::symlink("a", root.join("link")).unwrap();
        let directory = Tree::open(root).unwrap().root().clone();
        let rule = Rule { effect: Effect::Exclude, pattern: b"keep/".to_vec() };
        let rules = Arc::new(Rules::compile(&[rule]).unwrap());
        let search = || Search { roots: vec![(7, directory.clone(), Vec::new())], rules: rules.clone(), sources: None };
        let found = search().run(|| true);
        let time = FileTime { seconds: 0, nanos: 0 };
        let paths: Vec<_> = found.of(5, time, b"x").map(|position| found.path(position)).collect();
        let expected = ["b", "a/deep/one", "a/other"].map(|path| (7, path.as_bytes().to_vec()));
        assert_eq!(paths, expected, "in the order of their names");
        let first = found.of(5, time, b"other").next().unwrap();
        assert_eq!(found.path(first).1, b"a/other", "the one of the same name comes first");
        let position = found.of(3, time, b"two").next().unwrap();
        assert_eq!((found.name(position), found.stat(position).unwrap().size), (b"two".as_slice(), 3));
        let others = found.of(5, FileTime { seconds: 1, nanos: 0 }, b"one").chain(found.of(4, time, b"one"));
        assert_eq!(others.count(), 0);
        // A directory that became a link is not entered.
        fs::rename(root.join("a"), root.join("c")).unwrap();
        std::os::unix::fs::symlink("c", root.join("a")).unwrap();
        assert!(found.stat(position).is_err());
    }
}
