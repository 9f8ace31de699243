//! What comes from the sender, handed to the thread whose work it is.

use icdc_protocol::limits::PART_SIZE;
use icdc_protocol::message::{Assembled, BlockHeader, Message, Part};
use icdc_session::SessionError;
use icdc_session::receiver::ending::LinkEnd;
use icdc_session::receiver::frames_arrived::Answer;

use super::names::Contents;
use super::ring::Block;
use super::{ReceiverEnd, Reply, data, names};
use crate::connections::Connections;
use crate::disk::Number;
use crate::environment::{Environment, Side};
use crate::mutations::Mutation;
use crate::source::value_of;
use crate::wire::{Arrival, End, Frame, Payload};

impl ReceiverEnd {
    pub(super) fn has_room(&self, env: &Environment) -> bool {
        self.ring.has_room() || env.has(Mutation::RingHasNoEnd)
    }

    pub(super) fn take_in(&mut self, connection: usize, env: &mut Environment, connections: &mut Connections) {
        if self.ended.contains(&connection) {
            return;
        }
        let has_room = match connections.peek(connection, Side::Receiver) {
            None => return,
            Some(Arrival::Frame(frame)) => !needs_room(frame) || self.has_room(env),
            Some(Arrival::End(_)) => true,
        };
        if !has_room {
            return;
        }
        match connections.read(connection, Side::Receiver, env) {
            None => {}
            Some(Arrival::End(end)) => {
                env.note(format_args!("{} receiver hears {end:?} on {connection}", self.session));
                self.ended.insert(connection);
                self.is_mistaken |= env.has(Mutation::PutAwayAtFurtherEnd) && connection > 0;
                if connection > 0 {
                    return self.left(connection, env);
                }
                let end = match end {
                    End::Closed => LinkEnd::Closed,
                    End::Broken => LinkEnd::Failed(SessionError::Cut("broken".into())),
                };
                self.ending.on_link_ended(end);
            }
            Some(Arrival::Frame(frame)) => {
                env.note(format_args!("{} receiver hears {:?} on {connection}", self.session, frame.message));
                if connection > 0 {
                    self.arrived.on_message(connection as u8, &frame.message);
                }
                self.take(connection, *frame, env, connections);
            }
        }
    }

