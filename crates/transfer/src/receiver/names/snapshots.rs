//! Snapshots: where their sources are placed, and their completion.

use icdc_protocol::message::Snapshot;
use icdc_protocol::run_journal::Record;
use icdc_session::SessionError;
use icdc_session::receiver::book::action::MadeSnapshot;

use super::super::failure::{self, Failure};
use super::super::placement::{Landing, place_of};
use super::super::references::References;
use super::super::run_log::RunLog;
use super::super::snapshots::{Opened, Opening, SnapshotRun, Snapshots};
use super::FileExecutor;

impl FileExecutor<'_> {
    /// Opens the unfinished snapshot, under the lock of the run's journal, and places the sources in
    /// it; what is unchanged is taken from the newest complete one.
    pub(super) fn land_in_snapshot(&mut self, snapshot: Snapshot) -> Result<Vec<Landing>, SessionError> {
        let Some(run) = &self.opening else { return Ok(Vec::new()) };
        let options = self.shared.options;
        let Some(base) = run.placement.base() else { return run.placement.landings_in(None) };
        let mode = if options.preserve.mode && run.placement.has_contents() { 0o700 } else { 0o777 };
        let opening = if options.dry_run { Opening::Existing } else { Opening::Make(mode) };
        let named = self.run.as_ref().and_then(RunLog::named_snapshot);
        let run_of = SnapshotRun { job: &run.job, named };
        let Opened { snapshots, inside, newest } = Snapshots::open(base, snapshot, run_of, opening)?;
        let landings = run.placement.landings_in(inside.as_ref())?;
        if let (Some(run), Some(inside)) = (&mut self.run, inside) {
            run.place_items(inside);
        }
        if let Some(newest) = newest {
            self.references.get_or_insert_with(References::none).put_first(newest);
        }
        self.snapshots = Some(snapshots);
        Ok(landings)
    }

    /// Gives the unfinished snapshot its name, or in a dry run chooses the name.
    pub(super) fn make_snapshot(&mut self) -> Result<MadeSnapshot, Failure> {
        if let Some(failure) = &self.unremoved {
            return Err(failure.clone());
        }
        match (&self.snapshots, self.shared.options.snapshot) {
            (Some(snapshots), _) => {
                if !self.shared.options.dry_run {
                    let place = place_of(&snapshots.directory).map_err(|error| failure::of_tree(&error))?;
                    // The attributes of directories are among it.
                    self.directories.flush(&[place.device]).map_err(|error| failure::of_tree(&error))?;
                }
                let run = &mut self.run;
                snapshots.publish(&mut |named| match run {
                    Some(run) => {
                        run.note(&Record::Snapshot(named));
                        run.write().map_err(Failure::from)
                    }
                    None => Ok(()),
                })
            }
            (None, Some(Snapshot { time, .. })) => Ok(MadeSnapshot { time, all: Vec::new() }),
            (None, None) => Err("no snapshot is asked for".into()),
        }
    }
}
