//! A path, its ends and the connections between them, as far as a controller sees them: rates that
//! change every few milliseconds, no packets.

use std::collections::VecDeque;
use std::fmt;

use icdc_units::{ByteCount, Rate, Span, Time};

use super::super::*;
use crate::ceilings::{Ceilings, Limiter};

const STEP: Span = Span::from_millis(5);
const WARM_UP: Span = Span::from_secs(10);
const END: Span = Span::from_secs(30);
const LATE: Span = Span::from_secs(5);
const RING_BLOCKS: u32 = 64;
const BLOCK: ByteCount = ByteCount::from_mib(4);

pub(super) const SETUP: Setup =
    Setup { is_local: false, processors: 4, block: BLOCK, feedback_interval: Span::from_millis(100) };

/// Part that finds the rate of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finds {
    /// Congestion control of the first connection.
    First,
    /// No control but each connection's own: windows grow until the queue overflows.
    Nobody,
}

/// See the module's description.
#[derive(Clone, Copy)]
pub(super) struct World {
    pub(super) finds: Finds,
    /// Number of connections at the beginning.
    pub(super) connections: u16,
    /// Largest window of each; `None` for any.
    pub(super) window: Option<ByteCount>,
    /// Random losses per minute on each connection.
    pub(super) loss: u64,
    pub(super) user: Option<Rate>,
    pub(super) key: Option<Rate>,
    /// The user's ceiling from this time on, if it changes; `user` until then.
    pub(super) changes: fn(Time) -> Option<Option<Rate>>,
    pub(super) disk: Option<Rate>,
    /// Rate at which one processor can encrypt.
    pub(super) processor: Option<Rate>,
    pub(super) capacity: Rate,
    pub(super) round_trip: Span,
    pub(super) queue: ByteCount,
}

/// Result of a simulated run.
pub(super) struct Ends {
    /// Mean rate that was carried after the warm-up.
    pub(super) carried: Rate,
    pub(super) connections: usize,
    pub(super) limit: Option<Limiter>,
    /// Most that was in the ring, as a share of it.
    pub(super) fullest: f64,
    /// Ceilings that were set, over all.
    pub(super) set: usize,
    /// Most that was sent at once, all connections together.
    pub(super) most: Rate,
    /// Most that was sent at once in the last five seconds.
    pub(super) late: Rate,
}

/// One simulated TCP connection.
struct Flow {
    number: Number,
    ceiling: Option<Rate>,
    window: ByteCount,
    /// Whether slow start has ended.
    is_grown: bool,
    acknowledged: ByteCount,
    window_limited: Span,
    worked: Span,
    /// Earliest time of the next reduction.
    reduced: Time,
    /// Time of the next random loss.
    loses: Time,
}

impl World {
    pub(super) const LONG: Self = Self {
        finds: Finds::First,
        connections: 1,
        window: None,
        loss: 0,
        user: None,
        key: None,
        changes: |_| None,
        disk: None,
        processor: None,
        capacity: Rate::from_bits_per_second(1_000_000_000),
        round_trip: Span::from_millis(100),
        queue: ByteCount::from_mib(6),
    };

    fn controller(&self) -> Controller {
        let mode = match self.finds {
            Finds::First => Mode::KernelPaced(Box::new(KernelPaced::new(false))),
            Finds::Nobody => Mode::PerConnection,
        };
        Controller::new(mode, SETUP, Ceilings::of(self.key, self.user))
    }

