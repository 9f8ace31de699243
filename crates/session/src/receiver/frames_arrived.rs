//! The connections after the first: numbers of data frames that have arrived over each.
//!
//! One that ends does not end the session. The sender learns how many frames arrived over it, and
//! retransmits the rest over another.

use std::collections::{BTreeMap, BTreeSet};

use icdc_protocol::message::Message;

/// The connections after the first, with the data frames that arrived over each.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    by_number: BTreeMap<u8, Connection>,
    /// Numbers of those that this end has given up because nothing arrived over them.
    stalled: BTreeSet<u8>,
}

/// State of a connection after the first.
#[derive(Clone, Copy, Debug)]
enum Connection {
    /// The connection is in use; number of data frames that have arrived over it.
    Open { frames: u64 },
    /// The connection has ended, and the sender knows what arrived.
    Gone,
}

/// Reaction to the sender's message that a connection has ended at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Do nothing: the connection has ended at this end, too.
    Nothing,
    /// Shut the connection; [`Connections::on_ended`] follows.
    Shut,
    /// Reply to the sender that nothing arrived over it.
    NothingArrived,
}

impl Connections {
    /// Records a further connection. Returns false if it must not be used: there has been one of
    /// its number, or the sender has given it up.
    #[must_use]
    pub fn on_joined(&mut self, connection: u8) -> bool {
        if self.by_number.contains_key(&connection) {
            return false;
        }
        self.by_number.insert(connection, Connection::Open { frames: 0 });
        true
    }

    /// Records a message that has arrived over a further connection; data frames are counted.
    pub fn on_message(&mut self, connection: u8, message: &Message) {
        if let Some(Connection::Open { frames }) = self.by_number.get_mut(&connection) {
            *frames += u64::from(message.is_data());
        }
    }

    /// Records that this end gives a further connection up because nothing arrives over it.
    pub fn on_stalled(&mut self, connection: u8) {
        self.stalled.insert(connection);
    }

    /// Whether this end has given the connection up because nothing arrived over it.
    #[must_use]
    pub fn is_stalled(&self, connection: u8) -> bool {
        self.stalled.contains(&connection)
    }

    /// Records that a further connection has ended; returns the message for the sender, if one is
    /// due.
    pub fn on_ended(&mut self, connection: u8) -> Option<Message> {
        match self.by_number.insert(connection, Connection::Gone) {
            Some(Connection::Open { frames }) => Some(Message::Left { connection, frames }),
            Some(Connection::Gone) | None => None,
        }
    }

    /// Handles the sender's report that a connection has ended at its end; returns the reaction to
    /// it.
    pub fn on_left(&mut self, connection: u8) -> Answer {
        match self.by_number.get(&connection) {
            Some(Connection::Open { .. }) => Answer::Shut,
            Some(Connection::Gone) => Answer::Nothing,
            None => {
                // It may still be on its way, and must not come into use then.
                self.by_number.insert(connection, Connection::Gone);
                Answer::NothingArrived
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use icdc_protocol::message::BlockHeader;

    use super::*;

    fn block() -> Message {
        Message::Block(BlockHeader { id: 1, index: 0, value: [0; 32], ranges: Vec::new() })
    }

    #[test]
    fn the_sender_is_told_once_what_arrived() {
        let mut connections = Connections::default();
        assert!(connections.on_joined(1) && !connections.on_joined(1));
        connections.on_message(1, &block());
        connections.on_message(1, &Message::Ping);
        connections.on_message(1, &block());
        assert_eq!(connections.on_left(1), Answer::Shut);
        assert_eq!(connections.on_ended(1), Some(Message::Left { connection: 1, frames: 2 }));
        assert_eq!(connections.on_ended(1), None);
        assert_eq!(connections.on_left(1), Answer::Nothing);
        assert!(!connections.on_joined(1));
    }

    #[test]
    fn a_connection_that_stalled_is_known_as_such_after_its_end() {
        let mut connections = Connections::default();
        assert!(connections.on_joined(1) && connections.on_joined(2));
        connections.on_stalled(2);
        assert!(connections.on_ended(1).is_some() && connections.on_ended(2).is_some());
        assert_eq!([1, 2].map(|number| connections.is_stalled(number)), [false, true]);
    }

    #[test]
    fn a_connection_that_never_came_is_answered_and_does_not_come_into_use() {
        let mut connections = Connections::default();
        assert_eq!(connections.on_left(3), Answer::NothingArrived);
        assert!(!connections.on_joined(3));
        assert_eq!(connections.on_ended(3), None);
        assert_eq!(connections.on_left(3), Answer::Nothing);
    }
}
