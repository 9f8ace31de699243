//! Examination of items at the destination, and the attributes that existing files lack.

use icdc_disk::tree::Stat;
use icdc_protocol::message::{EntryId, EntryKind};
use icdc_session::receiver::book::action::{Examination, Reference, ReferencePlace};
use icdc_session::receiver::book::resume::verdict::Verdict;

use super::super::candidates::Location;
use super::super::device::Device;
use super::super::failure::{self, Failure};
use super::super::file_identity::{FileIdentity, Occupant};
use super::super::publishing::amend_special;
use super::super::references::Counterpart;
use super::super::restored_metadata::metadata;
use super::super::spellings::Spelling;
use super::super::waiting::LockWait;
use super::FileExecutor;
use super::facts::Examiner;
use super::hard_links::is_first_name;

impl FileExecutor<'_> {
    /// Examines items, and reports the verdicts to the book.
    pub(super) fn examine_all(&mut self, examinations: &[Examination]) {
        let examine = |examination: &Examination| (examination.id, self.examine(*examination));
        let examined = examinations.iter().map(examine).collect();
        if self.shared.has_failed() {
            // A lock may not have been waited for, which is no failure of its item.
            self.book.on_link_ended();
        }
        self.book.on_examined(examined);
    }

    /// Examines one item, and remembers what later steps need of it.
    fn examine(&mut self, examination: Examination) -> Result<Verdict, Failure> {
        let references = self.references_of(examination.id);
        let named_basis = self.has_named_basis(examination.id);
        let compared = self.compared.remove(&examination.id);
        // Its lock would be waited for.
        self.claimed.remove(&examination.id);
        let item = self.item(examination.id)?;
        let (directory, name) = self.target(item)?;
        let occupant = self.run.is_none().then(|| Occupant::of(directory, &name));
        let waiting = LockWait::of(self.shared, self.locked());
        let ours = (self.run.as_ref(), self.shared.whose());
        let examiner = Examiner::of(item, (directory, &name), ours, &waiting, &self.kept_times);
        let examiner = examiner.preserving(self.shared.options.preserve);
        let mut examiner = examiner.with_references(&references).with_renames(&self.renames).with_compared(compared);
        if let EntryKind::HardLink { to, .. } = item.entry.kind
            && self.left_firsts.contains(&to)
        {
            examiner = examiner.with_first(self.first_files.get(&to).copied().map(|file| (to, file)));
        }
        examiner = examiner.describing_files(self.shared.describes_files());
        examiner = examiner.finding_moved(self.shared.finds_moved(), named_basis);
        examiner = examiner.into_device(self.shared.device.get().map(Device::size));
        examiner = examiner.continuing(self.shared.stream_from.get().copied());
        let verdict = self.book.decide(examination, &mut examiner)?;
        let (found, claimed, counterparts) = (examiner.found, examiner.claimed, examiner.counterparts);
        let candidates = examiner.candidates;
        let (directory, place, is_first) = (directory.clone(), item.place.directory, is_first_name(item));
        let is_found = is_found(&verdict);
        let counterpart_name = name.clone();
        let spelling = Spelling { directory: &directory, place, name: &name };
        self.spellings.check(spelling, found.as_ref().map(|found| (found, is_found)))?;
        self.found = occupant;
        if let Some(found) = found {
            self.remember_found(examination.id, &verdict, found, is_first);
        }
        if let Verdict::Reference(Reference { place, .. }) = verdict
            && let Some((directory, found)) = match place {
                ReferencePlace::Older(number) => {
                    let found = counterparts.into_iter().find(|(place, _)| *place == number);
                    references[number].clone().zip(found.map(|(_, found)| found))
                }
                ReferencePlace::Itself => found.map(|found| (directory, found)),
            }
        {
            let location = Location::In(directory, counterpart_name);
            self.to_take.insert(examination.id, Counterpart { location, found });
        }
        match verdict {
            Verdict::Candidates(_) => self.renames.keep(examination.id, candidates.unwrap_or_default()),
            _ => self.renames.forget(examination.id),
        }
        if let Some(claimed) = claimed {
            self.claimed.insert(examination.id, claimed);
        }
        if self.shared.options.dry_run && matches!(verdict, Verdict::Contents { .. }) {
            // Otherwise it is noticed when the item is renamed.
            self.is_item_obstructed(examination.id);
        }
        Ok(verdict)
    }

    /// Remembers the file that an examination has `found` under an item's name, as far as the verdict
    /// needs it later; `is_first` if the name is the first of several.
    fn remember_found(&mut self, id: EntryId, verdict: &Verdict, found: Stat, is_first: bool) {
        if *verdict == Verdict::SameSize {
            self.compared.insert(id, found);
        }
        let file = FileIdentity::of(&found);
        if *verdict == (Verdict::Skip { amend: true }) {
            self.to_amend.insert(id, file);
        }
        if is_found(verdict) && is_first && !matches!(verdict, Verdict::Keep(_)) {
            self.remember_first(id, file);
            if *verdict == (Verdict::Skip { amend: false }) && self.first_files.contains_key(&id) {
                self.left_firsts.insert(id);
            }
        }
    }

    /// Sets attributes that an existing file lacks, if it is still the one that was examined;
    /// returns whether something was changed.
    pub(super) fn amend(&mut self, id: EntryId) -> Result<bool, Failure> {
        let looked_at = self.to_amend.remove(&id);
        if self.run.is_none() && !self.is_as_found(id) {
            return Err("was changed since it was examined".into());
        }
        let item = self.item(id)?;
        let (directory, name) = self.target(item)?;
        let wanted = metadata(&item.entry, self.shared.options);
        if let EntryKind::Special(_) = item.entry.kind {
            return amend_special(directory, &name, looked_at, &wanted);
        }
        let (file, stat) = directory.open_file(&name).map_err(|error| failure::of_tree(&error))?;
        if looked_at != Some(FileIdentity::of(&stat)) {
            return Err("is another file by now".into());
        }
        let amended = directory.amend(&name, &file, &wanted);
        amended.map_err(|error| {
            tracing::debug!(%error, "a file's attributes cannot be set, so it is replaced");
            failure::of_tree(&error)
        })
    }
}

impl FileExecutor<'_> {
    /// Whether the name of an item, the only one of a run without a journal, belongs to what had it when
    /// this was asked before, or when the item was examined.
    pub(super) fn is_as_found(&mut self, id: EntryId) -> bool {
        // The name of a device that is written stays that of the device, which is claimed.
        if self.shared.device.get().is_some() {
            return true;
        }
        let place = self.item(id).and_then(|item| self.target(item));
        let now = place.ok().map(|(directory, name)| Occupant::of(directory, &name));
        now.is_some() && std::mem::replace(&mut self.found, now) == now
    }
}

/// Whether the destination has the item, or keeps what is under its name.
fn is_found(verdict: &Verdict) -> bool {
    !matches!(
        verdict,
        Verdict::Contents { .. }
            | Verdict::Difference { .. }
            | Verdict::Reference(_)
            | Verdict::SameSize
            | Verdict::Undecided
            | Verdict::Candidates(_)
            | Verdict::Taken(_)
    )
}
