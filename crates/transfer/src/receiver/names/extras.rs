//! Extra items of a mirror: listed, counted and deleted, each by descriptors from its directory
//! down.
//!
//! A directory is entered only where it is: not through a link, and not across a mount point, which
//! is no item of this tree. Unfinished files of icdc are left to the copy that they belong to.

use std::sync::Arc;

use icdc_disk::tree::{Directory, Kind, Listing, Metadata, Name, Stat, TreeError, resembles_staging};
use icdc_filter::{Effect, Rules};
use icdc_protocol::limits::{MAX_DELETED, MAX_DEPTH};
use icdc_protocol::message::{DeletedItem, Deletion, Message};
use icdc_protocol::validate::clip;
use icdc_session::receiver::book::action::{DirectoryExtras, Extra, ListedExtras, Notification};
use icdc_session::receiver::book::item::DirectoryId;
use icdc_session::receiver::book::source_names::SourceNames;
use icdc_units::ByteCount;

use super::super::failure::{self, Failure};
use super::super::onto_itself::SourcesHere;
use super::super::placement::{let_owner_in, place_of};
use super::super::shared::Shared;
use super::super::spellings::Spelling;
use super::FileExecutor;

/// Bytes of paths after which deleted items are reported, though the message has room for more.
const REPORTED_BYTES: usize = 256 << 10;

impl FileExecutor<'_> {
    /// Lists a directory; returns its items whose names the source has not.
    pub(super) fn list_extras(
        &mut self,
        directory: DirectoryId,
        mut found: DirectoryExtras,
        names: &SourceNames,
    ) -> Result<ListedExtras, Failure> {
        let rules = self.protecting_rules()?;
        let directory = self.directories.get(directory)?;
        let listing = directory.entries().map_err(|error| failure::of_tree(&error))?;
        for entry in listing.iter().filter(|entry| !names.contains(entry.name) && !resembles_staging(entry.name)) {
            let name = Name::new(entry.name).map_err(|error| error.to_string())?;
            match directory.stat(&name) {
                Ok(stat) if is_protected(&rules, &found.source_path, &name, &stat) => {}
                Ok(stat) => found.extras.push(extra(&name, &stat)),
                Err(error) if error.is_missing() => {}
                Err(error) => return Err(failure::of_tree(&error)),
            }
        }
        if !found.extras.is_empty() {
            self.reached.insert(found.place, directory.whereabouts());
        }
        let items = listing.iter().filter(|entry| !resembles_staging(entry.name)).count();
        Ok(ListedExtras { found, items: items as u64 })
    }

    /// Counts the items and everything in them. Fails at what cannot be read: its number is not
    /// known, and it would stay.
    pub(super) fn count_extras(&mut self, found: &[DirectoryExtras]) -> Result<u64, Failure> {
        let rules = self.protecting_rules()?;
        let sources = self.sources.clone();
        let mut count = Count { rules: &rules, sources: sources.as_deref(), items: 0 };
        for found in found {
            let Some(directory) = self.reopen(found)? else { continue };
            for (name, stat) in self.still_there(&directory, found) {
                count.walk(&directory, &name, &stat, &found.source_path)?;
            }
        }
        Ok(count.items)
    }

    /// Deletes the items and everything in them, at most `count` in all; then none of them returns
    /// after a power cut.
    pub(super) fn delete_extras(&mut self, found: &[DirectoryExtras], count: u64) {
        let Ok(rules) = self.protecting_rules() else { return };
        let shared = self.shared;
        let mut deletion = Deleter { shared, rules: &rules, left: count, report: Vec::new(), reported: 0 };
        for found in found {
            match self.reopen(found) {
                Ok(Some(directory)) => {
                    let there = self.still_there(&directory, found);
                    deletion.delete_all(&directory, there, found);
                }
                Ok(None) => {}
                Err(failure) => deletion.failed(&found.path, failure.into_reason()),
            }
        }
        let mut file_systems: Vec<u64> = found.iter().map(|found| found.place.device).collect();
        file_systems.sort_unstable();
        file_systems.dedup();
        if !self.shared.options.dry_run
            && let Err(error) = self.directories.flush(&file_systems)
        {
            deletion.failed(b"", failure::of_tree(&error).into_reason());
        }
        deletion.report();
        self.reached.clear();
    }

    /// The rules by which names are never deleted, compiled once.
    fn protecting_rules(&mut self) -> Result<Arc<Rules>, Failure> {
        if let Some(rules) = &self.protecting {
            return Ok(Arc::clone(rules));
        }
        let rules = self.shared.options.delete.as_ref().map_or(&[][..], |delete| &delete.rules);
        let rules = Arc::new(Rules::compile(rules).map_err(|error| error.to_string())?);
        self.protecting = Some(Arc::clone(&rules));
        Ok(rules)
    }

    /// Opens a directory again that was listed; `None` if it is gone by now.
    fn reopen(&self, found: &DirectoryExtras) -> Result<Option<Directory>, Failure> {
        let start = self.directories.get(DirectoryId::Source(found.source))?;
        let Some(reached) = self.reached.get(&found.place) else { return Ok(None) };
        let directory = match start.reopen(reached) {
            Ok(directory) => directory,
            Err(error) if error.is_missing() => return Ok(None),
            Err(error) => return Err(failure::of_tree(&error)),
        };
        let place = place_of(&directory).map_err(|error| failure::of_tree(&error))?;
        Ok((place == found.place).then_some(directory))
    }

    /// The extra items that are the ones that were listed, and that this run knows by no other
    /// spelling of their names.
    fn still_there(&mut self, directory: &Directory, found: &DirectoryExtras) -> Vec<(Name, Stat)> {
        let mut there = Vec::with_capacity(found.extras.len());
        for listed in &found.extras {
            let Ok(name) = Name::new(&listed.name) else { continue };
            let Ok(stat) = directory.stat(&name) else { continue };
            let spelling = Spelling { directory, place: found.place, name: &name };
            if extra(&name, &stat) == *listed && self.spellings.refuse_other(spelling, Some(&stat)).is_ok() {
                there.push((name, stat));
            }
        }
        there
    }
}

