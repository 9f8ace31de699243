//! The sending halves of a session's connections.
//!
//! All connections take blocks from one queue, so that a fast one carries more; the first one also
//! carries everything else, ahead of the blocks. How fast each may send, and when those after the
//! first may begin, is up to [`Steering`].

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Scope;
use std::time::Duration;

use crossbeam_channel::{Receiver as Queue, never, select, select_biased};
use icdc_link::{Link, LinkError, Outlet, Parcel};
use icdc_protocol::limits::{BLOCK_SIZE, PART_SIZE};
use icdc_protocol::message::{Goodbye, Message};
use icdc_rate::bundle::{Number, Owed};
use icdc_rate::controller::Pending;
use icdc_session::SessionError;
use icdc_tcp::TcpInfo;
use icdc_tuning::{SendingManner, Tuned};
use icdc_units::{ByteCount, Span, Time};

use super::executor::{Executor, Outgoing};
use super::sending_link::tune_beside;
use super::steering::Steering;
use super::ways::way;
use crate::account::Account;
use crate::clock;
use crate::event::{EarlyEnd, Stage};
use crate::further_links::FurtherLink;
use crate::once::{Ended, Once, watched};
use crate::stage_thread::try_start;
use crate::told_limit::ToldLimit;

/// Number of connection numbers that are possible.
const CONNECTIONS: usize = u8::MAX as usize + 1;
const NO_PANIC: &str = "no panic while connections are listed";
/// Time limit for closing a connection in order once the session is over. A connection that is
/// still sending what others have delivered meanwhile is closed at once.
const FAREWELL: Span = Span::from_millis(200);
/// Interval at which a sender that has nothing else to send sends a sign of life.
const PING: Span = Span::from_secs(1);
/// Interval at which a connection that has enough on the way looks whether it may take a part: a small part of the round
/// trips for which there are several connections. Chosen; not varied.
const LOOK_AGAIN: Span = Span::from_millis(2);

/// Sending halves of a session's connections, which take blocks from one queue; the first also
/// sends all messages.
pub(super) struct Connections<'a> {
    pub(super) executor: &'a Executor<'a>,
    account: &'a Account,
    pub(super) steering: Steering<'a>,
    wake: Queue<()>,
    data: Queue<Parcel>,
    parts: Queue<Parcel>,
    bytes_sent: AtomicU64,
    /// Payload that was passed to each connection's socket, counted when the call begins.
    handed: [Handed; CONNECTIONS],
    /// Signals of the end of the connections after the first.
    serving: Mutex<Vec<Ended>>,
    manner: SendingManner<'a>,
}

/// Counters of the payload that one connection was handed.
#[derive(Default)]
struct Handed {
    bytes: AtomicU64,
    /// Bytes that those which are compressed stand for beyond their own number.
    saved: AtomicU64,
    /// Payload bytes of parts of blocks.
    in_parts: AtomicU64,
    /// Number of times that a part was of another block than the one before.
    blocks_in_parts: AtomicU64,
    /// File and number of the block whose part came last, and 1; 0 before.
    last_block: AtomicU64,
    /// Processor time of the thread that serves it, in nanoseconds.
    worked: AtomicU64,
}

/// Next item that a connection sends.
enum Next {
    /// Messages are queued for the first connection.
    Messages,
    /// A frame with its payload.
    Parcel(Box<Parcel>),
    /// The session is over.
    Over,
}

impl Handed {
    /// Payload bytes that the connection was handed.
    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Payload bytes that the connection was handed beyond the `delivered` ones.
    fn on_the_way(&self, delivered: ByteCount) -> ByteCount {
        ByteCount::new(self.bytes()) - delivered
    }

    /// Number of bytes before they were compressed.
    fn plain(&self) -> u64 {
        self.bytes() + self.saved.load(Ordering::Relaxed)
    }

    /// Counts the payload of a frame that is about to be passed to the connection's socket.
    fn add(&self, parcel: &Parcel) {
        let length = parcel.payload_length() as u64;
        let plain = parcel.message.plain_length(parcel.payload_length()) as u64;
        self.saved.fetch_add(plain - length, Ordering::Relaxed);
        if let Message::Part(part) = &parcel.message {
            self.in_parts.fetch_add(length, Ordering::Relaxed);
            let block = (u64::from(part.id) << 32 | u64::from(part.index)) + 1;
            let is_another = self.last_block.swap(block, Ordering::Relaxed) != block;
            self.blocks_in_parts.fetch_add(u64::from(is_another), Ordering::Relaxed);
        }
        self.bytes.fetch_add(length, Ordering::Relaxed);
    }

