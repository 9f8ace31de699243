//! How fast each connection of a transfer may send, and how many connections there should be: the one
//! place where that is decided.
//!
//! ```text
//!  TCP_INFO of each connection ─┐                       ┌─► ceilings of connections (SO_MAX_PACING_RATE)
//!  receiver's ring ─────────────┤                       ├─► the connections after the first may send
//!  blocks that wait, processors ┼─► Controller::on_tick ┼─► more connections are wanted
//!  user's and key's ceilings ───┘     Mode, Ceilings    ├─► a connection that holds up the end is retired
//!                                                       └─► the pace has changed, and why
//! ```
//!
//! | mode | when | who finds the rate of the path | part |
//! |---|---|---|---|
//! | [`Mode::KernelPaced`] | an algorithm that finds it (`bbr`, `icdc`) is at work | the first connection's congestion control; the others take what it leaves | [`sharing`](crate::sharing) |
//! | [`Mode::Bundle`] | the kernel's own algorithm must do on a long path | all connections, steered as one | [`bundle`](crate::bundle) |
//! | [`Mode::Fixed`] | the user has named an algorithm, the path is short, or there is none | each connection's congestion control | equal shares of the lowest ceiling |
//!
//! In every mode the lowest of the [`Ceilings`] holds for all connections together.

mod kernel_paced;

use std::collections::BTreeMap;

use icdc_units::{ByteCount, Rate, Span, Time};

use crate::bundle::{Bundle, Member, Number, Owed};
use crate::ceilings::{Ceilings, Limit};
use crate::disk_ceiling::{self, RingState};
use crate::path_ceiling::{Reason, State};
use crate::processors::{self, Processors};

pub use kernel_paced::KernelPaced;

/// The connection that a session begins with.
pub const FIRST: Number = 0;
/// Interval of the ticks where no round trip is measured that asks for more.
pub const TICK: Span = Span::from_millis(20);

/// Who finds the rate that the path has free.
#[derive(Debug)]
pub enum Mode {
    /// The congestion control of the first connection.
    KernelPaced(Box<KernelPaced>),
    /// All connections together.
    Bundle(Box<Bundle>),
    /// Nobody here: congestion control of each connection does what it does.
    Fixed,
}

/// What a controller is for.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Both ends are on one host: there is no path, and the receiver holds the sender up by itself.
    pub is_local: bool,
    /// Processors that this process may use.
    pub processors: u64,
    /// Length of a block.
    pub block: ByteCount,
    /// Interval at which the receiver tells the state of its ring.
    pub feedback_interval: Span,
}

/// What is seen of a connection at a tick.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionInfo {
    /// Which one.
    pub number: Number,
    /// What the kernel tells of it; `None` where it is not TCP.
    pub tcp: Option<TcpState>,
}

/// What the kernel tells of a connection.
#[derive(Clone, Copy, Debug)]
pub struct TcpState {
    /// Smoothed round-trip time.
    pub round_trip: Span,
    /// Bytes that were acknowledged since it began.
    pub acknowledged: ByteCount,
    /// Rate at which it sends; [`Rate::MAX`] while nothing paces it.
    pub pacing_rate: Rate,
    /// Ceiling of that rate.
    pub max_pacing_rate: Rate,
    /// Something is on its way.
    pub in_flight: bool,
    /// For how long the receiver's window has held it up so far.
    pub window_limited: Span,
    /// What a bundle looks at; `None` where the path is too short for a ceiling.
    pub member: Option<Member>,
}

/// What is left to be sent, and by what means.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// Blocks wait for a connection that takes them.
    pub blocks_wait: bool,
    /// Processor time that the threads of all connections have taken so far.
    pub worked: Span,
    /// What each connection owes, once there is nothing else to send; else empty.
    pub owed: Vec<Owed>,
}

/// What is to be done after a tick, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A connection shall not send faster; [`Rate::MAX`] for no ceiling.
    SetCeiling(Number, Rate),
    /// The connections after the first may take blocks from now on.
    Open,
    /// So many connections there should be, which are more than there are.
    WantConnections(u64),
    /// This connection would end much later than if others sent what it owes.
    Retire(Number),
    /// The pace has changed.
    Paced(Pace),
}

