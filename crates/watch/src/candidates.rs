//! Files that are being written, and when each is looked at: one that is still written then, and has become long, may
//! travel while it grows. Sans-I/O.

use std::collections::HashMap;

use icdc_units::{Span, Time};

use crate::Place;

/// Most files that wait for a look: those beyond travel when they have settled.
const MOST: usize = 1024;

/// Files that were written to since they were looked at last, each with the time of its next look. However often a
/// file is written to, it is looked at once in each [pause](Self::new).
#[derive(Debug)]
pub struct Candidates {
    pause: Span,
    looks: HashMap<Place, Time>,
}

impl Candidates {
    /// No files; each is to be looked at `pause` after it was written to.
    #[must_use]
    pub fn new(pause: Span) -> Self {
        Self { pause, looks: HashMap::new() }
    }

    /// Handles that a file was written to.
    pub fn written(&mut self, now: Time, place: &Place) {
        if self.looks.len() < MOST && !self.looks.contains_key(place) {
            self.looks.insert(place.clone(), now + self.pause);
        }
    }

    /// Takes a file that is due to be looked at; `None` if none is.
    pub fn due(&mut self, now: Time) -> Option<Place> {
        let (place, _) = self.looks.iter().min_by_key(|(_, time)| **time).filter(|(_, time)| **time <= now)?;
        let place = place.clone();
        self.looks.remove(&place);
        Some(place)
    }

    /// Time at which the next file is due; `None` if none waits.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.looks.values().min().copied()
    }

    /// Handles that a file has lost this name, or has settled.
    pub fn gone(&mut self, place: &Place) {
        self.looks.remove(place);
    }

    /// Forgets a directory and everything beneath it.
    pub fn forget(&mut self, directory: &Place) {
        self.looks.retain(|place, _| !place.is_within(directory));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &str) -> Place {
        Place { tree: 0, path: path.into() }
    }

    fn at(millis: u64) -> Time {
        Time::ORIGIN + Span::from_millis(millis)
    }

    #[test]
    fn a_file_is_looked_at_once_in_each_pause_in_which_it_is_written_to() {
        let mut candidates = Candidates::new(Span::from_millis(100));
        assert_eq!(candidates.next_deadline(), None);
        candidates.written(at(0), &place("a"));
        candidates.written(at(50), &place("a"));
        candidates.written(at(60), &place("b"));
        assert_eq!((candidates.next_deadline(), candidates.due(at(99))), (Some(at(100)), None));
        assert_eq!((candidates.due(at(100)), candidates.due(at(100))), (Some(place("a")), None));
        candidates.written(at(120), &place("a"));
        assert_eq!(candidates.due(at(170)), Some(place("b")));
        assert_eq!(candidates.next_deadline(), Some(at(220)));
    }

    #[test]
    fn what_has_lost_its_name_is_not_looked_at_and_files_beyond_a_limit_are_none() {
        let mut candidates = Candidates::new(Span::from_millis(100));
        ["a", "d/x", "d/y", "dx"].into_iter().for_each(|path| candidates.written(at(0), &place(path)));
        candidates.gone(&place("a"));
        candidates.forget(&place("d"));
        assert_eq!((candidates.due(at(100)), candidates.due(at(100))), (Some(place("dx")), None));
        (0..2 * MOST).for_each(|number| candidates.written(at(0), &place(&number.to_string())));
        assert_eq!(std::iter::from_fn(|| candidates.due(at(100))).count(), MOST);
    }
}
