//! Far ends whose path has lost more packets than TCP bears, and those that datagrams do not reach or serve, remembered between runs:
//! `$XDG_STATE_HOME/icdc/losses.json`, else `~/.local/state/icdc/losses.json`.
//!
//! It is a convenience: whatever is wrong with it, a run hears of the losses by itself.

use std::path::PathBuf;

use icdc_tuning::{seconds_since_1970, state_file};
use icdc_units::Span;
use serde::{Deserialize, Serialize};

/// Greatest age of an entry. Chosen: a day; weather and firewalls change.
const OLDEST: Span = Span::from_secs(24 * 3600);
/// Most entries; the oldest go first.
const MOST: usize = 500;
/// Maximum size of a file that is read, in bytes: [`MOST`] entries take less.
const MAX_LENGTH: u64 = 1 << 20;

/// Experience with datagrams to a far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Datagrams {
    /// The path lost more than TCP bears, and they have reached the far end.
    Carry,
    /// They did not reach it, or carried less than TCP.
    Useless,
}

/// A far end, and what is known of datagrams to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    /// The far end as the user wrote it: `[USER@]HOST`, or `icdc://HOST:PORT`.
    place: String,
    datagrams: Datagrams,
    /// Time of the observation, in seconds since 1970.
    seen: u64,
}

/// Entries of the file, the newest first.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct KnownLosses {
    entries: Vec<Entry>,
}

impl KnownLosses {
    fn find(&self, place: &str, now: u64) -> Option<Datagrams> {
        let is_young = |entry: &&Entry| now.saturating_sub(entry.seen) <= OLDEST.as_secs();
        self.entries.iter().find(|entry| entry.place == place).filter(is_young).map(|entry| entry.datagrams)
    }

    fn remember(&mut self, entry: Entry) {
        self.entries.retain(|other| other.place != entry.place);
        self.entries.insert(0, entry);
        self.entries.truncate(MOST);
    }
}

fn file() -> Option<PathBuf> {
    state_file::path("losses.json")
}

/// Experience that this user has had with datagrams to a far end; `None` if none, or it is too old.
pub(crate) fn recall(place: &str) -> Option<Datagrams> {
    let known: KnownLosses = state_file::read_or_default(&file()?, MAX_LENGTH);
    known.find(place, seconds_since_1970())
}

/// Remembers it for later runs; what is remembered already stays as old as it is.
pub(crate) fn remember(place: &str, datagrams: Datagrams) {
    let Some(file) = file() else { return };
    if recall(place) == Some(datagrams) {
        return;
    }
    let entry = Entry { place: place.to_owned(), datagrams, seen: seconds_since_1970() };
    if let Err(error) = state_file::change(&file, MAX_LENGTH, |known: &mut KnownLosses| known.remember(entry)) {
        tracing::debug!("{}: {error}", file.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    #[test]
    fn the_latest_word_on_a_far_end_counts_for_a_day() {
        let mut known = KnownLosses::default();
        let entry = |place: &str, datagrams, seen| Entry { place: place.to_owned(), datagrams, seen };
        known.remember(entry("me@far", Datagrams::Carry, NOW));
        known.remember(entry("me@far", Datagrams::Useless, NOW + 1));
        known.remember(entry("icdc://far:2633", Datagrams::Carry, NOW));
        assert_eq!(known.find("me@far", NOW + 2), Some(Datagrams::Useless));
        assert_eq!(known.find("icdc://far:2633", NOW + OLDEST.as_secs() + 1), None);
        assert_eq!(known.find("far", NOW), None);
        (0..MOST + 3).for_each(|number| known.remember(entry(&format!("host{number}"), Datagrams::Carry, NOW)));
        assert_eq!((known.entries.len(), known.find("me@far", NOW)), (MOST, None));
        assert!(serde_json::to_vec_pretty(&known).unwrap().len() < MAX_LENGTH as usize);
    }
}
