//! Receives frames and hands each to the thread that handles it.

use std::sync::atomic::Ordering;

use crossbeam_channel::Sender as Channel;
use icdc_disk::Block;
use icdc_limits::thread::NoThread;
use icdc_link::{Inlet, LinkError, Parcel};
use icdc_protocol::Features;
use icdc_protocol::block_map::block_length;
use icdc_protocol::message::{
    Assembled, BlockHeader, Compressed, Compressible, Congestion, Goodbye, Message, Part, Problem, Refusal, RefusalKind,
};
use icdc_session::SessionError;
use icdc_session::receiver::ending::LinkEnd;
use icdc_session::receiver::files::Length;
use icdc_session::receiver::frames_arrived::Answer;
use icdc_units::{ByteCount, Rate};

use super::disk_rate::Arrived;
use super::expanding::Frame;
use super::jobs::{HashJob, NameJob};
use super::shared::{Reply, Shared};
use crate::account::Account;
use crate::event::{EarlyEnd, Event, Outcome};
use crate::further_links::Wanted;
use crate::{clock, path_text};

/// Receives the frames of a session and hands each to the thread that handles it.
#[derive(Clone)]
pub(super) struct Intake<'a> {
    pub(super) shared: &'a Shared<'a>,
    pub(super) names: Channel<NameJob>,
    pub(super) hash: Channel<HashJob>,
    pub(super) account: &'a Account,
}

/// Continuation of the receive loop after a message.
enum Flow {
    /// Receive the next message.
    Continue,
    /// Stop receiving: this was the sender's last message.
    Goodbye(Goodbye),
}