    pub(super) fn run(&self) -> Ends {
        let mut controller = self.controller();
        let mut flows: Vec<Flow> = (0..self.connections).map(|number| self.flow(number, Time::ORIGIN)).collect();
        let (mut is_open, mut set, mut fullest, mut most) = (!controller.opens_later(), 0, 0.0_f64, Rate::ZERO);
        let mut late = Rate::ZERO;
        let (mut queue, mut ring, mut due) = (ByteCount::ZERO, ByteCount::ZERO, Time::ORIGIN);
        let (mut counted, mut told) =
            (ByteCount::ZERO, VecDeque::from([RingState { blocks: RING_BLOCKS, ..state(ByteCount::ZERO, None) }]));
        // What the others carried a round trip ago, which the first one's congestion control has
        // just learnt of.
        let mut learnt: VecDeque<Rate> =
            VecDeque::from(vec![Rate::ZERO; self.round_trip.as_nanos() as usize / STEP.as_nanos() as usize]);
        for step in 0..END.as_nanos() / STEP.as_nanos() {
            let now = Time::ORIGIN + STEP * step;
            let is_full = ring >= BLOCK * u64::from(RING_BLOCKS);
            let others_before = learnt.pop_front().unwrap_or(Rate::ZERO);
            let free = self.capacity - others_before;
            let rtt = self.round_trip + queue / self.capacity;
            let sending = flows.iter().filter(|flow| flow.number == FIRST || is_open).count() as u64;
            // Threads that share too few processors get less each.
            let processor = self.processor.map(|one| one * SETUP.processors.min(sending) / sending.max(1));
            let mut rates = Vec::new();
            for flow in &mut flows {
                let may_send = flow.number == FIRST || is_open;
                let paced = (self.finds == Finds::First && flow.number == FIRST).then_some(free);
                let wants = [flow.ceiling, paced, processor].into_iter().flatten().fold(self.capacity * 2, Rate::min);
                let by_window = flow.window / rtt;
                if may_send && (by_window < wants || is_full) {
                    flow.window_limited += if self.window.is_some() || is_full { STEP } else { Span::ZERO };
                }
                let rate = if !may_send || is_full { Rate::ZERO } else { wants.min(by_window) };
                if let Some(one) = processor {
                    flow.worked += STEP.scaled(rate.as_bits_per_second(), one.as_bits_per_second());
                }
                rates.push(rate);
            }
            let offered: Rate = rates.iter().fold(Rate::ZERO, |sum, rate| sum + *rate);
            most = most.max(offered);
            if now >= Time::ORIGIN + END - LATE {
                late = late.max(offered);
            }
            let arrives = (offered * STEP + queue).min(self.capacity * STEP);
            queue = queue + offered * STEP - arrives;
            let overflows = queue > self.queue;
            queue = queue.min(self.queue);
            let carried_each = |rate: Rate| {
                let parts = u128::from(offered.as_bits_per_second()).max(1);
                ByteCount::new((u128::from(arrives.as_u64()) * u128::from(rate.as_bits_per_second()) / parts) as u64)
            };
            for (flow, rate) in flows.iter_mut().zip(&rates) {
                flow.acknowledged += carried_each(*rate);
                self.grow(flow, now, rtt, overflows, *rate);
            }
            learnt.push_back(rates.iter().skip(1).fold(Rate::ZERO, |sum, rate| sum + *rate).min(self.capacity));
            let drained = self.disk.map_or(ByteCount::MAX, |disk| disk * STEP);
            ring += arrives;
            ring = ring - drained.min(ring);
            fullest = fullest.max(ring.as_u64() as f64 / (BLOCK.as_u64() * u64::from(RING_BLOCKS)) as f64);
            if step % 20 == 0 {
                told.push_back(state(ring, self.disk));
            }
            if now >= Time::ORIGIN + WARM_UP {
                counted += arrives;
            }
            if now < due {
                continue;
            }
            // The sender knows the report before the last one.
            while told.len() > 2 {
                told.pop_front();
            }
            let infos: Vec<_> = flows.iter().map(|flow| self.seen(flow, free, rtt)).collect();
            let worked = flows.iter().map(|flow| flow.worked).fold(Span::ZERO, |sum, span| sum + span);
            let seen = Pending { blocks_wait: true, worked, owed: Vec::new() };
            let user = (self.changes)(now).unwrap_or(self.user);
            let ticked =
                controller.on_tick(now, Observed { connections: &infos, ring: &told[0], pending: &seen, user });
            due = ticked.next;
            let mut wanted = None;
            for action in ticked.actions {
                match action {
                    Action::SetCeiling(number, rate) => {
                        set += 1;
                        flows.iter_mut().filter(|flow| flow.number == number).for_each(|flow| flow.ceiling = rate);
                    }
                    Action::Open(_) => is_open = true,
                    Action::WantConnections(count) => wanted = Some(count),
                    Action::WantDatagrams | Action::Retire(_) | Action::Paced(_) => {}
                }
            }
            for number in flows.len()..wanted.map_or(0, |count| count as usize) {
                flows.push(self.flow(number as Number, now));
                for action in controller.on_joined(number as Number, FIRST) {
                    if let Action::SetCeiling(number, rate) = action {
                        set += 1;
                        flows.iter_mut().filter(|flow| flow.number == number).for_each(|flow| flow.ceiling = rate);
                    }
                }
            }
        }
        let carried = counted / (END - WARM_UP);
        let limit = controller.limit().map(|limit| limit.limiter);
        Ends { carried, connections: flows.len(), limit, fullest, set, most, late }
    }