/// Whether a rule excludes the item, whose directory has this path from the transfer root.
fn is_protected(rules: &Rules, above: &[u8], name: &Name, stat: &Stat) -> bool {
    rules.decide(&beneath(above, name), stat.kind == Kind::Directory) == Effect::Exclude
}

fn extra(name: &Name, stat: &Stat) -> Extra {
    let is_directory = stat.kind == Kind::Directory;
    Extra { name: name.as_bytes().to_vec(), device: stat.dev, inode: stat.ino, is_directory }
}

/// Number of items found so far that would be deleted.
struct Count<'a> {
    rules: &'a Rules,
    sources: Option<&'a SourcesHere>,
    items: u64,
}

impl Count<'_> {
    fn refuse_source(&self, directory: &Directory, name: &Name, stat: &Stat) -> Result<(), Failure> {
        if self.sources.is_none_or(|sources| !sources.has(stat)) {
            return Ok(());
        }
        let shown = directory.path_of(name);
        Err(format!("{shown}: is a source of this copy; choose a destination that has no source in it").into())
    }

    fn walk(&mut self, directory: &Directory, name: &Name, stat: &Stat, above: &[u8]) -> Result<(), Failure> {
        self.refuse_source(directory, name, stat)?;
        if stat.kind != Kind::Directory {
            self.items += 1;
            return Ok(());
        }
        let open = |above: &Directory, name: Name, path| {
            Level::open(above, name, path).map_err(|error| failure::of_tree(&error))
        };
        let mut levels = vec![open(directory, name.clone(), beneath(above, name))?];
        while let Some(level) = levels.last_mut() {
            let Some((name, stat)) = level.next(self.rules)? else {
                let is_kept = levels.pop().is_some_and(|level| level.has_kept);
                self.items += u64::from(!is_kept);
                if let Some(above) = levels.last_mut() {
                    above.has_kept |= is_kept;
                }
                continue;
            };
            self.refuse_source(&level.directory, &name, &stat)?;
            if stat.kind == Kind::Directory {
                let path = beneath(&level.source_path, &name);
                let inner = open(&level.directory, name, path)?;
                check_depth(levels.len(), &inner)?;
                levels.push(inner);
            } else {
                self.items += 1;
            }
        }
        Ok(())
    }
}

