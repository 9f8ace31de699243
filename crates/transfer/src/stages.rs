//! The stage that limits a transfer, found by sampling.
//!
//! A pipeline `source disk → hash → encrypt → network → destination disk` runs at the rate of its
//! slowest stage, and that stage is the one that is busy while the one behind it starves. Every
//! [`TICK`] the sender's state is read and the tick is charged to the stages that limited it:
//!
//! * the outlet waits for a block: `hash` if a hasher is busy, `source_disk` if a read is in
//!   flight, else what the phase is: `start` until the receiver first answers, `scan` while the
//!   tree is walked, the path (below) while the socket holds what was sent last, `finish` after;
//! * the outlet sends: split between `encrypt` and the socket as the link's own times tell, and the
//!   socket's part between `destination_disk` (the receiver closed its window: its disk is behind)
//!   and the path as TCP's receive-window-limited time tells. The path's part is `rate_ceiling`
//!   while the socket's pacing rate is what the user allowed, `max_rate` while it is what the
//!   daemon allows the key, `destination_disk` while it is what the receiver's ring allows, else
//!   `network`; `network`, too, while nothing comes back. Within one host, `rate_ceiling` while a
//!   parcel waits for the rate, else `destination_disk`.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use icdc_link::{LinkControl, SendTimes};
use icdc_rate::ceilings::{Limit, Limiter};
use icdc_tcp::TcpInfo;
use icdc_units::{Rate, Span, Time};

use crate::event::Stage;

/// Interval at which the stages are sampled.
pub(crate) const TICK: Span = Span::from_millis(20);

/// Number of workers of one pipeline stage that are busy at present.
#[derive(Default)]
pub(crate) struct Activity(AtomicUsize);

impl Activity {
    /// Marks one worker of the stage as busy until the guard is dropped.
    pub(crate) fn busy(&self) -> Busy<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Busy(&self.0)
    }

    /// Whether any worker of the stage is busy at present.
    fn is_busy(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// Guard that counts one worker of a stage as busy until it is dropped.
pub(crate) struct Busy<'a>(&'a AtomicUsize);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// State shared between the stages, which record their activity, and the sampler, which charges
/// time.
#[derive(Default)]
pub(crate) struct StageClock {
    pub(crate) read: Activity,
    pub(crate) hash: Activity,
    pub(crate) send: Activity,
    current: AtomicU8,
    charged: Mutex<Charged>,
}

/// Time charged to each stage so far, and the times at the last sample.
#[derive(Default)]
struct Charged {
    spans: [Span; Stage::ALL.len()],
    last: Option<Sampled>,
}

/// Times that the link had spent on each activity at one sample.
struct Sampled {
    at: Time,
    encrypt: Span,
    socket: Span,
    paced: Span,
    window_limited: Span,
}

impl StageClock {
    /// Charges the time since the last call to the stages that limited the rate; the first call
    /// charges nothing. While data is sent, the time is split by the link's own times. Otherwise it
    /// is charged to hashing or reading, if that is at work, or to `idle`. `limit` is the cap on
    /// the rate, if there is one: its owner is charged instead of the network while the rate is at
    /// it.
    pub(crate) fn sample(&self, now: Time, link: &LinkControl, idle: Stage, limit: Option<Limit>) {
        let times = link.send_times();
        let tcp = link.tcp_info();
        let window_limited = tcp.as_ref().map_or(Span::ZERO, |info| info.receive_window_limited);
        let SendTimes { encrypt, socket, paced } = times;
        let sampled = Sampled { at: now, encrypt, socket, paced, window_limited };
        let mut charged = self.charged.lock().expect("no panic while charging");
        let Some(last) = charged.last.replace(sampled) else { return };
        let elapsed = now - last.at;
        let is_reached = |limit: &Limit| tcp.as_ref().is_some_and(|info| is_at(limit.rate, info));
        let path = limit.filter(is_reached).map_or(Stage::Network, |limit| limit.limiter.into());
        if !self.send.is_busy() {
            let is_left = tcp.as_ref().is_some_and(|info| !info.not_sent.is_zero());
            let stage = if self.hash.is_busy() {
                Stage::Hash
            } else if self.read.is_busy() {
                Stage::SourceDisk
            } else if idle == Stage::Finish && is_left {
                path
            } else {
                idle
            };
            self.charge(&mut charged, stage, elapsed);
            return;
        }
        let (encrypt, socket) = (encrypt - last.encrypt, socket - last.socket);
        let total = encrypt + socket;
        let encrypt_part =
            if total == Span::ZERO { Span::ZERO } else { elapsed.scaled(encrypt.as_nanos(), total.as_nanos()) };
        let paced_part = (paced - last.paced).min(elapsed - encrypt_part);
        let socket_part = elapsed - encrypt_part - paced_part;
        let write_part = if tcp.is_some() {
            let limited = (window_limited - last.window_limited).min(elapsed);
            socket_part.scaled(limited.as_nanos(), elapsed.as_nanos().max(1))
        } else if link.cipher().is_none() {
            // Within one host nothing but the receiving pipeline can hold the outlet up.
            socket_part
        } else {
            // Another program carries it, whose windows are unknown.
            Span::ZERO
        };
        let path_part = socket_part - write_part;
        let paced = limit.filter(|limit| limit.limiter == Limiter::Key).map(|_| Stage::MaxRate);
        let parts = [
            (Stage::Encrypt, encrypt_part),
            (path, path_part),
            (paced.unwrap_or(Stage::RateCeiling), paced_part),
            (Stage::DestinationDisk, write_part),
        ];
        for (stage, part) in parts {
            charged.spans[stage as usize] += part;
        }
        let (largest, _) = parts.into_iter().max_by_key(|(_, part)| *part).expect("there are four parts");
        self.current.store(largest as u8, Ordering::Relaxed);
    }

    /// Charges a span to one stage, which counts as the current one.
    fn charge(&self, charged: &mut Charged, stage: Stage, span: Span) {
        charged.spans[stage as usize] += span;
        self.current.store(stage as u8, Ordering::Relaxed);
    }

    /// Stage that limited the rate in the last sample.
    pub(crate) fn current(&self) -> Stage {
        Stage::ALL[usize::from(self.current.load(Ordering::Relaxed)) % Stage::ALL.len()]
    }

    /// Nanoseconds charged to each stage so far, by the stages' names.
    pub(crate) fn charged_by_name(&self) -> Vec<(String, u64)> {
        let charged = self.charged.lock().expect("no panic while charging");
        let spans = Stage::ALL.into_iter().zip(charged.spans).filter(|(_, span)| *span > Span::ZERO);
        spans.map(|(stage, span)| (stage.name().to_owned(), span.as_nanos())).collect()
    }
}

/// Converts times by stage into shares that sum to one.
pub(crate) fn shares(times: &BTreeMap<String, u64>) -> BTreeMap<String, f64> {
    let total: u64 = times.values().sum();
    if total == 0 {
        return BTreeMap::new();
    }
    times.iter().map(|(stage, nanos)| (stage.clone(), *nanos as f64 / total as f64)).collect()
}

/// Whether a connection sends at this limit of the rate, and the other end takes it.
fn is_at(limit: Rate, info: &TcpInfo) -> bool {
    // The kernel keeps whole bytes per second.
    let least = limit - Rate::from_bytes_per_second(1);
    let is_paced_at = info.pacing_rate.is_none_or(|rate| rate >= least);
    !info.is_silent() && is_paced_at && info.delivery_rate * 2 >= least
}
