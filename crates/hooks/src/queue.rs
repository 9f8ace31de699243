//! The hooks of a daemon: they run beside its sessions, a few at a time.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender, bounded};
use icdc_stop::StopSignal;
use icdc_units::Span;

use crate::hooks::Hooks;
use crate::report::Report;

/// Maximum number of ended sessions whose hooks a daemon runs at a time.
const MAX_RUNNING: usize = 8;
/// Maximum number of ended sessions whose hooks wait to be run; those of further ones are skipped.
const MAX_WAITING: usize = 1024;
/// Time for which a daemon that ends waits for its hooks, before they are killed.
const DRAIN_TIMEOUT: Span = Span::from_secs(10);

/// Queue in which a daemon runs the hooks of its ended sessions, on threads of its own. Dropping it
/// waits for those in the queue, even if senders are left, and kills those that have not ended
/// within ten seconds.
pub struct HookQueue {
    waiting: Pending,
    over: StopSignal,
    /// Channel that is closed once no hook runs any more.
    ended: Receiver<()>,
}

/// Handle by which the report of a session that has ended is queued for the daemon's hooks; clones
/// share one queue.
#[derive(Clone)]
pub struct HookSender(Pending);

/// The queue of reports that wait for hooks, shared with its senders, and the number of reports
/// left out.
#[derive(Clone)]
struct Pending {
    /// Sender of the queue; `None` once the queue is closed.
    queue: Arc<Mutex<Option<Sender<Report>>>>,
    left_out: Arc<AtomicU64>,
}

impl HookQueue {
    /// Starts the threads that will run `hooks` for each report that is queued. Failures of hooks
    /// are logged.
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
    /// Queues the report of an ended session, without waiting. It is dropped if too many wait or
    /// the queue is closed; how many were is logged later.
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

/// Logs for how many ended sessions hooks were skipped since the last call, if for any.
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
