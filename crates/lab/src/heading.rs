//! The two directions of a lab's path.

/// Direction of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heading {
    /// From host a to host b.
    Forward,
    /// From host b to host a.
    Backward,
}

impl Heading {
    /// Both, in order.
    pub const BOTH: [Self; 2] = [Self::Forward, Self::Backward];

    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "a to b",
            Self::Backward => "b to a",
        }
    }

    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Forward => 0,
            Self::Backward => 1,
        }
    }
}
