//! Unfinished files that a running copy may hold: they are not removed.
//!
//! The rules are those of `icdc leftovers`. A run in progress holds the lock of its journal, which
//! is in a directory above its unfinished files, and those of large ones. The copy of a single small
//! file has no lock: what may be its unfinished file is kept for a while.

use icdc_disk::tree::{Directory, Holder, RunState, StagingKind, StagingName, Tree, WalkItem, printable};
use icdc_protocol::limits::BLOCK_SIZE;

/// Seconds for which a small unfinished file without the journal of a run counts as that of a copy
/// at work.
const RECENT: i64 = 600;
/// Most directories above the item of a request that are searched for the journals of runs.
const MOST_ABOVE: usize = 256;

/// Finds out whether unfinished files below a path may be in use.
pub(crate) struct InUse<'a> {
    tree: &'a Tree,
    /// Path of the directory that has the item of the request.
    above: Vec<u8>,
    /// Time in seconds since 1970; `None` where small files count as in use only while a run is in
    /// progress.
    now: Option<i64>,
}

impl<'a> InUse<'a> {
    /// For unfinished files below `path`; small ones that were changed shortly before `now`, in
    /// seconds since 1970, may be in use as well.
    pub(crate) fn new(tree: &'a Tree, path: &[u8], now: Option<i64>) -> Self {
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let above = path[..end].iter().rposition(|byte| *byte == b'/').map_or(&b"."[..], |slash| &path[..=slash]);
        Self { tree, above: above.to_vec(), now }
    }

    /// Returns an error if `item` of the directory `above`, which has the name of an unfinished file,
    /// may be in use; `way` are the directories that lead to it from the item of the request. A
    /// sentence for the user.
    pub(crate) fn check(
        &self,
        way: &mut dyn Iterator<Item = &Directory>,
        above: &Directory,
        item: &WalkItem,
    ) -> Result<(), String> {
        let shown = printable(&item.path);
        // Its lock is not kept: the file may be the journal that is looked at next.
        let is_held = !item.is_directory() && matches!(Self::holder(above, item)?, Holder::Another);
        let run = way.filter_map(RunState::of).max().max(self.run_above());
        if is_held || run == Some(RunState::Held) {
            return Err(format!("{shown}: a running copy of icdc uses it; stop that, or wait for its end"));
        }
        let is_small = StagingName::parse(item.name.as_bytes())
            .is_some_and(|staging| staging.kind == StagingKind::Part)
            && item.stat.size <= BLOCK_SIZE as u64;
        let age = self.now.map(|now| now.saturating_sub(item.stat.ctime.seconds));
        if let Some(age) = age.filter(|age| run.is_none() && !item.is_directory() && is_small && *age < RECENT) {
            return Err(format!(
                "{shown}: was changed {age} s ago; a running copy of one small file holds no lock, so that it stays \
                 for ten minutes"
            ));
        }
        Ok(())
    }

    /// Tries to lock the unfinished file `item`; [`Holder::Another`] if another process has it
    /// locked. A file that is gone counts as not locked. The error is a sentence for the user.
    fn holder(above: &Directory, item: &WalkItem) -> Result<Holder, String> {
        match Holder::lock(above, &item.name) {
            // It got its final name, or was removed.
            Err(error) if error.is_missing() => Ok(Holder::Own { locked: None }),
            holder => holder.map_err(|error| error.to_string()),
        }
    }

    /// State of the run that has its journal in the directory of the item of the request, or in one
    /// above, as far as the tree goes.
    fn run_above(&self) -> Option<RunState> {
        let mut path = self.above.clone();
        let mut found = None;
        let mut last = None;
        for _ in 0..MOST_ABOVE {
            let Ok(directory) = self.tree.resolve(&path).and_then(|located| located.open_directory()) else { break };
            let place = directory.own_stat().map(|stat| (stat.dev, stat.ino)).ok();
            // The root has itself above it.
            if place == last {
                break;
            }
            last = place;
            found = found.max(RunState::of(&directory));
            path.extend_from_slice(if path.ends_with(b"/") { b".." } else { b"/.." });
        }
        found
    }
}
