//! How a copy, or a session of a daemon, ended: the words that events, hooks, metrics and the audit
//! log have in common.

/// How a copy, or a session of a daemon, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunResult {
    /// Everything has arrived.
    Complete,
    /// Items failed, and everything else has arrived.
    Incomplete,
    /// Another icdc was writing the same, and the copy was to be left out then.
    Skipped,
    /// A user or an operator stopped it; the next run of a copy resumes.
    Interrupted,
    /// The connection of a session was lost; the client may come again.
    Lost,
    /// A copy had no connection, or no access.
    Unreachable,
    /// Nothing was copied: a source, or the destination, cannot be used.
    Unusable,
    /// A daemon did not allow what was requested.
    Refused,
    /// It could not go on, or the other end broke the protocol.
    Failed,
}

impl RunResult {
    /// The results of a copy.
    pub const OF_COPIES: [Self; 7] = [
        Self::Complete,
        Self::Incomplete,
        Self::Failed,
        Self::Unusable,
        Self::Unreachable,
        Self::Interrupted,
        Self::Skipped,
    ];
    /// The results of a session.
    pub const OF_SESSIONS: [Self; 6] =
        [Self::Complete, Self::Incomplete, Self::Interrupted, Self::Lost, Self::Refused, Self::Failed];

    /// Its word.
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
