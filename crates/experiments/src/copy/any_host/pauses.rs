//! Pauses of the machine's processors, as a virtual machine has them: a thread of real-time
//! priority on each processor, which keeps everything but the lab's wire from running.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use icdc_lab::placement;
use icdc_packet::{clock, precedence};
use icdc_units::{Span, Time};

use crate::harness::error::ExperimentError;

/// Real-time priority above ordinary threads, and below the lab's wire (40), so that the path
/// itself does not change.
const PRIORITY: u8 = 20;
/// Time before the first pause, for the threads to start.
const LEAD: Span = Span::from_millis(50);

/// Length of the pauses of a machine's processors, and the period in which they repeat.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses {
    pub(super) length: Span,
    pub(super) period: Span,
}

/// Threads that pause all processors at once, until this is dropped.
pub(super) struct Spinners {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Spinners {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("spinning does not panic");
        }
    }
}

impl Pauses {
    /// Starts the pauses, by a thread of real-time priority on each processor. An error if that
    /// priority is not permitted.
    pub(super) fn start(self) -> Result<Spinners, ExperimentError> {
        let over = Arc::new(AtomicBool::new(false));
        let mut spinners = Spinners { over: Arc::clone(&over), threads: Vec::new() };
        let first = clock::now() + LEAD;
        for processor in placement::processors() {
            let over = Arc::clone(&over);
            let (sender, ready) = std::sync::mpsc::channel();
            spinners.threads.push(thread::spawn(move || {
                let placed = placement::stay_on(&[processor]).and_then(|()| precedence::raise_priority(PRIORITY));
                let may_spin = placed.is_ok();
                // The starting thread waits for this.
                let _ = sender.send(placed);
                if may_spin {
                    self.spin(first, &over);
                }
            }));
            ready
                .recv()
                .expect("a spinner says how it began")
                .map_err(|error| ExperimentError::io("take real-time priority for pauses", error))?;
        }
        Ok(spinners)
    }

    /// Body of the thread of one processor: occupies it for the length of each pause, the first at
    /// `first`, until `over`.
    fn spin(self, first: Time, over: &AtomicBool) {
        let mut next = first;
        while !over.load(Ordering::Relaxed) {
            clock::sleep_until(next);
            let until = next + self.length;
            while clock::now() < until {
                std::hint::spin_loop();
            }
            next += self.period;
        }
    }
}
