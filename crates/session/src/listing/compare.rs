//! Comparison of two trees by their listings, as streams: both come depth first with sorted names,
//! so that only the records at the front of each are looked at.
//!
//! ```text
//! both in one directory   next names  a < b: missing in B     a > b: extra in B     a = b: compared
//! a directory of one tree only is one difference, and its items are passed over
//! ```

use std::cmp::Ordering;

use icdc_protocol::message::{ListedKind, ListedMetadata};

use super::checker::{Found, Record};

/// Property in which items of two trees can differ, or that an item is in one of them only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aspect {
    /// The item is in A and not in B.
    Missing,
    /// The item is in B and not in A.
    Extra,
    /// Type: file, directory, symbolic link, …
    Type,
    /// Length of a regular file.
    Size,
    /// Contents of a regular file, by their digest.
    Content,
    /// Target of a symbolic link.
    Target,
    /// Permission bits, of anything but a symbolic link.
    Mode,
    /// Modification time.
    Mtime,
    /// Numeric owner and group.
    Owner,
}

impl Aspect {
    /// Name of the aspect on the command line and in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Type => "type",
            Self::Size => "size",
            Self::Content => "content",
            Self::Target => "target",
            Self::Mode => "mode",
            Self::Mtime => "mtime",
            Self::Owner => "owner",
        }
    }
}

/// One of the two trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first tree.
    A,
    /// The second tree.
    B,
}

/// A difference between the trees, or an item that could not be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference<'a> {
    /// The item is in both trees and differs in these aspects, of which there is at least one.
    Differs {
        /// Aspects that differ.
        aspects: &'a [Aspect],
        /// The item in the first tree.
        a: &'a Found,
        /// The item in the second tree.
        b: &'a Found,
    },
    /// The item is in one tree only, with everything beneath it.
    OneSided {
        /// The tree that has the item.
        side: Side,
        /// The item.
        found: &'a Found,
        /// Number of items beneath it.
        beneath: u64,
    },
    /// The item could not be read in one of the trees.
    Unreadable {
        /// The tree in which it could not be read.
        side: Side,
        /// Path of the item in the tree.
        path: &'a [u8],
        /// The reason, as a sentence for the user.
        reason: &'a str,
    },
}

/// Counts of a comparison of two trees: items that were compared, that differ, that are in one tree
/// only, and that could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of items that are in both trees.
    pub compared: u64,
    /// Number of bytes whose digests were compared.
    pub bytes: u64,
    /// Number of items in both trees that differ.
    pub different: u64,
    /// Number of items that are in A only, those beneath them included.
    pub missing: u64,
    /// Number of items that are in B only, those beneath them included.
    pub extra: u64,
    /// Number of items that could not be read in one of the trees.
    pub unreadable: u64,
}

impl Tally {
    /// Whether everything was compared and nothing differs.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.different == 0 && self.missing == 0 && self.extra == 0 && self.unreadable == 0
    }
}

/// Function that returns the next record of a tree's listing, or the error that ended it; it is not
/// called after the last record.
pub type Next<'a, E> = &'a mut dyn FnMut() -> Result<Record, E>;

/// Compares two trees; differences are passed to `tell`, except for those in `ignored`.
///
/// # Errors
/// Those of the listings.
pub fn compare<E>(
    a: Next<'_, E>,
    b: Next<'_, E>,
    ignored: &[Aspect],
    tell: &mut dyn FnMut(Difference<'_>),
) -> Result<Tally, E> {
    let streams = [Stream { next: a, ahead: None }, Stream { next: b, ahead: None }];
    let mut comparison = Comparison { streams, ignored, tell, tally: Tally::default(), unread: Vec::new() };
    comparison.run()?;
    Ok(comparison.tally)
}

/// Listing of one of the trees, with its next record if that was looked at and not taken.
struct Stream<'a, E> {
    next: Next<'a, E>,
    ahead: Option<Record>,
}

impl<E> Stream<'_, E> {
    /// The next record, which stays.
    fn peek(&mut self) -> Result<&Record, E> {
        if self.ahead.is_none() {
            self.ahead = Some((self.next)()?);
        }
        Ok(self.ahead.as_ref().expect("it has just been put there"))
    }

    /// Takes the next record.
    fn take(&mut self) -> Result<Record, E> {
        self.ahead.take().map_or_else(|| (self.next)(), Ok)
    }
}

/// Relation of the next records of the two listings, by which the next step of the comparison is
/// chosen.
enum Front {
    Unread(Side),
    Leave,
    Only(Side),
    Both,
}

/// State of a comparison of two trees by their listings.
struct Comparison<'a, E> {
    streams: [Stream<'a, E>; 2],
    ignored: &'a [Aspect],
    tell: &'a mut dyn FnMut(Difference<'_>),
    tally: Tally,
    /// Whether each directory that is open in both trees could not be read in A, and in B.
    unread: Vec<[bool; 2]>,
}

