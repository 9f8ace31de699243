//! When a file has settled: closed by its writer, or unchanged for long enough. Sans-I/O; all times are of a monotonic
//! clock, so that a clock that is set changes nothing.
//!
//! ```text
//!            created, written                  closed, moved here          due, examined: as it was
//!  unknown ──────────────────► Open ──────────────────────────────► Quiet ─────────────────────────► Settled ──► unknown
//!     │                         ▲            events were lost         ▲ │                               │ settle
//!     └──── seen by a walk ─────┼─────────────────────────────────────┘ │ changed                       │
//!                               └───────────── written ─────────────────┴───────────────────────────────┘
//! ```
//!
//! | what was told last | when it is examined |
//! |---|---|
//! | closed after writing, or renamed to here | [`Delays::after_close`] later: it may be renamed or opened again yet |
//! | the same, written less than [`Delays::settle`] after it had settled | [`Delays::settle`] later: it is written in many parts; from 8 of these after it had settled on, as above |
//! | seen by a walk | [`Delays::settle`] later, and settled if it has not changed in between |
//! | created or written, and not closed | not at all: its writer has it open |
//!
//! Of names that are open when the tree is first walked nothing is known: they are quiet if they do not change, unless
//! whoever examines them [finds a writer](Settling::written). After lost events the same holds for all.
//!
//! Not every close is told: not of a file that has lost its name, while some writes to it are. So names that are open
//! are [looked at](Due::Open) now and then, to see whether they are.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use icdc_units::{Span, Time};

use crate::Place;

/// Shortest time between two looks at a name that is open.
const LOOK: Span = Span::from_secs(2);
/// Multiple of [`Delays::settle`] after which a name that is closed again and again settles once more.
const LONGEST_REPEAT: u64 = 8;
/// Most names that are tracked until they settle: those beyond are found by a walk.
const MOST: usize = 1 << 18;

/// Times without a change after which a file counts as settled: if its close was seen, and if not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// Time without a change after which a file has settled whose close was not seen, or that was written again soon
    /// after it had settled.
    pub settle: Span,
    /// Time without a change after which a file has settled that was closed.
    pub after_close: Span,
}

/// Step for which a name is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// It has been left alone for long enough, and is to be [examined](Settling::examined).
    Quiet,
    /// It counts as open, and whether it is is to be seen: if not, it was [closed](Settling::closed), or is
    /// [gone](Settling::gone).
    Open,
}

/// Result of examining a name that was due: settled, still waited for, or gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It has settled.
    Settled {
        /// Time of its close, or of the first look at which it was as it is now.
        since: Time,
    },
    /// It has changed, or something happened to it since, and is waited for.
    Waits,
    /// It is gone.
    Gone,
}

/// Names of followed trees that have changed, each tracked until it has settled: closed by its
/// writer, or unchanged for long enough.
#[derive(Debug)]
pub struct Settling {
    delays: Delays,
    stages: HashMap<Arc<Place>, Stage>,
    /// Names that wait for a time.
    timers: BTreeSet<(Time, Arc<Place>)>,
    /// Number of names that are open.
    open: usize,
    /// Number of names that have settled and are kept.
    settled: usize,
    /// Whether names were not kept, because there are too many.
    has_dropped: bool,
}

/// Stage of a tracked name: open, quiet, or settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its writer has it open.
    Open {
        /// Time at which it is looked at.
        look: Time,
        /// Time at which it had settled, if it was written to soon after that.
        settled: Option<Time>,
    },
    /// Nothing has happened to it since.
    Quiet {
        since: Time,
        /// Time at which it is due; `None` while it is examined.
        until: Option<Time>,
        known: Known,
        /// Time at which it had settled, if it was written to soon after that.
        settled: Option<Time>,
    },
    /// It has settled; kept for a while, so that one that is written in many parts does not travel after each.
    Settled { at: Time, until: Time },
}

/// Evidence that a quiet name is complete: its close was seen, it was seen in a version, or there
/// is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Its writer has closed it: what it is now is complete.
    Closed,
    /// It was in this version when it was seen.
    Version(u64),
    /// Nothing: what happened to it was lost.
    Nothing,
}

impl Stage {
    /// Time at which something is due for the name; `None` if it waits for no time.
    fn timer(self) -> Option<Time> {
        match self {
            Self::Quiet { until, .. } => until,
            Self::Open { look: time, .. } | Self::Settled { until: time, .. } => Some(time),
        }
    }

    /// Time at which the name had settled, if what happens to it now is soon after that.
    fn settled(self) -> Option<Time> {
        match self {
            Self::Settled { at, .. } => Some(at),
            Self::Open { settled, .. } | Self::Quiet { settled, .. } => settled,
        }
    }
}