    fn flow(&self, number: Number, now: Time) -> Flow {
        Flow {
            number,
            ceiling: None,
            window: ByteCount::from_kib(14),
            is_grown: false,
            acknowledged: ByteCount::ZERO,
            window_limited: Span::ZERO,
            worked: Span::ZERO,
            reduced: now,
            // Those of the connections come one after the other.
            loses: self.next_loss(now + Span::from_millis(u64::from(number) * 130)),
        }
    }

    /// Time of the next random loss after `now`; losses come at even intervals.
    fn next_loss(&self, now: Time) -> Time {
        match self.loss {
            0 => Time::MAX,
            loss => now + Span::from_secs(60) / loss,
        }
    }

    /// Slow start, then half a megabyte a second; half of the window is left by a loss.
    fn grow(&self, flow: &mut Flow, now: Time, rtt: Span, overflows: bool, rate: Rate) {
        let is_lost = now >= flow.loses;
        if is_lost {
            flow.loses = self.next_loss(now);
        }
        let finds_by_itself = self.finds == Finds::First && flow.number == FIRST;
        let is_reduced = is_lost || overflows && !finds_by_itself && !rate.is_zero();
        if is_reduced && now >= flow.reduced {
            flow.reduced = now + rtt;
            flow.is_grown = true;
            flow.window = (flow.window / 2).max(ByteCount::from_kib(3));
            return;
        }
        // A window that is not used does not grow.
        if flow.window > rate * rtt * 2 {
            return;
        }
        let step = if flow.is_grown { ByteCount::new(2_500) } else { rate * STEP };
        flow.window = (flow.window + step).min(self.window.unwrap_or(ByteCount::from_mib(64)));
    }

    fn seen(&self, flow: &Flow, free: Rate, rtt: Span) -> ConnectionInfo {
        let finds_by_itself = self.finds == Finds::First && flow.number == FIRST;
        let pacing_rate = finds_by_itself.then(|| flow.ceiling.map_or(free, |ceiling| free.min(ceiling)));
        let tcp = TcpState {
            round_trip: rtt,
            acknowledged: flow.acknowledged,
            pacing_rate,
            max_pacing_rate: flow.ceiling,
            in_flight: true,
            window_limited: flow.window_limited,
            member: None,
        };
        ConnectionInfo { number: flow.number, lead: FIRST, tcp: Some(tcp) }
    }
}

fn state(ring: ByteCount, disk: Option<Rate>) -> RingState {
    let waiting = (ring.as_u64() / BLOCK.as_u64()) as u32;
    RingState { waiting, blocks: RING_BLOCKS, size: BLOCK * u64::from(RING_BLOCKS), drained: disk }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |rate: Option<Rate>| {
            rate.map_or("-".to_owned(), |rate| (rate.as_bits_per_second() / 1_000_000).to_string())
        };
        let window = self.window.map_or("-".to_owned(), |window| format!("{} MiB", window.as_u64() >> 20));
        let ceilings = format!("{}/{}", rate(self.user), rate(self.key));
        let (finds, loss) = (format!("{:?}", self.finds), format!("{}/min", self.loss));
        write!(
            f,
            "{finds:13} {:11}  {window:6}  {loss:7}  {ceilings:9}  {:4}  {:9}",
            self.connections,
            rate(self.disk),
            rate(self.processor)
        )
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.limit.map_or("-".to_owned(), |limit| format!("{limit:?}"));
        let carried = self.carried.as_bits_per_second() / 1000;
        write!(f, "{carried:7}  {:11}  {limit:10}  {:9}", self.connections, self.set)
    }
}
