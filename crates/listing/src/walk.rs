//! Walks a tree depth first. Directories are opened by descriptor, one beneath the other and never
//! through a link; names within a directory go in byte order.

use std::collections::HashSet;

use icdc_disk::tree::{Directory, Kind, Listing, Name, Stat, TreeError, printable};
use icdc_filter::{Effect, Rules};
use icdc_protocol::limits::{MAX_DEPTH, MAX_LEVEL_PATHS, MAX_LINKED, MAX_PATH};
use icdc_protocol::message::{
    ListDetail, ListReach, ListRequest, Listed, ListedItem, ListedKind, ListedMetadata, TimeStamp,
};
use icdc_session::listing::names::shared;

use crate::root::Root;
use crate::subject::Subject;

/// Size in bytes of the blocks in which `stat` counts a file's allocated space.
const STAT_BLOCK: u64 = 512;

/// Record of an item, or of an event such as the end of a directory, that the walk has found.
pub(crate) enum Walked {
    /// A record that is complete.
    Record(Listed),
    /// A regular file whose digest is to be put into the record.
    File(ListedItem, Subject),
}

/// Error: the records are not wanted any more, and the walk ends.
#[derive(Debug)]
pub(crate) struct Over;

/// Function that takes what the walk finds.
type Sink<'a> = &'a mut dyn FnMut(Walked) -> Result<(), Over>;

/// Walks `root` as requested and passes what is found to `sink`.
///
/// # Errors
/// See [`Over`].
pub(crate) fn walk(root: Root, request: &ListRequest, rules: &Rules, sink: Sink<'_>) -> Result<(), Over> {
    let mut walk =
        Walk { request, rules, sink, frames: Vec::new(), path: Vec::new(), path_bytes: 0, seen: HashSet::new() };
    match root {
        Root::Directory(directory) => {
            let metadata = match request.detail {
                ListDetail::Names => None,
                _ => directory.own_stat().ok().map(|stat| walk.metadata(&stat)),
            };
            walk.record(0, Vec::new(), (ListedKind::Open, metadata))?;
            walk.enter(Ok(directory))?;
            walk.run()
        }
        Root::Item(directory, name, stat) => {
            let found = walk.kind(&directory, &name, &stat);
            let (kind, metadata) = found.unwrap_or_else(|error| (ListedKind::Unexamined(error.to_string()), None));
            walk.item((0, Vec::new()), (kind, metadata), Subject { directory, name, stat })
        }
    }
}

/// A directory that has been entered, with those of its entries that are left.
struct Frame {
    directory: Directory,
    listing: Listing,
    next: usize,
    /// Name of the last item that was told.
    before: Vec<u8>,
    /// Length of the directory's path.
    path_length: usize,
}

/// The depth-first walk of one listing, which passes records to `sink`.
struct Walk<'a> {
    request: &'a ListRequest,
    rules: &'a Rules,
    sink: Sink<'a>,
    frames: Vec<Frame>,
    /// Path of the directory, or of the item that is being looked at, from the root on.
    path: Vec<u8>,
    /// Bytes of the paths of the open directories.
    path_bytes: usize,
    /// Device and inode numbers of files with several names.
    seen: HashSet<(u64, u64)>,
}