    fn take(
        &mut self,
        connection: usize,
        Frame { message, payload }: Frame,
        env: &mut Environment,
        connections: &mut Connections,
    ) {
        match (message, payload) {
            (Message::Block(header), Some(Payload::Block(number))) => {
                if !env.has(Mutation::PartsOutliveTheirBlock) {
                    self.parts.came_whole(header.id, header.index);
                }
                let block = self.ring.take().with(number);
                self.hash(header, block, 1, env);
            }
            (Message::Difference(header), None) => {
                self.parts.came_whole(header.id, header.index);
                let BlockHeader { id, index, value, .. } = header;
                if !self.bases.is_described(id, index) {
                    return self.broken(format!("block {index} of file {id} is a difference to nothing"), env);
                }
                let number = self.bases.number(id, index, env);
                let block = self.ring.take().with(number);
                self.bases.on_arrived(id, index, true);
                // A file that is replaced may be written to meanwhile, or fail to be read.
                if value_of(number) == value && !env.random.permille(env.faults.read) {
                    self.data.push(data::Job::Block { header, block });
                } else if !env.has(Mutation::OutdatedIsForgotten) {
                    self.data.push(data::Job::Outdated { id, index });
                }
            }
            (Message::Assembled(Assembled { header, copies }), None) => {
                self.parts.came_whole(header.id, header.index);
                let BlockHeader { id, index, value, .. } = header;
                let Some(number) = self.deltas.number(id, index, &copies, env) else {
                    return self.broken(format!("block {index} of file {id} is put together from nothing"), env);
                };
                let block = self.ring.take().with(number);
                if value_of(number) == value && !env.random.permille(env.faults.read) {
                    self.data.push(data::Job::Block { header, block });
                } else if !env.has(Mutation::OutdatedIsForgotten) {
                    self.data.push(data::Job::Outdated { id, index });
                }
            }
            (Message::Holes { id, blocks }, _) => blocks.iter().for_each(|index| self.bases.on_hole(id, *index)),
            (Message::Part(part), Some(Payload::Block(number))) => self.take_part(&part, number, env),
            (Message::Pack(items), payload) => {
                let bytes = match payload {
                    Some(Payload::Small(bytes)) => bytes,
                    _ => Vec::new(),
                };
                let place = Some(self.ring.take());
                self.names.push(names::Job::Pack(items, Contents { bytes, _place: place }));
            }
            (Message::FileEnd(end), _) => self.data.push(data::Job::End(end.into())),
            (Message::StreamEnd(end), _) => self.data.push(data::Job::End(end.into())),
            (Message::Confirmed, _) => {
                self.names.push(names::Job::Message(Box::new(Message::Confirmed)));
                self.data.push(data::Job::Confirmed);
            }
            (
                Message::Totals(_)
                | Message::Problem(_)
                | Message::Ping
                | Message::Congestion(_)
                | Message::Connections { .. }
                | Message::DatagramsWanted,
                _,
            ) => {}
            (Message::Left { connection, .. }, _) => match self.arrived.on_left(connection) {
                Answer::Nothing => {}
                Answer::Shut => {
                    let connection = usize::from(connection);
                    self.shut(connection..connection + 1, env, connections);
                }
                Answer::NothingArrived => {
                    let left = Message::Left { connection, frames: 0 };
                    self.replies.push_back(Reply::Message(Box::new(left)));
                }
            },
            (Message::Goodbye(goodbye), _) => {
                self.ended.insert(connection);
                if connection == 0 {
                    self.ending.on_goodbye(goodbye);
                } else {
                    let reason = "it said goodbye on a further connection";
                    self.ending.on_failure(env.agenda.now(), SessionError::Protocol(reason.into()));
                }
            }
            (Message::Interrupt, _) => self.broken_off(connection, SessionError::Interrupted, env),
            (Message::Abort(refusal) | Message::Refused(refusal), _) => {
                self.broken_off(connection, SessionError::Refused(refusal), env);
            }
            (message, _) => self.names.push(names::Job::Message(Box::new(message))),
        }
    }

    /// A part of a block that has this number.
    fn take_part(&mut self, part: &Part, number: Number, env: &mut Environment) {
        let arrived = self.ring.take().with_part(number, part.number);
        let put = |before: Option<Block>, arrived: Block| match before {
            None => arrived,
            Some(block) => block.and(&arrived),
        };
        // A block without its last part would be whole by this one.
        let taken = match part.length.checked_sub(PART_SIZE as u32) {
            Some(length) if env.has(Mutation::LastPartIsNotWaitedFor) && length > 0 => Part { length, ..*part },
            _ => *part,
        };
        match self.parts.arrived(&taken, arrived, self.ring.capacity(), put) {
            Ok(None) => {}
            Ok(Some((header, block))) => self.hash(header, block, part.length.div_ceil(PART_SIZE as u32), env),
            Err(wrong) => self.ending.on_failure(env.agenda.now(), SessionError::Protocol(wrong.into())),
        }
    }

    /// Looks whether a block of so many parts is what the sender tells of it.
    fn hash(&mut self, header: BlockHeader, block: Block, parts: u32, env: &mut Environment) {
        self.bases.on_arrived(header.id, header.index, false);
        if value_of(block.number) == header.value && block.is_whole(parts) {
            return self.data.push(data::Job::Block { header, block });
        }
        self.broken(format!("block {} of file {} is damaged", header.index, header.id), env);
    }

    /// The sender has broken the protocol: it does so only where messages were forged.
    fn broken(&mut self, what: String, env: &mut Environment) {
        if env.forged {
            self.ending.on_failure(env.agenda.now(), SessionError::Protocol(what));
        } else {
            env.violate(what);
        }
    }

    /// The sender ends the session.
    fn broken_off(&mut self, connection: usize, error: SessionError, env: &Environment) {
        self.ended.insert(connection);
        if connection == 0 {
            self.ending.on_link_ended(LinkEnd::Failed(error));
        } else {
            self.ending.on_failure(env.agenda.now(), error);
        }
    }
}

/// Whether a frame needs a place in the ring.
pub(super) fn needs_room(frame: &Frame) -> bool {
    frame.payload.is_some() || matches!(frame.message, Message::Difference(_) | Message::Assembled(_))
}
