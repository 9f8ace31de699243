//! Results of a simulation.

use icdc_path::Counters;
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::sender::SenderCounters;

/// Totals of a simulation, for both directions of the path and for each flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Simulated time: until the last flow was done, or the whole duration.
    pub simulated: Span,
    /// The path's counters in the direction of the data.
    pub forward: Counters,
    /// The path's counters in the direction of the acknowledgements.
    pub backward: Counters,
    /// Totals of the flows, in the order of the simulation.
    pub flows: Vec<FlowOutcome>,
    /// Time at which the application that steers a bundle wanted datagrams instead; `None` if none did.
    pub datagrams_wanted: Option<Time>,
}

/// Totals of one flow at the end of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowOutcome {
    /// Counters of the flow's sender.
    pub sender: SenderCounters,
    /// Number of packets that the path lost, or that exceeded the rate of the host's line.
    pub lost: u64,
    /// Number of packets that the full queue refused or CoDel dropped.
    pub dropped: u64,
    /// Number of different packets that arrived.
    pub arrived: u64,
    /// Number of packets that arrived again.
    pub duplicates: u64,
    /// Number of packets in transit at the end.
    pub on_the_way: u64,
    /// Number of packets that the application got, in order.
    pub delivered: u64,
    /// Payload that the application got, in bytes.
    pub bytes: ByteCount,
    /// Time at which the flow is established; [`Time::MAX`] for a spare flow that was not opened.
    pub start: Time,
    /// Time of the flow's last acknowledgement; `None` if it is not complete.
    pub finished: Option<Time>,
    /// Payload that the application got, divided by the time from the start until it had all of it,
    /// or until the end; zero if the flow has not started.
    pub goodput: Rate,
    /// Smallest round-trip time that the flow's sender saw.
    pub least_rtt: Span,
}

impl Outcome {
    /// Number of data packets sent by all flows, retransmissions included.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.flows.iter().map(|flow| flow.sender.sent).sum()
    }

    /// Payload that all applications together got, divided by the simulated time.
    #[must_use]
    pub fn goodput(&self) -> Rate {
        self.flows.iter().map(|flow| flow.bytes).sum::<ByteCount>() / self.simulated
    }

    /// Jain's fairness index of the flows' goodputs.
    #[must_use]
    pub fn fairness(&self) -> f64 {
        jain_index(&self.flows.iter().map(|flow| flow.goodput).collect::<Vec<_>>())
    }
}

/// Jain's fairness index, (Σx)²/(nΣx²): 1 if all rates are equal, also if all are zero; 1/n if one
/// of n has all (Jain, Chiu, Hawe, DEC-TR-301).
#[must_use]
pub fn jain_index(rates: &[Rate]) -> f64 {
    let rates = || rates.iter().map(|rate| rate.as_bits_per_second() as f64);
    let (sum, squares) = (rates().sum::<f64>(), rates().map(|rate| rate * rate).sum::<f64>());
    if squares > 0.0 { sum * sum / (squares * rates().len() as f64) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_rates_are_fair_and_one_that_has_all_is_not() {
        let index = |rates: [u64; 2]| jain_index(&rates.map(Rate::from_bits_per_second));
        assert!((index([500, 500]) - 1.0).abs() < 1e-9);
        assert!((index([800, 0]) - 0.5).abs() < 1e-9);
        assert!((index([750, 250]) - 0.8).abs() < 1e-9);
    }
}