impl Intake<'_> {
    /// Receives on the first connection until it or the session ends.
    pub(super) fn run(self, inlet: Box<dyn Inlet>) {
        match self.receive(inlet, None) {
            Ok(goodbye) => self.shared.on_ending(|ending, _| ending.on_goodbye(goodbye)),
            Err(end) => self.shared.on_ending(|ending, _| ending.on_link_ended(end)),
        }
    }

    /// Receives on the further connection of this number until it or the session ends.
    pub(super) fn run_further(self, number: u8, inlet: Box<dyn Inlet>) {
        match self.receive(inlet, Some(number)) {
            Ok(_) => self.shared.fail(SessionError::Protocol("it said goodbye on a further connection".into())),
            // All connections end with the session.
            Err(_) if self.shared.ending().is_over() => {}
            // All that was sent has arrived.
            Err(LinkEnd::Closed) => {
                self.ended(number);
            }
            // The sender transmits what did not arrive over another one.
            Err(LinkEnd::Failed(SessionError::Cut(cause))) => {
                if self.ended(number) {
                    let is_stalled = self.shared.connections().is_stalled(number);
                    let end = if is_stalled { EarlyEnd::Stalled } else { EarlyEnd::AtSender(cause) };
                    (self.shared.events)(Event::connection_ended(number, &end));
                }
            }
            Err(LinkEnd::Failed(error)) => self.shared.fail(error),
        }
    }

    /// Reports that the further connection `number` cannot be received on: the others carry
    /// everything.
    pub(super) fn cannot_receive(&self, number: u8, reason: &NoThread) {
        tracing::debug!(%reason, number, "a further connection cannot be received on");
        if self.ended(number) {
            (self.shared.events)(Event::connection_ended(number, &EarlyEnd::Lost(reason.to_string())));
        }
    }

    /// Receives messages on one connection until the sender's goodbye. Payload is kept to the rate
    /// limit, and reserved from the quota together with what is copied in its place; `further` is the
    /// number of a connection after the first.
    fn receive(&self, mut inlet: Box<dyn Inlet>, further: Option<u8>) -> Result<Goodbye, LinkEnd> {
        loop {
            let begun = clock::now();
            let parcel = inlet.receive(&self.shared.pool).map_err(|error| match error {
                LinkError::Closed => LinkEnd::Closed,
                error => LinkEnd::Failed(SessionError::of_link(error)),
            })?;
            if let Some(number) = further {
                self.shared.connections().on_message(number, &parcel.message);
            }
            let length = ByteCount::from(parcel.payload_length());
            let plain = parcel.message.plain_length(parcel.payload_length());
            let written = ByteCount::from(plain) + parcel.message.copied();
            self.account.reserve(written).map_err(LinkEnd::Failed)?;
            if let Flow::Goodbye(goodbye) = self.handle(parcel).map_err(LinkEnd::Failed)? {
                return Ok(goodbye);
            }
            let limit = || self.account.max_rate();
            let is_over = |limit| self.shared.draining.wait(limit) || self.shared.link.is_hung_up();
            self.shared.throttle.wait((begun, length), limit, is_over);
        }
    }

    /// Handles that a further connection has ended, and tells the sender what arrived over it;
    /// returns whether the receiver did not know this before.
    fn ended(&self, number: u8) -> bool {
        let ended = self.shared.connections().on_ended(number);
        self.shared.further.shut(number);
        let is_news = ended.is_some();
        ended.into_iter().for_each(|left| self.shared.reply(left));
        is_news
    }

    /// Handles the sender's message that a further connection has ended at its end.
    fn left(&self, number: u8) {
        let answer = self.shared.connections().on_left(number);
        match answer {
            Answer::Nothing => {}
            Answer::Shut => self.shared.further.shut(number),
            Answer::NothingArrived => {
                self.shared.reply(Message::Left { connection: number, frames: 0 });
            }
        }
    }

    /// Hands a message with its payload to the thread that handles it, or handles it here.
    fn handle(&self, parcel: Parcel) -> Result<Flow, SessionError> {
        let plain = parcel.message.plain_length(parcel.payload_length()) as u64;
        self.shared.received.fetch_add(plain, Ordering::Relaxed);
        let Parcel { message, payload } = parcel;
        let payload = payload.map(|payload| payload.into_block(&self.shared.pool)).transpose();
        let payload = payload.map_err(|_| SessionError::of_link(LinkError::Stopped))?;
        let arrived = |(block, length)| self.shared.waiting.arrived(block, length);
        match message {
            Message::Block(header) => {
                self.shared.large_files.on_block(header.id, header.index);
                self.hash(header, payload.map(arrived));
            }
            Message::Difference(header) => {
                let _ = self.hash.send(self.difference(header, payload, None)?);
            }
            Message::Assembled(assembled) => {
                let _ = self.hash.send(self.assembled(assembled, payload, None)?);
            }
            Message::Compressed(compressed) => self.compressed(compressed, payload)?,
            Message::Part(part) => {
                if let Some((header, block)) = self.join(&part, payload)? {
                    self.hash(header, Some(arrived((block, part.length as usize))));
                }
            }
            Message::FileEnd(end) => {
                // Behind the blocks, so that it does not overtake them on this connection.
                let _ = self.hash.send(HashJob::End(end.into()));
            }
            Message::StreamEnd(end) => {
                let _ = self.hash.send(HashJob::End(end.into()));
            }
            Message::Pack(items) => {
                let _ = self.names.send(NameJob::Pack(items, payload.map(arrived)));
            }
            Message::Totals(totals) => self.shared.tally().totals = totals,
            Message::Problem(problem) => {
                self.problem(&problem);
                if problem.error {
                    // A mirror deletes nothing then.
                    let _ = self.names.send(NameJob::Message(Message::Problem(problem)));
                }
            }
            Message::Accepted(theirs) => {
                self.shared.peer.store(theirs.bits(), Ordering::Relaxed);
                if let Some(reason) = theirs.lacking(self.shared.options.needs()) {
                    return Err(SessionError::Refused(Refusal::new(RefusalKind::NotAllowed, reason)));
                }
                if let Some(text) = theirs.lacking(self.shared.options.wishes()) {
                    (self.shared.events)(Event::Notice { text: text.to_owned() });
                }
            }
            Message::Removed(items) => {
                self.shared.tally().on_removed(items.len() as u64);
                let dry_run = self.shared.options.dry_run;
                items.iter().for_each(|item| (self.shared.events)(Event::removed(item, dry_run)));
            }
            Message::Notice(notice) => {
                self.shared.noticed.lock().expect("no panic while notices are noted").replace(notice);
            }
            Message::StreamFrom { bytes } => self.stream_from(bytes)?,
            Message::NamesWanted { pass } => self.names_wanted(pass)?,
            Message::Ping => {}
            Message::Connections { wanted } => {
                if let Some(makes) = self.shared.wanted {
                    let _ = makes.send(Wanted::Connections(wanted));
                }
            }
            Message::DatagramsWanted => {
                if let Some(makes) = self.shared.wanted {
                    let _ = makes.send(Wanted::Datagrams);
                }
            }
            Message::Congestion(congestion) => self.congestion(congestion),
            Message::MaxRate { bytes_per_second } => {
                self.max_rate(Some(Rate::from_bytes_per_second(bytes_per_second)));
            }
            Message::KeyCeiling(limit) => {
                Event::of_key_ceiling(limit).into_iter().for_each(|event| (self.shared.events)(event));
                self.max_rate(limit);
            }
            Message::Goodbye(goodbye) => return Ok(Flow::Goodbye(goodbye)),
            Message::Left { connection, .. } => self.left(connection),
            Message::Interrupt => return Err(SessionError::Interrupted),
            Message::Abort(refusal) | Message::Refused(refusal) => return Err(SessionError::Refused(refusal)),
            Message::Confirmed => {
                let _ = self.hash.send(HashJob::Confirmed);
                let _ = self.names.send(NameJob::Message(Message::Confirmed));
            }
            other => {
                let _ = self.names.send(NameJob::Message(other));
            }
        }
        Ok(Flow::Continue)
    }

    /// Notes the place from which the sender continues the stream that it announces next; an error where
    /// it has told another one.
    fn stream_from(&self, bytes: u64) -> Result<(), SessionError> {
        let noted = self.shared.stream_from.set(ByteCount::new(bytes));
        noted.map_err(|_| SessionError::Protocol("continues a stream from two places".into()))
    }

    /// Queues the next names of the list for the sender, which asks for them in this pass; an error
    /// if there is no list.
    fn names_wanted(&self, pass: u32) -> Result<(), SessionError> {
        if self.shared.order.listed.is_none() {
            return Err(SessionError::Protocol("asks for a list of names, and there is none".into()));
        }
        // They are read when they are sent: a sender that only asks fills no memory.
        let _ = self.shared.replies.send(Reply::Names { pass });
        Ok(())
    }

    /// Adds a part to its block; returns the block with its header once it is complete.
    fn join(&self, part: &Part, payload: Option<(Block, usize)>) -> Result<Option<(BlockHeader, Block)>, SessionError> {
        let (block, _) = payload.ok_or_else(|| SessionError::Protocol("a part has no data".into()))?;
        self.shared.large_files.on_part(part, block, self.shared.pool.capacity())
    }

    /// Notes the congestion control that the sender uses, and notifies the user if it is another
    /// one than was asked for.
    fn congestion(&self, Congestion { name, instead }: Congestion) {
        self.account.note_congestion(name);
        if !instead.is_empty() {
            (self.shared.events)(Event::Notice { text: instead });
        }
    }

    /// Notes the rate limit of this end's key that a daemon at the other end has told, for display;
    /// `None` for no limit.
    fn max_rate(&self, limit: Option<Rate>) {
        self.account.note_told_max_rate(limit);
        *self.shared.max_rate() = limit;
    }

    /// Hands a compressed payload to the hashing threads, which expand it; an error from a sender that
    /// has not announced that feature.
    fn compressed(&self, compressed: Compressed, payload: Option<(Block, usize)>) -> Result<(), SessionError> {
        if !self.shared.peer().has(Features::COMPRESSION) {
            return Err(SessionError::Protocol("sends compressed data without that feature".into()));
        }
        let (block, length) =
            payload.ok_or_else(|| SessionError::Protocol("a compressed payload is missing".into()))?;
        let frame = Frame { length, plain: compressed.length as usize };
        self.shared.expanding.note(frame);
        let job = match compressed.of {
            Compressible::Block(header) => {
                self.shared.large_files.on_block(header.id, header.index);
                let payload = Some(self.shared.waiting.arrived(block, frame.plain));
                HashJob::Block { header, payload, frame: Some(frame) }
            }
            Compressible::Difference(header) => self.difference(header, Some((block, frame.plain)), Some(frame))?,
            Compressible::Assembled(assembled) => self.assembled(assembled, Some((block, frame.plain)), Some(frame))?,
            Compressible::Pack(items) => HashJob::Pack(items, self.shared.waiting.arrived(block, frame.plain), frame),
        };
        let _ = self.hash.send(job);
        Ok(())
    }

    /// Job for the difference of a block, in a block of the ring, which came as a `frame` or as it is.
    fn difference(
        &self,
        header: BlockHeader,
        payload: Option<(Block, usize)>,
        frame: Option<Frame>,
    ) -> Result<HashJob, SessionError> {
        let (id, index) = (header.id, header.index);
        let length = self.shared.large_files.length(id);
        if length.is_some() && !self.shared.bases.is_described(id, index) {
            return Err(SessionError::Protocol(format!("block {index} of item {id} is a difference to nothing")));
        }
        let block = match payload {
            Some((block, _)) => block,
            None => self.shared.pool.take().map_err(|_| SessionError::of_link(LinkError::Stopped))?,
        };
        let length = match length {
            Some(Length::Known(size)) => block_length(size.as_u64(), index),
            Some(Length::Stream) | None => 0,
        };
        self.shared.large_files.on_block(header.id, header.index);
        Ok(HashJob::Difference { header, payload: self.shared.waiting.arrived(block, length), frame })
    }

    /// Job for a block that is put together, in a block of the ring, whose data came as a `frame` or as they
    /// are.
    fn assembled(
        &self,
        assembled: Assembled,
        payload: Option<(Block, usize)>,
        frame: Option<Frame>,
    ) -> Result<HashJob, SessionError> {
        let BlockHeader { id, index, .. } = assembled.header;
        let length = self.shared.large_files.length(id);
        // It may have been given up in between.
        if length.is_some()
            && !self.shared.delta.takes(id, index, &assembled.copies)
            && self.shared.large_files.length(id).is_some()
        {
            return Err(SessionError::Protocol(format!(
                "block {index} of item {id} is put together from what is not described, or twice"
            )));
        }
        let (block, sent) = match payload {
            Some(payload) => payload,
            None => (self.shared.pool.take().map_err(|_| SessionError::of_link(LinkError::Stopped))?, 0),
        };
        let length = match length {
            Some(Length::Known(size)) => block_length(size.as_u64(), index),
            Some(Length::Stream) | None => 0,
        };
        self.shared.large_files.on_block(id, index);
        Ok(HashJob::Assembled { assembled, payload: self.shared.waiting.arrived(block, length), sent, frame })
    }

    /// Hands a received block to the hashing threads.
    fn hash(&self, header: BlockHeader, payload: Option<Arrived>) {
        let _ = self.hash.send(HashJob::Block { header, payload, frame: None });
    }

    /// Reports to the user what the sender does not copy: an error as a failed item, anything else
    /// as a notice.
    fn problem(&self, problem: &Problem) {
        let path = path_text(&problem.path);
        if problem.error {
            self.shared.tally().on_problem();
            let reason = Some(problem.reason.clone());
            (self.shared.events)(Event::Item { path, bytes: 0, digest: None, outcome: Outcome::Failed, reason });
        } else {
            (self.shared.events)(Event::Notice { text: format!("{path}: {}", problem.reason) });
        }
    }
}
