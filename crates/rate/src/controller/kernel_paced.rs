//! The mode in which the first connection's congestion control finds the rate of the path, and the
//! others send what it leaves.

use std::collections::BTreeMap;

use icdc_units::{ByteCount, Rate, Time};

use super::{ConnectionInfo, FIRST, TcpState};
use crate::bundle::Number;
use crate::sharing::{Sample, Share, Sharing};

/// State of the mode in which the first connection's congestion control (`bbr`, `icdc`) finds the
/// path's rate, and the other connections send what it leaves.
#[derive(Debug)]
pub struct KernelPaced {
    /// Congestion control treats all connections as one flow.
    is_one_flow: bool,
    sharing: Sharing,
    share: Share,
    /// Whether the connections after the first may take blocks.
    is_open: bool,
    /// Bytes acknowledged on each connection after the first, at the last tick.
    acknowledged: BTreeMap<Number, ByteCount>,
    /// Bytes acknowledged on all connections after the first, past ones included.
    pub(super) by_others: ByteCount,
    capacity: Option<Rate>,
}

impl KernelPaced {
    /// The state at the beginning of a transfer; `is_one_flow` if congestion control treats all
    /// connections as one flow.
    #[must_use]
    pub fn new(is_one_flow: bool) -> Self {
        Self {
            is_one_flow,
            sharing: Sharing::default(),
            share: Share::Nothing,
            is_open: false,
            acknowledged: BTreeMap::new(),
            by_others: ByteCount::ZERO,
            capacity: None,
        }
    }

    /// Rate that the path has free, by the first connection's congestion control; `None` if that
    /// has found none.
    pub(super) fn capacity(&self) -> Option<Rate> {
        self.capacity
    }

    /// Rate of the connections after the first, together.
    pub(super) fn left_to_others(&self) -> Share {
        self.share
    }

    /// Decides by the state of all connections; returns true if those after the first may take
    /// blocks from now on.
    pub(super) fn on_tick(
        &mut self,
        now: Time,
        connections: &[ConnectionInfo],
        first: Option<TcpState>,
        blocks_wait: bool,
    ) -> bool {
        let further = || connections.iter().filter(|info| info.number != FIRST);
        let others: Vec<_> = further().filter_map(|info| Some((info.number, info.tcp?))).collect();
        self.note(&others);
        if let Some(first) = first
            && further().next().is_some()
        {
            self.share = self.sharing.on_sample(&Sample {
                at: now,
                round_trip: first.round_trip,
                // A ceiling that limits the first one counts as a rate that it has found.
                pacing: first.pacing_rate,
                first: first.acknowledged,
                others: self.by_others,
                held_up: first.window_limited,
                blocks_wait,
            });
        }
        self.capacity = first.and_then(|first| self.free(&first, &others));
        let opens = !self.is_open && self.share != Share::Nothing;
        self.is_open |= opens;
        opens
    }

    /// Rate that the path has free; `None` while the first connection's ceiling limits it, and once
    /// the others take blocks unless congestion control treats all as one flow.
    fn free(&self, first: &TcpState, others: &[(Number, TcpState)]) -> Option<Rate> {
        let found = first.pacing_rate.filter(|rate| first.max_pacing_rate.is_none_or(|most| *rate < most));
        match self.share {
            Share::Nothing => found,
            Share::Rate(_) | Share::Anything if self.is_one_flow => {
                let sending = others.iter().filter(|(_, tcp)| tcp.in_flight);
                found.map(|first| sending.filter_map(|(_, tcp)| tcp.pacing_rate).fold(first, |sum, rate| sum + rate))
            }
            // The rate of the others is not free for the first one.
            Share::Rate(_) | Share::Anything => None,
        }
    }

    /// Adds what the connections after the first have carried since the last tick; the bytes of a
    /// connection that has left stay in the sum.
    fn note(&mut self, others: &[(Number, TcpState)]) {
        let mut now = BTreeMap::new();
        for (number, tcp) in others {
            self.by_others += tcp.acknowledged - self.acknowledged.get(number).copied().unwrap_or_default();
            now.insert(*number, tcp.acknowledged);
        }
        self.acknowledged = now;
    }
}
