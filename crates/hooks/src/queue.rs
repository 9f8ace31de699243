//! The hooks of a daemon: they run beside its sessions, a few at a time.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender, bounded};
use icdc_stop::StopSignal;
use icdc_units::Span;

use crate::hooks::Hooks;
use crate::report::Report;

/// Maximum number of hooks that run at a time.
const MAX_RUNNING: usize = 8;
/// Maximum number of hooks that wait.
const MAX_WAITING: usize = 1024;
/// Time for which a daemon that ends waits for its hooks.
const DRAIN_TIMEOUT: Span = Span::from_secs(10);

/// A queue of hooks that run on threads of their own. Dropping it waits for those in the queue,
/// even if senders are left, and kills those that have not ended within ten seconds.
pub struct HookQueue {
    waiting: Pending,
    over: StopSignal,
    /// Channel that is closed once no hook runs any more.
    ended: Receiver<()>,
}

/// Handle that adds reports to a queue of hooks.
#[derive(Clone)]
pub struct HookSender(Pending);

/// Queue of reports that wait for hooks.
#[derive(Clone)]
struct Pending {
    /// Sender of the queue; `None` once the queue is closed.
    queue: Arc<Mutex<Option<Sender<Report>>>>,
    left_out: Arc<AtomicU64>,
}

impl HookQueue {
    /// Starts an empty queue. Failures are logged.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(hooks: Hooks) -> io::Result<Self> {
        let (waiting, next) = bounded::<Report>(MAX_WAITING);
        let (running, ended) = bounded::<()>(0);
        let (hooks, over, left_out) = (Arc::new(hooks), StopSignal::new(), Arc::new(AtomicU64::new(0)));
        for number in 0..MAX_RUNNING {
            let (hooks, next, over) = (Arc::clone(&hooks), next.clone(), over.clone());
            let (running, left_out) = (running.clone(), Arc::clone(&left_out));
            let work = move || {
                let _running = running;
                // The daemon's ambient capabilities are not passed to hooks. It fails on kernels
                // without them.
                let _ = rustix::thread::clear_ambient_capability_set();
                for report in next {
                    match over.is_requested() {
                        true => drop(left_out.fetch_add(1, Ordering::Relaxed)),
                        false => hooks.run(&report, &over).iter().for_each(|failed| tracing::warn!("{failed}")),
                    }
                    warn_of_left_out(&left_out);
                }
            };
            std::thread::Builder::new().name(format!("hook {number}")).spawn(work)?;
        }
        Ok(Self { waiting: Pending { queue: Arc::new(Mutex::new(Some(waiting))), left_out }, over, ended })
    }

    /// Returns a sender for this queue.
    #[must_use]
    pub fn sender(&self) -> HookSender {
        HookSender(self.waiting.clone())
    }
}

impl HookSender {
    /// Queues this report. It is dropped if too many wait or the queue is closed.
    pub fn add(&self, report: Report) {
        let queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.as_ref().is_none_or(|queue| queue.try_send(report).is_err()) {
            self.0.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for HookQueue {
    /// Waits for the hooks in the queue, for a limited time, then kills those that still run.
    fn drop(&mut self) {
        drop(self.waiting.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        if self.ended.recv_timeout(DRAIN_TIMEOUT.into()).is_err_and(|error| error.is_timeout()) {
            tracing::warn!("hooks that have not ended within {DRAIN_TIMEOUT} are killed");
            self.over.request();
            let _ = self.ended.recv_timeout(DRAIN_TIMEOUT.into());
        }
        warn_of_left_out(&self.waiting.left_out);
    }
}

fn warn_of_left_out(left_out: &AtomicU64) {
    let count = left_out.swap(0, Ordering::Relaxed);
    if count > 0 {
        tracing::warn!("--on-finish and --webhook were skipped for {count} ended sessions: too many were waiting");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::command::Command;

    #[test]
    fn what_waits_is_told_before_the_end() {
        let printed = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&printed);
        let hooks = Hooks {
            command: Some(Command { text: "cat; echo \" $N\"".into(), limit: Span::from_secs(60) }),
            webhook: None,
            lines: Box::new(move |line| lines.lock().unwrap().push(line.to_owned())),
        };
        let queue = HookQueue::start(hooks).unwrap();
        let sender = queue.sender();
        for number in 0..20 {
            sender.add(Report::new("{}".into()).with("N", &number.to_string()));
        }
        // It does not wait for those who may still add.
        drop(queue);
        sender.add(Report::new("{}".into()).with("N", "late"));
        let mut printed = printed.lock().unwrap().clone();
        printed.sort();
        let mut expected: Vec<String> = (0..20).map(|number| format!("{{}} {number}")).collect();
        expected.sort();
        assert_eq!(printed, expected);
    }
}
