//! Questions to the sender whether it is there, which several threads ask.

use std::cell::Cell;
use std::rc::Rc;

use icdc_protocol::message::{Message, Ready};

use crate::environment::Environment;
use crate::mutations::Mutation;

/// Number of the questions so far, of all threads of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Questions(Rc<Cell<u64>>);

impl Questions {
    /// Number of the next question, which is answered as often as questions were asked; and what the sender is told.
    pub(crate) fn ask(&self, ready: Ready, env: &Environment) -> (u64, Option<Message>) {
        // The first one is that of the session, and tells the sender to begin.
        if self.0.get() > 0 && env.has(Mutation::SenderIsNotAsked) {
            return (0, None);
        }
        self.0.set(self.0.get() + 1);
        (self.0.get(), Some(Message::Ready(ready)))
    }
}