impl<'a, E> Comparison<'a, E> {
    /// Compares the listings record by record, up to their ends.
    fn run(&mut self) -> Result<(), E> {
        self.both()?;
        while let Some(unread) = self.unread.last_mut() {
            let [a, b] = &mut self.streams;
            match front(a.peek()?, b.peek()?) {
                Front::Unread(side) => {
                    unread[side as usize] = true;
                    let record = self.stream(side).take()?;
                    self.note_unread(side, &record);
                }
                Front::Leave => {
                    a.take()?;
                    b.take()?;
                    self.unread.pop();
                }
                Front::Only(side) => self.one_sided(side)?,
                Front::Both => self.both()?,
            }
        }
        Ok(())
    }

    /// The listing of this tree.
    fn stream(&mut self, side: Side) -> &mut Stream<'a, E> {
        &mut self.streams[side as usize]
    }

    /// Counts and reports the directory of an [`Unread`](Record::Unread) record as unreadable.
    fn note_unread(&mut self, side: Side, record: &Record) {
        if let Record::Unread { path, reason } = record {
            self.unreadable(side, path, reason);
        }
    }

    /// Counts and reports an item that could not be read in one of the trees.
    fn unreadable(&mut self, side: Side, path: &[u8], reason: &str) {
        self.tally.unreadable += 1;
        (self.tell)(Difference::Unreadable { side, path, reason });
    }

    /// Passes over an item that one tree has, and everything beneath it.
    fn one_sided(&mut self, side: Side) -> Result<(), E> {
        let Record::Item(found) = self.stream(side).take()? else { return Ok(()) };
        let beneath = if found.kind == ListedKind::Open { self.pass_over(side)? } else { 0 };
        let (aspect, other, count) = match side {
            Side::A => (Aspect::Missing, Side::B, &mut self.tally.missing),
            Side::B => (Aspect::Extra, Side::A, &mut self.tally.extra),
        };
        // Where the other tree's directory could not be read, nobody knows.
        let is_unknown = self.unread.last().is_some_and(|unread| unread[other as usize]);
        if !is_unknown && !self.ignored.contains(&aspect) {
            *count += 1 + beneath;
            (self.tell)(Difference::OneSided { side, found: &found, beneath });
        }
        Ok(())
    }

    /// Passes over the items of the directory that was opened last in one of the trees; returns
    /// their number.
    fn pass_over(&mut self, side: Side) -> Result<u64, E> {
        let (mut depth, mut items) = (1, 0);
        while depth > 0 {
            match self.stream(side).take()? {
                Record::Item(found) => {
                    items += 1;
                    depth += usize::from(found.kind == ListedKind::Open);
                }
                Record::Leave { .. } => depth -= 1,
                record @ Record::Unread { .. } => self.note_unread(side, &record),
            }
        }
        Ok(items)
    }

    /// Compares the next items of both listings, which have one name; of a directory in one tree
    /// only, passes over its items.
    fn both(&mut self) -> Result<(), E> {
        let [a, b] = &mut self.streams;
        let (Record::Item(a), Record::Item(b)) = (a.take()?, b.take()?) else { return Ok(()) };
        self.tally.compared += 1;
        for (side, found) in [(Side::A, &a), (Side::B, &b)] {
            if let Some(reason) = obstacle(&found.kind) {
                self.unreadable(side, &found.path, reason);
            }
        }
        let mut aspects = differing(&a, &b);
        aspects.retain(|aspect| !self.ignored.contains(aspect));
        if digests(&a.kind, &b.kind).is_some() {
            self.tally.bytes += a.metadata.map_or(0, |metadata| metadata.size);
        }
        if !aspects.is_empty() {
            self.tally.different += 1;
            (self.tell)(Difference::Differs { aspects: &aspects, a: &a, b: &b });
        }
        match (a.kind == ListedKind::Open, b.kind == ListedKind::Open) {
            (true, true) => self.unread.push([false; 2]),
            (true, false) => drop(self.pass_over(Side::A)?),
            (false, true) => drop(self.pass_over(Side::B)?),
            (false, false) => {}
        }
        Ok(())
    }
}

/// Relation of the next records of two listings of one directory, by the names of their items.
fn front(a: &Record, b: &Record) -> Front {
    match (a, b) {
        (Record::Unread { .. }, _) => Front::Unread(Side::A),
        (_, Record::Unread { .. }) => Front::Unread(Side::B),
        (Record::Leave { .. }, Record::Leave { .. }) => Front::Leave,
        (Record::Item(_), Record::Leave { .. }) => Front::Only(Side::A),
        (Record::Leave { .. }, Record::Item(_)) => Front::Only(Side::B),
        (Record::Item(a), Record::Item(b)) => match a.name().cmp(b.name()) {
            Ordering::Less => Front::Only(Side::A),
            Ordering::Equal => Front::Both,
            Ordering::Greater => Front::Only(Side::B),
        },
    }
}

