//! What a run has cost so far, over all its sessions.

use std::collections::BTreeMap;
use std::sync::Mutex;

use icdc_units::Time;

use crate::stages;

/// Sums over the sessions of one run.
pub(crate) struct Account {
    /// Start of the run.
    pub(crate) start: Time,
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
    pub(crate) fn new(start: Time) -> Self {
        Self { start, sums: Mutex::default() }
    }

    /// Adds payload bytes that travelled.
    pub(crate) fn add_bytes(&self, bytes: u64) {
        self.sums.lock().expect("no panic while sums are kept").bytes += bytes;
    }

    /// Adds what the sending end counted: segments retransmitted, and nanoseconds by stage.
    pub(crate) fn add_sender(&self, retransmitted_segments: u64, stages: &[(String, u64)]) {
        let mut sums = self.sums.lock().expect("no panic while sums are kept");
        sums.retransmitted_segments += retransmitted_segments;
        for (stage, nanos) in stages {
            *sums.stages.entry(stage.clone()).or_default() += nanos;
        }
    }

    /// Notes what the sending end's TCP goes by.
    pub(crate) fn note_congestion(&self, name: String) {
        self.sums.lock().expect("no panic while sums are kept").congestion = name;
    }

    pub(crate) fn congestion(&self) -> String {
        self.sums.lock().expect("no panic while sums are kept").congestion.clone()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.sums.lock().expect("no panic while sums are kept").bytes
    }

    pub(crate) fn retransmitted_segments(&self) -> u64 {
        self.sums.lock().expect("no panic while sums are kept").retransmitted_segments
    }

    /// Share of the time by stage.
    pub(crate) fn limited_by(&self) -> BTreeMap<String, f64> {
        stages::shares(&self.sums.lock().expect("no panic while sums are kept").stages)
    }
}
