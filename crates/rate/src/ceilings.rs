//! The ceilings of a transfer's rate, of which the lowest counts.

use icdc_units::Rate;

/// Origin of a ceiling of the rate: the operator for the key, the user, the receiver's disk, or the
/// path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limiter {
    /// The operator, for the key in use.
    Key,
    /// The user who runs the transfer.
    User,
    /// The receiver's disk, by the rate at which it takes blocks from the ring.
    Disk,
    /// The path, by what it carries.
    Path,
}

/// A ceiling for all connections together, and its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Ceiling of the rate.
    pub rate: Rate,
    /// Owner of the ceiling.
    pub limiter: Limiter,
}

/// Ceilings of a transfer's rate, for all its connections together, one for each [`Limiter`]. `None`
/// means that there is no such ceiling. The [lowest](Self::lowest) counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ceilings {
    /// Ceiling of the user's key at the daemon, as in [`Limiter::Key`].
    pub key: Option<Rate>,
    /// Ceiling that the user gave, as in [`Limiter::User`]; it may change during the transfer.
    pub user: Option<Rate>,
    pub(crate) disk: Option<Rate>,
    pub(crate) path: Option<Rate>,
}

impl Ceilings {
    /// The ceilings that the key in use and the user set, `None` for none; disk and path have none
    /// yet.
    #[must_use]
    pub fn of(key: Option<Rate>, user: Option<Rate>) -> Self {
        Self { key, user, ..Self::default() }
    }

    /// The lowest ceiling; `None` if there is none. Of equal ones the key's counts, which a user
    /// cannot raise.
    #[must_use]
    pub fn lowest(&self) -> Option<Limit> {
        let Self { key, user, disk, path } = *self;
        let all = [(key, Limiter::Key), (user, Limiter::User), (disk, Limiter::Disk), (path, Limiter::Path)];
        let limits = all.into_iter().filter_map(|(rate, limiter)| Some(Limit { rate: rate?, limiter }));
        limits.min_by_key(|limit| limit.rate)
    }

    /// The lowest of the ceilings that the key and the user set; `None` if there is none. Within one
    /// host only these apply.
    pub(crate) fn asked(&self) -> Option<Rate> {
        [self.key, self.user].into_iter().flatten().min()
    }

    /// The lowest ceiling other than the path's; `None` if there is none.
    pub(crate) fn lowest_but_path(&self) -> Option<Rate> {
        [self.asked(), self.disk].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_counts_and_of_equal_ones_the_keys() {
        let rate = Rate::from_bits_per_second;
        let ceilings =
            Ceilings { disk: Some(rate(7)), path: Some(rate(8)), ..Ceilings::of(Some(rate(9)), Some(rate(9))) };
        assert_eq!(ceilings.lowest(), Some(Limit { rate: rate(7), limiter: Limiter::Disk }));
        assert_eq!(ceilings.lowest_but_path(), Some(rate(7)));
        let ceilings = Ceilings { disk: None, ..ceilings };
        assert_eq!(ceilings.lowest(), Some(Limit { rate: rate(8), limiter: Limiter::Path }));
        assert_eq!(ceilings.lowest_but_path(), Some(rate(9)));
        let ceilings = Ceilings { path: None, ..ceilings };
        assert_eq!(ceilings.lowest(), Some(Limit { rate: rate(9), limiter: Limiter::Key }));
        assert_eq!(Ceilings::default().lowest(), None);
    }
}
