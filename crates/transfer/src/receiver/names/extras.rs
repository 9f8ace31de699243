//! Extra items of a mirror: listed, counted and deleted, each by descriptors from its directory
//! down.
//!
//! | file | contents |
//! |---|---|
//! | `walk` | an item and everything in it, and what is never deleted |
//! | `counter`, `deleter` | what is done with the items of a walk |
//! | `snapshots` | snapshots that are no longer kept |

mod counter;
mod deleter;
mod snapshots;
mod walk;

use std::collections::HashSet;
use std::sync::Arc;

use counter::Counter;
use deleter::{Deleter, Emptier};
use icdc_disk::tree::{Directory, Kind, Name, resembles_staging};
use icdc_filter::{Effect, Rule, Rules};
use icdc_protocol::message::{Backup, EntryId, ReceiveOptions};
use icdc_session::receiver::book::action::{DirectoryExtras, Extra, ListedExtras};
use icdc_session::receiver::book::item::{DirectoryId, DirectoryPlace, ModificationTime};
use icdc_session::receiver::book::obstacles::Replaced;
use icdc_session::receiver::book::source_names::SourceNames;
use walk::{Visitor, walk};

use super::super::failure::{self, Failure};
use super::super::link_targets::LinkTargets;
use super::super::onto_itself::SourcesHere;
use super::super::placement::place_of;
use super::super::protection::{Item, Protection, Unfinished};
use super::super::spellings::Spelling;
use super::FileExecutor;
use super::obstacles::extra;

