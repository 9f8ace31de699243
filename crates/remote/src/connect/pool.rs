//! What takes long to make, begun before it is needed.
//!
//! Each piece of work runs on a thread of its own and has one outcome. Whoever needs one takes the
//! next that comes; where fewer are coming than are waited for, one more is begun.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use icdc_stop::StopSignal;

/// See the module's description. What is under way ends with it.
pub(super) struct Pool<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    ready: VecDeque<T>,
    /// Pieces of work that are under way.
    coming: usize,
    /// Callers that wait for an outcome.
    waiting: usize,
    /// Ends what is under way.
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
    /// Begins `work`, which ends soon after its signal is requested.
    pub(super) fn begin(&self, work: impl FnOnce(&StopSignal) -> T + Send + 'static) {
        self.begin_with(&mut self.shared.lock(), work);
    }

    /// Outcomes that nobody has taken, and those that are coming.
    pub(super) fn count(&self) -> usize {
        let state = self.shared.lock();
        state.ready.len() + state.coming
    }

    /// Takes the next outcome; begins `work` where none is coming for the caller. `None` once `stop`
    /// is requested: then nobody else is going to need one either, and all that is coming is given
    /// up.
    pub(super) fn take(&self, work: impl FnOnce(&StopSignal) -> T + Send + 'static, stop: &StopSignal) -> Option<T> {
        let _woken = stop.while_waiting({
            let shared = Arc::clone(&self.shared);
            move || shared.wake()
        });
        let mut state = self.shared.lock();
        state.waiting += 1;
        if state.ready.len() + state.coming < state.waiting && !stop.is_requested() {
            self.begin_with(&mut state, work);
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
        state.ready.pop_front()
    }

    fn begin_with(&self, state: &mut State<T>, work: impl FnOnce(&StopSignal) -> T + Send + 'static) {
        state.coming += 1;
        let (shared, over) = (Arc::clone(&self.shared), state.over.clone());
        state.threads.push(std::thread::spawn(move || {
            let outcome = work(&over);
            let mut state = shared.lock();
            state.coming -= 1;
            state.ready.push_back(outcome);
            drop(state);
            shared.changed.notify_all();
        }));
    }
}

impl<T> Pool<T> {
    /// Ends what is under way, waits for that, and drops what nobody has taken. More may be begun
    /// afterwards.
    pub(super) fn end(&self) {
        let over = self.shared.lock().over.clone();
        over.request();
        let threads = std::mem::take(&mut self.shared.lock().threads);
        // A panic is told where it happens.
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
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has all that wait look again.
    fn wake(&self) {
        // Whoever has just looked waits before the lock is free.
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
}
