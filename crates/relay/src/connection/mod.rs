//! One relayed connection: a state machine from the client's first byte to the last byte of either
//! side.
//!
//! ```text
//! Greeting ─► Routing ─► Connecting ─► Securing ─► Requesting ─► Relaying ─► Closed
//!               │  ▲ └──► Resolving         next hop       │          │
//!               │  └── is another relay ◄── has failed ◄───┘          └─ a leg fails: both legs are reset
//!               └─► no hop left: Closing (the client reads why) ─► Closed
//! ```
//!
//! A hop that is the destination itself leads from Connecting to Relaying; a warm leg from Routing
//! to Requesting.
//!
//! | file | what | uses |
//! |---|---|---|
//! | `next_hop` | the request and the candidates for the next hop; sans-I/O | |
//! | `client_protocol` | the client's request in the protocol of its listener; sans-I/O | `next_hop` |
//! | `inbound` | the client's side: what every stage has | `next_hop` |
//! | `channel` | both directions of data, their buffers and limits | |
//! | `stage` | the stages with their data, and their transitions | all above |
//! | `greeting`, `routing`, `connecting`, `requesting`, `relaying`, `closing` | the stages' operations | `stage`, `inbound` |
//! | `dial` | opens the leg to a next hop | `inbound` |
//! | `timers` | deadlines and limits | `stage` |
//!
//! Each function of a stage takes it and returns a [`Transition`](stage::Transition) with the next
//! one.

mod channel;
mod client_protocol;
mod closing;
mod connecting;
mod dial;
mod greeting;
mod inbound;
mod next_hop;
mod relaying;
mod requesting;
mod routing;
mod stage;
mod timers;

use std::io;
use std::net::SocketAddr;

use icdc_units::{ByteCount, Span, Time};

use crate::counters::count;
use crate::flow::Flow;
use crate::leg::Leg;
use crate::mailbox::Accepted;
use crate::poller::{Readiness, Side};
use crate::status::{ConnectionStatus, FlowStatus, LegStatus};
use crate::worker_context::WorkerContext;
use client_protocol::Greeting;
use inbound::Inbound;
use next_hop::Refusal;
use stage::{End, Stage, Transition};

/// A client, and what has become of its request.
pub(crate) struct Connection {
    inbound: Inbound,
    stage: Stage,
    /// Bytes buffered before there is a channel, as last measured.
    buffered: ByteCount,
}

/// State of a connection after an event, by which its worker decides what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The connection waits for an event.
    Waiting,
    /// The connection has more to do, after a turn of the others.
    Busy,
    /// The connection has ended.
    Over,
}

impl Connection {
    /// A connection that a listener has accepted.
    pub(crate) fn new(id: u64, accepted: Accepted, now: Time) -> io::Result<Self> {
        let inbound = Inbound::new(id, accepted, now)?;
        let greeting = Greeting::new(&inbound.listener.kind, &inbound.config.limits, now);
        Ok(Self { inbound, stage: Stage::Greeting(greeting), buffered: ByteCount::ZERO })
    }

    /// Leg to the client.
    pub(crate) fn near(&self) -> &Leg {
        &self.inbound.near
    }

