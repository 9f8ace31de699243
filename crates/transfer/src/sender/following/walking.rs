//! The walk of followed trees: each directory is watched, then listed, so that what is made in between is found either
//! way.

use icdc_disk::tree::{Directory, Kind, ListedEntry, Name, is_staging};
use icdc_units::Time;
use icdc_watch::{NotWatched, Place};

use super::walk::Level;
use super::watching::Watching;
use crate::sender::source_version::version_of;

/// Entries that are examined before events are taken again.
const AT_ONCE: usize = 1024;

impl Watching {
    /// Continues the walk by at most [`AT_ONCE`] entries, unless too many items wait to settle or
    /// to be announced.
    pub(super) fn walk_on(&mut self, now: Time) {
        for _ in 0..AT_ONCE {
            if self.is_full() {
                return;
            }
            let Some(level) = &mut self.walk.present else {
                let Some(place) = self.walk.waiting.pop() else { return };
                self.enter(place);
                continue;
            };
            match level.names.get(level.next) {
                Some(ListedEntry { name, hint }) => {
                    level.next += 1;
                    let (place, name) = (level.place.entry(name), name.to_vec());
                    let directory = level.directory.clone();
                    self.visit(now, &directory, &place, &name, hint);
                }
                None => self.walk.present = None,
            }
        }
    }

    /// Watches a directory, and lists what is in it.
    fn enter(&mut self, place: Place) {
        let Some(tree) = self.tree(&place) else { return };
        let Ok(directory) = tree.open(&place) else {
            // It is gone, or what cannot be opened is told when its name is announced.
            return;
        };
        let device = tree.device;
        if self.chosen.leaves_contents_out(&directory, device).is_some() {
            return;
        }
        self.watch(&directory, &place);
        match directory.entries() {
            Ok(names) => self.walk.present = Some(Level { place, directory, names, next: 0 }),
            Err(error) if error.is_missing() => {}
            Err(error) => self.tell_once(error.to_string()),
        }
    }

    /// Watches a directory by inotify; if it cannot be watched, the sources are walked at intervals
    /// from now on.
    fn watch(&mut self, directory: &Directory, place: &Place) {
        let Some(watcher) = &mut self.watcher else { return };
        match watcher.watch(directory, place) {
            Ok(()) => {}
            Err(NotWatched::TooMany) => {
                let watched = watcher.watched();
                self.walk_at_intervals(&format!(
                    "{watched} directories are watched, and this user may watch no more (fs.inotify.max_user_watches)"
                ));
            }
            Err(NotWatched::System(error)) => {
                self.walk_at_intervals(&format!("a directory cannot be watched: {error}"));
            }
        }
    }

    /// Handles an entry of the directory that is being walked.
    fn visit(&mut self, now: Time, directory: &Directory, place: &Place, name: &[u8], hint: Option<Kind>) {
        if is_staging(name) || hint.is_some_and(|kind| self.is_excluded(place, kind == Kind::Directory)) {
            return;
        }
        let Ok(name) = Name::new(name) else { return };
        let Ok(stat) = directory.stat(&name) else { return };
        let is_directory = stat.kind == Kind::Directory;
        if hint.is_none() && self.is_excluded(place, is_directory) {
            return;
        }
        let version = version_of(&stat);
        match stat.kind {
            Kind::Directory => {
                self.walk.add(place.clone());
                self.queue_unless_known(now, place, &stat);
            }
            Kind::File if !self.known.has(place, version) => self.settling.seen(now, place, version),
            Kind::File => {}
            Kind::Symlink | Kind::Other(_) => self.queue_unless_known(now, place, &stat),
        }
    }
}
