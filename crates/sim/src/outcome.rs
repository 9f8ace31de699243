//! Results of a simulation.

use icdc_path::Counters;
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::sender::SenderCounters;

/// Totals of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Simulated time: until the last flow was done, or all of it.
    pub simulated: Span,
    /// The path's counters for data.
    pub forward: Counters,
    /// The path's counters for acknowledgements.
    pub backward: Counters,
    /// In the order of the simulation.
    pub flows: Vec<FlowOutcome>,
}

/// Totals of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowOutcome {
    /// Counters of its sender.
    pub sender: SenderCounters,
    /// Packets that the path lost.
    pub lost: u64,
    /// Packets that the full queue refused, or CoDel dropped.
    pub dropped: u64,
    /// Packets that arrived, each counted once.
    pub arrived: u64,
    /// Packets that arrived again.
    pub duplicates: u64,
    /// Packets in transit at the end.
    pub on_the_way: u64,
    /// Packets that the application got, in order.
    pub delivered: u64,
    /// Their payload.
    pub bytes: ByteCount,
    /// Time at which it was established.
    pub start: Time,
    /// Time of its last acknowledgement, if it is complete.
    pub finished: Option<Time>,
    /// Payload that the application got, by the time from the start until it had all of it, or
    /// until the end.
    pub goodput: Rate,
    /// Least round-trip time that its sender saw.
    pub least_rtt: Span,
}

impl Outcome {
    /// Data packets sent.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.flows.iter().map(|flow| flow.sender.sent).sum()
    }

    /// Payload that all applications together got, by the whole time.
    #[must_use]
    pub fn goodput(&self) -> Rate {
        self.flows.iter().map(|flow| flow.bytes).sum::<ByteCount>() / self.simulated
    }

    /// Jain's index of the flows' goodputs.
    #[must_use]
    pub fn fairness(&self) -> f64 {
        jain_index(&self.flows.iter().map(|flow| flow.goodput).collect::<Vec<_>>())
    }
}

/// (Σx)²/(nΣx²): 1 if all rates are equal, 1/n if one of n has all (Jain, Chiu, Hawe, DEC-TR-301).
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