impl Walk<'_> {
    /// Walks until all open directories are done; tells the end of each.
    fn run(&mut self) -> Result<(), Over> {
        while let Some(frame) = self.frames.last_mut() {
            self.path.truncate(frame.path_length);
            let Some(entry) = frame.listing.get(frame.next) else {
                self.path_bytes -= frame.path_length;
                self.frames.pop();
                (self.sink)(Walked::Record(Listed::Leave))?;
                continue;
            };
            frame.next += 1;
            let name = match Name::new(entry.name) {
                Ok(name) => name,
                Err(error) => {
                    tracing::warn!("a name that the file system gives is none: {error}");
                    continue;
                }
            };
            let (directory, hint) = (frame.directory.clone(), entry.hint);
            if !self.path.is_empty() {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(name.as_bytes());
            self.entry(&directory, name, hint)?;
        }
        Ok(())
    }

    /// Examines an entry of the last directory and tells it, unless the rules exclude it; enters a
    /// directory if the whole tree is listed. `hint` is its kind as far as the directory tells.
    fn entry(&mut self, directory: &Directory, name: Name, hint: Option<Kind>) -> Result<(), Over> {
        if hint.is_some_and(|kind| self.is_excluded(kind)) {
            return Ok(());
        }
        let found = match (self.request.detail, hint) {
            (ListDetail::Names, Some(kind)) => Ok((kind, None)),
            _ => directory.stat(&name).map(|stat| (stat.kind, Some(stat))),
        };
        let (kind, stat) = match found {
            Ok(found) => found,
            // It was removed meanwhile.
            Err(error) if error.is_missing() => return Ok(()),
            Err(error) => return self.told(&name, (ListedKind::Unexamined(error.to_string()), None)),
        };
        if self.is_excluded(kind) {
            return Ok(());
        }
        if kind == Kind::Directory && self.request.reach == ListReach::Tree {
            let metadata = self.wanted_metadata(stat.as_ref());
            self.told(&name, (ListedKind::Open, metadata))?;
            return self.enter(directory.open_directory(&name));
        }
        let Some(stat) = stat else { return self.told(&name, (kind_by_name(kind), None)) };
        match self.kind(directory, &name, &stat) {
            Ok(found) => {
                let place = self.place(&name);
                self.item(place, found, Subject { directory: directory.clone(), name, stat })
            }
            Err(error) if error.is_missing() => Ok(()),
            Err(error) => self.told(&name, (ListedKind::Unexamined(error.to_string()), None)),
        }
    }

    /// Whether the request's rules exclude the item at the present path, if it is of this kind.
    fn is_excluded(&self, kind: Kind) -> bool {
        self.rules.decide(&self.path, kind == Kind::Directory) == Effect::Exclude
    }

    /// Enters a directory whose record was told; if it cannot be read or lies too deep, tells the
    /// reason and leaves it.
    fn enter(&mut self, directory: Result<Directory, TreeError>) -> Result<(), Over> {
        let is_too_deep = self.frames.len() >= MAX_DEPTH || self.path_bytes + self.path.len() > MAX_LEVEL_PATHS;
        let listed = match directory {
            _ if is_too_deep => {
                let start = &self.path[..self.path.len().min(MAX_PATH)];
                Err(format!("{}: directories are nested too deeply; list a directory below", printable(start)))
            }
            Ok(directory) => directory.entries().map(|listing| (directory, listing)).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match listed {
            Ok((directory, listing)) => {
                let path_length = self.path.len();
                self.path_bytes += path_length;
                self.frames.push(Frame { directory, listing, next: 0, before: Vec::new(), path_length });
                Ok(())
            }
            Err(reason) => {
                (self.sink)(Walked::Record(Listed::Unread(reason)))?;
                (self.sink)(Walked::Record(Listed::Leave))
            }
        }
    }

    /// Kind and metadata of an item that is not entered, as requested.
    fn kind(
        &mut self,
        directory: &Directory,
        name: &Name,
        stat: &Stat,
    ) -> Result<(ListedKind, Option<ListedMetadata>), TreeError> {
        let kind = match stat.kind {
            Kind::Symlink if self.request.detail != ListDetail::Names => {
                ListedKind::Symlink { target: directory.read_link(name)? }
            }
            kind => kind_by_name(kind),
        };
        Ok((kind, self.wanted_metadata(Some(stat))))
    }

    /// Metadata for the record; `None` if only names are requested.
    fn wanted_metadata(&mut self, stat: Option<&Stat>) -> Option<ListedMetadata> {
        match self.request.detail {
            ListDetail::Names => None,
            ListDetail::Metadata | ListDetail::Digests(_) => stat.map(|stat| self.metadata(stat)),
        }
    }

    /// Metadata of an item from its attributes; marks a file as repeated if another name of it was
    /// told before.
    fn metadata(&mut self, stat: &Stat) -> ListedMetadata {
        let has_names = stat.kind == Kind::File && stat.nlink > 1;
        let place = (stat.dev, stat.ino);
        let repeated = has_names && self.seen.contains(&place);
        if has_names && self.seen.len() < MAX_LINKED {
            self.seen.insert(place);
        }
        ListedMetadata {
            size: stat.size,
            allocated: stat.blocks.saturating_mul(STAT_BLOCK),
            mode: stat.mode,
            links: stat.nlink,
            user: stat.uid,
            group: stat.gid,
            modified: TimeStamp { seconds: stat.mtime.seconds, nanos: stat.mtime.nanos },
            repeated,
        }
    }

    /// Encodes the name of an item of the last directory: number of leading bytes that it has in
    /// common with the name told before it, and the rest.
    fn place(&mut self, name: &Name) -> (u8, Vec<u8>) {
        let name = name.as_bytes();
        let Some(frame) = self.frames.last_mut() else { return (0, name.to_vec()) };
        let shared = shared(&frame.before, name);
        frame.before.clear();
        frame.before.extend_from_slice(name);
        (shared, name[usize::from(shared)..].to_vec())
    }

    /// Passes the record of an item of the last directory, without a digest, to the sink.
    fn told(&mut self, name: &Name, found: (ListedKind, Option<ListedMetadata>)) -> Result<(), Over> {
        let (shared, rest) = self.place(name);
        self.record(shared, rest, found)
    }

    /// Passes the record of an item to the sink; its name consists of `shared` bytes of the name
    /// before, and `rest`.
    fn record(
        &mut self,
        shared: u8,
        rest: Vec<u8>,
        (kind, metadata): (ListedKind, Option<ListedMetadata>),
    ) -> Result<(), Over> {
        (self.sink)(Walked::Record(Listed::Item(ListedItem { shared, rest, kind, metadata })))
    }

    /// Passes an item to the sink; a regular file together with what is needed to digest it, if
    /// digests are requested.
    fn item(
        &mut self,
        (shared, rest): (u8, Vec<u8>),
        (kind, metadata): (ListedKind, Option<ListedMetadata>),
        subject: Subject,
    ) -> Result<(), Over> {
        let item = ListedItem { shared, rest, kind, metadata };
        let is_digested = matches!(self.request.detail, ListDetail::Digests(_));
        match &item.kind {
            ListedKind::File { .. } if is_digested => (self.sink)(Walked::File(item, subject)),
            _ => (self.sink)(Walked::Record(Listed::Item(item))),
        }
    }
}

/// The kind for a record, from the item's kind alone: without a digest, and without a link's
/// target.
fn kind_by_name(kind: Kind) -> ListedKind {
    match kind {
        Kind::File => ListedKind::File { digest: None },
        Kind::Directory => ListedKind::Directory,
        Kind::Symlink => ListedKind::Symlink { target: Vec::new() },
        Kind::Other(_) => match kind.letter() {
            'p' => ListedKind::Pipe,
            's' => ListedKind::Socket,
            'b' => ListedKind::BlockDevice,
            'c' => ListedKind::CharacterDevice,
            _ => ListedKind::Unknown,
        },
    }
}
