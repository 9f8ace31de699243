//! Positions on a line and times: where the line is when, and what becomes of time in which nothing
//! was sent.

use icdc_units::{ByteCount, Rate, Span, Time};

/// Clock of a line: converts between times and positions, which count the bytes that the line has
/// carried or left idle.
pub(super) struct LineClock {
    line: Rate,
    /// Time at which the line was at position zero.
    origin: Time,
    /// Time until which the line is idle on purpose.
    rest: Time,
}

impl LineClock {
    /// Clock of a line of this rate that begins at `now`, idle because nothing has to be sent.
    pub(super) fn new(line: Rate, now: Time) -> Self {
        Self { line, origin: now, rest: Time::MAX }
    }

    /// Rate of the line.
    pub(super) fn line(&self) -> Rate {
        self.line
    }

    /// Position of the line at `time`: bytes that it has carried or left idle by then.
    pub(super) fn position_at(&self, time: Time) -> ByteCount {
        self.line * (time - self.origin)
    }

    /// Time at which the line is at `position`.
    pub(super) fn time_of(&self, position: ByteCount) -> Time {
        self.origin + position / self.line
    }

    /// Notes that the line is idle from now on because nothing has to be sent before `until`.
    pub(super) fn rest_until(&mut self, until: Time) {
        self.rest = until;
    }

    /// Goes on at `now` on a line that has been filled up to `position`. Returns the bytes that
    /// passed while nothing had to be sent, and the time that is lost because nothing was sent for
    /// longer than `allowed` though it was due. Lost time is not caught up.
    pub(super) fn resume(&mut self, now: Time, position: ByteCount, allowed: Span) -> (ByteCount, Span) {
        let rested = self.position_at(now.min(self.rest)) - position;
        self.rest = Time::ORIGIN;
        let behind = self.position_at(now) - (position + rested);
        let lost = behind / self.line - allowed;
        self.origin += lost;
        (rested, lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A byte a nanosecond.
    const LINE: Rate = Rate::from_bits_per_second(8_000_000_000);

    fn at(nanos: u64) -> Time {
        Time::from_nanos(1_000_000 + nanos)
    }

    #[test]
    fn rest_passes_and_stalls_are_lost() {
        let mut clock = LineClock::new(LINE, at(0));
        let bytes = ByteCount::new;
        let nanos = Span::from_nanos;
        assert_eq!(clock.resume(at(500), bytes(0), Span::ZERO), (bytes(500), Span::ZERO));
        // Filled up to 700; what is ahead needs nothing.
        assert_eq!(clock.resume(at(600), bytes(700), Span::ZERO), (bytes(0), Span::ZERO));
        // Late by 300, of which 100 are made up for: the line is 200 shorter from then on.
        assert_eq!(clock.resume(at(1000), bytes(700), nanos(100)), (bytes(0), nanos(200)));
        assert_eq!((clock.position_at(at(1000)), clock.time_of(bytes(800))), (bytes(800), at(1000)));
        // Rest up to 1500, and a stall until 1600.
        clock.rest_until(at(1500));
        assert_eq!(clock.resume(at(1600), bytes(800), Span::ZERO), (bytes(500), nanos(100)));
        assert_eq!(clock.position_at(at(1600)), bytes(1300));
    }
}
