//! The port at which a host is attached: a line of its own rate, on which gap frames end.
//!
//! A real frame that arrives at `now` has been received when the line has carried it after
//! everything before it. PAUSE frames (IEEE 802.3 annex 31B) occupy the line like any other and are
//! dropped here, as every switch does: that is what PSPacer's gap packets rely on.
//!
//! Without a line rate frames arrive the moment they are sent, and gap frames are passed on for the
//! bottleneck to charge. A line holds a tenth of a second: a host that sends faster than its line,
//! which a real one cannot, is cut there.

use icdc_units::{Rate, Span, Time};

use crate::{Frame, Transmitter};

/// Longest wait of a frame for the host's line; frames beyond it are dropped.
const LONGEST_WAIT: Span = Span::from_millis(100);

/// Input port of the path, which charges frames to the line of the attached host.
#[derive(Clone, Debug)]
pub struct InputPort {
    line: Option<Transmitter>,
}

/// Outcome of a frame at the input port: received by the path, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reception {
    /// The port has received the frame at this time.
    Received(Time),
    /// A gap frame: charged to the line, and gone.
    Gap,
    /// The host has sent more than its line carries.
    Overrun,
}

impl InputPort {
    /// A port whose line has `rate`; `None`: no line at all.
    ///
    /// # Panics
    /// If the rate is zero.
    #[must_use]
    pub fn new(rate: Option<Rate>) -> Self {
        Self { line: rate.map(Transmitter::new) }
    }

    /// Time that a frame sent at `now` waits for the line; zero without one.
    #[must_use]
    pub fn backlog(&self, now: Time) -> Span {
        self.line.as_ref().map_or(Span::ZERO, |line| line.backlog_time(now))
    }

    /// Decides the outcome of a frame sent at `now`.
    pub fn receive(&mut self, now: Time, frame: Frame) -> Reception {
        let Some(line) = &mut self.line else {
            return Reception::Received(now);
        };
        if line.backlog_time(now) > LONGEST_WAIT {
            return Reception::Overrun;
        }
        let received = line.send(now, frame.wire_length());
        if frame.gap { Reception::Gap } else { Reception::Received(received) }
    }
}
