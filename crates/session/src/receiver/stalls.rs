//! Detection of stalled connections after the first.
//!
//! The sender sends something on each connection once a second. A connection on which nothing
//! arrives for [`STALLED`], while the first one is never silent for long, has lost its path: it is
//! given up, and what it carries is retransmitted over another. If the first one falls silent as
//! well, the path is down for all, and those that were silent by then are waited for as long as the
//! first one.

use icdc_units::{Span, Time};

/// Silence after which a connection is given up while others carry on. TCP retransmits a lost
/// segment three times within it, even at a round-trip time of half a second.
pub const STALLED: Span = Span::from_secs(5);
/// Silence of the first connection from which an outage of the whole path is assumed: the silence
/// of other connections counts as a stall only if it began after the last such gap.
pub const GAP: Span = Span::from_secs(2);

/// Silence of the first connection, with which that of the others is compared.
#[derive(Clone, Copy, Debug)]
pub struct First {
    /// Time for which its inlet has waited for the sender; zero while it waits for room in the
    /// ring.
    pub inlet: Span,
    /// Time since its path was last heard of, acknowledgements included, also while the ring is
    /// full; zero if unknown.
    pub path: Span,
}

/// Detector of connections that have stalled while the first one is active.
#[derive(Clone, Copy, Debug)]
pub struct Stalls {
    /// Start of the present period in which the first connection had no gap.
    active_since: Time,
}

impl Stalls {
    /// State for a session that begins at `now`.
    #[must_use]
    pub fn new(now: Time) -> Self {
        Self { active_since: now }
    }

    /// Returns the numbers of the further connections that have stalled. `first` and `others`: time
    /// since anything has arrived over each. To be called several times a second.
    pub fn update(&mut self, now: Time, first: First, others: impl IntoIterator<Item = (u8, Span)>) -> Vec<u8> {
        if first.inlet.max(first.path) >= GAP {
            self.active_since = now;
        }
        let active = now - self.active_since;
        let has_stalled = |silence: Span| silence >= STALLED && silence <= active;
        others.into_iter().filter(|(_, silence)| has_stalled(*silence)).map(|(number, _)| number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ORIGIN + Span::from_secs(seconds)
    }

    fn silent(seconds: u64) -> Span {
        Span::from_secs(seconds)
    }

    fn first(seconds: u64) -> First {
        First { inlet: silent(seconds), path: silent(seconds) }
    }

    #[test]
    fn an_outage_is_seen_while_the_first_one_waits_for_the_ring() {
        let mut stalls = Stalls::new(at(0));
        for second in 1..8 {
            let first = First { inlet: Span::ZERO, path: silent(second) };
            assert!(stalls.update(at(10 + second), first, [(1, silent(second))]).is_empty(), "{second}");
        }
    }

    #[test]
    fn one_that_is_silent_while_the_first_is_heard_has_stalled() {
        let mut stalls = Stalls::new(at(0));
        assert!(stalls.update(at(6), first(0), [(1, silent(4)), (2, silent(0))]).is_empty());
        assert_eq!(stalls.update(at(7), first(1), [(1, silent(5)), (2, silent(0))]), [1]);
    }

    #[test]
    fn those_that_an_outage_of_the_path_has_silenced_are_waited_for() {
        let mut stalls = Stalls::new(at(0));
        for second in 1..8 {
            assert!(stalls.update(at(10 + second), first(second), [(1, silent(second))]).is_empty());
        }
        // The first one has resumed; the other one waits for its retransmission.
        for second in 8..16 {
            assert!(stalls.update(at(10 + second), first(0), [(1, silent(second))]).is_empty());
        }
        assert_eq!(stalls.update(at(40), first(0), [(1, silent(0)), (2, silent(6))]), [2]);
    }
}
