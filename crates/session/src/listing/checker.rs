//! Check of a listing: names in ascending order, directories closed in turn, nothing after the end.
//!
//! Whatever the other end sends, the checker takes memory for the names of the open directories only.

use icdc_protocol::limits::{MAX_DEPTH, MAX_LEVEL_PATHS};
use icdc_protocol::message::{Listed, ListedItem, ListedKind, ListedMetadata};
use icdc_protocol::validate::is_component;

use super::names::whole;

/// A record of a listing that was checked, with the path of its item or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// An item.
    Item(Found),
    /// The directory that was opened last could not be read: it is told as if it were empty.
    Unread {
        /// Path of the directory.
        path: Vec<u8>,
        /// The reason, as a sentence for the user.
        reason: String,
    },
    /// The directory that was opened last has no further items.
    Leave {
        /// Path of the directory.
        path: Vec<u8>,
    },
}

/// An item of a listing with its path, kind and metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Path from the listed item on, without a slash at its start; empty for the listed item.
    pub path: Vec<u8>,
    /// Offset of the name, the last component, in the path.
    pub name_start: usize,
    /// Kind of the item.
    pub kind: ListedKind,
    /// Metadata; `None` if it was not asked for.
    pub metadata: Option<ListedMetadata>,
}

impl Found {
    /// Name of the item: the last component of its path.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.path[self.name_start..]
    }
}

/// A directory whose items are being listed.
#[derive(Debug)]
struct Level {
    path: Vec<u8>,
    /// Name of the last item in it; empty before the first.
    last: Vec<u8>,
    /// Whether it could not be read.
    unread: bool,
}

/// Checker of a listing whose records arrive one by one: keeps the open directories, by which each
/// record is checked for order and nesting, and gets its path.
#[derive(Debug, Default)]
pub struct ListingChecker {
    levels: Vec<Level>,
    /// Bytes of the paths of the open directories.
    path_bytes: usize,
    /// Whether the listed item has been told.
    begun: bool,
}