    /// Whether another relay keeps this connection warm, with no request on it yet.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(&self.stage, Stage::Greeting(greeting) if greeting.is_idle())
    }

    /// Runs the stages until the connection waits for an event or has ended.
    pub(crate) fn drive(&mut self, context: &mut WorkerContext) -> Fate {
        loop {
            let inbound = &mut self.inbound;
            let transition = match std::mem::replace(&mut self.stage, Stage::Closed) {
                Stage::Greeting(greeting) => greeting::advance(greeting, inbound, context),
                Stage::Routing(pending) => routing::advance(pending, inbound, context),
                Stage::Resolving(stage) => Transition::Wait(Stage::Resolving(stage)),
                Stage::Connecting(stage) => connecting::connect(stage, inbound, context),
                Stage::Securing(stage) => connecting::secure(stage, inbound, context),
                Stage::Requesting(stage) => requesting::advance(stage, inbound, context),
                Stage::Relaying(stage) => relaying::advance(stage, inbound, context),
                Stage::Closing(stage) => closing::advance(stage, &mut inbound.near, context),
                Stage::Closed => return Fate::Over,
            };
            if let Some(fate) = self.enter(transition, context) {
                return fate;
            }
        }
    }

    /// Enters the stage of a transition; returns what the worker has to do then, or `None` if the
    /// stage is to be run at once.
    fn enter(&mut self, transition: Transition, context: &WorkerContext) -> Option<Fate> {
        let (stage, fate) = match transition {
            Transition::Wait(stage) => (stage, Some(Fate::Waiting)),
            Transition::Yield(stage) => (stage, Some(Fate::Busy)),
            Transition::Next(stage) => (stage, None),
            Transition::End(stage, end) => (self.end(stage, end, context), None),
        };
        self.stage = stage;
        fate
    }

    /// Handles an event of a leg.
    pub(crate) fn on_event(&mut self, side: Side, readiness: Readiness, context: &mut WorkerContext) -> Fate {
        let leg = match side {
            Side::Near => Some(&mut self.inbound.near),
            Side::Far => self.stage.far_mut(),
        };
        if let Some(leg) = leg {
            leg.readable |= readiness.readable;
            leg.writable |= readiness.writable;
            leg.has_urgent |= readiness.has_urgent;
        }
        if readiness.failed
            && let Some(why) = self.failure(side)
        {
            let stage = std::mem::replace(&mut self.stage, Stage::Closed);
            self.stage = self.end(stage, End::Aborted(why), context);
        }
        self.drive(context)
    }

    /// The error of a leg, in stages that do not find it out themselves; `None` in the others, or
    /// if there is none.
    fn failure(&self, side: Side) -> Option<String> {
        match (side, &self.stage) {
            (_, Stage::Closing(_) | Stage::Closed) => None,
            (Side::Near, _) => Some(format!("near leg: {}", self.inbound.near.error()?)),
            (Side::Far, Stage::Relaying(stage)) => Some(format!("far leg: {}", stage.channel.far.error()?)),
            (Side::Far, _) => None,
        }
    }

    /// Handles the answer to query number `query` of a name: its addresses, or the error. Answers
    /// to earlier queries are ignored.
    pub(crate) fn on_resolved(
        &mut self,
        query: u64,
        found: io::Result<Vec<SocketAddr>>,
        context: &mut WorkerContext,
    ) -> Fate {
        let transition = match std::mem::replace(&mut self.stage, Stage::Closed) {
            Stage::Resolving(stage) if stage.query == query => routing::resolved(stage, found, &self.inbound, context),
            // An answer that came too late.
            stage => Transition::Wait(stage),
        };
        self.enter(transition, context).unwrap_or_else(|| self.drive(context))
    }

    /// Checks deadlines and limits, a few times a second. A connection that buffers more than
    /// `share` bytes (`None`: only its own limit holds) reads no more until it buffers less.
    pub(crate) fn on_tick(&mut self, share: Option<ByteCount>, context: &mut WorkerContext) -> Fate {
        let stage = std::mem::replace(&mut self.stage, Stage::Closed);
        let transition = timers::tick(stage, &mut self.inbound, share, context);
        let fate = self.enter(transition, context).unwrap_or_else(|| self.drive(context));
        if self.stage.channel().is_none() && !self.is_idle() {
            self.measure();
        }
        fate
    }

    /// Ends a connection in a stage: counts and logs it. A client that expects a reply gets it in
    /// [`Stage::Closing`].
    fn end(&mut self, mut stage: Stage, end: End, context: &WorkerContext) -> Stage {
        let counters = &context.relay.counters;
        if let Some(channel) = stage.channel_mut() {
            channel.count_bytes(counters);
            channel.count_waits(context.now, counters);
        }
        self.log(&stage, &end);
        count(match end {
            End::Finished => &counters.finished,
            End::Rejected { .. } => &counters.rejected,
            End::Unreachable(_) => &counters.unreachable,
            End::Aborted(_) => &counters.aborted,
            End::TimedOut(_) => &counters.timed_out,
        });
        let reply = match end {
            End::Finished => {
                self.inbound.near.close_gracefully();
                if let Some(far) = stage.far() {
                    far.close_gracefully();
                }
                None
            }
            End::Rejected { reply, .. } => reply,
            End::Unreachable(Refusal(verdict, _)) => self.inbound.reply(verdict, stage.far().and_then(Leg::local)),
            End::Aborted(_) | End::TimedOut(_) => None,
        };
        match reply {
            Some(reply) => closing::begin(&reply, &mut self.inbound.near, &stage, context.now),
            None => Stage::Closed,
        }
    }

    fn log(&self, stage: &Stage, end: &End) {
        let (client, listener) = (self.inbound.client, self.inbound.listener.kind.name());
        let to = stage.destination().unwrap_or_default();
        let (up, down) = stage.channel().map_or((0, 0), |channel| (channel.up.moved, channel.down.moved));
        match end {
            End::Finished => tracing::debug!(%client, listener, to, up, down, "finished"),
            End::Rejected { reason, .. } => tracing::info!(%client, listener, "rejected: {reason}"),
            End::Unreachable(Refusal(verdict, why)) if why.is_empty() => {
                tracing::info!(%client, listener, to, "unreachable: {verdict}");
            }
            End::Unreachable(Refusal(_, why)) => tracing::info!(%client, listener, to, "unreachable: {why}"),
            End::Aborted(why) => tracing::info!(%client, listener, to, up, down, "aborted: {why}"),
            End::TimedOut(what) => tracing::info!(%client, listener, to, up, down, "timed out: {what}"),
        }
    }

    /// Bytes of this connection that are buffered in this relay, as last measured.
    pub(crate) fn buffered(&self) -> ByteCount {
        self.stage.channel().map_or(self.buffered, |channel| channel.buffered())
    }

    /// Measures what is buffered, in the sockets as well.
    fn measure(&mut self) {
        let near = &self.inbound.near;
        match self.stage.channel_mut() {
            Some(channel) => {
                channel.measure(near);
            }
            None => {
                let far = self.stage.far().map_or(ByteCount::ZERO, |far| far.unread() + far.unacknowledged());
                self.buffered = near.unread() + near.unacknowledged() + far + self.stage.early_bytes();
            }
        }
    }

    /// The connection's status; the relay's counters include its bytes from then on.
    pub(crate) fn status(&mut self, context: &WorkerContext) -> ConnectionStatus {
        if let Some(channel) = self.stage.channel_mut() {
            channel.count_bytes(&context.relay.counters);
        }
        self.measure();
        let elapsed = context.now - self.inbound.began;
        let channel = self.stage.channel();
        let flow = |flow: Option<&Flow>, sides| {
            flow.map_or_else(FlowStatus::idle, |flow| status_of(flow, (context.now, elapsed), sides))
        };
        ConnectionStatus {
            listener: self.inbound.listener.kind.name(),
            client: self.inbound.client,
            destination: self.stage.destination(),
            via: self.stage.via(),
            stage: self.stage.name(),
            seconds: elapsed.as_secs_f64(),
            buffered: self.buffered(),
            paused: channel.is_some_and(channel::Channel::is_paused),
            up: flow(channel.map(|channel| &channel.up), ("near", "far")),
            down: flow(channel.map(|channel| &channel.down), ("far", "near")),
            near: LegStatus::of(&self.inbound.near),
            far: self.stage.far().and_then(LegStatus::of),
        }
    }
}

/// Status of one direction. `elapsed` is the age of the connection; `source` and `sink` are the
/// names of their legs, `near` and `far`.
fn status_of(flow: &Flow, (now, elapsed): (Time, Span), (source, sink): (&'static str, &'static str)) -> FlowStatus {
    let waits = flow.waits(now);
    let limited_by = match flow.moved {
        0 => None,
        _ if waits.sink > waits.source => Some(sink),
        _ => Some(source),
    };
    FlowStatus {
        bytes: flow.moved,
        rate: ByteCount::new(flow.moved) / elapsed,
        waited_for_source: waits.source,
        waited_for_sink: waits.sink,
        limited_by,
        ended: flow.finished,
    }
}
