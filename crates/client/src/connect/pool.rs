//! Work that takes long, begun on threads before its outcome is needed.
//!
//! Each piece of work runs on a thread of its own and has one outcome, which may be a panic. A
//! caller takes the next outcome; if fewer are pending than callers wait for, it begins one more.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use icdc_stop::StopSignal;

/// Pool of work that runs on threads before its outcome is needed. Dropping it stops and joins the
/// threads.
pub(super) struct Pool<T> {
    shared: Arc<Shared<T>>,
}

/// State that the threads and callers of a pool share.
struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

/// Outcomes that are ready, and numbers of those that are pending and wanted.
struct State<T> {
    ready: VecDeque<std::thread::Result<T>>,
    /// Number of pieces of work that are running.
    coming: usize,
    /// Number of callers that wait for an outcome.
    waiting: usize,
    /// Signal that stops the work that is running.
    over: StopSignal,
    threads: Vec<JoinHandle<()>>,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        let (ready, over) = (VecDeque::new(), StopSignal::new());
        let state = State { ready, coming: 0, waiting: 0, over, threads: Vec::new() };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }) }
    }
}

impl<T: Send + 'static> Pool<T> {
    /// Begins `work`, which ends soon after its signal is requested, on a thread. If no thread can
    /// be started it is not begun; [`Self::take`] tries again.
    pub(super) fn begin(&self, work: impl FnOnce(&StopSignal) -> T + Send + 'static) {
        if let Err(error) = self.begin_with(&mut self.shared.lock(), work) {
            tracing::debug!("nothing is begun ahead, no thread: {error}");
        }
    }

    /// Number of outcomes that are ready or pending.
    pub(super) fn count(&self) -> usize {
        let state = self.shared.lock();
        state.ready.len() + state.coming
    }

    /// Takes the next outcome; begins `work` where none is pending for the caller, and runs it on
    /// the caller's thread where no other can be started. `None` once `stop` is requested: the work
    /// that is running is then stopped as well.
    pub(super) fn take<W>(&self, work: W, stop: &StopSignal) -> Option<T>
    where
        W: FnOnce(&StopSignal) -> T + Clone + Send + 'static,
    {
        let _woken = stop.while_waiting({
            let shared = Arc::clone(&self.shared);
            move || shared.wake()
        });
        let mut state = self.shared.lock();
        state.waiting += 1;
        if state.ready.len() + state.coming < state.waiting
            && !stop.is_requested()
            && let Err(error) = self.begin_with(&mut state, work.clone())
        {
            tracing::debug!("no thread: {error}");
            state.waiting -= 1;
            drop(state);
            return Some(work(stop));
        }
        let none = |state: &mut State<T>| state.ready.is_empty() && !stop.is_requested();
        let waited = self.shared.changed.wait_while(state, none);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        if stop.is_requested() {
            let over = state.over.clone();
            drop(state);
            over.request();
            return None;
        }
        let outcome = state.ready.pop_front();
        drop(state);
        outcome.map(|outcome| outcome.unwrap_or_else(|panic| resume_unwind(panic)))
    }

    /// Begins `work` on a thread of its own, and counts it as running.
    fn begin_with(&self, state: &mut State<T>, work: impl FnOnce(&StopSignal) -> T + Send + 'static) -> io::Result<()> {
        let (shared, over) = (Arc::clone(&self.shared), state.over.clone());
        let thread = Builder::new().name("ahead".into()).spawn(move || {
            // No state that a panic may have left inconsistent is used afterwards.
            let outcome = catch_unwind(AssertUnwindSafe(|| work(&over)));
            let mut state = shared.lock();
            state.coming -= 1;
            state.ready.push_back(outcome);
            drop(state);
            shared.changed.notify_all();
        })?;
        // It cannot have ended: the caller has the lock.
        state.coming += 1;
        state.threads.push(thread);
        Ok(())
    }
}

impl<T> Pool<T> {
    /// Stops the work that is running, joins its threads and drops the outcomes that were not
    /// taken, as when no further connections are needed or another session begins. More may be
    /// begun afterwards.
    pub(super) fn end(&self) {
        let over = self.shared.lock().over.clone();
        over.request();
        let threads = std::mem::take(&mut self.shared.lock().threads);
        // The panic hook has printed a panic already.
        threads.into_iter().for_each(|thread| drop(thread.join()));
        let mut state = self.shared.lock();
        let left = std::mem::take(&mut state.ready);
        state.over = StopSignal::new();
        drop(state);
        drop(left);
    }
}

impl<T> Drop for Pool<T> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<T> Shared<T> {
    /// Locks the state, also after a panic in another thread.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes all waiting callers check their condition again.
    fn wake(&self) {
        // The lock is taken once so that a caller between its check and its wait is not missed.
        drop(self.lock());
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use icdc_units::Span;

    use super::*;

    #[test]
    fn what_was_begun_is_taken_before_more_is() {
        let (pool, begun) = (Pool::default(), Arc::new(AtomicUsize::new(0)));
        let work = || {
            let begun = Arc::clone(&begun);
            move |_: &StopSignal| begun.fetch_add(1, Ordering::SeqCst)
        };
        (0..3).for_each(|_| pool.begin(work()));
        let stop = StopSignal::new();
        let mut taken: Vec<usize> = (0..4).map(|_| pool.take(work(), &stop).unwrap()).collect();
        taken.sort_unstable();
        assert_eq!(taken, [0, 1, 2, 3], "one more than was begun");
    }

    #[test]
    fn who_is_stopped_waits_no_longer_and_ends_what_was_coming() {
        let (pool, stop) = (Pool::default(), StopSignal::new());
        let long = || |over: &StopSignal| over.wait(Span::from_secs(3600));
        pool.begin(long());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| pool.take(long(), &stop));
            stop.request();
            assert_eq!(waiter.join().unwrap(), None);
        });
        pool.end();
        assert_eq!(pool.take(|over: &StopSignal| over.is_requested(), &StopSignal::new()), Some(false));
    }

    #[test]
    fn work_that_panics_keeps_nobody_waiting() {
        let pool = Arc::new(Pool::<u8>::default());
        pool.begin(|_| panic!("of the test"));
        let (tell, told) = crossbeam_channel::bounded(1);
        let taken = Arc::clone(&pool);
        std::thread::spawn(move || {
            let take = AssertUnwindSafe(|| taken.take(|_| 7, &StopSignal::new()));
            tell.send(catch_unwind(take).is_err()).unwrap();
        });
        assert_eq!(told.recv_timeout(std::time::Duration::from_secs(60)), Ok(true), "who takes it panics, too");
        assert_eq!((pool.count(), pool.take(|_| 7, &StopSignal::new())), (0, Some(7)));
    }
}