/// The reason why an item could not be read; `None` if it could.
fn obstacle(kind: &ListedKind) -> Option<&str> {
    match kind {
        ListedKind::File { digest: Some(Err(reason)) } | ListedKind::Unexamined(reason) => Some(reason),
        _ => None,
    }
}

/// The digests of two files, if both are known.
fn digests<'a>(a: &'a ListedKind, b: &'a ListedKind) -> Option<(&'a [u8], &'a [u8])> {
    match (a, b) {
        (ListedKind::File { digest: Some(Ok(a)) }, ListedKind::File { digest: Some(Ok(b)) }) => Some((a, b)),
        _ => None,
    }
}

/// Aspects in which two items of one name differ; none where one of them could not be examined.
fn differing(a: &Found, b: &Found) -> Vec<Aspect> {
    let is_unexamined = |found: &Found| matches!(found.kind, ListedKind::Unexamined(_));
    if is_unexamined(a) || is_unexamined(b) {
        return Vec::new();
    }
    if !is_same_type(&a.kind, &b.kind) {
        return vec![Aspect::Type];
    }
    let (of_a, of_b) = (a.metadata.as_ref(), b.metadata.as_ref());
    let differs = |value: fn(&ListedMetadata) -> (u64, u64)| of_a.map(value) != of_b.map(value);
    let is_file = matches!(a.kind, ListedKind::File { .. });
    let is_link = matches!(a.kind, ListedKind::Symlink { .. });
    let other_size = is_file && differs(|metadata| (metadata.size, 0));
    let other_target = match (&a.kind, &b.kind) {
        (ListedKind::Symlink { target: a }, ListedKind::Symlink { target: b }) => a != b,
        _ => false,
    };
    let aspects = [
        (Aspect::Size, other_size),
        (Aspect::Content, !other_size && digests(&a.kind, &b.kind).is_some_and(|(a, b)| a != b)),
        (Aspect::Target, other_target),
        (Aspect::Mode, !is_link && differs(|metadata| (metadata.mode.into(), 0))),
        (Aspect::Mtime, of_a.map(|metadata| metadata.modified) != of_b.map(|metadata| metadata.modified)),
        (Aspect::Owner, differs(|metadata| (metadata.user.into(), metadata.group.into()))),
    ];
    aspects.into_iter().filter(|(_, differs)| *differs).map(|(aspect, _)| aspect).collect()
}

/// Whether two items are of one type; directories are, whether or not their items are listed.
fn is_same_type(a: &ListedKind, b: &ListedKind) -> bool {
    let is_directory = |kind: &ListedKind| matches!(kind, ListedKind::Open | ListedKind::Directory);
    (is_directory(a) && is_directory(b)) || std::mem::discriminant(a) == std::mem::discriminant(b)
}

#[cfg(test)]
mod tests {
    use icdc_protocol::message::{Listed, ListedItem, TimeStamp};

    use super::*;
    use crate::listing::checker::ListingChecker;
    use crate::listing::names;