/// Another pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// What whoever changed it allows; `None` for anything.
    pub ceiling: Option<Rate>,
    /// Why.
    pub cause: Cause,
}

/// Why the pace has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// What was seen of the path.
    Path(Reason),
    /// The receiver's disk is slower than what arrives.
    RingFills,
    /// It keeps up again.
    RingEmptied,
}

/// What follows from a tick.
#[derive(Debug)]
pub struct Ticked {
    /// To be done in this order.
    pub actions: Vec<Action>,
    /// When the next tick is due.
    pub next: Time,
}

/// See the module's description.
#[derive(Debug)]
pub struct Controller {
    setup: Setup,
    mode: Mode,
    ceilings: Ceilings,
    processors: Processors,
    /// All in use.
    connections: Vec<Number>,
    /// Ceilings that connections have.
    set: BTreeMap<Number, Rate>,
}

impl Controller {
    /// Of a transfer that begins, with the ceilings of its user and its key.
    #[must_use]
    pub fn new(mode: Mode, setup: Setup, ceilings: Ceilings) -> Self {
        let processors = Processors::new(setup.processors);
        Self { setup, mode, ceilings, processors, connections: vec![FIRST], set: BTreeMap::new() }
    }

    /// Takes note of the ceilings of the user and of the key. A bundle obeys from its next tick on.
    pub fn set_ceilings(&mut self, user: Option<Rate>, key: Option<Rate>) -> Vec<Action> {
        (self.ceilings.user, self.ceilings.key) = (user, key);
        self.share_out()
    }

    /// Takes note of a further connection, which is to send soon.
    pub fn on_joined(&mut self, number: Number) -> Vec<Action> {
        if !self.connections.contains(&number) {
            self.connections.push(number);
        }
        self.share_out()
    }

    /// Takes note of all connections in use, of the receiver's ring and of what is left to be sent.
    pub fn on_tick(&mut self, now: Time, connections: &[ConnectionInfo], ring: &RingState, queue: &Queue) -> Ticked {
        let mut actions = Vec::new();
        let first = connections.iter().find(|info| info.number == FIRST).and_then(|info| info.tcp);
        actions.extend(self.on_ring(ring, first.map_or(Span::ZERO, |tcp| tcp.round_trip)));
        self.connections = connections.iter().map(|info| info.number).collect();
        self.set.retain(|number, _| self.connections.contains(number));
        let next = match &mut self.mode {
            Mode::Bundle(bundle) if now < bundle.next_look() => bundle.next_look(),
            Mode::Bundle(_) => self.steer(now, connections, &mut actions),
            Mode::KernelPaced(paced) => {
                let opens = paced.on_tick(now, connections, first, queue.blocks_wait);
                actions.extend(self.share_out());
                actions.extend(opens.then_some(Action::Open));
                now + TICK
            }
            Mode::Fixed => {
                actions.extend(self.share_out());
                now + TICK
            }
        };
        let (count, blocks_wait) = (self.connections.len() as u64, queue.blocks_wait);
        let seen = processors::Look { at: now, connections: count, worked: queue.worked, blocks_wait };
        actions.extend(self.processors.look(&seen).map(Action::WantConnections));
        if let Mode::Bundle(bundle) = &self.mode {
            let slow = bundle.holding_up(&queue.owed, self.setup.block);
            // The first one carries the session.
            actions.extend(slow.filter(|number| *number != FIRST).map(Action::Retire));
        }
        Ticked { actions, next }
    }

    /// Takes note of the ring; an action where the disk begins or ends to limit.
    fn on_ring(&mut self, ring: &RingState, round_trip: Span) -> Option<Action> {
        let disk = disk_ceiling::ceiling(ring, round_trip + self.setup.feedback_interval);
        let before = std::mem::replace(&mut self.ceilings.disk, disk);
        let cause = if disk.is_some() { Cause::RingFills } else { Cause::RingEmptied };
        (disk.is_some() != before.is_some()).then_some(Action::Paced(Pace { ceiling: disk, cause }))
    }

