//! State shared by the files of a session.

use std::collections::VecDeque;

use super::action::Action;

/// State shared by the large files of a session: the actions that the executor is to carry out,
/// whether blocks are verified, and the answers of the sender to questions whether it is connected.
/// `B` is the type of a block's contents.
#[derive(Debug)]
pub(super) struct Context<B> {
    pub(super) actions: VecDeque<Action<B>>,
    /// Whether files are read back before they are stored.
    pub(super) verify: bool,
    /// Whether the link has ended.
    pub(super) link_ended: bool,
    /// Number of times that the sender has answered a `Ready`, whoever asked.
    pub(super) confirmed: u64,
}

/// Knowledge of whether the sender is still connected: known from the start, or asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Known,
    /// The sender is being asked.
    Asking,
    /// The sender is known to be connected once it has given the answer of this number.
    Asked {
        number: u64,
    },
}

impl<B> Context<B> {
    pub(super) fn new(verify: bool) -> Self {
        Self { actions: VecDeque::new(), verify, link_ended: false, confirmed: 0 }
    }

    pub(super) fn push(&mut self, action: Action<B>) {
        self.actions.push_back(action);
    }

    /// Has the executor ask the sender whether it is still connected, and returns
    /// [`Presence::Asking`] at once: the answer comes later, and the file is not stored before.
    pub(super) fn probe(&mut self) -> Presence {
        self.push(Action::Probe);
        Presence::Asking
    }
}
