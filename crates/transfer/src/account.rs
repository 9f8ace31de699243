//! What a run has cost so far, over all its sessions.

use std::collections::BTreeMap;
use std::sync::Mutex;

use icdc_units::{Span, Time};

use crate::event::Stage;
use crate::stages;

/// Sums over the sessions of one run.
pub struct Account {
    start: Time,
    sums: Mutex<Sums>,
}

#[derive(Default)]
struct Sums {
    bytes: u64,
    retransmitted_segments: u64,
    stages: BTreeMap<String, u64>,
    congestion: String,
}

impl Account {
    /// Nothing yet, of a run that began at `start`.
    #[must_use]
    pub fn new(start: Time) -> Self {
        Self { start, sums: Mutex::default() }
    }

    /// Start of the run.
    #[must_use]
    pub fn start(&self) -> Time {
        self.start
    }

    /// Adds payload bytes that travelled.
    pub fn add_bytes(&self, bytes: u64) {
        self.sums.lock().expect("no panic while sums are kept").bytes += bytes;
    }

    /// Adds what the sending end counted: segments retransmitted, and nanoseconds by stage.
    pub fn add_sender(&self, retransmitted_segments: u64, stages: &[(String, u64)]) {
        let mut sums = self.sums.lock().expect("no panic while sums are kept");
        sums.retransmitted_segments += retransmitted_segments;
        for (stage, nanos) in stages {
            *sums.stages.entry(stage.clone()).or_default() += nanos;
        }
    }

    /// Adds time in which the run was connecting.
    pub fn add_connecting(&self, span: Span) {
        self.add_sender(0, &[(Stage::Start.name().to_owned(), span.as_nanos())]);
    }

    /// Notes what the sending end's TCP goes by.
    pub fn note_congestion(&self, name: String) {
        self.sums.lock().expect("no panic while sums are kept").congestion = name;
    }

    /// What the sending end's TCP went by last; empty where that is unknown.
    #[must_use]
    pub fn congestion(&self) -> String {
        self.sums.lock().expect("no panic while sums are kept").congestion.clone()
    }

    /// Payload bytes that travelled.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.sums.lock().expect("no panic while sums are kept").bytes
    }

    /// TCP segments retransmitted.
    #[must_use]
    pub fn retransmitted_segments(&self) -> u64 {
        self.sums.lock().expect("no panic while sums are kept").retransmitted_segments
    }

    /// Share of the time by stage.
    #[must_use]
    pub fn limited_by(&self) -> BTreeMap<String, f64> {
        stages::shares(&self.sums.lock().expect("no panic while sums are kept").stages)
    }
}