    /// An item of a made-up tree: a directory with its items, one that cannot be read, or a file.
    enum Node {
        Directory(Vec<(&'static str, Node)>),
        Closed,
        File(u64, Result<u8, &'static str>, u16),
        Link(&'static str),
    }

    use Node::{Closed, Directory, File, Link};

    fn metadata(size: u64, mode: u16) -> Option<ListedMetadata> {
        let modified = TimeStamp { seconds: 7, nanos: 0 };
        Some(ListedMetadata { size, allocated: 0, mode, links: 1, user: 1, group: 1, modified, repeated: false })
    }

    fn list(node: &Node, (shared, rest): (u8, Vec<u8>), records: &mut Vec<Listed>) {
        let (kind, size, mode) = match node {
            Directory(_) | Closed => (ListedKind::Open, 0, 0o755),
            File(size, digest, mode) => {
                let digest = digest.map(|byte| vec![byte; 32]).map_err(str::to_owned);
                (ListedKind::File { digest: Some(digest) }, *size, *mode)
            }
            Link(target) => (ListedKind::Symlink { target: target.as_bytes().to_vec() }, 0, 0o777),
        };
        records.push(Listed::Item(ListedItem { shared, rest, kind, metadata: metadata(size, mode) }));
        match node {
            Directory(items) => {
                let mut before: &[u8] = b"";
                for (name, item) in items {
                    let shared = names::shared(before, name.as_bytes());
                    list(item, (shared, name.as_bytes()[usize::from(shared)..].to_vec()), records);
                    before = name.as_bytes();
                }
                records.push(Listed::Leave);
            }
            Closed => records.extend([Listed::Unread("closed".into()), Listed::Leave]),
            File(..) | Link(_) => {}
        }
    }

    fn compared(a: &Node, b: &Node, ignored: &[Aspect]) -> (Vec<String>, Tally) {
        let mut listings = [a, b].map(|root| {
            let mut records = Vec::new();
            list(root, (0, Vec::new()), &mut records);
            let mut checker = ListingChecker::new();
            records.into_iter().map(move |record| checker.take(record))
        });
        let [a, b] = &mut listings;
        let mut told = Vec::new();
        let mut tell = |difference: Difference<'_>| {
            let shown = |path: &[u8]| String::from_utf8(path.to_vec()).unwrap();
            told.push(match difference {
                Difference::Differs { aspects, a, .. } => {
                    let names: Vec<_> = aspects.iter().map(|aspect| aspect.name()).collect();
                    format!("{} {}", names.join(","), shown(&a.path))
                }
                Difference::OneSided { side, found, beneath } => format!("{side:?} {} {beneath}", shown(&found.path)),
                Difference::Unreadable { side, path, reason } => format!("{side:?} {} {reason}", shown(path)),
            });
        };
        let tally = compare(
            &mut || a.next().expect("no more is asked for"),
            &mut || b.next().expect("as here"),
            ignored,
            &mut tell,
        );
        let tally = tally.unwrap();
        assert!(a.next().is_none() && b.next().is_none(), "everything is asked for");
        (told, tally)
    }

    #[test]
    fn equal_trees_are_equal() {
        let tree = || Directory(vec![("a", Directory(vec![("x", File(3, Ok(1), 0o644))])), ("a.b", Link("x"))]);
        let (told, tally) = compared(&tree(), &tree(), &[]);
        assert_eq!((told, tally.is_equal(), tally.compared, tally.bytes), (vec![], true, 4, 3));
        let (told, tally) = compared(&File(1, Ok(1), 0), &File(1, Ok(2), 0), &[]);
        assert_eq!((told, tally.is_equal()), (vec!["content ".to_owned()], false));
    }

    #[test]
    fn every_difference_is_told_in_order() {
        let a = Directory(vec![
            ("a", Directory(vec![("1", File(1, Ok(1), 0)), ("2", Directory(vec![("3", Closed)]))])),
            ("b", File(3, Ok(1), 0o644)),
            ("c", File(3, Ok(1), 0o644)),
            ("d", Directory(vec![("x", File(0, Ok(1), 0))])),
            ("e", Link("x")),
            ("f", File(3, Err("io"), 0o644)),
        ]);
        let b = Directory(vec![
            ("a!", Directory(vec![])),
            ("b", File(4, Ok(2), 0o600)),
            ("c", File(3, Ok(2), 0o644)),
            ("d", File(0, Ok(1), 0)),
            ("e", Link("y")),
            ("f", File(3, Ok(1), 0o644)),
            ("g", Closed),
        ]);
        let (told, tally) = compared(&a, &b, &[]);
        let expected = [
            "A a/2/3 closed",
            "A a 3",
            "B a! 0",
            "size,mode b",
            "content c",
            "type d",
            "target e",
            "A f io",
            "B g closed",
            "B g 0",
        ];
        assert_eq!(told, expected);
        let counts = (tally.compared, tally.different, tally.missing, tally.extra, tally.unreadable, tally.bytes);
        assert_eq!(counts, (6, 4, 4, 2, 3, 6));
        let (told, tally) = compared(&a, &b, &[Aspect::Missing, Aspect::Extra, Aspect::Mode, Aspect::Size]);
        assert_eq!(told, ["A a/2/3 closed", "content c", "type d", "target e", "A f io", "B g closed"]);
        assert_eq!((tally.missing, tally.extra, tally.different), (0, 0, 3));
    }

    #[test]
    fn what_could_not_be_read_in_one_tree_is_neither_missing_nor_extra() {
        let full = || Directory(vec![("d", Directory(vec![("x", File(0, Ok(1), 0)), ("y", Directory(vec![]))]))]);
        let closed = Directory(vec![("d", Closed)]);
        let (told, tally) = compared(&full(), &closed, &[]);
        assert_eq!((told, tally.missing, tally.unreadable), (vec!["B d closed".to_owned()], 0, 1));
        assert!(!tally.is_equal());
        let (told, tally) = compared(&closed, &full(), &[]);
        assert_eq!((told, tally.extra, tally.unreadable), (vec!["A d closed".to_owned()], 0, 1));
    }
}