impl Settling {
    /// No names, with these delays.
    #[must_use]
    pub fn new(delays: Delays) -> Self {
        Self { delays, stages: HashMap::new(), timers: BTreeSet::new(), open: 0, settled: 0, has_dropped: false }
    }

    /// Handles that a file is made, or written to, or found to have a writer: its writer has it open.
    pub fn written(&mut self, now: Time, place: &Place) {
        if !self.is_open(place) {
            self.set(place, self.open_from(now, self.had_settled(place)));
        }
    }

    /// The stage of a name that is open.
    fn open_from(&self, now: Time, settled: Option<Time>) -> Stage {
        Stage::Open { look: now + self.delays.settle.max(LOOK), settled }
    }

    /// Time at which a name had settled, if what happens to it now is soon after that.
    fn had_settled(&self, place: &Place) -> Option<Time> {
        self.stages.get(place).copied().and_then(Stage::settled)
    }

    /// Handles that a writer has closed a file, or that a file which nobody writes was renamed to here.
    pub fn closed(&mut self, now: Time, place: &Place) {
        let (Delays { settle, after_close }, settled) = (self.delays, self.had_settled(place));
        let soon = now + after_close;
        let until = settled.map_or(soon, |at| (now + settle).min(at + settle * LONGEST_REPEAT).max(soon));
        self.set(place, Stage::Quiet { since: now, until: Some(until), known: Known::Closed, settled });
    }

    /// Handles that attributes of a file were changed: it has to be left alone again, unless its
    /// writer has it open.
    pub fn touched(&mut self, now: Time, place: &Place) {
        match self.stages.get(place) {
            Some(Stage::Open { .. }) => {}
            Some(Stage::Quiet { known: known @ (Known::Nothing | Known::Version(_)), settled, .. }) => {
                let (until, known, settled) = (Some(now + self.delays.settle), *known, *settled);
                self.set(place, Stage::Quiet { since: now, until, known, settled });
            }
            Some(Stage::Quiet { known: Known::Closed, .. } | Stage::Settled { .. }) | None => self.closed(now, place),
        }
    }

    /// Handles that a file was renamed: one that is open stays so.
    pub fn moved(&mut self, now: Time, from: &Place, to: &Place) {
        let was = self.remove(from);
        match was {
            Some(Stage::Open { settled, .. }) => self.set(to, self.open_from(now, settled)),
            _ => self.closed(now, to),
        }
    }

    /// Handles that a file has lost this name.
    pub fn gone(&mut self, place: &Place) {
        self.remove(place);
    }

    /// Forgets a directory and everything beneath it, which a walk finds again where it is now.
    pub fn forget(&mut self, directory: &Place) {
        let within: Vec<_> = self.stages.keys().filter(|place| place.is_within(directory)).cloned().collect();
        for place in within {
            self.remove(&place);
        }
    }

    /// Handles a file that a walk has come to, in another version than the one that had settled.
    pub fn seen(&mut self, now: Time, place: &Place, version: u64) {
        match self.stages.get(place) {
            // More is known of it.
            Some(Stage::Open { .. } | Stage::Quiet { known: Known::Closed, .. }) => {}
            Some(Stage::Quiet { known: Known::Version(seen), .. }) if *seen == version => {}
            Some(Stage::Quiet { .. } | Stage::Settled { .. }) | None => self.wait_for_quiet(now, place, version),
        }
    }

    /// Handles the loss of events: any file may have been written, closed or removed. The trees have to be walked anew.
    pub fn lost(&mut self, now: Time) {
        let until = Some(now + self.delays.settle);
        let waiting = self.stages.iter().filter(|(_, stage)| !matches!(stage, Stage::Settled { .. }));
        let waiting: Vec<_> = waiting.map(|(place, _)| Arc::clone(place)).collect();
        for place in waiting {
            let settled = self.had_settled(&place);
            self.set(&place, Stage::Quiet { since: now, until, known: Known::Nothing, settled });
        }
    }

    /// Makes what was closed by its writer due at once: nothing more is waited for.
    pub fn hasten(&mut self, now: Time) {
        let is_closed = |stage: &Stage| matches!(stage, Stage::Quiet { until: Some(_), known: Known::Closed, .. });
        let closed: Vec<_> = self.stages.iter().filter(|(_, stage)| is_closed(stage)).collect();
        let closed: Vec<_> = closed.into_iter().map(|(place, stage)| (Arc::clone(place), *stage)).collect();
        for (place, stage) in closed {
            if let Stage::Quiet { since, known, settled, .. } = stage {
                self.set(&place, Stage::Quiet { since, until: Some(now), known, settled });
            }
        }
    }

