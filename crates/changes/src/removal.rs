//! Removal of items: counted first, then as many removed at most.

use icdc_disk::tree::{Directory, Kind, Tree, WalkFailure, WalkItem, printable};
use icdc_protocol::message::{ChangeCount, ChangedItem};
use icdc_stop::StopSignal;

use crate::in_use::InUse;
use crate::place::{self, Place};
use crate::report::{Over, Reporter};
use crate::walk::{Halt, walk};

/// Removal of items from a tree, with its options.
#[derive(Clone, Copy)]
pub(crate) struct Removal<'a> {
    pub(crate) tree: &'a Tree,
    /// Whether directories are removed, with everything in them.
    pub(crate) recursive: bool,
    /// Whether nothing is removed.
    pub(crate) dry_run: bool,
    /// Whether each removed item is told.
    pub(crate) names: bool,
    /// Time in seconds since 1970.
    pub(crate) now: i64,
    pub(crate) stop: &'a StopSignal,
}

/// An item of the request of which everything was counted: its identity, by which a replacement is
/// noticed, and the count, beyond which nothing of it is removed.
struct Counted<'a> {
    path: &'a [u8],
    device: u64,
    inode: u64,
    count: ChangeCount,
}

/// Removes the items at `paths`: counts them all, asks the reporter with the count, then removes.
/// An item of which anything cannot be read, or may be in use, stays whole. Returns what was
/// removed, or in a dry run the count.
pub(crate) fn remove(
    removal: &Removal<'_>,
    paths: &[Vec<u8>],
    reporter: &mut dyn Reporter,
) -> Result<ChangeCount, Over> {
    let mut finder = Finder { tree: removal.tree, start: removal.tree.root().lineage(), before: None };
    let mut counted = Vec::new();
    let mut all = ChangeCount::default();
    for path in paths {
        match removal.count(&mut finder, path, reporter) {
            Ok(found) => {
                all.items += found.count.items;
                all.directories += found.count.directories;
                all.bytes = all.bytes.saturating_add(found.count.bytes);
                counted.push(found);
            }
            Err(Halt::Over) => return Err(Over),
            Err(Halt::Failed(WalkFailure { path, reason })) => reporter.failed(&path, reason)?,
        }
    }
    if removal.dry_run || counted.is_empty() {
        return Ok(all);
    }
    reporter.counted(&all)?;
    let mut gone = ChangeCount::default();
    for found in &counted {
        match removal.remove(&mut finder, found, &mut gone, reporter) {
            Ok(()) => {}
            Err(Halt::Over) => return Err(Over),
            Err(Halt::Failed(WalkFailure { path, reason })) => reporter.failed(&path, reason)?,
        }
    }
    Ok(gone)
}

/// Finds the items at the request's paths; refuses the directory where relative paths start, and
/// those above it.
struct Finder<'a> {
    tree: &'a Tree,
    start: Vec<(u64, u64)>,
    /// Path and directory of the item that was found last.
    before: Option<(Vec<u8>, Directory)>,
}

impl Finder<'_> {
    /// The existing item at `path`, or a failure of that path.
    fn find(&mut self, path: &[u8]) -> Result<Place, Halt> {
        let found = place::find(self.tree, path, &self.start, &mut self.before);
        found.map_err(|reason| failed(path, reason))
    }
}

impl Removal<'_> {
    /// Counts the item at `path` and everything in it, and removes nothing; in a dry run, reports
    /// each as changed. An error if anything in it cannot be read or may be in use.
    fn count<'a>(
        &self,
        finder: &mut Finder<'_>,
        path: &'a [u8],
        reporter: &mut dyn Reporter,
    ) -> Result<Counted<'a>, Halt> {
        let place = finder.find(path)?;
        let (device, inode) = (place.stat.dev, place.stat.ino);
        if place.stat.kind == Kind::Directory && !self.recursive {
            let reason = format!("{}: is a directory; -r removes it with everything in it", printable(path));
            return Err(failed(path, reason));
        }
        let mut count = ChangeCount::default();
        let mut visit = |_: &Directory, item: &WalkItem| {
            self.go_on()?;
            add(&mut count, item);
            if self.dry_run {
                reporter.changed(changed(item))?;
            }
            Ok(())
        };
        walk(place, path, &InUse::new(self.tree, path, Some(self.now)), &mut visit)?;
        Ok(Counted { path, device, inode, count })
    }

    /// Removes an item and everything in it, at most as many items as were counted, and adds what
    /// is gone to `gone`. An error if the item was replaced after it was counted.
    fn remove(
        &self,
        finder: &mut Finder<'_>,
        found: &Counted<'_>,
        gone: &mut ChangeCount,
        reporter: &mut dyn Reporter,
    ) -> Result<(), Halt> {
        let place = finder.find(found.path)?;
        let path = found.path;
        if (place.stat.dev, place.stat.ino) != (found.device, found.inode) {
            let shown = printable(path);
            let reason = format!("{shown}: was replaced after it was counted; run the same command again");
            return Err(failed(path, reason));
        }
        let directory = place.directory.clone();
        let mut left = found.count.items;
        let mut visit = |above: &Directory, item: &WalkItem| {
            self.go_on()?;
            let Some(fewer) = left.checked_sub(1) else {
                let shown = printable(&item.path);
                let reason = format!("{shown}: there is more than was counted; run the same command again");
                return Err(item.failed(reason).into());
            };
            left = fewer;
            let removed = match item.is_directory() {
                true => above.remove_directory(&item.name),
                false => above.remove_file(&item.name),
            };
            match removed {
                Ok(()) => {}
                Err(error) if error.is_missing() => return Ok(()),
                Err(error) if item.is_directory() && error.is_existing() => {
                    let shown = printable(&item.path);
                    let reason = format!("{shown}: is not empty; something came into it while it was removed");
                    return Err(item.failed(reason).into());
                }
                Err(error) => return Err(item.failed(error).into()),
            }
            add(gone, item);
            if self.names {
                reporter.changed(changed(item))?;
            }
            Ok(())
        };
        // The journal that told of a small file may be gone by now.
        let walked = walk(place, path, &InUse::new(self.tree, path, None), &mut visit);
        if let Err(error) = directory.sync() {
            tracing::warn!(%error, "the removal may not survive a power cut");
        }
        walked
    }

    /// Returns an error if the removal is to stop.
    fn go_on(&self) -> Result<(), Halt> {
        if self.stop.is_requested() { Err(Halt::Over) } else { Ok(()) }
    }
}

/// The failure of the item at `path`; `reason` is a sentence for the user.
fn failed(path: &[u8], reason: String) -> Halt {
    Halt::Failed(WalkFailure { path: path.to_vec(), reason })
}

/// Adds an item to the count of removed items, directories and bytes of files.
fn add(count: &mut ChangeCount, item: &WalkItem) {
    count.items += 1;
    count.directories += u64::from(item.is_directory());
    if item.stat.kind == Kind::File {
        count.bytes = count.bytes.saturating_add(item.stat.size);
    }
}

/// The item as it is reported to the requesting end.
fn changed(item: &WalkItem) -> ChangedItem {
    ChangedItem { path: item.path.clone(), is_directory: item.is_directory() }
}
