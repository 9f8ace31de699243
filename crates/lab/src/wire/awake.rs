//! Keeps processors from sleeping while packets are in flight.
//!
//! A processor that sleeps must be woken for the next packet. A virtual one has then to get a real
//! one back from its host, and where others want that too it waits for milliseconds; a real one
//! comes out of a deep sleep within a fraction of one. So a thread on each, behind everything else
//! that wants to run (`SCHED_IDLE`), spins instead. Where the kernel shares processors out by
//! session first (autogroup, sched(7)), that would be behind the wire's own threads only: so the
//! wire's session is last of all, once what moves packets has real-time priority, to which that is
//! nothing.
//!
//! It leaves a share of the time idle. Many hosts give a virtual machine a budget of processor time
//! per period, a little less than all of it: one that never idles is stopped for what is left of
//! the period, 50 to 100 ms.

use std::fs;
use std::hint;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use icdc_packet::{clock, precedence};
use icdc_units::Span;
use rustix::time::{ClockId, clock_gettime};

use crate::placement;

/// Length of one spin, in which the load that others put on the processor is measured.
const SPIN: Span = Span::from_millis(1);
/// Share of the time that a processor is left idle.
const IDLE: f64 = 0.15;
/// Longest sleep, where others keep the processor awake.
const SLEEP: Span = Span::from_millis(5);

/// File with the nice value of this session's group (autogroup, sched(7)).
const GROUP: &str = "/proc/self/autogroup";
/// Nice value of a group that runs behind all others.
const LAST: &str = "19";

/// Threads that keep processors awake; they end when this value is dropped.
pub(super) struct Awake<'scope> {
    switch: &'scope Switch,
    threads: Vec<ScopedJoinHandle<'scope, ()>>,
}

/// Flags for the threads that keep processors awake: one for spinning now, one for ending.
#[derive(Debug, Default)]
pub(super) struct Switch {
    wanted: AtomicBool,
    over: AtomicBool,
}

impl<'scope> Awake<'scope> {
    /// Starts one thread on each of these processors, asleep at first.
    pub(super) fn new(scope: &'scope Scope<'scope, '_>, processors: &[usize], switch: &'scope Switch) -> Self {
        let threads = processors.iter().map(|&cpu| scope.spawn(move || switch.keep_awake(cpu))).collect();
        Self { switch, threads }
    }

    /// Puts all of this session's threads that have no real-time priority behind other sessions.
    pub(super) fn be_last() {
        // A kernel without such groups has no such file.
        if Path::new(GROUP).exists()
            && let Err(error) = fs::write(GROUP, LAST)
        {
            tracing::warn!("keeping processors awake takes time from others: write {GROUP}: {error}");
        }
    }

    /// Sets whether the processors are kept awake from now on.
    pub(super) fn set(&self, wanted: bool) {
        if self.switch.wanted.swap(wanted, Ordering::Relaxed) != wanted {
            self.wake();
        }
    }

    /// Wakes the threads, so that they read the changed flags.
    fn wake(&self) {
        self.threads.iter().for_each(|thread| thread.thread().unpark());
    }
}

impl Drop for Awake<'_> {
    fn drop(&mut self) {
        self.switch.over.store(true, Ordering::Relaxed);
        self.wake();
    }
}

impl Switch {
    /// Body of the thread for processor `cpu`: spins and sleeps in turns while that is wanted, else
    /// waits. Returns at the end, or at once if the thread cannot be bound to the processor.
    fn keep_awake(&self, cpu: usize) {
        if let Err(error) = placement::stay_on(&[cpu]).and_then(|()| precedence::lower_priority()) {
            tracing::warn!("processor {cpu} is not kept awake: {error}");
            return;
        }
        while !self.over.load(Ordering::Relaxed) {
            if self.wanted.load(Ordering::Relaxed) {
                let sleep = Duration::from(sleep_after(spin()));
                #[expect(clippy::disallowed_methods, reason = "the sleep is the purpose, and `wake` ends it early")]
                thread::park_timeout(sleep);
            } else {
                thread::park();
            }
        }
    }
}

/// Spins for [`SPIN`]; returns the share of that time that others did not take.
fn spin() -> f64 {
    let (begin, used) = (clock::now(), processor_time());
    while clock::now() - begin < SPIN {
        for _ in 0..64 {
            hint::spin_loop();
        }
    }
    let (took, used) = (clock::now() - begin, processor_time() - used);
    used.as_nanos() as f64 / took.as_nanos().max(1) as f64
}

/// Time to sleep after a [`SPIN`] of which this share was not taken by others, so that the
/// processor idles for [`IDLE`] of the time: while this thread sleeps, others take their share too.
fn sleep_after(free: f64) -> Span {
    let asleep = IDLE / free.max(IDLE);
    let sleep = SPIN.as_nanos() as f64 * asleep / (1.0 - asleep).max(f64::MIN_POSITIVE);
    Span::from_nanos((sleep as u64).min(SLEEP.as_nanos()))
}

/// Processor time that this thread has used.
fn processor_time() -> Span {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Span::from_secs(time.tv_sec as u64) + Span::from_nanos(time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_idles_for_its_share_however_busy_others_keep_it() {
        for free in [0.2, 0.5, 1.0] {
            let sleep = sleep_after(free).as_nanos() as f64;
            let idle = sleep * free / (sleep + SPIN.as_nanos() as f64);
            assert!((idle - IDLE).abs() < 0.01, "{free} free: {idle} idle");
        }
        assert_eq!(sleep_after(0.0), SLEEP);
    }
}
