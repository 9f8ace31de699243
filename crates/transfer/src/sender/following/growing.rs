//! Followed files that travel while they grow: which begin to, and how they end.

use std::sync::Arc;

use icdc_disk::tree::{Name, Stat};
use icdc_units::Time;
use icdc_watch::Place;

use super::watching::Watching;
use crate::sender::growing_file::GrowingFile;
use crate::sender::settled::Settled;
use crate::sender::source_version::{version, version_of};

/// Most files that are known not to travel while they grow.
const MOST_REFUSED: usize = 1024;

impl Watching {
    /// Handles that a file was written to.
    pub(super) fn on_growth(&mut self, now: Time, place: &Place) {
        if self.growing.contains_key(place) {
            self.queue.on_growth();
        } else {
            self.candidates.written(now, place);
        }
    }

    /// Time at which a file is to be looked at that may travel while it grows; `None` if none is.
    pub(super) fn next_look(&self) -> Option<Time> {
        self.candidates.next_deadline().filter(|_| self.growth.has_room(self.growing.len()))
    }

    /// Looks at files that were written to; those that are long and still open begin to travel.
    pub(super) fn look_at_candidates(&mut self, now: Time) {
        while self.growth.has_room(self.growing.len())
            && let Some(place) = self.candidates.due(now)
        {
            if self.settling.is_open(&place)
                && let Some(file) = self.open_growing(&place)
            {
                let file = Arc::new(file);
                let version = version_of(&file.first);
                self.growing.insert(place.clone(), Arc::clone(&file));
                self.queue.add(Settled { place, is_directory: false, since: now, version, growing: Some(file) });
            }
        }
    }

    /// Opens a file that may travel while it grows; `None` for any other.
    fn open_growing(&self, place: &Place) -> Option<GrowingFile> {
        let tree = self.tree(place)?;
        if self.is_excluded(place, false) || self.is_marker(&tree.path_from_root(place)) {
            return None;
        }
        let (above, name) = place.split()?;
        let name = Name::new(name).ok()?;
        let (file, stat) = tree.open(&above).ok()?.open_file(&name).ok()?;
        let is_refused = self.refused.contains(&(stat.dev, stat.ino));
        (!is_refused && self.growth.may_grow(name.as_bytes(), &stat)).then(|| GrowingFile::new(file, stat))
    }

    /// Ends a file that has settled in this version and travels while it grows; false if it is to travel as any other.
    pub(super) fn closes_growing(&mut self, place: &Place, stat: &Stat, since: Time) -> bool {
        self.candidates.gone(place);
        let Some(file) = self.growing.get(place) else { return false };
        if !file.is(stat) || !file.close(since, version(stat)) {
            self.abandon(place);
            return false;
        }
        self.known.insert(place, version_of(stat));
        self.active = since.max(self.active);
        self.queue.on_growth();
        true
    }

    /// Has the file at this place, if it travels while it grows, travel so no further.
    pub(super) fn abandon(&mut self, place: &Place) {
        self.candidates.gone(place);
        if let Some(file) = self.growing.remove(place) {
            self.refuse(&file);
            file.abandon();
            self.queue.on_growth();
        }
    }

    /// Has files beneath this directory travel no further that travel while they grow.
    pub(super) fn abandon_within(&mut self, directory: &Place) {
        self.candidates.forget(directory);
        let within: Vec<_> = self.growing.keys().filter(|place| place.is_within(directory)).cloned().collect();
        within.iter().for_each(|place| self.abandon(place));
    }

    /// Has files travel no further that their writers have open, at the end of the following.
    pub(super) fn abandon_open(&mut self) {
        let open: Vec<_> =
            self.growing.iter().filter(|(_, file)| file.is_open()).map(|(place, _)| place.clone()).collect();
        open.iter().for_each(|place| self.abandon(place));
    }

    /// Handles that a file which travels while it grows was given up: it travels as any other when it has settled.
    pub(super) fn growth_ended(&mut self, settled: &Settled) {
        let Some(file) = &settled.growing else { return };
        self.refuse(file);
        if self.growing.get(&settled.place) == Some(file) {
            self.growing.remove(&settled.place);
        }
    }

    /// Handles that a file is published that has travelled while it grew. Its directory has changed since it was
    /// announced, and its own attributes may have.
    pub(super) fn grown(&mut self, now: Time, settled: &Settled) {
        let Settled { place, growing: Some(file), .. } = settled else { return };
        if self.growing.get(place) == Some(file) {
            self.growing.remove(place);
        }
        let Some(tree) = self.tree(place) else { return };
        let described = |stat: &Stat| (stat.mode, stat.uid, stat.gid);
        let is_described = |stat: &Stat| described(stat) == described(&file.first) && !self.growth.has_attributes;
        let changed =
            tree.stat(place).ok().filter(|stat| self.known.has(place, version_of(stat)) && !is_described(stat));
        let above = place.split().and_then(|(above, _)| Some((tree.stat(&above).ok()?, above)));
        let ready = |place: &Place, is_directory, stat: &Stat| Settled {
            place: place.clone(),
            is_directory,
            since: now,
            version: version_of(stat),
            growing: None,
        };
        changed.iter().for_each(|stat| self.queue.add(ready(place, false, stat)));
        above.iter().for_each(|(stat, above)| self.queue.add(ready(above, true, stat)));
    }

    /// Notes that a file does not travel while it grows, as it was given up once.
    fn refuse(&mut self, file: &GrowingFile) {
        if self.refused.len() >= MOST_REFUSED {
            self.refused.clear();
        }
        self.refused.insert((file.first.dev, file.first.ino));
    }
}
