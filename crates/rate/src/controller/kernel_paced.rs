//! The mode in which a connection's congestion control finds the rate of its way, and the others on
//! the same way send what it leaves.

use std::collections::{BTreeMap, BTreeSet};

use icdc_units::{ByteCount, Rate, Time};

use super::{ConnectionInfo, FIRST, TcpState};
use crate::bundle::Number;
use crate::sharing::{Sample, Share, Sharing};

/// State of the mode in which congestion control (`bbr`, `icdc`) of the connection that leads a way
/// finds the rate there, and the other connections of the way send what it leaves.
#[derive(Debug)]
pub struct KernelPaced {
    /// Congestion control treats all connections of a way as one flow.
    is_one_flow: bool,
    /// By the number of the connection that leads the way.
    ways: BTreeMap<Number, Way>,
    /// Connections after the first that may take blocks.
    open: BTreeSet<Number>,
    capacity: Option<Rate>,
}

/// State of the connections that take one way.
#[derive(Debug)]
pub(super) struct Way {
    sharing: Sharing,
    share: Share,
    /// Bytes acknowledged on each connection after the leading one, at the last tick.
    acknowledged: BTreeMap<Number, ByteCount>,
    /// Bytes acknowledged on all connections after the leading one, past ones included.
    pub(super) by_others: ByteCount,
}

impl Way {
    /// A way of which nothing is known; `are_open` if connections after the leading one may take blocks already.
    fn new(are_open: bool) -> Self {
        Self {
            sharing: if are_open { Sharing::opened() } else { Sharing::default() },
            share: if are_open { Share::Anything } else { Share::Nothing },
            acknowledged: BTreeMap::new(),
            by_others: ByteCount::ZERO,
        }
    }
}

impl KernelPaced {
    /// The state at the beginning of a transfer; `is_one_flow` if congestion control treats all
    /// connections of a way as one flow.
    #[must_use]
    pub fn new(is_one_flow: bool) -> Self {
        Self { is_one_flow, ways: BTreeMap::new(), open: BTreeSet::new(), capacity: None }
    }

    /// Rate that the way of the first connection has free, by its congestion control; `None` if that
    /// has found none.
    pub(super) fn capacity(&self) -> Option<Rate> {
        self.capacity
    }

    /// Rate of the connections after the one that leads this way, together.
    pub(super) fn left_to_others(&self, lead: Number) -> Share {
        self.ways.get(&lead).map_or(Share::Nothing, |way| way.share)
    }

    /// Connections after the first that may take blocks from now on, of these with the leading ones of
    /// their ways.
    pub(super) fn opens(&mut self, connections: &BTreeMap<Number, Number>) -> Vec<Number> {
        let is_opened = |(number, lead): &(&Number, &Number)| {
            let may_take = number == lead || self.left_to_others(**lead) != Share::Nothing;
            **number != FIRST && may_take && !self.open.contains(number)
        };
        let opened: Vec<Number> = connections.iter().filter(is_opened).map(|(number, _)| *number).collect();
        self.open.extend(&opened);
        opened
    }

    /// Decides by the state of all connections what those after the leading ones may send.
    pub(super) fn on_tick(&mut self, now: Time, connections: &[ConnectionInfo], blocks_wait: bool) {
        self.ways.retain(|lead, _| connections.iter().any(|info| info.lead == *lead));
        for lead in connections.iter().filter(|info| info.number == info.lead) {
            let led = || connections.iter().filter(|info| info.lead == lead.number && info.number != lead.number);
            let are_open = led().any(|info| self.open.contains(&info.number));
            let others: Vec<_> = led().filter_map(|info| Some((info.number, info.tcp?))).collect();
            // One that leads in the place of another which has ended finds the others at work.
            let way = self.ways.entry(lead.number).or_insert_with(|| Way::new(are_open));
            way.note(&others);
            if let Some(first) = lead.tcp
                && led().next().is_some()
            {
                way.share = way.sharing.on_sample(&Sample {
                    at: now,
                    round_trip: first.round_trip,
                    // A ceiling that limits the leading one counts as a rate that it has found.
                    pacing: first.pacing_rate,
                    first: first.acknowledged,
                    others: way.by_others,
                    held_up: first.window_limited,
                    blocks_wait,
                });
            }
            if lead.number == FIRST {
                self.capacity = lead.tcp.and_then(|first| way.free(&first, &others, self.is_one_flow));
            }
        }
    }

    /// State of a way, by the connection that leads it.
    #[cfg(test)]
    pub(super) fn way(&self, lead: Number) -> &Way {
        &self.ways[&lead]
    }
}

impl Way {
    /// Rate that the way has free; `None` while the leading connection's ceiling limits it, and once
    /// the others take blocks unless congestion control treats all as one flow.
    fn free(&self, first: &TcpState, others: &[(Number, TcpState)], is_one_flow: bool) -> Option<Rate> {
        let found = first.pacing_rate.filter(|rate| first.max_pacing_rate.is_none_or(|most| *rate < most));
        match self.share {
            Share::Nothing => found,
            Share::Rate(_) | Share::Anything if is_one_flow => {
                let sending = others.iter().filter(|(_, tcp)| tcp.in_flight);
                found.map(|first| sending.filter_map(|(_, tcp)| tcp.pacing_rate).fold(first, |sum, rate| sum + rate))
            }
            // The rate of the others is not free for the leading one.
            Share::Rate(_) | Share::Anything => None,
        }
    }

    /// Adds what the connections after the leading one have carried since the last tick; the bytes of
    /// a connection that has left stay in the sum.
    fn note(&mut self, others: &[(Number, TcpState)]) {
        let mut now = BTreeMap::new();
        for (number, tcp) in others {
            self.by_others += tcp.acknowledged - self.acknowledged.get(number).copied().unwrap_or_default();
            now.insert(*number, tcp.acknowledged);
        }
        self.acknowledged = now;
    }
}
