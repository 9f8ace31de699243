//! Items of a mirror that are made from files which the destination has under other names, and items of a
//! snapshot that the one before it has so.

use icdc_disk::tree::{Directory, Name, Stat, file_user};
use icdc_protocol::Features;
use icdc_protocol::message::{EntryId, FileDigest};
use icdc_session::receiver::book::action::{Apart, CandidateRoot};
use icdc_session::receiver::book::item::Item;
use icdc_session::receiver::book::resume::references::is_linkable;
use icdc_units::ByteCount;

use super::super::candidates::{Candidates, FoundFile, Location, Search};
use super::super::failure::Failure;
use super::super::file_identity::FileIdentity;
use super::super::jobs::{CompareJob, DiskJob, Subject};
use super::super::publishing::Staged;
use super::super::references::{Counterpart, References};
use super::FileExecutor;
use super::facts::attributes;
use crate::attribute_kinds::restored;
use crate::clock;

impl FileExecutor<'_> {
    /// Decides whether new items may be made from other files of the destination, or of the newest
    /// snapshot, once that is there.
    pub(super) fn begin_renames(&mut self) {
        let has_files = match self.snapshots {
            None => !self.new_destination,
            // With `--verify`, nothing is taken from an older one.
            Some(_) => self.newest_snapshot().is_some() && !self.shared.options.verify,
        };
        // A file that is not at the source may be under another name in a directory to which a link leads.
        let has_links = self.link_targets.is_some();
        if !has_files || has_links || !self.shared.peer().has(Features::RENAMES) {
            self.renames.find_none();
        }
    }

    /// The newest complete snapshot; `None` if none is made, or this is the first.
    fn newest_snapshot(&self) -> Option<&Directory> {
        self.references.as_ref().and_then(References::newest_snapshot)
    }

    /// Has the thread that reads files find those below the copies of sources: in the newest snapshot,
    /// if one is made, as the new one has but what this run has brought.
    pub(super) fn find_candidates(&mut self, roots: Vec<CandidateRoot>) {
        let open = |root: CandidateRoot| {
            let directory = match self.newest_snapshot() {
                Some(snapshot) => snapshot,
                None => self.directories.get(root.directory).ok()?,
            };
            let directory = match root.name {
                Some(name) => directory.open_directory_on_mount(&Name::new(&name).ok()?).ok()?,
                None => directory.clone(),
            };
            Some((root.source, directory, root.source_path))
        };
        let roots: Vec<_> = roots.into_iter().filter_map(open).collect();
        match (self.protecting_rules(), &self.reads) {
            (Ok(rules), Some(reads)) if !roots.is_empty() => {
                let search = Search { roots, rules, sources: self.sources.clone() };
                let _ = reads.send(DiskJob::Find(search));
            }
            _ => self.on_candidates_found(Candidates::default()),
        }
    }

    /// Takes the index of the destination's files that the search has made, and tells the book that
    /// it is there.
    pub(super) fn on_candidates_found(&mut self, found: Candidates) {
        self.renames.know(found);
        self.book.on_candidates_found(clock::now());
    }

    /// Has a candidate compared with the digest of its item.
    pub(super) fn compare_candidate(&mut self, id: EntryId, number: usize, digest: FileDigest) {
        let found = self.renames.of(id, number);
        let location = found.and_then(|found| self.renames.location(found.position));
        match (&self.reads, found, location, self.item(id)) {
            (Some(reads), Some(FoundFile { stat, .. }), Some(location), Ok(item)) => {
                let subject = Subject::Candidate { location, stat: *stat };
                let _ = reads.send(DiskJob::Compare(CompareJob { id, subject, size: item.size(), digest }));
            }
            _ => self.book.on_compared(clock::now(), id, false),
        }
    }

    /// Makes an item from its candidate: as a further name of it where all attributes are those that
    /// the item is to have, otherwise as a copy.
    pub(super) fn take_candidate(&mut self, id: EntryId, number: usize) {
        let found = self.renames.take(id, number);
        let taken = found.ok_or_else(|| Failure::from("its candidate is not known")).and_then(|found| {
            let location = self.renames.location(found.position).ok_or("its candidate is not known")?;
            self.link_candidate(id, &location, &found.stat).map(|linked| (location, found, linked))
        });
        match taken {
            Ok((_, _, Some(staged))) => {
                self.staged.insert(id, staged);
                self.book.on_reference_taken(clock::now(), id, Some(ByteCount::ZERO));
            }
            // A copy would have to be read back.
            Ok((location, found, None)) if !self.shared.options.verify => {
                self.copy_reference(id, Counterpart { location, found: found.stat });
            }
            Ok(_) => self.book.on_reference_taken(clock::now(), id, None),
            Err(failure) => {
                tracing::debug!(?failure, "a file that seems to be renamed is transmitted");
                self.book.on_reference_taken(clock::now(), id, None);
            }
        }
    }

    /// Makes an item as a further name of its candidate; `None` if it has to be a copy. Fails if the
    /// candidate was changed since it was found.
    fn link_candidate(&self, id: EntryId, location: &Location, before: &Stat) -> Result<Option<Staged>, Failure> {
        let item = self.item(id)?;
        let (directory, name) = self.target(item)?;
        let (above, candidate, stat) = location.open_unchanged(before)?;
        // Its other names are the source's or somebody else's, and would change with this one; so would
        // its backup. Those of a file in a snapshot are in others, of which none changes.
        let is_shared = stat.nlink > 1 && self.newest_snapshot().is_none();
        if is_shared || self.shared.options.backup.is_some() {
            return Ok(None);
        }
        let has_attributes = is_linkable(item, self.shared.options, &attributes(&stat), file_user());
        if !has_attributes || !self.has_xattrs(item, location) {
            return Ok(None);
        }
        let from = (&above, &candidate);
        match Staged::stage_hard_link(directory, name, from, FileIdentity::of(&stat), self.shared.whose())? {
            Ok(staged) => Ok(Some(staged)),
            Err(Apart::Refused) => Ok(None),
            Err(_) => Err("its candidate was changed meanwhile".into()),
        }
    }

    /// Whether a file has the extended attributes of an item and no others that are copied, if these
    /// are.
    fn has_xattrs(&self, item: &Item, location: &Location) -> bool {
        let preserve = self.shared.options.preserve;
        if !preserve.attributes() {
            return true;
        }
        let found = location.open().and_then(|(directory, name)| {
            let (file, _) = directory.open_file(&name)?;
            directory.xattrs(&name, &file, restored(preserve))
        });
        let mut wanted = item.entry.xattrs.clone();
        wanted.sort();
        found.is_ok_and(|found| found.carried == wanted)
    }
}
