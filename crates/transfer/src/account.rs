//! Costs of a run so far, over all its sessions, and what these have in common.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};

use icdc_protocol::message::{SourcePosition, Uncompressed};
use icdc_session::SessionError;
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::allowance::Allowance;
use crate::event::Stage;
use crate::stages;

/// Totals of one run over all its sessions (bytes, retransmissions, time by limiting stage), and
/// what the sessions have in common, such as a quota.
pub struct Account {
    start: Time,
    sums: Mutex<Sums>,
    allowance: OnceLock<Box<dyn Allowance>>,
}

/// Values of an account that sessions add to or note, behind one lock.
#[derive(Default)]
struct Sums {
    bytes: u64,
    retransmitted_segments: u64,
    stages: BTreeMap<String, u64>,
    congestion: String,
    max_rate: Option<Rate>,
    announced_max_rate: Option<Rate>,
    told_max_rate: Option<Rate>,
    place: Option<SourcePosition>,
    compressed: (u64, u64),
    uncompressed: Option<Uncompressed>,
}

impl Account {
    /// Totals of a run that began at `start` and has had no session yet.
    #[must_use]
    pub fn new(start: Time) -> Self {
        Self { start, sums: Mutex::default(), allowance: OnceLock::new() }
    }

    /// Start of the run.
    #[must_use]
    pub fn start(&self) -> Time {
        self.start
    }

    /// Sets the quota, as of a daemon for a key, from which payload bytes are reserved before they
    /// are sent, or stored at the receiver. Only the first call has an effect.
    pub fn set_quota(&self, allowance: Box<dyn Allowance>) {
        let _ = self.allowance.set(allowance);
    }

    /// Reserves payload bytes that are about to be sent, or have arrived and are about to be
    /// stored; an error if the quota is used up. Without a quota everything is permitted.
    pub(crate) fn reserve(&self, bytes: ByteCount) -> Result<(), SessionError> {
        match self.allowance.get().filter(|_| !bytes.is_zero()) {
            Some(allowance) => allowance.reserve(bytes).map_err(SessionError::Local),
            None => Ok(()),
        }
    }

    /// Adds to the number of payload bytes transferred in the run, before they were compressed.
    pub fn add_bytes(&self, bytes: u64) {
        self.sums.lock().expect("no panic while sums are kept").bytes += bytes;
    }

    /// Adds what the sending end counted in a session: TCP segments retransmitted, and nanoseconds
    /// by name of the pipeline stage that limited the rate.
    pub fn add_sender(&self, retransmitted_segments: u64, stages: &[(String, u64)]) {
        let mut sums = self.sums.lock().expect("no panic while sums are kept");
        sums.retransmitted_segments += retransmitted_segments;
        for (stage, nanos) in stages {
            *sums.stages.entry(stage.clone()).or_default() += nanos;
        }
    }

    /// Adds bytes of a session that were compressed, and that they became, and notes why others were
    /// not; the last session counts.
    pub fn add_compressed(&self, (from, to): (u64, u64), uncompressed: Option<Uncompressed>) {
        let mut sums = self.sums.lock().expect("no panic while sums are kept");
        sums.compressed = (sums.compressed.0 + from, sums.compressed.1 + to);
        sums.uncompressed = uncompressed;
    }

    /// Number of payload bytes that were compressed so far, and that they became.
    #[must_use]
    pub fn compressed(&self) -> (u64, u64) {
        self.sums.lock().expect("no panic while sums are kept").compressed
    }

    /// Reason for which data travelled as it is in the last session; `None` if there is none to tell.
    #[must_use]
    pub fn uncompressed(&self) -> Option<Uncompressed> {
        self.sums.lock().expect("no panic while sums are kept").uncompressed
    }

    /// Adds time in which the run was connecting: it counts as limited by [`Stage::Start`].
    pub fn add_connecting(&self, span: Span) {
        self.add_sender(0, &[(Stage::Start.name().to_owned(), span.as_nanos())]);
    }

    /// Notes the congestion control that the sending end's TCP uses.
    pub fn note_congestion(&self, name: String) {
        self.sums.lock().expect("no panic while sums are kept").congestion = name;
    }

    /// Congestion control that the sending end's TCP used last; empty where that is unknown.
    #[must_use]
    pub fn congestion(&self) -> String {
        self.sums.lock().expect("no panic while sums are kept").congestion.clone()
    }

    /// Sets the limit that this end, as a daemon, sets to the rate of the session from now on; `None`
    /// for no limit, zero if nothing may flow.
    pub fn set_max_rate(&self, limit: Option<Rate>) {
        self.sums.lock().expect("no panic while sums are kept").max_rate = limit;
    }

    /// Limit that this end, as a daemon, sets to the rate of the session at present; `None` for no
    /// limit.
    #[must_use]
    pub fn max_rate(&self) -> Option<Rate> {
        self.sums.lock().expect("no panic while sums are kept").max_rate
    }

    /// Limit at present, as it is now announced to the other end with the answer to its request.
    pub fn announce_max_rate(&self) -> Option<Rate> {
        let mut sums = self.sums.lock().expect("no panic while sums are kept");
        sums.announced_max_rate = sums.max_rate;
        sums.max_rate
    }

    /// The limit that was announced to the other end.
    pub(crate) fn announced_max_rate(&self) -> Option<Rate> {
        self.sums.lock().expect("no panic while sums are kept").announced_max_rate
    }

    /// Notes the limit that a daemon at the other end sets to the rate of the key in use; `None` for
    /// none.
    pub(crate) fn note_told_max_rate(&self, limit: Option<Rate>) {
        self.sums.lock().expect("no panic while sums are kept").told_max_rate = limit;
    }

    /// The last limit that a daemon at either end has set to the rate of the key in use; `None` where
    /// there is none, or it is not known. What this end sets counts, whatever the other one says.
    #[must_use]
    pub fn last_max_rate(&self) -> Option<Rate> {
        let sums = self.sums.lock().expect("no panic while sums are kept");
        sums.max_rate.or(sums.told_max_rate)
    }

    /// Notes whether the only source, a directory, became the destination itself or went into it.
    /// The first session decides; later calls have no effect.
    pub fn note_place(&self, place: SourcePosition) {
        self.sums.lock().expect("no panic while sums are kept").place.get_or_insert(place);
    }

    /// Whether the only source, a directory, became the destination itself or went into it, as the
    /// run's first session decided; `None` before that, and for other sources. Later sessions ask
    /// for the same.
    #[must_use]
    pub fn place(&self) -> Option<SourcePosition> {
        self.sums.lock().expect("no panic while sums are kept").place
    }

    /// Number of payload bytes transferred so far, over all sessions.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.sums.lock().expect("no panic while sums are kept").bytes
    }

    /// Number of TCP segments retransmitted so far, over all sessions.
    #[must_use]
    pub fn retransmitted_segments(&self) -> u64 {
        self.sums.lock().expect("no panic while sums are kept").retransmitted_segments
    }

    /// Share of the run's time (0 to 1) for which each pipeline stage limited the rate, by the
    /// stage's name.
    #[must_use]
    pub fn limited_by(&self) -> BTreeMap<String, f64> {
        stages::shares(&self.sums.lock().expect("no panic while sums are kept").stages)
    }
}
