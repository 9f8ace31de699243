//! The request to stop, shared by everyone who may make it or must heed it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use icdc_units::Span;
use rustix::event::{EventfdFlags, eventfd};

/// A request to stop, made once by whoever may and heeded by every thread that waits. Clones share
/// it; it cannot be taken back.
#[derive(Clone, Default)]
pub struct StopSignal {
    shared: Arc<Signal>,
}

/// State that all clones of one [`StopSignal`] share.
#[derive(Default)]
struct Signal {
    state: Mutex<Waiters>,
    changed: Condvar,
    /// Link from the parent signal, by which the parent's request is passed on; `None` for a signal
    /// that is no child.
    _parent: Option<Listening>,
}

/// Whether a stop was requested, and the callbacks to run when it is.
#[derive(Default)]
struct Waiters {
    requested: bool,
    /// Listeners by number, so that one can be taken back.
    listeners: BTreeMap<u64, Listener>,
    next: u64,
}

/// Callback that runs once, on the thread that requests the stop.
type Listener = Box<dyn FnOnce() + Send>;

/// Registration of a callback with a [`StopSignal`]; dropping it removes the callback.
#[must_use = "dropping it takes the listener back"]
pub struct Listening {
    signal: StopSignal,
    number: Option<u64>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let listener = {
                let mut state = self.signal.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
                state.listeners.remove(&number)
            };
            // What it holds may itself have to do with the signal: it goes without the lock.
            drop(listener);
        }
    }
}

/// Descriptor that becomes readable when a stop is requested, for threads that wait in poll(2).
pub struct StopDescriptor {
    descriptor: Arc<OwnedFd>,
    _listening: Listening,
}

impl AsFd for StopDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl StopSignal {
    /// Makes a signal on which no stop is requested.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a signal for a part of the work: a request on this one stops it too, a request on the
    /// child leaves this one as it is.
    #[must_use]
    pub fn child(&self) -> Self {
        let shared = Arc::new_cyclic(|child: &Weak<Signal>| {
            let child = child.clone();
            let parent = self.while_waiting(move || {
                if let Some(shared) = child.upgrade() {
                    Self { shared }.request();
                }
            });
            Signal { _parent: Some(parent), ..Signal::default() }
        });
        let child = Self { shared };
        // The request may have come before there was a child to hear it.
        if self.is_requested() {
            child.request();
        }
        child
    }

    /// Asks to stop; further calls change nothing. Runs what `on_request` registered, on this
    /// thread.
    pub fn request(&self) {
        let listeners = {
            let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.requested = true;
            std::mem::take(&mut state.listeners)
        };
        self.shared.changed.notify_all();
        for listener in listeners.into_values() {
            listener();
        }
    }

    /// Whether a stop was requested.
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

    /// Calls `listener` once when a stop is requested, on the thread that requests it; at once, on
    /// this thread, if that has happened already.
    ///
    /// For what sleeps in the kernel and has to be woken. The listener must not block.
    pub fn on_request(&self, listener: impl FnOnce() + Send + 'static) {
        let mut listening = self.while_waiting(listener);
        listening.number = None;
    }

    /// Registers `listener` as [`StopSignal::on_request`] does, but only until the result is
    /// dropped: for the time of one wait among many.
    pub fn while_waiting(&self, listener: impl FnOnce() + Send + 'static) -> Listening {
        {
            let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
            if !state.requested {
                let number = state.next;
                state.next += 1;
                state.listeners.insert(number, Box::new(listener));
                return Listening { signal: self.clone(), number: Some(number) };
            }
        }
        listener();
        Listening { signal: self.clone(), number: None }
    }

    /// A descriptor that becomes readable when someone asks to stop.
    ///
    /// # Errors
    /// If the process may have no further descriptor.
    pub fn descriptor(&self) -> io::Result<StopDescriptor> {
        let descriptor = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let raised = Arc::clone(&descriptor);
        let listening = self.while_waiting(move || {
            // It is never read: the first write is all it takes.
            let _ = rustix::io::write(&*raised, &1_u64.to_ne_bytes());
        });
        Ok(StopDescriptor { descriptor, _listening: listening })
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

    #[test]
    fn a_listener_that_was_taken_back_is_not_called() {
        let signal = StopSignal::new();
        let called = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&called);
        drop(signal.while_waiting(move || {
            count.fetch_add(1, Ordering::SeqCst);
        }));
        assert_eq!(Arc::strong_count(&called), 1, "nothing is kept of it");
        signal.request();
        assert_eq!(called.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_child_stops_with_its_parent_or_alone() {
        let parent = StopSignal::new();
        let (alone, child) = (parent.child(), parent.child());
        let of_child = child.child();
        alone.request();
        assert!(alone.is_requested() && !parent.is_requested() && !child.is_requested());
        parent.request();
        assert!(child.is_requested() && of_child.is_requested());
        assert!(parent.child().is_requested(), "a late one is asked at once");
    }

    #[test]
    fn a_parent_keeps_nothing_of_a_child_that_is_gone() {
        let parent = StopSignal::new();
        let child = parent.child();
        let clone = child.clone();
        drop(child);
        let listeners = || parent.shared.state.lock().unwrap().listeners.len();
        assert_eq!(listeners(), 1, "a clone of it hears the parent");
        drop(clone);
        assert_eq!(listeners(), 0);
    }

    #[test]
    fn a_descriptor_becomes_readable() {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let signal = StopSignal::new();
        let early = signal.descriptor().unwrap();
        let readable = |descriptor: &StopDescriptor| {
            poll(&mut [PollFd::new(descriptor, PollFlags::IN)], Some(&Timespec::default())).unwrap() == 1
        };
        assert!(!readable(&early));
        signal.request();
        assert!(readable(&early) && readable(&signal.descriptor().unwrap()));
    }
}