impl ListingChecker {
    /// A checker that has seen no record.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the listed item and everything beneath it have been told.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.begun && self.levels.is_empty()
    }

    /// Number of open directories.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.levels.len()
    }

    /// Checks the next record, and gives it the path of its item or directory.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn take(&mut self, record: Listed) -> Result<Record, &'static str> {
        if self.is_complete() {
            return Err("a record after the end of the listing");
        }
        match record {
            Listed::Item(item) if self.begun => self.item(item).map(Record::Item),
            Listed::Item(item) => self.first(item).map(Record::Item),
            Listed::Unread(reason) => {
                let level = self.levels.last_mut().ok_or("a directory that is not open")?;
                if level.unread || !level.last.is_empty() {
                    return Err("items of a directory that could not be read");
                }
                level.unread = true;
                Ok(Record::Unread { path: level.path.clone(), reason })
            }
            Listed::Leave => {
                let level = self.levels.pop().ok_or("a directory that is not open")?;
                self.path_bytes -= level.path.len();
                Ok(Record::Leave { path: level.path })
            }
        }
    }

    /// Checks the first item, which is the listed one itself.
    fn first(&mut self, item: ListedItem) -> Result<Found, &'static str> {
        if item.shared != 0 || !item.rest.is_empty() {
            return Err("the listed item has a name");
        }
        self.begun = true;
        let found = Found { path: Vec::new(), name_start: 0, kind: item.kind, metadata: item.metadata };
        self.open(&found)?;
        Ok(found)
    }

    /// Checks an item of the directory that was opened last, and gives it its path.
    fn item(&mut self, item: ListedItem) -> Result<Found, &'static str> {
        let level = self.levels.last_mut().ok_or("an item outside of a directory")?;
        if level.unread {
            return Err("items of a directory that could not be read");
        }
        let name = whole(&level.last, item.shared, &item.rest).ok_or("a name that shares more than there is")?;
        if !is_component(&name) {
            return Err("a name that is not one component of a path");
        }
        if name <= level.last {
            return Err("names that are not in ascending order");
        }
        let mut path = level.path.clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        let name_start = path.len();
        path.extend_from_slice(&name);
        level.last = name;
        let found = Found { path, name_start, kind: item.kind, metadata: item.metadata };
        self.open(&found)?;
        Ok(found)
    }

    /// Opens an item that is a directory whose items follow; fails if directories are nested too
    /// deeply.
    fn open(&mut self, found: &Found) -> Result<(), &'static str> {
        if found.kind != ListedKind::Open {
            return Ok(());
        }
        self.path_bytes += found.path.len();
        if self.levels.len() >= MAX_DEPTH || self.path_bytes > MAX_LEVEL_PATHS {
            return Err("directories nested too deeply");
        }
        self.levels.push(Level { path: found.path.clone(), last: Vec::new(), unread: false });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(shared: u8, rest: &str, kind: ListedKind) -> Listed {
        Listed::Item(ListedItem { shared, rest: rest.into(), kind, metadata: None })
    }

    fn check(records: impl IntoIterator<Item = Listed>) -> Result<Vec<String>, &'static str> {
        let mut checker = ListingChecker::new();
        let shown = |path: Vec<u8>| String::from_utf8(path).unwrap();
        let told = records.into_iter().map(|record| {
            Ok(match checker.take(record)? {
                Record::Item(found) => {
                    assert!(found.path.ends_with(found.name()));
                    shown(found.path)
                }
                Record::Unread { path, reason } => format!("{}: {reason}", shown(path)),
                Record::Leave { path } => format!("{}/", shown(path)),
            })
        });
        let told = told.collect::<Result<Vec<_>, _>>()?;
        if checker.is_complete() { Ok(told) } else { Err("not complete") }
    }

    #[test]
    fn records_get_their_paths() {
        use ListedKind::{Directory, Open, Pipe};
        let records = [
            item(0, "", Open),
            item(0, "abc", Open),
            item(0, "x", Pipe),
            Listed::Leave,
            item(2, "d", Open),
            Listed::Unread("closed".into()),
            Listed::Leave,
            item(1, "c", Directory),
            Listed::Leave,
        ];
        let expected = ["", "abc", "abc/x", "abc/", "abd", "abd: closed", "abd/", "ac", "/"];
        assert_eq!(check(records), Ok(expected.map(str::to_owned).to_vec()));
        assert_eq!(check([item(0, "", Pipe)]), Ok(vec![String::new()]));
    }

    #[test]
    fn an_end_that_does_not_keep_to_the_order_is_found_out() {
        use ListedKind::{Open, Pipe};
        let root = || item(0, "", Open);
        let unread = || Listed::Unread("closed".into());
        let cases: Vec<(Vec<Listed>, &str)> = vec![
            (vec![root()], "not complete"),
            (vec![Listed::Leave], "not open"),
            (vec![item(0, "a", Pipe)], "has a name"),
            (vec![root(), item(0, "b", Pipe), item(0, "a", Pipe)], "ascending"),
            (vec![root(), item(0, "b", Pipe), item(1, "", Pipe)], "ascending"),
            (vec![root(), item(0, "b", Pipe), item(2, "a", Pipe)], "shares more"),
            (vec![root(), item(0, "..", Pipe)], "one component"),
            (vec![root(), item(0, ".", Pipe), item(1, ".", Pipe)], "one component"),
            (vec![root(), unread(), item(0, "a", Pipe)], "could not be read"),
            (vec![root(), unread(), unread()], "could not be read"),
            (vec![root(), item(0, "a", Pipe), unread()], "could not be read"),
            (vec![root(), Listed::Leave, Listed::Leave], "after the end"),
            (vec![item(0, "", Pipe), item(0, "a", Pipe)], "after the end"),
        ];
        for (records, expected) in cases {
            let error = check(records.clone()).unwrap_err();
            assert!(error.contains(expected), "{error} of {records:?}");
        }
        let deep = std::iter::once(root()).chain(std::iter::repeat_with(|| item(0, "d", Open)));
        assert!(check(deep.take(MAX_DEPTH + 1)).unwrap_err().contains("too deeply"));
    }
}
