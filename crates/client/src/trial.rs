//! Turns of a run from TCP to datagrams, where losses are more than TCP bears, and back, where datagrams carry less.
//!
//! A turn ends the session at this end; the next one goes on from what is durable. It happens only once datagrams have reached
//! the far end, so that TCP carries the session meanwhile. What is carried over datagrams is then compared with what TCP did:
//! networks may let a handshake pass, and drop what follows or hold it to a low rate.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use icdc_link::LinkControl;
use icdc_stop::StopSignal;
use icdc_tcp::clock;
use icdc_transfer::{Event, EventSink};
use icdc_units::{ByteCount, Rate, Ratio, Span, Time};

use crate::connect::Reaches;

/// Time in which datagrams find the rate, at least, and in handshakes of the first link. Chosen; not varied.
const LEAST_START: Span = Span::from_secs(4);
const START_HANDSHAKES: u64 = 16;
/// Time for which their rate is measured. Chosen; not varied.
const MEASURED: Span = Span::from_secs(5);
/// Part of the rate of TCP that they have to carry. Chosen; not varied.
const ENOUGH: Ratio = Ratio::new(3, 4);

/// Number of bytes that have travelled in a run, by what it tells of its progress.
#[derive(Clone, Default)]
pub(crate) struct Carried(Arc<AtomicU64>);

impl Carried {
    /// The events, and the count of what they tell.
    pub(crate) fn of(events: &EventSink) -> (Self, EventSink) {
        let carried = Self::default();
        let (count, events) = (Arc::clone(&carried.0), Arc::clone(events));
        let counting = move |event: Event| {
            if let Event::Progress(sample) = &event {
                let others = sample.resumed_bytes + sample.unchanged_bytes;
                count.store(sample.bytes_done.saturating_sub(others), Ordering::Relaxed);
            }
            events(event);
        };
        (carried, Arc::new(counting))
    }

    fn get(&self) -> ByteCount {
        ByteCount::new(self.0.load(Ordering::Relaxed))
    }
}

/// Means by which a session turns.
#[derive(Clone, Copy)]
pub(crate) struct Trial<'a> {
    /// First link of the session.
    pub(crate) first: &'a LinkControl,
    /// Bytes that have travelled in the run.
    pub(crate) carried: &'a Carried,
    /// Rate that the session over TCP carried, from which the run has turned.
    pub(crate) before: &'a Mutex<Option<Rate>>,
    /// True if a new session can go on: not for a stream.
    pub(crate) may_turn: bool,
}

/// Change of route for the next session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    None,
    ToDatagrams,
    ToTcp,
}

/// Trial of one session.
pub(crate) struct SessionTrial<'a> {
    trial: Trial<'a>,
    begun: Time,
    bytes: ByteCount,
    /// True if the session was ended in favour of the other route.
    is_turned: AtomicBool,
    /// True if datagrams did not reach the far end.
    is_unreached: AtomicBool,
}

impl<'a> Trial<'a> {
    /// Begins with a session.
    pub(crate) fn begin(self) -> SessionTrial<'a> {
        let (begun, bytes) = (clock::now(), self.carried.get());
        SessionTrial {
            trial: self,
            begun,
            bytes,
            is_turned: AtomicBool::default(),
            is_unreached: AtomicBool::default(),
        }
    }
}

impl SessionTrial<'_> {
    fn carried(&self) -> ByteCount {
        self.trial.carried.get()
    }

    fn turn_now(&self) {
        self.is_turned.store(true, Ordering::SeqCst);
        self.trial.first.shutdown();
    }

    /// Ends a session over TCP if datagrams reach the far end.
    pub(crate) fn turn(&self, reaches: &Reaches, over: &StopSignal) {
        if !self.trial.may_turn {
            return;
        }
        let is_reached = reaches(over);
        if over.is_requested() {
            return;
        }
        if !is_reached {
            self.is_unreached.store(true, Ordering::SeqCst);
            return;
        }
        let rate = (self.carried() - self.bytes) / (clock::now() - self.begun).max(Span::from_millis(1));
        *self.trial.before.lock().unwrap_or_else(PoisonError::into_inner) = Some(rate);
        self.turn_now();
    }

    /// Ends a session over datagrams if they carry less than TCP did.
    pub(crate) fn watch(&self, over: &StopSignal) {
        let before = *self.trial.before.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(before) = before else { return };
        let handshake = self.trial.first.handshake_time().unwrap_or_default();
        if over.wait((handshake * START_HANDSHAKES).max(LEAST_START)) {
            return;
        }
        let carried = self.carried();
        if !over.wait(MEASURED) && (self.carried() - carried) / MEASURED < before * ENOUGH {
            self.turn_now();
        }
    }

    /// True if datagrams were found not to reach the far end.
    pub(crate) fn is_unreached(&self) -> bool {
        self.is_unreached.load(Ordering::SeqCst)
    }

    /// Change of route after the session; `is_cut`: its connections have ended early, and not because the user has asked for it.
    pub(crate) fn end(&self, is_cut: bool, is_over_datagrams: bool) -> Turn {
        let is_turned = is_cut && self.is_turned.load(Ordering::SeqCst);
        match (is_turned, is_over_datagrams) {
            (true, false) => Turn::ToDatagrams,
            (true, true) => Turn::ToTcp,
            // Cut before anything was carried.
            (false, true) if is_cut && self.carried() == self.bytes => Turn::ToTcp,
            (false, _) => Turn::None,
        }
    }
}
