//! Work for the file system, done by several threads at a time: what it costs is the processor's
//! time in the kernel, and waiting for the medium.

use std::thread;

use crate::processors;
use crate::stage_thread::try_start;

/// Maximum number of threads: names in one directory are made one after the other.
const THREADS: usize = 8;
/// Minimum number of items per thread for which a further thread is worth its start.
const LEAST: usize = 16;

/// Runs `work` on each of `items`, on several threads, and returns the results in their order.
/// Neighbours, which are likely in one directory, are done by the same thread, with the rights of
/// the calling one.
pub(super) fn side_by_side<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = processors::count().min(THREADS).min(items.len() / LEAST);
    if threads < 2 {
        return items.iter().map(work).collect();
    }
    let work = &work;
    let (first, others) = items.split_at(items.len().div_ceil(threads));
    thread::scope(|scope| {
        let part = |part| move || Vec::from_iter(<[T]>::iter(part).map(work));
        // Where no further thread can be started, this one does the work.
        let start = |others| (others, try_start(scope, "names", part(others)));
        let others: Vec<_> = others.chunks(first.len()).map(start).collect();
        let mut done = part(first)();
        for (others, thread) in others {
            done.extend(match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(_) => part(others)(),
            });
        }
        done
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_the_items() {
        for count in [0, 1, 2 * LEAST - 1, 2 * LEAST, 1000, 1003] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(side_by_side(&items, |item| item * 2), (0..count).map(|item| item * 2).collect::<Vec<_>>());
        }
    }
}
