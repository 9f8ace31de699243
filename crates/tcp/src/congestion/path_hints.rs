//! Hints that a congestion control algorithm receives about a socket before the socket takes it.

use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroU32;

use icdc_rate::known_paths::Resumption;

/// Hints about a socket that its congestion control algorithm receives before the socket takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathHints {
    /// Rate and round-trip time of the path, as earlier connections found them; `None` if nothing
    /// is known.
    pub known: Option<Resumption>,
    /// Bundle of connections that the socket belongs to; `None` for a connection by itself.
    pub bundle: Option<BundleNumber>,
    /// Whether the socket gives way to other traffic on its path.
    pub background: bool,
}

impl PathHints {
    /// Whether there are no hints.
    pub(super) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Number of a bundle, by which the algorithm in the kernel recognizes its members: several
/// connections over one path that act as one flow towards others. All processes on a host share
/// these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleNumber(NonZeroU32);

impl BundleNumber {
    /// A random bundle number, which hardly any other bundle has.
    #[must_use]
    pub fn random() -> Self {
        // The standard library's keys are random, and its state is another one with each call.
        Self(NonZeroU32::new(RandomState::new().hash_one(std::process::id()) as u32).unwrap_or(NonZeroU32::MIN))
    }

    /// Bundle with this number, as another process [reports](Self::number) it.
    #[must_use]
    pub fn of_number(number: NonZeroU32) -> Self {
        Self(number)
    }

    /// The number of the bundle, never zero.
    #[must_use]
    pub fn number(self) -> NonZeroU32 {
        self.0
    }
}
