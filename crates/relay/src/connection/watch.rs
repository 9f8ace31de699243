//! What time does to a connection, a few times a second.

use std::sync::atomic::Ordering::Relaxed;

use icdc_protocol::relay::peer::Verdict;
use icdc_units::{ByteCount, Span};

use super::{Connection, End, Next, Paused, Stage};
use crate::flow::Flow;
use crate::rooms;
use crate::status::{ConnectionStatus, FlowStatus, LegStatus};
use crate::tools::Tools;

/// What a look at a connection has shown.
pub(crate) enum Watched {
    /// Nothing to do.
    Quiet,
    /// It can go on.
    Drive,
    /// It is over.
    Over(End),
}

impl Connection {
    /// Looks at clocks and levels. A connection that has read more than `share` and not passed it on reads no more until it
    /// has.
    pub(crate) fn watch(&mut self, share: Option<ByteCount>, tools: &mut Tools) -> Watched {
        if tools.now >= self.deadline {
            return self.overdue(tools);
        }
        match &self.stage {
            Stage::Passing => {}
            Stage::Greeting(greeting) if greeting.is_untouched() => return Watched::Quiet,
            _ => {
                self.held = self.weigh();
                return Watched::Quiet;
            }
        }
        let moved = (self.up.moved, self.down.moved);
        let has_moved = self.watched != moved;
        if has_moved {
            (self.watched, self.moved_at) = (moved, tools.now);
            self.settle_counts(tools);
            let most = self.config.limits.memory_per_connection;
            for leg in [Some(&mut self.near), self.far.as_mut()].into_iter().flatten() {
                leg.grow(most, self.config.leg.buffer.is_some());
                leg.learn(&tools.house.paths, tools.now);
            }
        } else if tools.now - self.moved_at >= self.config.limits.idle {
            return Watched::Over(End::TimedOut("nothing came from either side"));
        }
        if has_moved || tools.house.rooms.is_scarce() {
            let largest = rooms::largest(&self.config);
            for leg in [Some(&mut self.near), self.far.as_mut()].into_iter().flatten() {
                leg.fit_room(largest, tools.now);
            }
        }
        if has_moved || !self.held.is_zero() {
            self.held = self.weigh();
        }
        let most = share.unwrap_or(ByteCount::MAX).min(self.config.limits.memory_per_connection);
        let before = self.paused;
        self.paused = if self.held > most { self.too_far_ahead(most) } else { Paused::default() };
        let goes_on = (before.up && !self.paused.up) || (before.down && !self.paused.down);
        if goes_on { Watched::Drive } else { Watched::Quiet }
    }

    /// Directions whose sink does not keep up. The other one goes on: only when its bytes have come may this one's be read.
    fn too_far_ahead(&self, most: ByteCount) -> Paused {
        let (up, down) = (self.on_the_way_up(), self.on_the_way_down());
        let is_over = up + down > most;
        Paused { up: is_over && up > most / 2, down: is_over && down > most / 2 }
    }

    fn overdue(&mut self, tools: &mut Tools) -> Watched {
        let over = match &self.stage {
            Stage::Greeting(greeting) if greeting.is_untouched() => End::TimedOut("unused"),
            Stage::Greeting(_) => End::TurnedAway("it did not say in time where to go".to_owned()),
            Stage::Resolving(_) | Stage::Connecting | Stage::Securing => match self.give_way_up(tools) {
                Ok(Next::Wait) => return Watched::Quiet,
                Ok(_) => return Watched::Drive,
                Err(end) => end,
            },
            Stage::Passing => End::NotReached(Verdict::TimedOut, "the next relay does not answer".to_owned()),
            Stage::Farewell => return Watched::Over(End::Finished),
        };
        Watched::Over(over)
    }

    /// Bytes that wait, as last weighed.
    pub(crate) fn held(&self) -> ByteCount {
        self.held
    }

    pub(crate) fn is_in_farewell(&self) -> bool {
        matches!(self.stage, Stage::Farewell)
    }

    /// Adds the time that it has waited for its legs to the counters, once, at its end.
    pub(crate) fn settle_waits(&self, tools: &Tools) {
        let counters = &tools.house.counters;
        let (up, down) = (&self.up.waits, &self.down.waits);
        counters.nanos_for_far.fetch_add((up.sink + down.source).as_nanos(), Relaxed);
        counters.nanos_for_near.fetch_add((up.source + down.sink).as_nanos(), Relaxed);
    }

    /// What it does now. The counters and levels of the relay then have what it tells.
    pub(crate) fn status(&mut self, tools: &Tools) -> ConnectionStatus {
        self.settle_counts(tools);
        self.held = self.weigh();
        let stage = match &self.stage {
            Stage::Greeting(_) => "greeting",
            Stage::Resolving(_) => "resolving",
            Stage::Connecting => "connecting",
            Stage::Securing => "securing",
            Stage::Passing if self.answer.is_some() => "waiting for the next relay",
            Stage::Passing => "passing",
            Stage::Farewell => "refused",
        };
        let wish = self.wish.as_ref();
        let elapsed = tools.now - self.began;
        ConnectionStatus {
            listener: self.listener.kind.word(),
            client: self.client,
            destination: wish.map(|wish| wish.destination.to_string()),
            via: wish.map(|wish| wish.via()),
            stage,
            seconds: elapsed.as_secs_f64(),
            held: self.held,
            paused: self.paused.up || self.paused.down,
            up: flow_status(&self.up, elapsed, ("near", "far")),
            down: flow_status(&self.down, elapsed, ("far", "near")),
            near: LegStatus::of(&self.near),
            far: self.far.as_ref().and_then(LegStatus::of),
        }
    }
}

fn flow_status(flow: &Flow, elapsed: Span, (source, sink): (&'static str, &'static str)) -> FlowStatus {
    let waits = &flow.waits;
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
