//! The two directions of a lab's path.

/// Direction of packets through the lab's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heading {
    /// From host a to host b.
    Forward,
    /// From host b to host a.
    Backward,
}

impl Heading {
    /// Both directions, forward first.
    pub const BOTH: [Self; 2] = [Self::Forward, Self::Backward];

    /// Name of the direction, for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "a to b",
            Self::Backward => "b to a",
        }
    }

    /// Index of the direction in arrays and in the page: 0 for forward, 1 for backward.
    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Forward => 0,
            Self::Backward => 1,
        }
    }
}
