//! How many connections the processors of the sending host need.
//!
//! A connection is served by one thread, which encrypts and hands to the kernel, so it carries no more
//! than one processor does. Where these threads hardly ever wait although blocks do, twice as many
//! share the work, up to one for each processor: with more to do than processors they wait for each
//! other, and no more are asked for.

use icdc_units::{Span, Time};

/// How long the threads are watched.
const ROUND: Span = Span::from_millis(500);
/// Threads that work for such a share of the time (per cent) are what limits.
const BUSY: u64 = 85;

/// What is seen of the connections.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// When.
    pub at: Time,
    /// How many there are.
    pub connections: u64,
    /// Processor time that their threads have taken so far, together.
    pub worked: Span,
    /// Blocks wait for a connection that takes them.
    pub blocks_wait: bool,
}

/// See the module's description.
#[derive(Debug)]
pub struct Processors {
    /// As many as this process may use.
    count: u64,
    /// The look with which a round began.
    begun: Option<Look>,
    /// Most that were asked for: where they cannot be had, asking again brings none.
    asked: u64,
}

impl Processors {
    /// Of a process that may use so many.
    #[must_use]
    pub fn new(count: u64) -> Self {
        Self { count, begun: None, asked: 0 }
    }

    /// Takes note of a look. How many connections there should be, where these are more than there are.
    pub fn look(&mut self, now: &Look) -> Option<u64> {
        let begun = *self.begun.get_or_insert(*now);
        if now.connections != begun.connections || !now.blocks_wait {
            self.begun = Some(*now);
            return None;
        }
        let span = now.at - begun.at;
        if span < ROUND {
            return None;
        }
        self.begun = Some(*now);
        let could = span * now.connections;
        let wanted = (now.connections * 2).min(self.count);
        let are_busy = (now.worked - begun.worked) * 100 >= could * BUSY;
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

    /// Connections after ten rounds on a host of 8 processors of which `others` take so many, where each connection
    /// could work for `share` per cent of the time.
    fn connections(share: u64, others: u64, blocks_wait: bool) -> u64 {
        let (mut processors, mut count, mut worked) = (Processors::new(8), 1, Span::ZERO);
        for step in 0..100 {
            let at = Time::ORIGIN + Span::from_millis(step * 50);
            if let Some(wanted) = processors.look(&Look { at, connections: count, worked, blocks_wait }) {
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
            asked += processors.look(&Look { at, connections: 1, worked, blocks_wait: true }).map_or(0, |_| 1);
        }
        assert_eq!(asked, 1);
    }

    #[test]
    fn a_path_or_a_source_that_limits_is_no_reason() {
        assert_eq!(connections(70, 0, true), 1);
        assert_eq!(connections(100, 0, false), 1);
    }
}
