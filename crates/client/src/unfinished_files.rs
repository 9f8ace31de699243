//! Existing files that a copy writes at their place, until each is complete: they are named where it ends early.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use icdc_transfer::{Event, EventSink};

/// Paths of the files that are being written at their place and are inconsistent, by the events of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnfinishedFiles(Arc<Mutex<BTreeSet<String>>>);

impl UnfinishedFiles {
    /// Sink that notes what the events of a run say about such files, and passes them on to `events`.
    pub(crate) fn noting(&self, events: &EventSink) -> EventSink {
        let (noted, events) = (self.clone(), events.clone());
        Arc::new(move |event| {
            noted.note(&event);
            events(event);
        })
    }

    /// Notes the file that an event is about.
    fn note(&self, event: &Event) {
        let mut paths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::InPlace { path } => {
                paths.insert(path.clone());
            }
            // One that has failed is named with what is left of it.
            Event::Item { path, .. } => {
                paths.remove(path);
            }
            _ => {}
        }
    }

    /// The files that are not complete, in the order of their paths.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use icdc_transfer::Outcome;

    use super::*;

    #[test]
    fn a_file_is_unfinished_from_its_first_byte_to_its_outcome() {
        let unfinished = UnfinishedFiles::default();
        let seen = Arc::new(Mutex::new(0));
        let counted = seen.clone();
        let events: EventSink = Arc::new(move |_| *counted.lock().unwrap() += 1);
        let noting = unfinished.noting(&events);
        for path in ["b", "a", "b"] {
            noting(Event::InPlace { path: path.into() });
        }
        assert_eq!(unfinished.paths(), ["a", "b"]);
        let item =
            |path: &str, outcome| Event::Item { path: path.into(), bytes: 0, digest: None, outcome, reason: None };
        noting(item("b", Outcome::Published));
        noting(item("c", Outcome::Published));
        assert_eq!(unfinished.paths(), ["a"]);
        noting(item("a", Outcome::Failed));
        assert!(unfinished.paths().is_empty());
        assert_eq!(*seen.lock().unwrap(), 6, "every event is passed on");
    }
}
