//! One io_uring: the kernel works on up to `depth` jobs while this thread continues.
//!
//! Each job in flight has a slot of the table, and its slot number is the `user_data` of its one
//! request, so a completion finds its job. A block leaves its slot only after the kernel has
//! completed the request that refers to it.
//!
//! Buffered transfers whose pages are cached are copied by the submitting call itself; the kernel
//! passes on to its worker threads only those that would wait. On tmpfs that costs fewer context
//! switches than handing every copy to a worker (`IOSQE_ASYNC`).

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;

use io_uring::squeue::Entry;
use io_uring::{IoUring, Probe, opcode, types};
use rustix::io::Errno;

use super::contract::Engine;
use super::error::{EngineError, EngineUnavailable};
use super::job::{Completion, Job};
use super::threads::{carry_out, perform};
use super::work::{Step, Work};

/// A disk engine that uses io_uring.
pub(super) struct UringEngine {
    ring: IoUring,
    /// Jobs in flight in the kernel, by slot; `None` for an empty slot.
    table: Vec<Option<Work>>,
    /// Indices of the empty slots.
    vacant: Vec<usize>,
    /// Jobs that wait for a slot.
    backlog: VecDeque<Work>,
    finished: VecDeque<Completion>,
    /// Error after which the ring cannot be used any more; `None` while it works.
    broken: Option<Errno>,
}

impl UringEngine {
    /// Sets up a ring for `depth` requests and checks that it can do what is needed.
    pub(super) fn open(depth: usize) -> Result<Self, EngineUnavailable> {
        let failed = |call| move |cause| EngineUnavailable::Uring { call, cause };
        let mut ring = IoUring::new(depth as u32).map_err(failed("io_uring_setup"))?;
        let mut probe = Probe::new();
        let register = "io_uring_register";
        ring.submitter().register_probe(&mut probe).map_err(failed(register))?;
        let needed = [opcode::Read::CODE, opcode::Write::CODE, opcode::Fsync::CODE];
        if !needed.iter().all(|&code| probe.is_supported(code)) {
            return Err(failed(register)(io::ErrorKind::Unsupported.into()));
        }
        // A filter may allow the setup and still forbid the use.
        // SAFETY: a no-op refers to no memory.
        unsafe { ring.submission().push(&opcode::Nop::new().build()) }.expect("a new ring has room for one entry");
        while let Err(error) = ring.submit_and_wait(1) {
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(failed("io_uring_enter")(error));
            }
        }
        ring.completion().next();
        Ok(Self {
            ring,
            table: (0..depth).map(|_| None).collect(),
            vacant: (0..depth).rev().collect(),
            backlog: VecDeque::new(),
            finished: VecDeque::new(),
            broken: None,
        })
    }

    /// Puts a job into a slot and its first request into the ring, or queues it.
    fn start(&mut self, work: Work) {
        if let Some(errno) = self.broken {
            self.finished.push_back(work.complete(Err(EngineError::Lost(errno.into()))));
        } else if work.may_read_short() {
            // If a program behind FUSE answers a read short, the ring retries it from its
            // beginning, and reports that all was read (seen on Linux 6.18).
            self.finished.push_back(carry_out(work));
        } else if let Some(slot) = self.vacant.pop() {
            self.table[slot] = Some(work);
            self.request(slot);
        } else {
            self.backlog.push_back(work);
        }
    }

    /// Puts the next request of the job in `slot` into the submission queue.
    fn request(&mut self, slot: usize) {
        let work = self.table[slot].as_mut().expect("a request belongs to a job");
        let entry = entry(work.step()).user_data(slot as u64);
        // SAFETY: the entry refers to the job's descriptor and block. Both stay in the table until
        // the completion of this entry was taken; the block's memory does not move with it.
        unsafe { self.ring.submission().push(&entry) }
            .expect("the queue has an entry for each slot, and a job has one request at a time");
    }

    /// Takes all completions that the kernel has posted.
    fn reap(&mut self) {
        while let Some((slot, outcome)) = self.posted() {
            let Some(work) = self.table[slot].as_mut() else {
                continue;
            };
            // The kernel could not have a thread of its own for it: this one does it.
            let outcome = match outcome {
                Err(Errno::CANCELED) => perform(work.step()),
                outcome => outcome,
            };
            match work.advance(outcome) {
                None => self.request(slot),
                Some(result) => {
                    let work = self.table[slot].take().expect("it was there just now");
                    self.vacant.push(slot);
                    self.finished.push_back(work.complete(result));
                    if let Some(next) = self.backlog.pop_front() {
                        self.start(next);
                    }
                }
            }
        }
    }

    /// Takes the next completion that the kernel has posted: slot and outcome; `None` if there is
    /// none.
    fn posted(&mut self) -> Option<(usize, Result<usize, Errno>)> {
        let entry = self.ring.completion().next()?;
        let outcome = match usize::try_from(entry.result()) {
            Ok(bytes) => Ok(bytes),
            Err(_) => Err(Errno::from_raw_os_error(-entry.result())),
        };
        Some((entry.user_data() as usize, outcome))
    }

    /// Submits the submission queue and waits for `wanted` completions; does not wait if that is 0.
    fn enter(&mut self, wanted: usize) {
        if wanted == 0 && self.ring.submission().is_empty() {
            return;
        }
        let Err(error) = self.ring.submit_and_wait(wanted) else {
            return;
        };
        match Errno::from_io_error(&error) {
            // Entries that were not taken stay in the queue for the next time.
            Some(Errno::INTR) => {}
            Some(Errno::AGAIN | Errno::BUSY | Errno::NOMEM) => std::thread::yield_now(),
            errno => self.fail(errno.unwrap_or(Errno::IO)),
        }
    }

    /// Fails all jobs of a ring that the kernel does not serve any more. Memory to which it may
    /// still refer is never used again.
    fn fail(&mut self, errno: Errno) {
        self.broken = Some(errno);
        for (slot, work) in self.table.iter_mut().enumerate() {
            if let Some(work) = work.take() {
                self.vacant.push(slot);
                let mut completion = work.complete(Err(EngineError::Lost(errno.into())));
                mem::forget(completion.block.take());
                self.finished.push_back(completion);
            }
        }
        for work in mem::take(&mut self.backlog) {
            self.start(work);
        }
    }
}

