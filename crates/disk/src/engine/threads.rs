//! `pread`, `pwrite` and `fsync` by as many threads as the depth: the engine for kernels that
//! grant no ring.

use std::thread::{Builder, JoinHandle};

use crossbeam_channel::{Receiver, Sender, unbounded};
use rustix::io::{Errno, pread, pwrite};

use super::contract::Engine;
use super::error::EngineUnavailable;
use super::job::{Completion, Job};
use super::work::{Step, Work};

/// A disk engine that uses threads.
#[derive(Debug)]
pub(super) struct ThreadEngine {
    /// Queue of work for the threads; `None` only while dropping: they end when the sender is
    /// dropped.
    work: Option<Sender<Work>>,
    finish: Sender<Completion>,
    finished: Receiver<Completion>,
    in_flight: usize,
    workers: Vec<JoinHandle<()>>,
}

impl ThreadEngine {
    /// Starts `depth` threads, or as many as can be started; an error if none can.
    pub(super) fn open(depth: usize) -> Result<Self, EngineUnavailable> {
        let (work, queue) = unbounded();
        let (finish, finished) = unbounded();
        let mut engine = Self { work: Some(work), finish, finished, in_flight: 0, workers: Vec::new() };
        for index in 0..depth {
            let (queue, finish) = (queue.clone(), engine.finish.clone());
            let worker = Builder::new().name(format!("disk-{index}")).spawn(move || serve(&queue, &finish));
            match worker {
                Ok(worker) => engine.workers.push(worker),
                Err(error) if engine.workers.is_empty() => return Err(EngineUnavailable::Threads(error)),
                Err(error) => {
                    tracing::info!(%error, threads = engine.workers.len(), "fewer disk threads than wanted");
                    break;
                }
            }
        }
        Ok(engine)
    }

    /// Counts a completion as taken by the caller, and returns it.
    fn taken(&mut self, completion: Completion) -> Completion {
        self.in_flight -= 1;
        completion
    }
}

impl Engine for ThreadEngine {
    fn submit(&mut self, tag: u64, job: Job) {
        self.in_flight += 1;
        match Work::begin(tag, job) {
            Ok(work) => {
                let queue = self.work.as_ref().expect("the queue is there until drop");
                queue.send(work).expect("workers serve until the queue is gone");
            }
            Err(completion) => {
                self.finish.send(*completion).expect("the engine holds the receiver");
            }
        }
    }

    fn wait(&mut self) -> Option<Completion> {
        if self.in_flight == 0 {
            return None;
        }
        let completion = self.finished.recv().expect("the engine holds a sender");
        Some(self.taken(completion))
    }

    fn try_wait(&mut self) -> Option<Completion> {
        let completion = self.finished.try_recv().ok()?;
        Some(self.taken(completion))
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn depth(&self) -> usize {
        self.workers.len()
    }

    fn name(&self) -> &'static str {
        "threads"
    }
}

impl Drop for ThreadEngine {
    fn drop(&mut self) {
        self.work = None;
        for worker in self.workers.drain(..) {
            // A worker that panicked has nothing left to wait for.
            let _ = worker.join();
        }
    }
}

/// Carries out work until the engine is dropped and the queue is empty.
fn serve(queue: &Receiver<Work>, finish: &Sender<Completion>) {
    for work in queue {
        // Fails only while the engine is dropped, when no one uses the completion any more.
        let _ = finish.send(carry_out(work));
    }
}

/// Carries out all steps of a job on this thread; returns its completion.
pub(super) fn carry_out(mut work: Work) -> Completion {
    let result = loop {
        let outcome = perform(work.step());
        if let Some(result) = work.advance(outcome) {
            break result;
        }
    };
    work.complete(result)
}

/// Carries out a system call on this thread; returns the number of bytes.
pub(super) fn perform(step: Step<'_>) -> Result<usize, Errno> {
    match step {
        Step::Read(file, bytes, offset) => pread(file, bytes, offset),
        Step::Write(file, bytes, offset) => pwrite(file, bytes, offset),
        Step::Sync(file) => rustix::fs::fsync(file).map(|()| 0),
    }
}
