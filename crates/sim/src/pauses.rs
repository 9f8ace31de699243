//! Pauses of the parts of a flow.

use icdc_units::Time;

use crate::simulation::{Pause, Pausing};

/// Begin and end of each pause of a flow, sorted, by the part of the flow that pauses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pauses {
    sender: Vec<(Time, Time)>,
    receiver: Vec<(Time, Time)>,
    acknowledgements: Vec<(Time, Time)>,
}

impl Pauses {
    /// Sorts the given pauses by the part that pauses, and by time.
    pub(crate) fn new(pauses: &[Pause]) -> Self {
        let of = |part: Pausing| {
            let begin = |pause: &Pause| Time::ORIGIN + pause.after;
            let mut times: Vec<(Time, Time)> = pauses
                .iter()
                .filter(|pause| pause.of == part)
                .map(|pause| (begin(pause), begin(pause) + pause.length))
                .collect();
            times.sort_unstable();
            times
        };
        Self {
            sender: of(Pausing::Sender),
            receiver: of(Pausing::Receiver),
            acknowledgements: of(Pausing::Acknowledgements),
        }
    }

    /// Time at which the sender handles an event that is due at `at`.
    pub(crate) fn sender(&self, at: Time) -> Time {
        deferred(&self.sender, at)
    }

    /// Time at which the receiver handles an event that is due at `at`.
    pub(crate) fn receiver(&self, at: Time) -> Time {
        deferred(&self.receiver, at)
    }

    /// Time at which the sender handles an acknowledgement that arrives at `at`.
    pub(crate) fn acknowledgement(&self, at: Time) -> Time {
        self.sender(deferred(&self.acknowledgements, at))
    }
}

/// The end of the pause in which `at` falls, or `at` itself. A pause may begin before the one
/// before has ended.
fn deferred(pauses: &[(Time, Time)], at: Time) -> Time {
    pauses.iter().fold(at, |at, (begin, end)| if (*begin..*end).contains(&at) { *end } else { at })
}

#[cfg(test)]
mod tests {
    use icdc_units::Span;

    use super::*;

    fn time(millis: u64) -> Time {
        Time::ORIGIN + Span::from_millis(millis)
    }

    #[test]
    fn what_is_due_in_a_pause_happens_at_its_end() {
        let pause =
            |of, after, length| Pause { of, after: Span::from_millis(after), length: Span::from_millis(length) };
        let pauses = Pauses::new(&[
            pause(Pausing::Sender, 30, 5),
            pause(Pausing::Sender, 10, 20),
            pause(Pausing::Acknowledgements, 5, 5),
        ]);
        assert_eq!(pauses.sender(time(9)), time(9));
        assert_eq!(pauses.sender(time(12)), time(35), "one pause follows another at once");
        assert_eq!(pauses.sender(time(35)), time(35));
        assert_eq!(pauses.receiver(time(12)), time(12));
        assert_eq!(pauses.acknowledgement(time(7)), time(35));
        assert_eq!(pauses.sender(Time::MAX), Time::MAX);
    }
}