fn check_depth(depth: usize, level: &Level) -> Result<(), Failure> {
    if depth < MAX_DEPTH {
        return Ok(());
    }
    Err(format!("{}: is nested too deep; remove it by hand", level.directory.path()).into())
}

/// A directory that is walked, with those of its items that are left.
struct Level {
    /// Name in the directory above.
    name: Name,
    directory: Directory,
    /// Path that it would have from the transfer root, for rules.
    source_path: Vec<u8>,
    listing: Listing,
    next: usize,
    /// Whether something in it is not to be deleted, and so neither is the directory.
    has_kept: bool,
}

impl Level {
    fn open(above: &Directory, name: Name, source_path: Vec<u8>) -> Result<Self, TreeError> {
        let directory = above.open_directory_on_mount(&name)?;
        let listing = directory.entries()?;
        Ok(Self { name, directory, source_path, listing, next: 0, has_kept: false })
    }

    /// The next item that is still there and to be deleted: neither an unfinished file of another
    /// copy nor excluded by a rule.
    fn next(&mut self, rules: &Rules) -> Result<Option<(Name, Stat)>, Failure> {
        while let Some(entry) = self.listing.get(self.next) {
            self.next += 1;
            if resembles_staging(entry.name) {
                self.has_kept = true;
                continue;
            }
            let name = Name::new(entry.name).map_err(|error| error.to_string())?;
            match self.directory.stat(&name) {
                Ok(stat) if is_protected(rules, &self.source_path, &name, &stat) => self.has_kept = true,
                Ok(stat) => return Ok(Some((name, stat))),
                Err(error) if error.is_missing() => {}
                Err(error) => return Err(failure::of_tree(&error)),
            }
        }
        Ok(None)
    }
}

/// Deletes items and reports them, until as many are deleted as were counted or the session ends.
struct Deleter<'a> {
    shared: &'a Shared<'a>,
    rules: &'a Rules,
    /// Number of items that may still be deleted.
    left: u64,
    /// Deleted items that are not reported to the sender yet, and the bytes of their paths.
    report: Vec<DeletedItem>,
    reported: usize,
}

