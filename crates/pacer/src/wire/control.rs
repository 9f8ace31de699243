//! Interface of a pump for other threads: status and requests.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use icdc_scheduler::{ClassCounters, Tree};
use icdc_units::{ByteCount, Rate, Span, Time};

/// Requests to a running pacer and its status, shared by the pump's thread and the threads that
/// supervise it.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    has_tree: AtomicBool,
    tree: Mutex<Option<Tree>>,
    status_requested: AtomicBool,
    status: Mutex<Status>,
    answered: Condvar,
}

/// Time limit for the pump's answer to a request of its status: if it exceeds that, it has ended,
/// or is overloaded.
const PATIENCE: Duration = Duration::from_secs(1);

/// Status of a running wire pacer: its counters since the beginning, and its classes.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Time at which the counters were read.
    pub at: Time,
    /// Status by class, in the order of the file.
    pub classes: Vec<ClassStatus>,
    /// Number of gap frames sent.
    pub gap_frames: u64,
    /// Time for which the process did not get to run while frames waited; the rates lack that much.
    pub late: Span,
    /// Number of frames that the device did not take: longer than it can, or while it was down.
    pub refused: u64,
    /// Number of changes of the classes.
    pub reloads: u64,
}

/// Status of one class of a wire pacer: its settings, counters, queue and largest burst.
#[derive(Clone, Debug)]
pub struct ClassStatus {
    /// Name of the class.
    pub name: String,
    /// Name of the parent class, which counts all that its classes do; `None` for a class directly
    /// under the line.
    pub parent: Option<String>,
    /// Guaranteed rate of the class; `None` if it has none.
    pub rate: Option<Rate>,
    /// Ceiling of the class's rate; `None` if it is not above the rate.
    pub ceiling: Option<Rate>,
    /// Frames and bytes of the class so far.
    pub counters: ClassCounters,
    /// Queued bytes, as on the wire.
    pub waiting: ByteCount,
    /// Largest burst of the class as it left since the last status, over a second at a time.
    pub burst: ByteCount,
}

impl Control {
    /// Asks the wire pacer to end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Requests the pump to continue with these classes; returns at once.
    pub fn change(&self, tree: Tree) {
        *held(&self.tree) = Some(tree);
        self.has_tree.store(true, Ordering::Release);
    }

    /// Asks the pump for its counters, and waits for them a second at most; of a pump that has
    /// ended, or does not answer in time, the last ones.
    #[must_use]
    pub fn status(&self) -> Status {
        let mut status = held(&self.status);
        if !self.is_stopped() {
            self.status_requested.store(true, Ordering::Release);
            let waiting = |_: &mut Status| self.is_asked();
            status = match self.answered.wait_timeout_while(status, PATIENCE, waiting) {
                Ok((status, _)) => status,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        status.clone()
    }

    /// Whether a status is requested and not yet published.
    pub(super) fn is_asked(&self) -> bool {
        self.status_requested.load(Ordering::Acquire)
    }

    /// Whether the pump is requested to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Takes the classes with which the pump is to continue; `None` if no change is requested.
    pub(super) fn new_tree(&self) -> Option<Tree> {
        if !self.has_tree.swap(false, Ordering::Acquire) {
            return None;
        }
        held(&self.tree).take()
    }

    /// Answers the requests of a status, by the pump.
    pub(super) fn publish(&self, status: Status) {
        *held(&self.status) = status;
        self.status_requested.store(false, Ordering::Release);
        self.answered.notify_all();
    }
}

/// Locks the mutex, also one that a panic has poisoned.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
