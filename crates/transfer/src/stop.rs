//! The wish to stop, shared by everyone who may utter it or must heed it.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use icdc_units::Span;

/// A switch that goes from "run" to "stop" once. Clones share the switch.
#[derive(Clone, Default)]
pub struct StopSignal {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    requested: bool,
    listeners: Vec<Box<dyn FnOnce() + Send>>,
}

impl StopSignal {
    /// A signal that says "run".
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks to stop; further calls change nothing. Runs what `on_request` registered, on this thread.
    pub fn request(&self) {
        let listeners = {
            let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.requested = true;
            std::mem::take(&mut state.listeners)
        };
        self.shared.changed.notify_all();
        for listener in listeners {
            listener();
        }
    }

    /// Whether someone asked to stop.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).requested
    }

    /// Pauses for `span`, or until someone asks to stop. Returns whether someone did.
    #[must_use]
    pub fn wait(&self, span: Span) -> bool {
        let state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (state, _) = self
            .shared
            .changed
            .wait_timeout_while(state, Duration::from_nanos(span.as_nanos()), |state| !state.requested)
            .unwrap_or_else(PoisonError::into_inner);
        state.requested
    }

    /// Calls `listener` once when someone asks to stop; at once when that has happened already.
    ///
    /// For what sleeps in the kernel and has to be woken. The listener must not block.
    pub fn on_request(&self, listener: impl FnOnce() + Send + 'static) {
        {
            let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
            if !state.requested {
                state.listeners.push(Box::new(listener));
                return;
            }
        }
        listener();
    }
}

impl std::fmt::Debug for StopSignal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("StopSignal").field("requested", &self.is_requested()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_request_reaches_every_clone_and_stays() {
        let signal = StopSignal::new();
        let clone = signal.clone();
        assert!(!clone.is_requested());
        signal.request();
        signal.request();
        assert!(clone.is_requested());
    }

    #[test]
    fn wait_ends_by_time_or_by_request() {
        let signal = StopSignal::new();
        assert!(!signal.wait(Span::from_millis(1)));
        let waiter = std::thread::spawn({
            let signal = signal.clone();
            move || signal.wait(Span::from_secs(3600))
        });
        signal.request();
        assert!(waiter.join().unwrap());
        assert!(signal.wait(Span::from_secs(3600)));
    }

    #[test]
    fn listeners_run_once_whether_early_or_late() {
        let calls = Arc::new(AtomicUsize::new(0));
        let count = || {
            let calls = Arc::clone(&calls);
            move || {
                calls.fetch_add(1, Ordering::SeqCst);
            }
        };
        let signal = StopSignal::new();
        signal.on_request(count());
        assert_eq!(calls.load(Ordering::SeqCst), 0);
        signal.request();
        signal.request();
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        signal.on_request(count());
        assert_eq!(calls.load(Ordering::SeqCst), 2);
    }
}