    /// Data that connection `number` still has to deliver, beyond the `delivered` bytes: bytes,
    /// and number of blocks, of those in parts at most one for each part, and no more than it had parts of.
    fn owed(&self, number: Number, delivered: ByteCount) -> Owed {
        let bytes = self.on_the_way(delivered);
        let in_parts = bytes.min(ByteCount::new(self.in_parts.load(Ordering::Relaxed)));
        let count = |bytes: ByteCount, frame: usize| bytes.as_u64().div_ceil(frame as u64);
        let of_parts = count(in_parts, PART_SIZE).min(self.blocks_in_parts.load(Ordering::Relaxed));
        Owed { number, bytes, blocks: count(bytes - in_parts, BLOCK_SIZE) + of_parts }
    }
}

impl<'a> Connections<'a> {
    /// Connections that send what `outgoing` has, as fast as `steering` lets them; those after the
    /// first with the congestion control `congestion`, or else the best available.
    pub(super) fn new(
        executor: &'a Executor<'a>,
        account: &'a Account,
        Outgoing { data, parts, wake }: Outgoing,
        steering: Steering<'a>,
        manner: SendingManner<'a>,
    ) -> Self {
        let (bytes_sent, serving) = (AtomicU64::new(0), Mutex::default());
        let handed = std::array::from_fn(|_| Handed::default());
        Self { executor, account, steering, wake, data, parts, bytes_sent, handed, serving, manner }
    }

    /// Payload bytes handed to the sockets of all connections, before they were compressed.
    pub(super) fn bytes_sent(&self) -> u64 {
        self.bytes_sent.load(Ordering::Relaxed)
    }

    /// Runs the rate controller of all connections until the session is over.
    pub(super) fn steer(&self) {
        self.steering.run(|needs_owed| {
            let blocks_wait = self.has_data();
            let worked = self.handed.iter().map(|handed| handed.worked.load(Ordering::Relaxed)).sum();
            let owed = if needs_owed && !blocks_wait { self.owed() } else { Vec::new() };
            Pending { blocks_wait, worked: Span::from_nanos(worked), owed }
        });
    }

    /// Data that each connection still has to deliver, when there is nothing else to send; empty
    /// before. Where files have failed, what is left is not known exactly, and it is empty.
    fn owed(&self) -> Vec<Owed> {
        if self.executor.left(self.handed.iter().map(Handed::plain).sum()) != Some(ByteCount::ZERO) {
            return Vec::new();
        }
        let mut delivered = self.executor.further.delivered_by_each();
        delivered.push((0, self.executor.link.delivered()));
        let owed = |(number, delivered): (u8, _)| self.handed[usize::from(number)].owed(number.into(), delivered);
        delivered.into_iter().map(owed).collect()
    }

    /// Payload bytes that have reached the receiver's host, over all connections.
    pub(super) fn delivered(&self) -> ByteCount {
        self.executor.link.delivered() + self.executor.further.delivered()
    }

    /// Number of payload bytes, before they were compressed, that have reached the receiver's host; of
    /// those that were handed to the sockets compressed, all count as arrived.
    pub(super) fn delivered_plain(&self) -> ByteCount {
        let saved = self.handed.iter().map(|handed| handed.saved.load(Ordering::Relaxed)).sum();
        self.delivered() + ByteCount::new(saved)
    }

    /// Decides about compression by what limits at present.
    pub(super) fn watch_compression(&self, now: Time) {
        let (executor, delivered) = (self.executor, (self.delivered(), self.delivered_plain()));
        let event = executor.compressing.on_tick(now, executor.stages.current(), delivered);
        event.into_iter().for_each(|event| (executor.events)(event));
    }

    /// TCP segments retransmitted on all connections.
    pub(super) fn retransmitted_segments(&self) -> u64 {
        self.tcp_infos().iter().map(|info| info.segments_retransmitted).sum()
    }

    /// Bytes that TCP acknowledged on all connections.
    pub(super) fn acknowledged(&self) -> ByteCount {
        self.tcp_infos().iter().map(|info| info.bytes_acked).sum()
    }

    /// TCP statistics of all connections that are TCP, those that were lost included.
    fn tcp_infos(&self) -> Vec<TcpInfo> {
        let mut infos = self.executor.further.tcp_infos();
        infos.extend(self.executor.link.tcp_info());
        infos
    }

    /// Whether data is queued that any connection may send.
    fn has_data(&self) -> bool {
        !self.data.is_empty() || !self.parts.is_empty()
    }