impl Deleter<'_> {
    /// Deletes items of a directory that stays: its own attributes, which the copy has set, are set
    /// again.
    fn delete_all(&mut self, directory: &Directory, items: Vec<(Name, Stat)>, found: &DirectoryExtras) {
        let before = directory.own_stat();
        let may_change = self.shared.options.dry_run || let_owner_in(directory).is_ok();
        if !may_change {
            tracing::debug!(directory = directory.path(), "its owner's permissions cannot be set");
        }
        for (name, stat) in items {
            self.delete(directory, (&name, &stat), found);
        }
        let Ok(before) = before else { return };
        if self.shared.options.dry_run {
            return;
        }
        let mode = (before.mode & 0o700 != 0o700).then_some(before.mode);
        let mtime = self.shared.options.preserve.times.then_some(before.mtime);
        if let Err(error) = directory.set_own_metadata(&Metadata { mode, mtime, ..Metadata::default() }) {
            self.failed(&found.path, failure::of_tree(&error).into_reason());
        }
    }

    /// Deletes an item of the directory `found`, with everything in it if it is a directory.
    fn delete(&mut self, directory: &Directory, (name, stat): (&Name, &Stat), found: &DirectoryExtras) {
        let path = beneath(&found.path, name);
        if stat.kind != Kind::Directory {
            return self.remove(directory, name, path, false);
        }
        let mut levels = match self.enter(directory, name, beneath(&found.source_path, name)) {
            Ok(level) => vec![(level, path)],
            Err(failure) => return self.failed(&path, failure.into_reason()),
        };
        while let Some((level, path)) = levels.last_mut() {
            if self.is_over() {
                return;
            }
            let inner = match level.next(self.rules) {
                Ok(None) => {
                    let Some((Level { name, has_kept, .. }, path)) = levels.pop() else { return };
                    if has_kept {
                        levels.last_mut().into_iter().for_each(|(above, _)| above.has_kept = true);
                        continue;
                    }
                    let above = levels.last().map_or(directory, |(level, _)| &level.directory);
                    self.remove(above, &name, path, true);
                    continue;
                }
                Ok(Some((name, stat))) => (beneath(path, &name), name, stat),
                Err(failure) => {
                    self.failed(path, failure.into_reason());
                    // What is left in it is reported when it cannot be removed.
                    level.next = level.listing.len();
                    continue;
                }
            };
            let (path, name, stat) = inner;
            if stat.kind != Kind::Directory {
                self.remove(&level.directory, &name, path, false);
                continue;
            }
            let inner = self.enter(&level.directory, &name, beneath(&level.source_path, &name));
            match inner.and_then(|inner| check_depth(levels.len(), &inner).map(|()| inner)) {
                Ok(inner) => levels.push((inner, path)),
                Err(failure) => self.failed(&path, failure.into_reason()),
            }
        }
    }

    /// Opens a directory whose items are to be removed, and gives its owner the permission to.
    fn enter(&self, above: &Directory, name: &Name, source_path: Vec<u8>) -> Result<Level, Failure> {
        let is_dry_run = self.shared.options.dry_run;
        let open = || {
            if !is_dry_run {
                let_owner_in(&above.open_directory_on_mount(name)?)?;
            }
            Level::open(above, name.clone(), source_path)
        };
        open().map_err(|error| failure::of_tree(&error))
    }

    fn is_over(&self) -> bool {
        self.left == 0 || self.shared.has_failed()
    }

    fn remove(&mut self, directory: &Directory, name: &Name, path: Vec<u8>, is_directory: bool) {
        if self.is_over() {
            return;
        }
        let removed = match (self.shared.options.dry_run, is_directory) {
            (true, _) => Ok(()),
            (false, true) => directory.remove_directory(name),
            (false, false) => directory.remove_file(name),
        };
        match removed {
            Ok(()) => self.deleted(path, is_directory),
            Err(error) if error.is_missing() => {}
            Err(error) if is_directory && error.is_existing() => {
                let shown = directory.path_of(name);
                self.failed(
                    &path,
                    format!("{shown}: is not empty; what is in it was kept, or came while it was deleted"),
                );
            }
            Err(error) => self.failed(&path, failure::of_tree(&error).into_reason()),
        }
    }

    fn deleted(&mut self, path: Vec<u8>, is_directory: bool) {
        self.left -= 1;
        self.shared.notify(Notification::Deleted { path: path.clone(), is_directory });
        self.reported += path.len();
        self.report.push(DeletedItem { path, is_directory });
        if self.report.len() >= MAX_DELETED || self.reported >= REPORTED_BYTES {
            self.report();
        }
    }

    fn failed(&mut self, path: &[u8], reason: String) {
        self.report();
        let path = if path.is_empty() { b".".to_vec() } else { path.to_vec() };
        self.shared.notify(Notification::Failed { path: path.clone(), size: ByteCount::ZERO, reason: reason.clone() });
        self.shared.reply(Message::Deletion(Deletion::Failed { path, reason: clip(reason) }));
    }

    /// Reports the items that are deleted to the sender.
    fn report(&mut self) {
        let report = std::mem::take(&mut self.report);
        self.reported = 0;
        if !report.is_empty() {
            self.shared.reply(Message::Deletion(Deletion::Deleted(report)));
        }
    }
}

fn beneath(above: &[u8], name: &Name) -> Vec<u8> {
    if above.is_empty() { name.as_bytes().to_vec() } else { [above, name.as_bytes()].join(&b'/') }
}
