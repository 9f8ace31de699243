//! Something that comes to its end once, and waiting for that with a limit.

use std::convert::Infallible;
use std::sync::Mutex;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use icdc_units::Span;

/// Guard held by something that runs; its drop, also by a panic, signals the end to the [`Ended`]
/// that was made with it.
pub(crate) struct Running {
    _open: Sender<Infallible>,
}

/// Receiver of the signal that something has ended; it can be waited for.
pub(crate) struct Ended(Receiver<Infallible>);

/// Makes a guard for something that runs, and a receiver that is told of its end: the drop of the
/// guard, also by a panic. The receiver can be waited for, or selected on.
pub(crate) fn watched() -> (Running, Ended) {
    let (open, ended) = bounded(0);
    (Running { _open: open }, Ended(ended))
}

impl Ended {
    /// Waits for the end, at most for `limit`; returns whether the end has come.
    pub(crate) fn wait(&self, limit: Span) -> bool {
        let waited = self.0.recv_timeout(Duration::from_nanos(limit.as_nanos()));
        matches!(waited, Err(RecvTimeoutError::Disconnected))
    }

    /// For `select!`: receives an error once the end has come, and nothing before.
    pub(crate) fn channel(&self) -> &Receiver<Infallible> {
        &self.0
    }
}

/// An event that happens at most once, signalled by whichever thread comes first.
pub(crate) struct Once {
    running: Mutex<Option<Running>>,
    ended: Ended,
}

impl Default for Once {
    fn default() -> Self {
        let (running, ended) = watched();
        Self { running: Mutex::new(Some(running)), ended }
    }
}

impl Once {
    /// Signals that the event has happened.
    pub(crate) fn signal(&self) {
        self.running.lock().expect("no panic while an event is told").take();
    }

    /// Waits until the event has happened, at most for `limit`; returns whether it has.
    pub(crate) fn wait(&self, limit: Span) -> bool {
        self.ended.wait(limit)
    }

    /// Channel that is closed by the event; see [`Ended::channel`].
    pub(crate) fn channel(&self) -> &Receiver<Infallible> {
        self.ended.channel()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_thread_and_an_event_are_waited_for() {
        let (running, ended) = watched();
        assert!(!ended.wait(Span::from_millis(1)));
        let thread = std::thread::spawn(move || drop(running));
        assert!(ended.wait(Span::from_secs(60)) && ended.wait(Span::ZERO));
        thread.join().unwrap();
        let event = Once::default();
        assert!(!event.wait(Span::ZERO));
        event.signal();
        event.signal();
        assert!(event.wait(Span::ZERO));
    }
}