    /// Steers a bundle; when its next look is due.
    fn steer(&mut self, now: Time, connections: &[ConnectionInfo], actions: &mut Vec<Action>) -> Time {
        let most = self.ceilings.lowest_but_path().unwrap_or(Rate::MAX);
        let Mode::Bundle(bundle) = &mut self.mode else { return now + TICK };
        let member = |info: &ConnectionInfo| Some((info.number, info.tcp?.member?));
        let members: Vec<_> = connections.iter().filter_map(member).collect();
        let plan = bundle.look(now, &members, most);
        self.ceilings.path = Some(bundle.level()).filter(|level| *level < Rate::MAX);
        let next = bundle.next_look();
        for (number, ceiling) in plan.ceilings {
            self.set.insert(number, ceiling);
            actions.push(Action::SetCeiling(number, ceiling));
        }
        actions.extend(plan.decision.map(|decision| {
            let ceiling = Some(decision.ceiling).filter(|ceiling| *ceiling < Rate::MAX);
            Action::Paced(Pace { ceiling, cause: Cause::Path(decision.reason) })
        }));
        actions.extend(plan.wanted.map(Action::WantConnections));
        next
    }

    /// New ceilings of connections where each has its share of the lowest of all; a bundle shares by
    /// itself.
    fn share_out(&mut self) -> Vec<Action> {
        let left_to_others = match &self.mode {
            Mode::KernelPaced(paced) => paced.left_to_others(),
            Mode::Fixed => Rate::MAX,
            Mode::Bundle(_) => return Vec::new(),
        };
        let limit =
            if self.setup.is_local { self.ceilings.user } else { self.ceilings.lowest().map(|limit| limit.rate) };
        let limit = limit.unwrap_or(Rate::MAX);
        let others = (self.connections.len() as u64).saturating_sub(1);
        let part = |rate: Rate, count: u64| if rate == Rate::MAX { rate } else { rate / count.max(1) };
        let each = part(limit, others + 1).min(part(left_to_others, others));
        let first = if limit == Rate::MAX { limit } else { limit - each * others };
        let mut actions = Vec::new();
        for number in &self.connections {
            let ceiling = if *number == FIRST { first } else { each };
            // One that takes no blocks yet needs no ceiling.
            if !ceiling.is_zero() && self.set.get(number).copied().unwrap_or(Rate::MAX) != ceiling {
                self.set.insert(*number, ceiling);
                actions.push(Action::SetCeiling(*number, ceiling));
            }
        }
        actions
    }

    /// Whether a connection should take a frame of this length while `unsent` are left to be sent:
    /// what the slowest ones carry last, all wait for.
    #[must_use]
    pub fn takes(&self, number: Number, frame: ByteCount, unsent: ByteCount) -> bool {
        match &self.mode {
            Mode::Bundle(bundle) => bundle.takes(number, frame, unsent),
            Mode::KernelPaced(_) | Mode::Fixed => true,
        }
    }

    /// Whether [`Queue::owed`] is of use.
    #[must_use]
    pub fn retires(&self) -> bool {
        matches!(self.mode, Mode::Bundle(_))
    }

    /// Whether the connections after the first wait for [`Action::Open`].
    #[must_use]
    pub fn opens_later(&self) -> bool {
        matches!(self.mode, Mode::KernelPaced(_))
    }

    /// What the first connection may send of the lowest ceiling, and whose that is; `None` if there
    /// is none.
    #[must_use]
    pub fn limit(&self) -> Option<Limit> {
        let Limit { limiter, .. } = self.ceilings.lowest()?;
        Some(Limit { rate: self.set.get(&FIRST).copied().unwrap_or(Rate::MAX), limiter })
    }

    /// What the path is known to have free for this transfer; `None` while it is not known here.
    #[must_use]
    pub fn capacity(&self) -> Option<Rate> {
        match &self.mode {
            Mode::KernelPaced(paced) => paced.capacity(),
            Mode::Bundle(bundle) => bundle.capacity(),
            Mode::Fixed => None,
        }
    }

    /// Where the search for the path's rate stands, if that is searched here.
    #[must_use]
    pub fn state(&self) -> Option<State> {
        match &self.mode {
            Mode::Bundle(bundle) => Some(bundle.state()),
            Mode::KernelPaced(_) | Mode::Fixed => None,
        }
    }
}

#[cfg(test)]
mod tests;
