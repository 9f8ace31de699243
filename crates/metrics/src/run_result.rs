//! The end of a copy, or of a session of a daemon, in the words that events, hooks, metrics and the
//! audit log have in common.

/// Outcome of a copy, or of a session of a daemon, in the words that events, hooks, metrics and the
/// audit log have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunResult {
    /// Everything has arrived.
    Complete,
    /// Items failed, and everything else has arrived.
    Incomplete,
    /// The copy was skipped, as requested, because another icdc was writing the same.
    Skipped,
    /// A user or an operator stopped it; the next run of a copy resumes.
    Interrupted,
    /// The connection of a session was lost; the client may come again.
    Lost,
    /// The other end of a copy could not be reached, or did not admit this user.
    Unreachable,
    /// Nothing was copied: a source, or the destination, cannot be used.
    Unusable,
    /// A daemon did not allow what was requested.
    Refused,
    /// It failed otherwise, or the other end broke the protocol.
    Failed,
}

impl RunResult {
    /// All results that a copy can have.
    pub const OF_COPIES: [Self; 7] = [
        Self::Complete,
        Self::Incomplete,
        Self::Failed,
        Self::Unusable,
        Self::Unreachable,
        Self::Interrupted,
        Self::Skipped,
    ];
    /// All results that a daemon's session can have.
    pub const OF_SESSIONS: [Self; 6] =
        [Self::Complete, Self::Incomplete, Self::Interrupted, Self::Lost, Self::Refused, Self::Failed];

    /// Word for the outcome in events, metrics and logs, such as `complete`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Incomplete => "incomplete",
            Self::Skipped => "skipped",
            Self::Interrupted => "interrupted",
            Self::Lost => "lost",
            Self::Unreachable => "unreachable",
            Self::Unusable => "unusable",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}