impl Engine for UringEngine {
    fn submit(&mut self, tag: u64, job: Job) {
        match Work::begin(tag, job) {
            Ok(work) => self.start(work),
            Err(completion) => self.finished.push_back(*completion),
        }
        self.enter(0);
    }

    fn wait(&mut self) -> Option<Completion> {
        loop {
            if let Some(completion) = self.try_wait() {
                return Some(completion);
            }
            if self.in_flight() == 0 {
                return None;
            }
            self.enter(1);
        }
    }

    fn try_wait(&mut self) -> Option<Completion> {
        self.reap();
        self.enter(0);
        self.finished.pop_front()
    }

    fn in_flight(&self) -> usize {
        let started = self.table.len() - self.vacant.len();
        started + self.backlog.len() + self.finished.len()
    }

    fn depth(&self) -> usize {
        self.table.len()
    }

    fn name(&self) -> &'static str {
        "io_uring"
    }
}

impl Drop for UringEngine {
    fn drop(&mut self) {
        while self.wait().is_some() {}
    }
}

/// Request of the ring that carries out a step.
fn entry(step: Step<'_>) -> Entry {
    // A block is 4 MiB, so its lengths fit 32 bits.
    match step {
        Step::Read(file, bytes, offset) => {
            let file = types::Fd(file.as_raw_fd());
            let length = bytes.len() as u32;
            opcode::Read::new(file, bytes.as_mut_ptr(), length).offset(offset).build()
        }
        Step::Write(file, bytes, offset) => {
            let file = types::Fd(file.as_raw_fd());
            opcode::Write::new(file, bytes.as_ptr(), bytes.len() as u32).offset(offset).build()
        }
        Step::Sync(file) => opcode::Fsync::new(types::Fd(file.as_raw_fd())).build(),
    }
}
