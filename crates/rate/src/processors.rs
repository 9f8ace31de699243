//! Number of connections that the processors of the sending host need.
//!
//! A connection is served by one thread, which encrypts and calls the kernel, so it carries no more
//! than one processor does. Where these threads hardly ever wait although blocks do, twice as many
//! connections are asked for, up to one for each processor: with more than that, threads wait for
//! each other.

use icdc_units::{Span, Time};

/// Time over which the load of threads is measured. Chosen: at 250 ms and 1000 ms snapshot
/// `throughput.txt` changes.
const PERIOD: Span = Span::from_millis(500);
/// Part of the time of one processor each that the threads take from which they limit the rate, in
/// per cent. Chosen: at 43 test `a_path_or_a_source_that_limits_is_no_reason` fails (and 1 more
/// test); at 170 test `those_that_do_not_come_are_asked_for_once` fails (and 3 more tests).
const BUSY_PERCENT: u64 = 85;
/// Connections that are asked for at once, for each that there is. Chosen: at 1 test
/// `those_that_do_not_come_are_asked_for_once` fails (and 3 more tests); at 4 test
/// `looks_that_a_bundle_wants_often_do_not_change_how_processors_are_watched` fails.
const CONNECTION_FACTOR: u64 = 2;

/// State of all connections at one time: their number, the processor time that their threads have
/// taken, and whether blocks wait.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Time of the sample.
    pub at: Time,
    /// Number of connections.
    pub connections: u64,
    /// Processor time that their threads have taken so far, together.
    pub worked: Span,
    /// Whether blocks wait for a connection that takes them.
    pub blocks_wait: bool,
}

/// Detector of threads that limit the rate: where those of the present connections hardly ever wait
/// although blocks do, more connections are wanted.
#[derive(Debug)]
pub struct Processors {
    /// Number of processors that this process may use.
    count: u64,
    /// Sample with which the period in progress began.
    begun: Option<Sample>,
    /// Greatest number that was asked for: a request that was not met is not repeated.
    asked: u64,
}

impl Processors {
    /// A detector for a process that may use `count` processors.
    #[must_use]
    pub fn new(count: u64) -> Self {
        Self { count, begun: None, asked: 0 }
    }

    /// Processes a sample; returns the number of connections that there should be; `None` if that
    /// is not more than there are and than was returned before.
    pub fn on_sample(&mut self, now: &Sample) -> Option<u64> {
        let begun = *self.begun.get_or_insert(*now);
        if now.connections != begun.connections || !now.blocks_wait {
            self.begun = Some(*now);
            return None;
        }
        let span = now.at - begun.at;
        if span < PERIOD {
            return None;
        }
        self.begun = Some(*now);
        let could = span * now.connections;
        let wanted = (now.connections * CONNECTION_FACTOR).min(self.count);
        let are_busy = (now.worked - begun.worked) * 100 >= could * BUSY_PERCENT;
        if !are_busy || wanted <= now.connections.max(self.asked) {
            return None;
        }
        self.asked = wanted;
        Some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connections after ten periods on a host of 8 processors, of which other programs take
    /// `others`, where each connection could work for `share` per cent of the time.
    fn connections(share: u64, others: u64, blocks_wait: bool) -> u64 {
        let (mut processors, mut count, mut worked) = (Processors::new(8), 1, Span::ZERO);
        for step in 0..100 {
            let at = Time::ORIGIN + Span::from_millis(step * 50);
            if let Some(wanted) = processors.on_sample(&Sample { at, connections: count, worked, blocks_wait }) {
                count = wanted;
            }
            let most = Span::from_millis(50) * (8 - others);
            worked += (Span::from_millis(50) * count * share / 100).min(most);
        }
        count
    }

    #[test]
    fn threads_that_never_wait_become_as_many_as_the_processors_that_are_left() {
        assert_eq!(connections(100, 0, true), 8);
        assert_eq!(connections(100, 5, true), 4, "four threads share three processors");
        assert_eq!(connections(90, 0, true), 8);
    }

    #[test]
    fn those_that_do_not_come_are_asked_for_once() {
        let (mut processors, mut asked) = (Processors::new(8), 0);
        for step in 0..100 {
            let worked = Span::from_millis(50) * step;
            let at = Time::ORIGIN + worked;
            asked += processors.on_sample(&Sample { at, connections: 1, worked, blocks_wait: true }).map_or(0, |_| 1);
        }
        assert_eq!(asked, 1);
    }

    #[test]
    fn a_path_or_a_source_that_limits_is_no_reason() {
        assert_eq!(connections(70, 0, true), 1);
        assert_eq!(connections(100, 0, false), 1);
    }
}
