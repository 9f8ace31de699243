//! State shared by the files of a session.

use std::collections::VecDeque;

use super::action::Action;

/// See the module's description.
#[derive(Debug)]
pub(super) struct Context<B> {
    pub(super) actions: VecDeque<Action<B>>,
    /// Files are read back before they are stored.
    pub(super) verify: bool,
    /// The link has ended.
    pub(super) link_ended: bool,
    /// Number of times the sender was asked whether it is still connected, the session's own
    /// `Ready` included.
    asked: u64,
    /// Number of answers.
    pub(super) confirmed: u64,
}

/// Knowledge of whether the sender is still connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Known,
    /// Known with the answer of this number.
    Asked {
        number: u64,
    },
}

impl<B> Context<B> {
    pub(super) fn new(verify: bool) -> Self {
        Self { actions: VecDeque::new(), verify, link_ended: false, asked: 1, confirmed: 0 }
    }

    pub(super) fn push(&mut self, action: Action<B>) {
        self.actions.push_back(action);
    }

    /// Asks the sender whether it is still connected.
    pub(super) fn probe(&mut self) -> Presence {
        self.push(Action::Probe);
        self.asked += 1;
        Presence::Asked { number: self.asked }
    }
}
