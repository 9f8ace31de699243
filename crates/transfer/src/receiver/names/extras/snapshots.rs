//! Removal of snapshots that are no longer kept.
//!
//! A snapshot loses its name first, durably: what is left of one after a kill has a staging name,
//! and the next removal goes on with it.

use icdc_disk::tree::{Directory, Kind, Name, StagingKind, TreeError};
use icdc_filter::Rules;
use icdc_protocol::message::SnapshotTime;

use super::super::super::failure::{self, Failure};
use super::super::super::onto_itself::SourcesHere;
use super::super::super::placement::let_owner_in;
use super::super::super::protection::{Item, Protection, Unfinished};
use super::super::super::shared::Shared;
use super::super::super::snapshots::name_of;
use super::super::super::staging::Purpose;
use super::super::FileExecutor;
use super::counter::Counter;
use super::walk::{Visitor, walk};

impl FileExecutor<'_> {
    /// Removes snapshots, all of which are counted first; in a dry run, only counts them.
    pub(in super::super) fn remove_snapshots(
        &mut self,
        times: &[SnapshotTime],
    ) -> Vec<(SnapshotTime, Result<(), Failure>)> {
        let Some(snapshots) = &self.snapshots else { return Vec::new() };
        let removal = Removal {
            shared: self.shared,
            directory: &snapshots.directory,
            // In a dry run, it would lead to the new one by now.
            latest: snapshots.latest().filter(|_| !self.shared.options.dry_run),
            rules: Rules::default(),
            sources: self.sources.as_deref(),
        };
        let counted: Vec<_> = times.iter().map(|time| (*time, removal.count_snapshot(*time))).collect();
        if self.shared.options.dry_run {
            return counted.into_iter().map(|(time, counted)| (time, counted.map(drop))).collect();
        }
        if let Err(failure) = removal.vacate() {
            tracing::warn!(?failure, "what is left of a snapshot cannot be removed");
        }
        let remove = |(time, counted): (_, Result<_, _>)| (time, counted.and_then(|counted| removal.remove(&counted)));
        let outcomes = counted.into_iter().map(remove).collect();
        if let Err(error) = snapshots.directory.sync() {
            tracing::warn!(%error, "the removal of snapshots may not survive a power cut");
        }
        outcomes
    }
}

/// A snapshot, or the rest of one, of which everything was counted.
struct Counted {
    item: Item,
    /// Number of items, the directory included.
    items: u64,
}

/// Removal of the snapshots that are no longer kept (`--keep`) from their directory.
struct Removal<'a> {
    shared: &'a Shared<'a>,
    directory: &'a Directory,
    /// The snapshot that the symbolic link leads to, which stays.
    latest: Option<SnapshotTime>,
    rules: Rules,
    sources: Option<&'a SourcesHere>,
}

impl Removal<'_> {
    /// Protection of items in a snapshot from being removed: sources of this copy, and unfinished
    /// files.
    fn protection(&self) -> Protection<'_> {
        Protection { rules: &self.rules, sources: self.sources, linked: None, unfinished: Unfinished::Stays }
    }

    /// Counts everything in the snapshot of this time; fails for the one that the symbolic link
    /// leads to.
    fn count_snapshot(&self, time: SnapshotTime) -> Result<Counted, Failure> {
        if self.latest == Some(time) {
            return Err(format!("{}: the symbolic link leads to it", self.directory.path_of(&name_of(time))).into());
        }
        self.count(name_of(time))
    }

    /// Counts everything in the directory `name`; fails if something in it must stay.
    fn count(&self, name: Name) -> Result<Counted, Failure> {
        let shown = self.directory.path_of(&name);
        let stat = self.directory.stat(&name).map_err(|error| failure::of_tree(&error))?;
        if stat.kind != Kind::Directory {
            return Err(format!("{shown}: is {}, not a directory", stat.kind.described()).into());
        }
        let item = Item::of(name, stat, b"", b"");
        let mut counter = Counter::default();
        if !walk(self.directory, item.clone(), &self.protection(), &mut counter)? {
            return Err(format!("{shown}: an unfinished file of another copy is in it").into());
        }
        Ok(Counted { item, items: counter.items })
    }

    /// Removes a snapshot that was counted: it loses its name first, durably.
    fn remove(&self, snapshot: &Counted) -> Result<(), Failure> {
        let of_tree = |error| failure::of_tree(&error);
        let Counted { item, items } = snapshot;
        let staged = self.vacate()?;
        self.directory.rename_directory_new(&item.name, self.directory, &staged).map_err(of_tree)?;
        let stat = self.directory.stat(&staged).map_err(of_tree)?;
        if (stat.dev, stat.ino) != (item.stat.dev, item.stat.ino) {
            self.directory.rename_directory_new(&staged, self.directory, &item.name).map_err(of_tree)?;
            let shown = self.directory.path_of(&item.name);
            return Err(format!("{shown}: was replaced while it was counted; run the same command again").into());
        }
        // Nothing of it goes before its name does.
        self.directory.sync().map_err(of_tree)?;
        self.clear(&Counted { item: Item::of(staged, stat, b"", b""), items: *items })
    }

    /// Name under which a snapshot is removed, once nothing has it any more that an earlier removal
    /// has left.
    fn vacate(&self) -> Result<Name, Failure> {
        for staging in Purpose::removed_snapshot().found_again() {
            let name = staging.name(StagingKind::Snapshot);
            match self.directory.stat(&name) {
                Err(error) if error.is_missing() => return Ok(name),
                Err(error) => return Err(failure::of_tree(&error)),
                Ok(stat) if self.directory.is_anothers(&stat).unwrap_or(true) => {}
                Ok(_) => {
                    self.clear(&self.count(name.clone())?)?;
                    return Ok(name);
                }
            }
        }
        Err("other users have the names that a snapshot needs while it is removed".into())
    }

    /// Removes a counted directory, which has its staging name, with everything in it.
    fn clear(&self, counted: &Counted) -> Result<(), Failure> {
        let mut remover = Remover { shared: self.shared, left: counted.items };
        if walk(self.directory, counted.item.clone(), &self.protection(), &mut remover)? {
            return Ok(());
        }
        let shown = self.directory.path_of(&counted.item.name);
        Err(format!("{shown}: not everything in it could be removed; the next removal goes on with it").into())
    }
}

/// Visitor of a walk that removes items, until as many are removed as were counted or the session
/// ends.
struct Remover<'a> {
    shared: &'a Shared<'a>,
    /// Number of items that may still be removed.
    left: u64,
}

impl Visitor for Remover<'_> {
    fn enter(&mut self, directory: &Directory) -> Result<(), TreeError> {
        let_owner_in(directory)
    }

    fn visit(&mut self, above: &Directory, item: &Item) -> Result<bool, Failure> {
        if self.is_over() {
            return Ok(false);
        }
        self.left -= 1;
        let removed =
            if item.is_directory() { above.remove_directory(&item.name) } else { above.remove_file(&item.name) };
        match removed {
            Err(error) if !error.is_missing() => Err(failure::of_tree(&error)),
            _ => Ok(true),
        }
    }

    fn failed(&mut self, _path: &[u8], failure: Failure) -> Result<(), Failure> {
        Err(failure)
    }

    fn is_over(&self) -> bool {
        self.left == 0 || self.shared.has_failed()
    }
}