impl FileExecutor<'_> {
    /// Lists a directory; returns its items whose names the source has not.
    pub(super) fn list_extras(
        &mut self,
        directory: DirectoryId,
        mut found: DirectoryExtras,
        names: &SourceNames,
    ) -> Result<ListedExtras, Failure> {
        let kept = self.kept()?;
        let protection = kept.protection();
        let directory = self.directories.get(directory)?;
        let own = directory.own_stat().map_err(|error| failure::of_tree(&error))?;
        // Its extra items would be what the copy reads.
        protection.refuse_source(&own, &directory.path())?;
        let listing = directory.entries().map_err(|error| failure::of_tree(&error))?;
        let is_extra = |name: &[u8]| {
            !names.contains(name) && (!resembles_staging(name) || protection.unfinished == Unfinished::Goes)
        };
        for entry in listing.iter().filter(|entry| is_extra(entry.name)) {
            let name = Name::new(entry.name).map_err(|error| error.to_string())?;
            match directory.stat(&name) {
                Ok(stat) => {
                    let item = Item::of(name, stat, &found.path, &found.source_path);
                    if !protection.keeps(&item) {
                        found.extras.push(extra(&item.name, &stat));
                    }
                }
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
        let kept = self.kept()?;
        let protection = kept.protection();
        let mut counter = Counter::default();
        for found in found {
            let Some(directory) = self.reopen(found)? else { continue };
            for listed in &found.extras {
                let Some(item) = self.still_there(&directory, found, listed)? else { continue };
                let shown = directory.path_of(&item.name);
                let is_kept = listed.replaced_by.is_some() && protection.keeps(&item);
                if is_kept || !walk(&directory, item, &protection, &mut counter)? && listed.replaced_by.is_some() {
                    return Err(format!(
                        "{shown}: is in the way of an item of the source, and a rule, an unfinished file in it or a \
                         link that leads to it keeps it; remove it, or leave the item out"
                    )
                    .into());
                }
            }
        }
        Ok(counter.items)
    }

    /// Deletes the items and everything in them, at most `count` in all, and replaces obstacles;
    /// then none of them returns after a power cut. Returns what became of the replacements, and the
    /// path of the first item that could not be deleted.
    pub(super) fn delete_extras(&mut self, found: &[DirectoryExtras], count: u64) -> (Replaced, Option<Vec<u8>>) {
        let mut deleter = Deleter::new(self.shared, count);
        let mut replaced = Vec::new();
        for found in found {
            let deleted = match self.directories.get(DirectoryId::Source(found.source)).cloned() {
                Ok(start) => {
                    deleter.keeping = self.backups.take().map(|backups| (backups, start));
                    let deleted = self.delete_in(found, &mut deleter, &mut replaced);
                    self.backups = deleter.keeping.take().map(|(backups, _)| backups);
                    deleted
                }
                Err(failure) => Err(failure),
            };
            if let Err(failure) = deleted {
                deleter.report_failure(&found.path, failure);
            }
        }
        let mut file_systems: Vec<u64> = found.iter().map(|found| found.place.device).collect();
        file_systems.sort_unstable();
        file_systems.dedup();
        if !self.shared.options.dry_run
            && let Err(error) = self.directories.flush(&file_systems)
        {
            let failure = failure::of_tree(&error);
            replaced.iter_mut().for_each(|(_, outcome)| *outcome = Err(failure.clone()));
            deleter.report_failure(b"", failure);
        }
        deleter.report();
        self.reached.clear();
        let failed = deleter.first_failed();
        (replaced, failed)
    }

    /// Deletes the extra items of a directory.
    fn delete_in(
        &mut self,
        found: &DirectoryExtras,
        deleter: &mut Deleter<'_>,
        replaced: &mut Replaced,
    ) -> Result<(), Failure> {
        let kept = self.kept()?;
        let protection = kept.protection();
        let Some(directory) = self.reopen(found)? else { return Ok(()) };
        let before = deleter.open_up(&directory);
        for listed in &found.extras {
            let there = self.still_there(&directory, found, listed);
            if let Some(id) = listed.replaced_by {
                let outcome =
                    there.and_then(|item| self.replace_obstacle(id, &directory, item, (&protection, deleter)));
                replaced.push((id, outcome));
                continue;
            }
            let deleted = there.and_then(|item| match item {
                Some(item) => walk(&directory, item, &protection, deleter).map(drop),
                None => Ok(()),
            });
            if let Err(failure) = deleted {
                deleter.report_failure(&found.path, failure);
            }
        }
        deleter.restore(&directory, before, found);
        Ok(())
    }

    /// Empties an obstacle, and replaces it by the directory or item `id`.
    fn replace_obstacle(
        &mut self,
        id: EntryId,
        directory: &Directory,
        obstacle: Option<Item>,
        (protection, deleter): (&Protection<'_>, &mut Deleter<'_>),
    ) -> Result<Option<ModificationTime>, Failure> {
        let obstacle = obstacle.ok_or("what had its name was replaced meanwhile; run the same command again")?;
        let mut emptier = Emptier { deleter, top: &obstacle.path };
        let is_empty = walk(directory, obstacle.clone(), protection, &mut emptier)?;
        if !is_empty || deleter.is_over() {
            let shown = directory.path_of(&obstacle.name);
            return Err(format!("{shown}: is in the way, and not everything in it could be deleted").into());
        }
        let shown = match self.shared.options.dry_run {
            true => None,
            false => self.replace(id, directory, (&obstacle.name, &obstacle.stat), deleter.keeping.as_mut())?,
        };
        // Its journal may lie in this directory, whose time is restored next.
        self.remove_journals(&[id]);
        deleter.deleted(&obstacle);
        Ok(shown)
    }

    /// Collects what protects items from being deleted: rules, sources, directories of kept links.
    fn kept(&mut self) -> Result<Kept, Failure> {
        Ok(Kept {
            rules: self.protecting_rules()?,
            sources: self.sources.clone(),
            linked: self.link_targets.as_ref().map(LinkTargets::reached),
            unfinished: self.unfinished(),
        })
    }

    /// The rules of the mirror by which names are never deleted; compiled the first time, then
    /// kept.
    pub(super) fn protecting_rules(&mut self) -> Result<Arc<Rules>, Failure> {
        if let Some(rules) = &self.protecting {
            return Ok(Arc::clone(rules));
        }
        let options = self.shared.options;
        let given = options.delete.as_ref().map_or(&[][..], |delete| &delete.rules);
        let rules: Vec<Rule> = rule_of_backups(options).into_iter().chain(given.iter().cloned()).collect();
        let rules = Arc::new(Rules::compile(&rules).map_err(|error| error.to_string())?);
        self.protecting = Some(Arc::clone(&rules));
        Ok(rules)
    }

    /// Treatment of unfinished files: those in an unfinished snapshot, which nothing else writes
    /// to, are what an earlier run has left.
    fn unfinished(&self) -> Unfinished {
        if self.shared.options.snapshot.is_some() { Unfinished::Goes } else { Unfinished::Stays }
    }

    /// Whether this session has put something under this staging name, which is to replace an item.
    fn is_staged_here(&self, name: &Name) -> bool {
        resembles_staging(name.as_bytes())
            && (self.aside.values().any(|aside| aside.staging == *name)
                || self.staged.values().any(|staged| staged.own_name().is_ok_and(|own| own == name)))
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

    /// The extra item, if it is the one that was listed, and this run knows it by no other spelling
    /// of its name.
    fn still_there(
        &mut self,
        directory: &Directory,
        found: &DirectoryExtras,
        listed: &Extra,
    ) -> Result<Option<Item>, Failure> {
        let name = Name::new(&listed.name).map_err(|error| error.to_string())?;
        let stat = match directory.stat(&name) {
            Ok(stat) => stat,
            Err(error) if error.is_missing() => return Ok(None),
            Err(error) => return Err(failure::of_tree(&error)),
        };
        let spelling = Spelling { directory, place: found.place, name: &name };
        let is_listed =
            (stat.dev, stat.ino, stat.kind == Kind::Directory) == (listed.device, listed.inode, listed.is_directory);
        // What replaces something at the end of this run has a staging name until then.
        let is_listed = is_listed && !self.is_staged_here(&name);
        let is_same = is_listed && !self.spellings.may_be_another(spelling, &stat)?;
        Ok(is_same.then(|| Item::of(name, stat, &found.path, &found.source_path)))
    }
}

/// Owned parts of a [`Protection`], which leave the executor free to act.
struct Kept {
    rules: Arc<Rules>,
    sources: Option<Arc<SourcesHere>>,
    linked: Option<Arc<HashSet<DirectoryPlace>>>,
    unfinished: Unfinished,
}

impl Kept {
    /// Protection by these parts.
    fn protection(&self) -> Protection<'_> {
        Protection {
            rules: &self.rules,
            sources: self.sources.as_deref(),
            linked: self.linked.as_deref(),
            unfinished: self.unfinished,
        }
    }
}

/// The rule by which backups that lie beside what has replaced them are never deleted, if there are
/// any.
fn rule_of_backups(options: &ReceiveOptions) -> Option<Rule> {
    let Some(Backup { directory: None, suffix }) = options.backup.as_deref() else { return None };
    let mut pattern = b"*".to_vec();
    suffix.iter().for_each(|byte| pattern.extend([b'\\', *byte]));
    Some(Rule { effect: Effect::Exclude, pattern })
}
