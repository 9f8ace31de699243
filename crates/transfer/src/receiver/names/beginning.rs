//! The beginning of a run: where its sources are placed, its journal and its lock, and the
//! directory that it copies into.

use std::sync::Arc;

use icdc_protocol::message::{Begin, Message, Missing};
use icdc_session::SessionError;
use icdc_session::receiver::book::action::{NotBegun, Placed, Target};

use super::super::backups::Backups;
use super::super::link_targets::LinkTargets;
use super::super::named_bases::NamedBases;
use super::super::onto_itself::{SourcesHere, refuse_onto_itself};
use super::super::placement::{Parents, Placement, Wanted, refusal};
use super::super::references::References;
use super::super::run_log::{RunId, RunLog};
use super::super::shared::Shared;
use super::super::snapshots::{check_clock, check_latest, latest};
use super::super::waiting::{LockWait, Locked};
use super::{FileExecutor, Opening};

impl FileExecutor<'_> {
    /// Finds where the sources are placed; takes the lock of the run's journal, which an earlier
    /// session may still hold.
    pub(super) fn find_place(&mut self, begin: &Begin, is_journaled: bool) -> Result<Placed, SessionError> {
        let shared = self.shared;
        shared.owners.check()?;
        if shared.order.output.is_some() {
            refuse_directories(begin)?;
        }
        if shared.options.write_device {
            return self.find_device(begin, is_journaled);
        }
        let (tree, destination) = (shared.order.tree, shared.order.destination);
        let parents = match shared.options {
            options if !options.mkpath => Parents::Needed,
            options if options.dry_run || options.missing == Missing::LeaveOut => Parents::Imagined,
            _ => Parents::Made,
        };
        let drop_box = shared.order.allowed.drop_box;
        let is_drop_box = drop_box.is_some();
        // A client that may only make new items neither chooses by what exists nor learns of it.
        let place = shared.options.place.filter(|_| !is_drop_box);
        let is_directory = shared.options.snapshot.is_some();
        let wanted = Wanted { parents, place, keeps_name: shared.options.keeps_name, is_directory };
        if parents == Parents::Made && !is_drop_box {
            // Nothing is made for a copy that is refused.
            let imagined = Wanted { parents: Parents::Imagined, ..wanted };
            let imagined = Placement::find(tree, destination, begin, imagined, drop_box)?;
            refuse_onto_itself(&imagined, begin)?;
        }
        let placement = Placement::find(tree, destination, begin, wanted, drop_box)?;
        if shared.options.missing == Missing::LeaveOut {
            placement.refuse_new()?;
        }
        if let Some(place) = placement.placing_of_directory().filter(|_| !is_drop_box) {
            // Before another run is waited for, whose end may change what is there.
            let _ = shared.place.set(place);
            shared.reply(Message::Placed(place));
        }
        // A drop box replaces nothing, and does not reveal whether the sources exist there.
        if !is_drop_box {
            refuse_onto_itself(&placement, begin)?;
        }
        self.sources = SourcesHere::of(begin).map(Arc::new);
        if !is_drop_box {
            self.open_beside(&placement)?;
        }
        let opening = self.opening.insert(Opening { job: begin.job, placement, is_journaled });
        self.run = opening.find_run(shared)?;
        opening.check_snapshot(shared, self.run.as_ref())?;
        Ok(Placed {
            resuming: self.is_resuming(),
            has_waited: self.run.as_ref().is_some_and(|run| run.has_waited),
            peer_is_gone: shared.link.is_hung_up(),
        })
    }

    /// Opens the reference directories, and those that links may lead into, and finds that for backups.
    fn open_beside(&mut self, placement: &Placement) -> Result<(), SessionError> {
        let shared = self.shared;
        let (tree, destination) = (shared.order.tree, shared.order.destination);
        if !shared.options.link_dest.is_empty() {
            self.references = Some(References::open(tree, destination, shared.options, placement)?);
        }
        if !shared.options.bases.is_empty() && shared.describes_files() {
            self.named_bases = Some(NamedBases::open(tree, destination, shared.options, placement)?);
        }
        if let Some(links) = &shared.options.directory_links {
            self.link_targets = Some(LinkTargets::open(tree, destination, links, shared.order.allowed.conceals)?);
        }
        self.backups = Backups::open(tree, destination, shared.options, placement, self.sources.as_deref())?;
        Ok(())
    }

    /// Makes the destination, if need be, and begins the run's journal in it; returns the target
    /// of each source.
    pub(super) fn begin_run(&mut self) -> Result<Vec<Target>, NotBegun> {
        let shared = self.shared;
        // Nothing is made for a copy that is refused.
        self.begin_receipt().map_err(NotBegun::Failed)?;
        let Some(opening) = &mut self.opening else { return Ok(Vec::new()) };
        if !shared.options.dry_run {
            self.new_destination |= opening.placement.make(shared.only_new()).map_err(NotBegun::Failed)?;
        }
        if self.run.is_none()
            && let Some(run) = opening.find_run(shared).map_err(NotBegun::Failed)?
        {
            let (resuming, has_waited) = (run.resuming, run.has_waited);
            self.run = Some(run);
            if has_waited {
                return Err(NotBegun::HasWaited { resuming });
            }
        }
        let local = |reason| NotBegun::Failed(SessionError::Local(reason));
        if !shared.options.dry_run && !shared.options.write_device {
            let is_copied = shared.options.snapshot.is_none();
            let may_let_in = shared.options.preserve.mode && !shared.only_new() && is_copied;
            opening.placement.check_rights(may_let_in).map_err(NotBegun::Failed)?;
        }
        if let Some(run) = &mut self.run
            && !run.begin(shared.order.transfer).map_err(local)?
        {
            let before = self.run.take();
            let found = opening.find_run(shared).map_err(NotBegun::Failed)?;
            self.run = found.map(|found| found.or_as_waited_for(before));
            let resuming = self.run.as_ref().is_some_and(|run| run.resuming);
            return Err(NotBegun::HasWaited { resuming });
        }
        if let (Some(targets), Some(directory)) = (&mut self.link_targets, opening.placement.destination()) {
            targets.allow(directory).map_err(|error| local(error.to_string()))?;
        }
        let landings = match shared.options.snapshot {
            Some(snapshot) => self.land_in_snapshot(snapshot),
            None => opening.placement.landings(),
        };
        let landings = landings.map_err(NotBegun::Failed)?;
        self.opening = None;
        self.begin_renames();
        self.directories.land(landings).map_err(|error| local(error.to_string()))
    }
}

