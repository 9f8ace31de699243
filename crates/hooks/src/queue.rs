//! The hooks of a daemon: they run beside its sessions, a few at a time.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender, bounded};
use icdc_stop::StopSignal;
use icdc_units::Span;

use crate::hooks::Hooks;
use crate::report::Report;

/// Most hooks that run at a time.
const AT_A_TIME: usize = 8;
/// Most hooks that wait.
const WAITING: usize = 1024;
/// Time for which a daemon that ends waits for its hooks.
const FAREWELL: Span = Span::from_secs(10);

/// A queue of hooks that run on threads of their own. Dropping it waits for those in the queue,
/// even if senders are left.
pub struct HookQueue {
    waiting: Waiting,
    over: StopSignal,
    /// Closed once no hook runs any more.
    ended: Receiver<()>,
}

/// Adds reports to a queue.
#[derive(Clone)]
pub struct HookSender(Waiting);

/// What waits.
#[derive(Clone)]
struct Waiting {
    /// `None` once the queue is closed.
    room: Arc<Mutex<Option<Sender<Report>>>>,
    left_out: Arc<AtomicU64>,
}

impl HookQueue {
    /// Starts an empty queue. Failures are logged.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(hooks: Hooks) -> io::Result<Self> {
        let (waiting, next) = bounded::<Report>(WAITING);
        let (running, ended) = bounded::<()>(0);
        let (hooks, over, left_out) = (Arc::new(hooks), StopSignal::new(), Arc::new(AtomicU64::new(0)));
        for number in 0..AT_A_TIME {
            let (hooks, next, over) = (Arc::clone(&hooks), next.clone(), over.clone());
            let (running, left_out) = (running.clone(), Arc::clone(&left_out));
            let work = move || {
                let _running = running;
                // A daemon that may become other users does not pass that on. It fails where there
                // is none.
                let _ = rustix::thread::clear_ambient_capability_set();
                for report in next {
                    match over.is_requested() {
                        true => drop(left_out.fetch_add(1, Ordering::Relaxed)),
                        false => hooks.run(&report, &over).iter().for_each(|failed| tracing::warn!("{failed}")),
                    }
                    tell_left_out(&left_out);
                }
            };
            std::thread::Builder::new().name(format!("hook {number}")).spawn(work)?;
        }
        Ok(Self { waiting: Waiting { room: Arc::new(Mutex::new(Some(waiting))), left_out }, over, ended })
    }

    /// A sender for this queue.
    #[must_use]
    pub fn sender(&self) -> HookSender {
        HookSender(self.waiting.clone())
    }
}

impl HookSender {
    /// Queues this report. It is dropped if too many wait or the queue is closed.
    pub fn add(&self, report: Report) {
        let room = self.0.room.lock().unwrap_or_else(PoisonError::into_inner);
        if room.as_ref().is_none_or(|room| room.try_send(report).is_err()) {
            self.0.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for HookQueue {
    /// Waits for the hooks in the queue, for a limited time, then kills those that still run.
    fn drop(&mut self) {
        drop(self.waiting.room.lock().unwrap_or_else(PoisonError::into_inner).take());
        if self.ended.recv_timeout(FAREWELL.into()).is_err_and(|error| error.is_timeout()) {
            tracing::warn!("hooks that have not ended within {FAREWELL} are killed");
            self.over.request();
            let _ = self.ended.recv_timeout(FAREWELL.into());
        }
        tell_left_out(&self.waiting.left_out);
    }
}

fn tell_left_out(left_out: &AtomicU64) {
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
