//! Ceilings of all connections of a transfer, and the number of connections: the one place where
//! the rate is decided.
//!
//! ```text
//!  TCP_INFO of each connection ─┐                       ┌─► ceilings (SO_MAX_PACING_RATE)
//!  receiver's ring ─────────────┤                       ├─► connections after the first may send
//!  blocks that wait, processors ┼─► Controller::on_tick ┼─► more connections are wanted, or
//!  ceilings of user, key and   ─┘     Mode, Ceilings    │   datagrams
//!  disk, of which the user's may change                  ├─► a connection that delays the end is
//!                                                       │   retired
//!                                                       └─► the pace has changed, and why
//!  a frame that is queued ─────► Controller::place ───────► whole, or in parts
//!  a connection that is ready ─► Controller::takes ───────► whether it should take the frame
//! ```
//!
//! Which part finds the rate of the path depends on the [`Mode`]:
//!
//! - [`Mode::KernelPaced`], where an algorithm that finds it (`bbr`, `icdc`) is in use: the first
//!   connection's congestion control; the others take what it leaves ([`sharing`](crate::sharing)).
//!   Of connections that take several ways, by several network cards, each way has a first one.
//! - [`Mode::Bundle`], where the kernel's own algorithm is in use on a long path: all connections,
//!   steered as one ([`bundle`](crate::bundle)).
//! - [`Mode::PerConnection`], where the user has named another algorithm, the path is short, or
//!   there is none: congestion control of each connection, each with an equal share of the lowest
//!   ceiling.
//!
//! The lowest of the [`Ceilings`] applies to all connections together. Within one host only those
//! of the user and the key do: there is no path, and the receiver's window slows the sender down.

mod kernel_paced;
mod last_blocks;

use std::collections::BTreeMap;

use icdc_units::{ByteCount, Rate, Span, Time};

use crate::bundle::{Bundle, Member, Number, Owed};
use crate::ceilings::{Ceilings, Limit, Limiter};
use crate::disk_ceiling::{self, RingState};
use crate::path_ceiling::{Reason, State};
use crate::processors::{self, Processors};
use crate::sharing::Share;

use last_blocks::LastBlocks;

pub use kernel_paced::KernelPaced;
pub use last_blocks::{Form, Frame, Placement};

/// The connection that a session begins with.
pub const FIRST: Number = 0;
/// Interval of ticks, unless a bundle asks for shorter ones, and of the checks of processors and
/// last blocks. Chosen: at 10 ms snapshot `throughput.txt` changes; at 40 ms test
/// `a_slow_disk_neither_starves_nor_is_flooded` fails.
const TICK: Span = Span::from_millis(20);
/// Lowest ceiling of a socket: the kernel stores whole bytes per second (`sk_max_pacing_rate`).
const LEAST_CEILING: Rate = Rate::from_bytes_per_second(1);

/// Part that finds the rate that the path has free.
#[derive(Debug)]
pub enum Mode {
    /// Congestion control of the first connection of each way.
    KernelPaced(Box<KernelPaced>),
    /// The ceilings of all connections follow from one rate, found for all together.
    Bundle(Box<Bundle>),
    /// Congestion control of each connection, for itself.
    PerConnection,
}

/// Properties of a transfer that the controller must know and that do not change: processors,
/// length of a block, interval of feedback, and whether both ends are on one host.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Whether both ends are on one host.
    pub is_local: bool,
    /// Processors that this process may use.
    pub processors: u64,
    /// Length of a block.
    pub block: ByteCount,
    /// Interval at which the receiver reports the state of its ring.
    pub feedback_interval: Span,
}

/// A connection at the time of a tick.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionInfo {
    /// Number of the connection, which no other connection of the transfer has had.
    pub number: Number,
    /// Number of the connection that leads those which take the same way, between the same
    /// addresses: the one of them that came first; its own for the leading one itself.
    pub lead: Number,
    /// State of the connection's socket; `None` where it is not TCP.
    pub tcp: Option<TcpState>,
}