impl Opening {
    /// Checks that the snapshot that is asked for can be made, before anything is.
    fn check_snapshot(&self, shared: &Shared<'_>, run: Option<&RunLog>) -> Result<(), SessionError> {
        match (shared.options.snapshot, self.placement.base()) {
            (Some(snapshot), Some(base)) => {
                let all = check_latest(base)?;
                // Another run may have made a later one meanwhile.
                let has_begun = run.is_some_and(|run| run.is_begun() || run.has_waited);
                if has_begun { Ok(()) } else { check_clock(base, snapshot.time, &all) }
            }
            _ => Ok(()),
        }
    }

    /// Finds the run's journal; `None` if the run has none, or the directory for it is missing.
    fn find_run(&self, shared: &Shared<'_>) -> Result<Option<RunLog>, SessionError> {
        let (true, Some(base)) = (self.is_journaled, self.placement.base()) else { return Ok(None) };
        // A snapshot is another job than a copy of the sources into the same directory.
        let latest = shared.options.snapshot.map(|_| latest());
        let id = RunId {
            job: &self.job,
            target: self.placement.only_name().or(latest.as_ref()),
            transfer: &shared.order.transfer,
            whose: shared.whose(),
        };
        let waiting = LockWait::of(shared, Locked::Everything);
        RunLog::find(base, id, shared.options.resume, &waiting).map(Some).map_err(SessionError::Local)
    }
}

/// Refuses sources that are no single file, for standard output.
fn refuse_directories(begin: &Begin) -> Result<(), SessionError> {
    match begin.sources.as_slice() {
        [source] if !source.kind.is_directory() => Ok(()),
        _ => Err(refusal(
            "standard output takes one file, and this is a directory or several: name a directory to copy to, or have tar write \
             a stream there"
                .into(),
        )),
    }
}