    /// Takes a further connection into use: registers it, tunes its socket, and starts the thread
    /// that sends on it.
    pub(super) fn add<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, link: FurtherLink) {
        let FurtherLink { number, link: Link { outlet, inlet, control } } = link;
        if !self.executor.with(|machine| machine.on_joined(number)) {
            return control.shutdown();
        }
        let way = way(&control);
        let bundle = self.steering.bundle_of(way);
        let tuned = tune_beside(&control, self.manner, bundle, &self.executor.privileges).unwrap_or_else(|error| {
            tracing::debug!("a further connection keeps its congestion control: {error}");
            None
        });
        self.executor.pool.grow();
        self.steering.note_way(number, way, tuned.as_ref().and_then(Tuned::bundle));
        self.executor.further.add(number, control);
        self.steering.on_joined(number);
        let (running, ended) = watched();
        let serving = try_start(scope, "send", move || {
            let _running = running;
            // Nothing comes back on a further connection; its receiving half only has to stay open.
            let _open = inlet;
            // Keeps its congestion control loaded.
            let _tuned = tuned;
            self.run_further(number, outlet);
        });
        if let Err(error) = serving {
            // The others carry what it would have.
            tracing::debug!(%error, number, "a further connection cannot be served");
            self.executor.ends_early(number, EarlyEnd::Lost(error.to_string()));
            return self.executor.with(|machine| {
                machine.on_connection_ended(number);
            });
        }
        self.serving.lock().expect(NO_PANIC).push(ended);
    }

    /// Waits up to [`FAREWELL`] until the connections after the first are closed in order, which
    /// shows the receiver that nothing of them was lost.
    pub(super) fn await_farewells(&self) {
        let deadline = clock::now() + FAREWELL;
        for ended in &*self.serving.lock().expect(NO_PANIC) {
            ended.wait(deadline - clock::now());
        }
    }

    /// Serves the first connection until the session is over; messages that are queued by then are
    /// still sent.
    pub(super) fn run_first(&self, mut outlet: Box<dyn Outlet>) {
        let sent = self.serve_first(&mut *outlet);
        let now = clock::now();
        self.executor.with(|machine| match sent {
            Ok(()) => machine.on_sent(now),
            Err(error) => machine.on_send_failed(now, SessionError::of_link(error)),
        });
    }

    /// Serves a connection after the first: sends blocks, once it may, until it has ended or the session is over.
    fn run_further(&self, number: u8, mut outlet: Box<dyn Outlet>) {
        let outlet = &mut *outlet;
        let opening = self.steering.opening(number.into());
        let may_serve = opening.map_or(Ok(true), |opening| self.await_opening(outlet, &opening));
        let served = match may_serve {
            Ok(true) => self.serve_further(number, outlet),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = served {
            tracing::debug!(%error, number, "a further connection has ended");
            // What was shut here was so for a reason that is known where that was done.
            if !matches!(error, LinkError::Stopped) {
                self.executor.ends_early(number, EarlyEnd::Lost(error.to_string()));
            }
            self.executor.with(|machine| machine.on_connection_ended(number));
        }
    }

    /// Waits until the connection may send blocks; false if the session ends before.
    fn await_opening(&self, outlet: &mut dyn Outlet, opening: &Once) -> Result<bool, LinkError> {
        loop {
            select! {
                recv(opening.channel()) -> _ => return Ok(true),
                recv(self.executor.over.channel()) -> _ => return Ok(false),
                default(PING.into()) => {
                    outlet.send(Message::Ping.into())?;
                    outlet.flush()?;
                }
            }
        }
    }

    /// Sends messages and frames on the first connection until the session is over, then flushes
    /// it.
    fn serve_first(&self, outlet: &mut dyn Outlet) -> Result<(), LinkError> {
        let mut limit = ToldLimit::new(self.account);
        loop {
            if let Some(message) = limit.due(self.executor.peer()) {
                self.send(0, outlet, message.into())?;
            }
            match self.next(0, outlet, &self.wake)? {
                Next::Messages => self.send_messages(outlet)?,
                Next::Parcel(parcel) => self.send(0, outlet, *parcel)?,
                Next::Over => {
                    self.send_messages(outlet)?;
                    return outlet.flush();
                }
            }
        }
    }

    /// Sends frames on a connection after the first until it has ended or the session is over, then
    /// flushes it.
    fn serve_further(&self, number: u8, outlet: &mut dyn Outlet) -> Result<(), LinkError> {
        let no_messages = never();
        while let Next::Parcel(parcel) = self.next(number, outlet, &no_messages)? {
            if !self.executor.with(|machine| machine.on_handed(number, &parcel.message)) {
                return Ok(());
            }
            self.send(number, outlet, *parcel)?;
        }
        outlet.flush()
    }

    /// Waits for the next item that a connection sends, and returns it.
    fn next(&self, number: u8, outlet: &mut dyn Outlet, wake: &Queue<()>) -> Result<Next, LinkError> {
        let until = clock::now() + PING;
        loop {
            if wake.try_recv().is_ok() {
                return Ok(Next::Messages);
            }
            if self.executor.over.wait(Span::ZERO) {
                return Ok(Next::Over);
            }
            let no_data = never();
            // On the way, as the connections carry it.
            let left = self.executor.left(self.bytes_sent()).map(|left| self.executor.compressing.on_the_way(left));
            let if_taken = |queue, frame| {
                let takes =
                    !self.executor.is_data_stopped() && self.steering.takes(number, ByteCount::from(frame), left);
                if takes { queue } else { &no_data }
            };
            // Others that have less on the way come first.
            let has_enough = self.executor.has_parts()
                && self.steering.enough(number).is_some_and(|enough| self.on_the_way(number) >= enough);
            let parts = if has_enough { &no_data } else { if_taken(&self.parts, PART_SIZE) };
            let data = if_taken(&self.data, BLOCK_SIZE);
            if let Ok(parcel) = data.try_recv().or_else(|_| parts.try_recv()) {
                return Ok(Next::Parcel(Box::new(parcel)));
            }
            outlet.flush()?;
            let next = select_biased! {
                recv(wake) -> woken => Some(woken.map_or(Next::Over, |()| Next::Messages)),
                recv(self.executor.over.channel()) -> _ => Some(Next::Over),
                recv(data) -> parcel => Some(parcel.map_or(Next::Over, |parcel| Next::Parcel(Box::new(parcel)))),
                recv(parts) -> part => Some(part.map_or(Next::Over, |part| Next::Parcel(Box::new(part)))),
                default(Duration::from(if has_enough { LOOK_AGAIN } else { PING })) => {
                    (clock::now() >= until).then(|| Next::Parcel(Box::new(Message::Ping.into())))
                }
            };
            if let Some(next) = next {
                return Ok(next);
            }
        }
    }

    /// Payload bytes that a connection was handed and that have not reached the receiver's host.
    fn on_the_way(&self, number: u8) -> ByteCount {
        let delivered = match number {
            0 => Some(self.executor.link.delivered()),
            number => self.executor.further.delivered_by(number),
        };
        self.handed[usize::from(number)].on_the_way(delivered.unwrap_or(ByteCount::ZERO))
    }

    /// Sends the queued messages on the first connection.
    fn send_messages(&self, outlet: &mut dyn Outlet) -> Result<(), LinkError> {
        while let Some(message) = self.executor.next_message() {
            self.send(0, outlet, self.with_account(message).into())?;
        }
        Ok(())
    }

    /// Sends a frame on a connection, after its payload was reserved from the quota; a used-up
    /// quota ends the session.
    fn send(&self, number: u8, outlet: &mut dyn Outlet, parcel: Parcel) -> Result<(), LinkError> {
        let _busy = self.executor.stages.send.busy();
        let length = parcel.message.plain_length(parcel.payload_length()) as u64;
        if let Err(error) = self.account.reserve(ByteCount::new(length)) {
            // This ends the session, which the first connection reports to the receiver.
            self.executor.fail(error);
            return Ok(());
        }
        self.handed[usize::from(number)].add(&parcel);
        outlet.send(parcel)?;
        self.handed[usize::from(number)].worked.store(clock::of_thread().as_nanos(), Ordering::Relaxed);
        self.bytes_sent.fetch_add(length, Ordering::Relaxed);
        Ok(())
    }

    /// Adds the totals of the connections to the last message (goodbye); other messages stay as
    /// they are.
    fn with_account(&self, message: Message) -> Message {
        let Message::Goodbye(goodbye) = message else { return message };
        self.sample(clock::now());
        Message::Goodbye(Goodbye {
            bytes_sent: self.bytes_sent(),
            retransmitted_segments: self.retransmitted_segments(),
            limited_by: self.executor.stages.charged_by_name(),
            uncompressed: self.executor.compressing.uncompressed(),
            ..goodbye
        })
    }

    /// Charges the time since the last call to the pipeline stage that limited the rate.
    pub(super) fn sample(&self, now: Time) {
        let executor = self.executor;
        // What waits in a pause waits for whoever has set it.
        let idle = self.steering.paused_by().map_or_else(|| executor.idle_stage(), Stage::from);
        executor.stages.sample(now, &executor.link, idle, self.steering.limit());
    }
}
