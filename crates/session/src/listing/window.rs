//! Limit on what a listing end has sent and the other has not used.

use icdc_protocol::limits::MAX_LISTED_AHEAD;
use icdc_protocol::message::Listed;

/// Weight of used records from which on the other end is told of them: a part of the limit.
const TOLD_AFTER: usize = MAX_LISTED_AHEAD / 8;

/// Sum of the weights of records.
#[must_use]
pub fn weight(records: &[Listed]) -> usize {
    records.iter().map(Listed::weight).sum()
}

/// Flow control at the end that sends a listing, or tells of changes: weight of what it has sent
/// and the other end has not used.
#[derive(Debug, Default)]
pub struct Sent {
    ahead: usize,
}

impl Sent {
    /// Counts records of this weight, if they may be sent now; returns whether they may.
    pub fn send(&mut self, weight: usize) -> bool {
        let fits = self.ahead + weight <= MAX_LISTED_AHEAD;
        if fits {
            self.ahead += weight;
        }
        fits
    }

    /// Notes that the other end has used records of this weight.
    ///
    /// # Errors
    /// They are more than were sent.
    pub fn used(&mut self, weight: u32) -> Result<(), &'static str> {
        self.ahead = self.ahead.checked_sub(weight as usize).ok_or("more of the listing was used than was sent")?;
        Ok(())
    }
}

/// Flow control at the end that receives a listing, or is told of changes: weight of what has
/// arrived and is not used, and of what is used and the other end is still to be told of.
#[derive(Debug, Default)]
pub struct Received {
    ahead: usize,
    untold: usize,
}

impl Received {
    /// Counts records that have arrived.
    ///
    /// # Errors
    /// The other end may not send as much.
    pub fn arrived(&mut self, weight: usize) -> Result<(), &'static str> {
        self.ahead += weight;
        if self.ahead <= MAX_LISTED_AHEAD { Ok(()) } else { Err("more of the listing was sent than may be ahead") }
    }

    /// Counts records that are used; returns the weight to tell the other end once that is enough,
    /// `None` before.
    pub fn used(&mut self, weight: usize) -> Option<u32> {
        self.untold += weight;
        if self.untold < TOLD_AFTER {
            return None;
        }
        let told = std::mem::take(&mut self.untold);
        self.ahead = self.ahead.saturating_sub(told);
        u32::try_from(told).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_end_keeps_more_than_the_limit() {
        let (mut sent, mut received) = (Sent::default(), Received::default());
        let batch = MAX_LISTED_AHEAD / 16;
        for _ in 0..16 {
            assert!(sent.send(batch));
            received.arrived(batch).unwrap();
        }
        assert!(!sent.send(1));
        assert_eq!(received.used(batch), None, "not every batch is told");
        let told = received.used(batch).unwrap();
        sent.used(told).unwrap();
        assert!(sent.send(batch) && sent.send(batch) && !sent.send(1));
        received.arrived(2 * batch).unwrap();
        assert!(received.arrived(1).is_err(), "an end that sends on is found out");
        assert!(sent.used(u32::MAX).is_err(), "an end that has used more than there is, too");
    }
}