/// Excerpt of a connection's `TCP_INFO`.
#[derive(Clone, Copy, Debug)]
pub struct TcpState {
    /// Smoothed round-trip time.
    pub round_trip: Span,
    /// Bytes acknowledged since the connection began.
    pub acknowledged: ByteCount,
    /// Rate at which the connection sends; `None` while nothing paces it.
    pub pacing_rate: Option<Rate>,
    /// Ceiling of the connection's pacing rate (`SO_MAX_PACING_RATE`); `None` for none.
    pub max_pacing_rate: Option<Rate>,
    /// Whether bytes are in flight, sent and not acknowledged.
    pub in_flight: bool,
    /// Time for which the receiver's window has limited the connection so far.
    pub window_limited: Span,
    /// The connection's state as a member of a bundle; `None` where the path is too short for a
    /// ceiling.
    pub member: Option<Member>,
}

/// Data that the sender still has to send, at a tick, and the processor time taken so far. By these
/// more connections are asked for, and one that delays the end is ended.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    /// Whether blocks wait for a connection that takes them.
    pub blocks_wait: bool,
    /// Processor time that the threads of all connections have taken so far.
    pub worked: Span,
    /// Data that each connection still has to send, once there is nothing else to send; else empty.
    pub owed: Vec<Owed>,
}

/// State of a transfer at the time of a tick.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The connections in use.
    pub connections: &'a [ConnectionInfo],
    /// The receiver's ring.
    pub ring: &'a RingState,
    /// Data that is still to be sent.
    pub pending: &'a Pending,
    /// The user's present ceiling; `None` for none. With one of zero the transfer is paused: no
    /// connection takes data, and the ceilings of the connections stay as they are.
    pub user: Option<Rate>,
}

/// Action that the controller asks its caller to carry out on connections of the transfer, or, in
/// [`Paced`](Self::Paced), to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Set the ceiling of a connection; `None` for none.
    SetCeiling(Number, Option<Rate>),
    /// Let this connection, one after the first, take blocks from now on.
    Open(Number),
    /// Open further connections, up to this number in all.
    WantConnections(u64),
    /// Go on over datagrams, if the far end can be reached by them: losses are more than any number of TCP connections bears.
    WantDatagrams,
    /// End this connection: it would be done much later than if others sent what it owes.
    Retire(Number),
    /// The ceiling of the path or the disk has changed.
    Paced(Pace),
}

/// A change of a ceiling for all connections together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The new ceiling; `None` if there is none any more.
    pub ceiling: Option<Rate>,
    /// Cause of the change.
    pub cause: Cause,
}

/// Cause of a change of the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// An observation of the path.
    Path(Reason),
    /// The receiver's disk is slower than what arrives.
    RingFills,
    /// The disk keeps up again.
    RingEmptied,
}

/// Result of a tick of the controller: the actions for its caller, and the time of the next tick.
#[derive(Debug)]
pub struct Ticked {
    /// Steps for the caller to take, in their order.
    pub actions: Vec<Action>,
    /// Time at which the next tick is due.
    pub next: Time,
}

/// Decides at each tick, from the state of all connections of a transfer, their ceilings and their
/// number. See the module's description.
#[derive(Debug)]
pub struct Controller {
    setup: Setup,
    mode: Mode,
    ceilings: Ceilings,
    processors: Processors,
    /// Numbers of the connections in use, each with that of the one that leads its way.
    connections: BTreeMap<Number, Number>,
    /// Ceilings that are set, by the number of the connection.
    set: BTreeMap<Number, Option<Rate>>,
    /// Time at which processors and last blocks are checked next.
    next_watch: Time,
    last_blocks: LastBlocks,
    /// Whether the key lets nothing be sent at present.
    key_pauses: bool,
    /// Who lets nothing be sent at present; `None` if data may flow.
    paused: Option<Limiter>,
}

impl Controller {
    /// A controller at the beginning of a transfer.
    #[must_use]
    pub fn new(mode: Mode, setup: Setup, mut ceilings: Ceilings) -> Self {
        let key_pauses = ceilings.key.take_if(|key| key.is_zero()).is_some();
        let processors = Processors::new(setup.processors);
        let (connections, set) = (BTreeMap::from([(FIRST, FIRST)]), BTreeMap::new());
        let last_blocks = LastBlocks::default();
        let next_watch = Time::ORIGIN;
        let paused = None;
        Self { setup, mode, ceilings, processors, connections, set, next_watch, last_blocks, key_pauses, paused }
    }

