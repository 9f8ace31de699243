//! Records a simulation as series of bounded length.
//!
//! Counts are recorded by the millisecond, states of senders each 10 ms; where that would be more
//! than 2.4 million steps or 240 thousand states over all flows, in steps of 2, 5, 10, … ms.

use icdc_path::Fate;
use icdc_units::{ByteCount, Span, Time};

use crate::observer::{Observer, Transmission};
use crate::sender::SenderState;
use crate::simulation::Simulation;

/// Shortest step of the series.
const SHORTEST: Span = Span::from_millis(1);
/// Shortest interval at which the states of senders are recorded.
const SHORTEST_STATES: Span = Span::from_millis(10);
/// Maximum number of steps in the series of all flows together.
const MOST_STEPS: u64 = 2_400_000;
/// Maximum number of states recorded of all flows together.
const MOST_STATES: u64 = 240_000;

/// Observer that records a simulation as series of bounded length. Step `k` begins at `k * step`.
#[derive(Clone, Debug)]
pub struct Recorder {
    /// Length of the steps of all series.
    pub step: Span,
    /// Bytes on the wire that waited at the bottleneck at the beginning of each step.
    pub queue: Vec<i64>,
    /// Number of packets that the full queue refused, or CoDel dropped, in each step.
    pub dropped: Vec<i64>,
    /// Number of packets that the path lost in each step, without those that exceeded the line's
    /// rate.
    pub lost: Vec<i64>,
    /// Series of the flows, in the order of the simulation.
    pub flows: Vec<FlowRecord>,
    payload: i64,
    states_every: Span,
    next_states: Time,
    end: Time,
}

/// Series of one flow, in steps as those of the recorder.
#[derive(Clone, Debug, Default)]
pub struct FlowRecord {
    /// Bytes of payload that arrived, each for the first time, in each step.
    pub arrived: Vec<i64>,
    /// Number of packets retransmitted in each step; the series ends with the last of them.
    pub retransmitted: Vec<i64>,
    /// States of the flow's sender, with their times.
    pub states: Vec<(Time, SenderState)>,
}

impl Recorder {
    /// An empty recorder for this simulation.
    #[must_use]
    pub fn new(simulation: &Simulation) -> Self {
        let flows = simulation.flows.len() as u64;
        let step = round(SHORTEST, simulation.duration, MOST_STEPS / flows.max(1));
        // A whole number of steps.
        let states = round(SHORTEST_STATES, simulation.duration, MOST_STATES / flows.max(1)).max(step);
        Self {
            step,
            queue: Vec::new(),
            dropped: Vec::new(),
            lost: Vec::new(),
            flows: vec![FlowRecord::default(); simulation.flows.len()],
            payload: simulation.segment().as_u64() as i64,
            states_every: step * states.as_nanos().div_ceil(step.as_nanos()),
            next_states: Time::ORIGIN,
            end: Time::ORIGIN + simulation.duration,
        }
    }

    /// Number of the step that contains this time.
    fn index(&self, at: Time) -> usize {
        ((at - Time::ORIGIN).as_nanos() / self.step.as_nanos()) as usize
    }
}

/// Shortest span among 1, 2, 5, 10, … times `shortest` of which `most` cover `whole`.
fn round(shortest: Span, whole: Span, most: u64) -> Span {
    let fits = |span: &Span| *span * most.max(1) >= whole;
    let decades = (0..9).flat_map(|decade| [1, 2, 5].map(|factor| factor * 10_u64.pow(decade)));
    decades.map(|factor| shortest * factor).find(fits).unwrap_or(whole)
}

/// Adds `amount` to a series at this step.
fn count(series: &mut Vec<i64>, index: usize, amount: i64) {
    if series.len() <= index {
        series.resize(index + 1, 0);
    }
    series[index] += amount;
}

impl Observer for Recorder {
    fn interval(&self) -> Span {
        self.step
    }

    fn sent(&mut self, at: Time, Transmission { flow, again, .. }: Transmission, fate: Fate) {
        let index = self.index(at);
        if again {
            count(&mut self.flows[flow].retransmitted, index, 1);
        }
        match fate {
            Fate::Dropped => count(&mut self.dropped, index, 1),
            Fate::Lost => count(&mut self.lost, index, 1),
            Fate::Delivered(_) | Fate::Marked(_) | Fate::Gap | Fate::Overrun => {}
        }
    }

    fn arrived(&mut self, at: Time, flow: usize, is_new: bool, _read: u64) {
        let index = self.index(at);
        if is_new {
            count(&mut self.flows[flow].arrived, index, self.payload);
        }
    }

    fn queue(&mut self, at: Time, waiting: ByteCount) {
        if at < self.end {
            self.queue.push(waiting.as_u64() as i64);
        }
    }

    fn wants_states(&self, at: Time) -> bool {
        at >= self.next_states
    }

    fn state(&mut self, at: Time, flow: usize, state: &SenderState) {
        self.next_states = at + self.states_every;
        self.flows[flow].states.push((at, *state));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_grow_with_the_length_of_the_run() {
        let step = |seconds, flows| round(SHORTEST, Span::from_secs(seconds), MOST_STEPS / flows);
        assert_eq!(step(600, 1), Span::from_millis(1));
        assert_eq!(step(2400, 1), Span::from_millis(1));
        assert_eq!(step(2401, 1), Span::from_millis(2));
        assert_eq!(step(600, 10), Span::from_millis(5));
        assert_eq!(step(86_400, 1000), Span::from_secs(50));
    }
}
