//! Shares of flows on one simulated path, once they have all begun.

use icdc_lab::Settings;
use icdc_sim::{Flow, Observer, ReceiveWindow, Simulation, jain_index};
use icdc_units::{Rate, Span, Time};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::simulated::run_all_watched;

/// A receive window that never limits, not even at the overshoot of slow start.
pub(crate) fn ample_window(settings: &Settings) -> ReceiveWindow {
    ReceiveWindow::Tuned { most: (settings.bandwidth_delay() + settings.forward.queue) * 4 }
}

/// Rates of a simulation's flows over its later part.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shares {
    /// Payload that arrived, in the order of the flows.
    pub(crate) rates: Vec<Rate>,
}

impl Shares {
    /// Runs the simulations; gives the rates of the flows of each. Data that arrives before `from`
    /// does not count.
    pub(crate) fn of_all(
        bench: &Bench<'_>,
        simulations: &[Simulation],
        from: Span,
    ) -> Result<Vec<Self>, ExperimentError> {
        let observer =
            |simulation: &Simulation| Arrived { from: Time::ORIGIN + from, packets: vec![0; simulation.flows.len()] };
        let watched = run_all_watched(bench, simulations, observer)?;
        let shares = simulations.iter().zip(watched).map(|(simulation, (_, arrived))| {
            let rate = |packets| simulation.segment() * packets / (simulation.duration - from);
            Self { rates: arrived.packets.into_iter().map(rate).collect() }
        });
        Ok(shares.collect())
    }

    /// Rate of all flows together.
    pub(crate) fn sum(&self) -> Rate {
        self.rates.iter().copied().sum()
    }

    /// Share of a flow in the rate of all.
    pub(crate) fn share(&self, flow: usize) -> f64 {
        self.rates[flow].ratio(self.sum())
    }

    /// Jain's fairness index of the flows' rates: 1 if all are equal.
    pub(crate) fn fairness(&self) -> f64 {
        jain_index(&self.rates)
    }
}

/// Counts packets that arrive for the first time, from an instant on.
struct Arrived {
    from: Time,
    packets: Vec<u64>,
}

impl Observer for Arrived {
    fn arrived(&mut self, at: Time, flow: usize, is_new: bool, _read: u64) {
        if is_new && at >= self.from {
            self.packets[flow] += 1;
        }
    }
}

/// Start times of two flows, by run: with a different distance in each, and each of them first in
/// every other run, because flows that begin at one instant stay in lockstep, and because the
/// second finds the path full.
pub(crate) fn starts(run: u64) -> [Span; 2] {
    // No multiple of any round trip.
    let later = Span::from_millis(1370 * (run + 1));
    if run.is_multiple_of(2) { [Span::ZERO, later] } else { [later, Span::ZERO] }
}

/// The two flows, with the start times of [`starts`] for this run.
pub(crate) fn pair(flows: [Flow; 2], run: u64) -> Vec<Flow> {
    flows.into_iter().zip(starts(run)).map(|(flow, start)| Flow { start, ..flow }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_arrives_late_enough_counts() {
        let mut arrived = Arrived { from: Time::from_nanos(5), packets: vec![0; 2] };
        for (at, flow, is_new) in [(4, 0, true), (5, 0, true), (6, 1, false), (7, 1, true), (8, 1, true)] {
            arrived.arrived(Time::from_nanos(at), flow, is_new, 1);
        }
        assert_eq!(arrived.packets, [1, 2]);
    }

    #[test]
    fn each_flow_is_first_in_every_other_run() {
        assert!((0..8).all(|run| (starts(run)[0] < starts(run)[1]) == (run % 2 == 0)));
        // No run is another one with the flows exchanged.
        assert_ne!(starts(0)[1], starts(1)[0]);
    }
}