    /// Sets the ceiling of the key, `None` for none, at once; a bundle applies it at its next update.
    /// With one of zero the transfer is paused from the next tick on, as by the
    /// [user's](Observed::user).
    pub fn set_key_ceiling(&mut self, rate: Option<Rate>) -> Vec<Action> {
        self.key_pauses = rate == Some(Rate::ZERO);
        if self.key_pauses {
            return Vec::new();
        }
        self.ceilings.key = rate;
        self.share_out()
    }

    /// Ceiling of the key; `None` for none, zero if it lets nothing be sent.
    #[must_use]
    pub fn key_ceiling(&self) -> Option<Rate> {
        if self.key_pauses { Some(Rate::ZERO) } else { self.ceilings.key }
    }

    /// Adds a connection, before it sends, with the one that leads its way; returns the changes of
    /// the connections' ceilings, and [`Action::Open`] if it may take blocks at once.
    pub fn on_joined(&mut self, number: Number, lead: Number) -> Vec<Action> {
        self.connections.insert(number, lead);
        let mut actions = self.share_out();
        if let Mode::KernelPaced(paced) = &mut self.mode {
            actions.extend(paced.opens(&self.connections).into_iter().map(Action::Open));
        }
        actions
    }

    /// Decides anew, by the state of the transfer at `now`, which ceilings the connections get, and
    /// whether more of them are wanted or one is to end.
    pub fn on_tick(&mut self, now: Time, observed: Observed<'_>) -> Ticked {
        let Observed { connections, ring, pending, user } = observed;
        let mut actions = Vec::new();
        let user_pauses = user == Some(Rate::ZERO);
        if !user_pauses {
            self.ceilings.user = user;
        }
        self.paused = match (self.key_pauses, user_pauses) {
            (true, _) => Some(Limiter::Key),
            (false, true) => Some(Limiter::User),
            (false, false) => None,
        };
        // What waits in a pause shows nothing of the path or the processors.
        let blocks_wait = pending.blocks_wait && self.paused.is_none();
        let first = connections.iter().find(|info| info.number == FIRST).and_then(|info| info.tcp);
        actions.extend(self.on_ring(ring, first.map_or(Span::ZERO, |tcp| tcp.round_trip)));
        self.connections = connections.iter().map(|info| (info.number, info.lead)).collect();
        self.set.retain(|number, _| self.connections.contains_key(number));
        let next = match &mut self.mode {
            Mode::Bundle(bundle) if now < bundle.next_update() => bundle.next_update(),
            Mode::Bundle(bundle) => {
                actions.extend(steer(bundle, &mut self.ceilings, &mut self.set, now, connections));
                bundle.next_update()
            }
            Mode::KernelPaced(paced) => {
                paced.on_tick(now, connections, blocks_wait);
                let opens = paced.opens(&self.connections);
                actions.extend(self.share_out());
                actions.extend(opens.into_iter().map(Action::Open));
                now + TICK
            }
            Mode::PerConnection => {
                actions.extend(self.share_out());
                now + TICK
            }
        };
        if now >= self.next_watch {
            self.next_watch = now + TICK;
            if self.paused.is_none() {
                self.watch(now, pending, &mut actions);
            }
        }
        Ticked { actions, next }
    }

    /// Whether [`Pending::owed`] is of use to a tick at this time.
    #[must_use]
    pub fn needs_owed(&self, now: Time) -> bool {
        matches!(self.mode, Mode::Bundle(_)) && now >= self.next_watch
    }

