//! TCP flows over a long fat path in virtual time: deterministic, and much faster paths than the
//! machine that it runs on could carry.
//!
//! ```text
//!  sender ─ poll ─► line ─► path::Direction ─► delay line ─► receiver
//!    ▲ cc::native    (TSQ)   loss, drop-tail      per flow      │ in order: the application's
//!    │ algorithm             queue, delay                       │
//!    └── acknowledge ◄─ delay line ◄─ path::Direction ◄─────────┘ acknowledgements of 66 or 78 bytes
//! ```
//!
//! | part | file |
//! |---|---|
//! | settings | [`Simulation`], [`Flow`] |
//! | the loop over events | [`simulate`] |
//! | scoreboard, loss detection, recovery, timers, pacing | `sender/` |
//! | acknowledgements, receive window | `receiver.rs`, `held.rs` |
//! | pauses of hosts | `pauses.rs` |
//! | observers | [`Observer`]; [`Recorder`] keeps series |
//! | totals | [`Outcome`] |
//!
//! The model is Linux 6's TCP by packets of one size, driven by the algorithms of `icdc-cc` as the
//! kernel drives them.
//!
//! | as Linux | simplified |
//! |---|---|
//! | initial window 10, growth only where the window limits | the handshake is over when a flow starts, and has measured the round trip |
//! | SACK, RACK, threshold of three; lost retransmissions by time | an acknowledgement tells all that arrived, not three blocks |
//! | PRR; Open, Disorder, Recovery, Loss | no undo, no F-RTO: a path without reordering gives no cause, except a timeout that came too early |
//! | tail loss probe; RTO with 200 ms and backoff | no limit of retries; the timer has no ticks |
//! | delivery-rate samples, least round-trip time | the least is that of the whole connection, not of 5 minutes |
//! | internal pacing: ratios, aggregates, the first 10 free | TSO is not deferred; without segmentation packets leave one by one |
//! | delayed and quick acknowledgements, compressed SACKs | receive offload: batches by number and time |
//! | receive window: fixed, or tuned by what is read in a round trip | the round trip is the idle path's; no buffer memory; applications read at once |
//! | samples that the application limits; data that come in time | pieces of a bundle are taken at its ticks |
//! | small queues below TCP: 1 ms of the host's line | the send buffer never limits; no ECN: CoDel drops; no CWR |
//!
//! Each packet costs the same however many are in flight, and nothing is allocated for it once the
//! flight has reached its length. Memory is bounded by the flight: [`Simulation::memory`].
//!
//! ```
//! use icdc_path::Settings;
//! use icdc_sim::{Acknowledgements, Flow, ReceiveWindow, Simulation, simulate};
//! use icdc_units::{ByteCount, Span};
//!
//! let direction = Settings { delay: Span::from_millis(50), ..Settings::default() };
//! let reno = icdc_cc::find("reno").ok_or("no such algorithm")?;
//! let window = ReceiveWindow::Tuned { most: ByteCount::from_mib(64) };
//! let flow = Flow { bytes: Some(ByteCount::new(1_448_000)), ..Flow::bulk(reno, window) };
//! let simulation = Simulation {
//!     forward: direction.clone(),
//!     backward: direction,
//!     flows: vec![flow],
//!     duration: Span::from_secs(10),
//!     acknowledgements: Acknowledgements::EverySecond,
//!     segmentation: false,
//! };
//! let outcome = simulate(&simulation, &mut ())?;
//! // 1000 packets in slow start: 10, 20, …, 640 in seven round trips.
//! assert_eq!(outcome.flows[0].delivered, 1000);
//! assert_eq!(outcome.simulated.as_millis(), 704);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod engine;
mod held;
mod observer;
mod outcome;
mod pauses;
mod receiver;
mod recorder;
mod sender;
mod simulation;

pub use engine::simulate;
pub use observer::{Observer, Transmission};
pub use outcome::{FlowOutcome, Outcome, jain_index};
pub use recorder::{FlowRecord, Recorder};
pub use sender::{SenderCounters, SenderState};
pub use simulation::{
    Acknowledgements, Flow, Pause, Pausing, Piece, ReceiveWindow, Simulation, SimulationError, payload_rate,
};
