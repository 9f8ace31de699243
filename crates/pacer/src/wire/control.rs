//! What other threads may see of a pump, and ask of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use icdc_scheduler::{ClassCounters, Tree};
use icdc_units::{ByteCount, Rate, Span, Time};

/// Shared by a pump and those who look after it.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    has_tree: AtomicBool,
    tree: Mutex<Option<Tree>>,
    asked: AtomicBool,
    status: Mutex<Status>,
    answered: Condvar,
}

/// A pump that has not answered by then has ended, or has other worries.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a pump has done so far.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// When this was so.
    pub at: Time,
    /// By class, in the order of the file.
    pub classes: Vec<ClassStatus>,
    /// Gap frames sent.
    pub gap_frames: u64,
    /// Time for which the process did not get to run while frames waited; the rates lack that much.
    pub late: Span,
    /// Frames that the device did not take: longer than it can, or while it was down.
    pub refused: u64,
    /// How often classes have been changed.
    pub reloads: u64,
}

/// One class.
#[derive(Clone, Debug)]
pub struct ClassStatus {
    /// Its name.
    pub name: String,
    /// The class that it is part of, which counts all that its classes do.
    pub parent: Option<String>,
    /// What it is promised.
    pub rate: Option<Rate>,
    /// What it may have at most, if that is more.
    pub ceiling: Option<Rate>,
    /// What has happened in it.
    pub counters: ClassCounters,
    /// What waits in it, on the wire.
    pub waiting: ByteCount,
    /// Its largest burst since the status before, as it left, in a second at a time.
    pub burst: ByteCount,
}

impl Control {
    /// Asks the pump to end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Asks the pump to go on with other classes.
    pub fn change(&self, tree: Tree) {
        *held(&self.tree) = Some(tree);
        self.has_tree.store(true, Ordering::Release);
    }

    /// What it has done so far, as it is now; of a pump that has ended, how it ended.
    #[must_use]
    pub fn status(&self) -> Status {
        let mut status = held(&self.status);
        if !self.is_stopped() {
            self.asked.store(true, Ordering::Release);
            let waiting = |_: &mut Status| self.is_asked();
            status = match self.answered.wait_timeout_while(status, PATIENCE, waiting) {
                Ok((status, _)) => status,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        status.clone()
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(super) fn new_tree(&self) -> Option<Tree> {
        if !self.has_tree.swap(false, Ordering::Acquire) {
            return None;
        }
        held(&self.tree).take()
    }

    pub(super) fn publish(&self, status: Status) {
        *held(&self.status) = status;
        self.asked.store(false, Ordering::Release);
        self.answered.notify_all();
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