    /// Asks for connections where processors need them, and ends one that delays the end.
    fn watch(&mut self, now: Time, pending: &Pending, actions: &mut Vec<Action>) {
        let connections = self.connections.len() as u64;
        let Pending { blocks_wait, worked, ref owed } = *pending;
        let wanted = self.processors.on_sample(&processors::Sample { at: now, connections, worked, blocks_wait });
        actions.extend(wanted.map(Action::WantConnections));
        if let Mode::Bundle(bundle) = &self.mode {
            let slow = bundle.member_to_retire(owed, self.setup.block);
            // The first connection carries the session's messages.
            actions.extend(slow.filter(|number| *number != FIRST).map(Action::Retire));
        }
    }

    /// Updates the disk's ceiling by the state of the ring; returns an action where a ceiling
    /// begins or ends, else `None`.
    fn on_ring(&mut self, ring: &RingState, round_trip: Span) -> Option<Action> {
        let disk = disk_ceiling::ceiling(ring, round_trip + self.setup.feedback_interval);
        let before = std::mem::replace(&mut self.ceilings.disk, disk);
        let cause = if disk.is_some() { Cause::RingFills } else { Cause::RingEmptied };
        (disk.is_some() != before.is_some()).then_some(Action::Paced(Pace { ceiling: disk, cause }))
    }

    /// New ceilings of connections, each a share of the lowest ceiling; none for a bundle, which
    /// has its own shares.
    fn share_out(&mut self) -> Vec<Action> {
        let paced = match &self.mode {
            Mode::KernelPaced(paced) => Some(paced),
            Mode::PerConnection => None,
            Mode::Bundle(_) => return Vec::new(),
        };
        let mut ways: BTreeMap<Number, Vec<Number>> = BTreeMap::new();
        for (number, lead) in &self.connections {
            // Without a rate that one of them finds, all are alike.
            ways.entry(if paced.is_some() { *lead } else { FIRST }).or_default().push(*number);
        }
        let limit =
            if self.setup.is_local { self.ceilings.asked() } else { self.ceilings.lowest().map(|limit| limit.rate) };
        let of_way = limit.map(|limit| limit / ways.len() as u64);
        let mut actions = Vec::new();
        for (lead, connections) in ways {
            let left = paced.map_or(Share::Anything, |paced| paced.left_to_others(lead));
            for (number, ceiling) in shares(lead, &connections, of_way, left) {
                if self.set.get(&number).copied().flatten() != ceiling {
                    self.set.insert(number, ceiling);
                    actions.push(Action::SetCeiling(number, ceiling));
                }
            }
        }
        actions
    }

    /// Whether a connection should take a frame of this length while `unsent` are left to be sent, `None`
    /// while that is not known. The transfer ends with its slowest connection; and as long as more may
    /// be found to be sent, what is announced on the first connection must not wait long behind data.
    /// False while the transfer is [paused](Self::paused_by); otherwise true but in [`Mode::Bundle`].
    #[must_use]
    pub fn takes(&self, number: Number, frame: ByteCount, unsent: Option<ByteCount>) -> bool {
        if self.paused.is_some() {
            return false;
        }
        let Mode::Bundle(bundle) = &self.mode else { return true };
        let would_hold_up = number == FIRST && unsent.is_none() && self.connections.len() > 1;
        let is_short = !would_hold_up || bundle.has_soon_sent(number, frame);
        is_short && bundle.takes(number, frame, unsent.unwrap_or(ByteCount::MAX))
    }

    /// Number of bytes that were handed to a connection and have not arrived from which it should leave parts of blocks to
    /// others: what waits for its window would arrive sooner over another. `None` for any number, and but in
    /// [`Mode::Bundle`].
    #[must_use]
    pub fn enough(&self, number: Number) -> Option<ByteCount> {
        match &self.mode {
            Mode::Bundle(bundle) => bundle.enough(number),
            Mode::KernelPaced(_) | Mode::PerConnection => None,
        }
    }

    /// Decides whether a frame that is about to be queued goes whole over one connection or, as one
    /// of the last blocks or of a short transfer, in parts over any; counts it as queued.
    pub fn place(&mut self, frame: Frame) -> Placement {
        let is_long = matches!(self.mode, Mode::Bundle(_));
        self.last_blocks.place(frame, self.connections.len() as u64, is_long, self.setup.block)
    }

