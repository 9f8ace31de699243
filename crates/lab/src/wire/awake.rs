//! Keeps processors from sleeping while packets are in flight.
//!
//! A processor that sleeps must be woken for the next packet. A virtual one has then to get a real
//! one back from its host, and where others want that too it waits for milliseconds; a real one
//! comes out of a deep sleep within a fraction of one. So a thread on each, behind everything else
//! that wants to run (`SCHED_IDLE`), spins instead.

use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};

use icdc_packet::precedence;

use crate::placement;

/// The threads. They end when the value that they look at is dropped.
pub(super) struct Awake<'scope> {
    switch: &'scope Switch,
    threads: Vec<ScopedJoinHandle<'scope, ()>>,
}

/// What the threads look at.
#[derive(Debug, Default)]
pub(super) struct Switch {
    wanted: AtomicBool,
    over: AtomicBool,
}

impl<'scope> Awake<'scope> {
    /// One thread on each of these processors, asleep.
    pub(super) fn new(scope: &'scope Scope<'scope, '_>, processors: &[usize], switch: &'scope Switch) -> Self {
        let threads = processors.iter().map(|&cpu| scope.spawn(move || switch.keep_awake(cpu))).collect();
        Self { switch, threads }
    }

    /// Whether the processors are to be kept awake from now on.
    pub(super) fn set(&self, wanted: bool) {
        if self.switch.wanted.swap(wanted, Ordering::Relaxed) != wanted {
            self.wake();
        }
    }

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
    fn keep_awake(&self, cpu: usize) {
        if let Err(error) = placement::stay_on(cpu).and_then(|()| precedence::give()) {
            tracing::warn!("processor {cpu} is not kept awake: {error}");
            return;
        }
        while !self.over.load(Ordering::Relaxed) {
            if self.wanted.load(Ordering::Relaxed) {
                hint::spin_loop();
            } else {
                thread::park();
            }
        }
    }
}
