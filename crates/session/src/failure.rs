//! Failures of items, and whether running the same command again can succeed.

/// Failure of an item, with the reason, and whether a later run of the same command can continue
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A later run transfers the item from the beginning: nothing of it is kept.
    Final(String),
    /// The reason may be gone when the same command is run again, as where the disk was full: what
    /// is durable is kept.
    Passing(String),
}

impl Failure {
    /// The disk is full: no space for the item at `path`.
    #[must_use]
    pub fn full(path: &str) -> Self {
        Self::Passing(format!("{path}: the disk is full; make room and run the same command again"))
    }

    /// Turns this failure into a passing one, for an item of which enough is durable to be worth
    /// keeping.
    #[must_use]
    pub fn passing(self) -> Self {
        Self::Passing(self.into_reason())
    }

    /// This failure, for a reason that `change` makes of its own.
    #[must_use]
    pub fn map_reason(self, change: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Final(reason) => Self::Final(change(reason)),
            Self::Passing(reason) => Self::Passing(change(reason)),
        }
    }

    /// Whether running the same command again may succeed.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Passing(_))
    }

    /// The reason, as a sentence for the user.
    #[must_use]
    pub fn into_reason(self) -> String {
        match self {
            Self::Final(reason) | Self::Passing(reason) => reason,
        }
    }
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self::Final(reason)
    }
}

impl From<&str> for Failure {
    fn from(reason: &str) -> Self {
        Self::Final(reason.to_owned())
    }
}