    /// Takes the next name whose waiting time is over, and what it is due for; `None` if there is none at
    /// `now`.
    pub fn due(&mut self, now: Time) -> Option<(Place, Due)> {
        loop {
            let (time, place) = self.timers.first().filter(|(time, _)| *time <= now).cloned()?;
            match self.stages.get_mut(&place) {
                Some(Stage::Quiet { until, .. }) => {
                    *until = None;
                    self.timers.remove(&(time, Arc::clone(&place)));
                    return Some((Place::clone(&place), Due::Quiet));
                }
                Some(Stage::Open { settled, .. }) => {
                    let settled = *settled;
                    self.set(&place, self.open_from(now, settled));
                    return Some((Place::clone(&place), Due::Open));
                }
                _ => {
                    self.remove(&place);
                }
            }
        }
    }

    /// Time at which the next name is due; `None` if none is.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.timers.first().map(|(time, _)| *time)
    }

    /// Handles what was found at a name that was due: the version of the file, `None` for nothing.
    pub fn examined(&mut self, now: Time, place: &Place, version: Option<u64>) -> Verdict {
        let Some(version) = version else {
            self.remove(place);
            return Verdict::Gone;
        };
        match self.stages.get(place) {
            Some(Stage::Quiet { since, until: None, known, .. })
                if matches!(known, Known::Closed) || *known == Known::Version(version) =>
            {
                self.settle(now, place, *since)
            }
            Some(Stage::Quiet { until: None, .. }) => {
                self.wait_for_quiet(now, place, version);
                Verdict::Waits
            }
            _ => Verdict::Waits,
        }
    }

    /// Number of names that are waited for, those that are open included.
    #[must_use]
    pub fn unsettled(&self) -> usize {
        self.stages.len() - self.settled
    }

    /// Number of names that are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open
    }

    /// Whether the writer of the file of this name has it open.
    #[must_use]
    pub fn is_open(&self, place: &Place) -> bool {
        matches!(self.stages.get(place), Some(Stage::Open { .. }))
    }

    /// Whether the last that was told of a name that waits is that it was closed.
    #[must_use]
    pub fn was_closed(&self, place: &Place) -> bool {
        matches!(self.stages.get(place), Some(Stage::Quiet { known: Known::Closed, .. }))
    }

    /// Names that have not settled, in no order.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        let waiting = self.stages.iter().filter(|(_, stage)| !matches!(stage, Stage::Settled { .. }));
        waiting.map(|(place, _)| &**place)
    }

    /// Whether no more names are to be added for now, as too many are tracked: a walk has to pause.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.stages.len() >= MOST / 2
    }

    /// Whether names were dropped since this was asked last: the trees have to be walked anew.
    pub fn take_dropped(&mut self) -> bool {
        std::mem::take(&mut self.has_dropped)
    }

    /// Has a name wait to be left alone for [`Delays::settle`], from this version on.
    fn wait_for_quiet(&mut self, now: Time, place: &Place, version: u64) {
        let (until, settled) = (Some(now + self.delays.settle), self.had_settled(place));
        self.set(place, Stage::Quiet { since: now, until, known: Known::Version(version), settled });
    }

    /// Marks a name as settled since `since`; it is kept for a while, so that its next close
    /// settles later.
    fn settle(&mut self, now: Time, place: &Place, since: Time) -> Verdict {
        self.set(place, Stage::Settled { at: now, until: now + self.delays.settle });
        Verdict::Settled { since }
    }

    /// Puts a name into a stage; a new one is dropped if too many are kept.
    fn set(&mut self, place: &Place, stage: Stage) {
        let place = match self.stages.get_key_value(place) {
            Some((place, _)) => Arc::clone(place),
            None if self.stages.len() >= MOST => {
                self.has_dropped = true;
                return;
            }
            None => Arc::new(place.clone()),
        };
        self.remove(&place);
        if let Some(time) = stage.timer() {
            self.timers.insert((time, Arc::clone(&place)));
        }
        self.open += usize::from(matches!(stage, Stage::Open { .. }));
        self.settled += usize::from(matches!(stage, Stage::Settled { .. }));
        self.stages.insert(place, stage);
    }

    /// Tracks a name no more; returns its stage, `None` if it was not tracked.
    fn remove(&mut self, place: &Place) -> Option<Stage> {
        let (place, stage) = self.stages.remove_entry(place)?;
        if let Some(time) = stage.timer() {
            self.timers.remove(&(time, place));
        }
        self.open -= usize::from(matches!(stage, Stage::Open { .. }));
        self.settled -= usize::from(matches!(stage, Stage::Settled { .. }));
        Some(stage)
    }
}
