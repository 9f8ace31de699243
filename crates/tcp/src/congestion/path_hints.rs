//! What an algorithm is told of a socket before the socket takes it.

use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroU32;

use icdc_rate::known_paths::Resumption;

/// See the module's description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathHints {
    /// What earlier connections knew of the path.
    pub known: Option<Resumption>,
    /// The bundle that it belongs to.
    pub bundle: Option<BundleNumber>,
}

impl PathHints {
    pub(super) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Names a bundle: several connections over one path that are one flow to others. All processes on
/// a host share these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleNumber(NonZeroU32);

impl BundleNumber {
    /// One that hardly anybody else has.
    #[must_use]
    pub fn random() -> Self {
        // The standard library's keys are random, and its state is another one with each call.
        Self(NonZeroU32::new(RandomState::new().hash_one(std::process::id()) as u32).unwrap_or(NonZeroU32::MIN))
    }

    /// The one of this number, as another process [tells](Self::number) it.
    #[must_use]
    pub fn of_number(number: NonZeroU32) -> Self {
        Self(number)
    }

    /// Its number, never zero.
    #[must_use]
    pub fn number(self) -> NonZeroU32 {
        self.0
    }
}