    /// Counts the payload of a frame that is queued whole for a retransmission.
    pub fn on_requeued(&mut self, length: ByteCount) {
        self.last_blocks.count(length);
    }

    /// Whether the connections after the first are opened only when [`Action::Open`] asks for it.
    #[must_use]
    pub fn opens_later(&self) -> bool {
        matches!(self.mode, Mode::KernelPaced(_))
    }

    /// Ceiling of the first connection, and owner of the lowest ceiling of the transfer; `None` if
    /// there is no ceiling.
    #[must_use]
    pub fn limit(&self) -> Option<Limit> {
        let Limit { limiter, .. } = self.ceilings.lowest()?;
        Some(Limit { rate: self.set.get(&FIRST).copied().flatten()?, limiter })
    }

    /// Who lets nothing be sent at present, the user or the operator for the key; `None` if data may
    /// flow.
    #[must_use]
    pub fn paused_by(&self) -> Option<Limiter> {
        self.paused
    }

    /// Rate that the path has free for this transfer, where its connections take several ways on that of
    /// the first one; `None` while it is not known, and always in [`Mode::PerConnection`].
    #[must_use]
    pub fn capacity(&self) -> Option<Rate> {
        match &self.mode {
            Mode::KernelPaced(paced) => paced.capacity(),
            Mode::Bundle(bundle) => bundle.capacity(),
            Mode::PerConnection => None,
        }
    }

    /// Whether losses have shown to be more than any number of connections bears: what the path has free is not known.
    #[must_use]
    pub fn is_lossy(&self) -> bool {
        matches!(&self.mode, Mode::Bundle(bundle) if bundle.is_lossy())
    }

    /// State of the search for the path's rate; `None` where the kernel searches.
    #[must_use]
    pub fn state(&self) -> Option<State> {
        match &self.mode {
            Mode::Bundle(bundle) => Some(bundle.state()),
            Mode::KernelPaced(_) | Mode::PerConnection => None,
        }
    }
}

/// Ceilings of the connections of a way that may take blocks: shares of the way's ceiling `limit`,
/// of which `left` is left to those after the one that leads it.
fn shares(lead: Number, connections: &[Number], limit: Option<Rate>, left: Share) -> Vec<(Number, Option<Rate>)> {
    let others = (connections.len() as u64).saturating_sub(1);
    // A connection that takes no blocks yet needs no ceiling.
    let are_open = left != Share::Nothing;
    let left = match left {
        Share::Rate(left) => Some(left / others.max(1)),
        Share::Nothing | Share::Anything => None,
    };
    let fair = limit.map(|limit| limit / (others + 1)).filter(|_| are_open);
    let each = [fair, left].into_iter().flatten().min().map(|each| each.max(LEAST_CEILING));
    let first = limit.map(|limit| (limit - each.unwrap_or(Rate::ZERO) * others).max(LEAST_CEILING));
    let taking = connections.iter().filter(|number| are_open || **number == lead);
    taking.map(|number| (*number, if *number == lead { first } else { each })).collect()
}

/// Updates a bundle; returns the actions that follow, its members' new ceilings among them.
fn steer(
    bundle: &mut Bundle,
    ceilings: &mut Ceilings,
    set: &mut BTreeMap<Number, Option<Rate>>,
    now: Time,
    connections: &[ConnectionInfo],
) -> Vec<Action> {
    let member = |info: &ConnectionInfo| Some((info.number, info.tcp?.member?));
    let members: Vec<_> = connections.iter().filter_map(member).collect();
    let plan = bundle.update(now, &members, ceilings.lowest_but_path());
    ceilings.path = bundle.level();
    set.extend(plan.ceilings.iter().copied());
    let set = plan.ceilings.into_iter().map(|(number, ceiling)| Action::SetCeiling(number, ceiling));
    let paced = plan
        .decision
        .map(|decision| Action::Paced(Pace { ceiling: decision.ceiling, cause: Cause::Path(decision.reason) }));
    let datagrams = plan.is_lossy.then_some(Action::WantDatagrams);
    set.chain(paced).chain(plan.wanted.map(Action::WantConnections)).chain(datagrams).collect()
}

#[cfg(test)]
mod tests;
