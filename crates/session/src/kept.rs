//! Counts of items at whose names the destination stays as it is.

use icdc_protocol::message::Kept;

/// Number of items by the reason why the destination stays as it is at their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptCounts {
    /// Number of files that are newer at the destination, further names of files included.
    pub newer: u64,
    /// Number of items whose names exist at the destination.
    pub existing: u64,
    /// Number of items that do not exist at the destination and were not made.
    pub missing: u64,
}

impl KeptCounts {
    /// Counts an item by the reason why the destination stays as it is at its name.
    pub fn add(&mut self, why: Kept) {
        match why {
            Kept::Newer => self.newer += 1,
            Kept::Existing => self.existing += 1,
            Kept::Missing => self.missing += 1,
        }
    }

    /// Adds the counts of another session.
    pub fn add_all(&mut self, other: &Self) {
        self.newer += other.newer;
        self.existing += other.existing;
        self.missing += other.missing;
    }

    /// Number of all items.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.newer + self.existing + self.missing
    }
}
