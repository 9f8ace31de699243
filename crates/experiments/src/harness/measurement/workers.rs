//! Threads that take one item after another.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Processes all items by `threads` threads; `work` also receives the thread's number. Returns the
/// results in the order of the items.
pub(crate) fn each<I: Sync, R: Send>(threads: usize, items: &[I], work: impl Fn(usize, &I) -> R + Sync) -> Vec<R> {
    let threads = threads.min(items.len());
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<R>>> = Mutex::new(items.iter().map(|_| None).collect());
    let (next, results, work) = (&next, &results, &work);
    thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = work(thread, item);
                    results.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(result);
                }
            });
        }
    });
    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
    results.drain(..).map(|result| result.expect("every item was taken")).collect()
}
