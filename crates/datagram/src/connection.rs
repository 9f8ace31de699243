//! One connection of an engine: what it may send and when, and its streams.

use std::collections::{HashMap, VecDeque};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use icdc_units::{ByteCount, Span};
use quinn_proto::{
    Connection as Quic, ConnectionError, ConnectionEvent, ConnectionHandle, ConnectionStats, Dir, Endpoint, Event,
    StreamEvent, StreamId, Transmit, VarInt,
};

use crate::bridge::Bridge;
use crate::congestion::SharedFlow;
use crate::pacing::Pacing;
use crate::settings::{STREAMS, UNAUTHENTICATED_WINDOW};
use crate::socket::Sockets;

/// What the streams give before it can leave: so long at the rate that is sent; where that is not known yet, as many
/// windows, since the next burst is so much longer; so many bytes at least and at most. More would only wait, and what
/// comes later with it.
const AHEAD: Span = Span::from_millis(20);
const WINDOWS_AHEAD: u64 = 4;
const LEAST_AHEAD: u64 = 128 << 10;
const MOST_AHEAD: u64 = 16 << 20;
/// Part of a packet that is held to be of the streams, in hundredths: less than it is, so that what is held to wait is not
/// less than what does; when nothing waits any more it shows.
const PAYLOAD: u64 = 96;
/// Receive window of an end that is known, in bytes: at first; for each byte that has arrived within a round trip; at most.
/// What is lost holds up what follows until it is there, a round trip later or, where it is lost again, two.
const FIRST_WINDOW: u64 = 128 << 20;
const WINDOWS: u64 = 8;
const LARGEST_WINDOW: u64 = 1 << 30;
/// Number of runs of packets that leave in a row before others have their turn.
const TURN: usize = 8;

/// A connection, and the streams that it carries.
pub(crate) struct Connection {
    quic: Quic,
    flow: SharedFlow,
    pacing: Pacing,
    bridges: HashMap<StreamId, Bridge>,
    /// Packets that the socket has not taken, and their contents.
    held: Option<Transmit>,
    contents: Vec<u8>,
    /// Bytes that the streams have given and that have not left, as far as it is known, and bytes found lost when that was
    /// last looked at.
    ahead: u64,
    lost: u64,
    /// Bytes that have arrived in this round trip, and when it began.
    arrived: u64,
    arriving_since: Instant,
    /// Whether it is known who the other end is.
    is_trusted: bool,
    /// Receive window: quinn takes a smaller one for a debt that a larger one does not pay.
    window: u64,
    /// Local sockets that wait until the other end allows another stream.
    waiting: VecDeque<UnixStream>,
    /// Number of datagrams received when packets last left.
    answered: u64,
}

/// Event of a connection.
pub(crate) enum Change {
    /// The handshake is complete.
    Connected,
    /// The connection is lost, or the other end has closed it.
    Lost(ConnectionError),
    /// The other end has opened this stream.
    Opened(StreamId),
}

/// When a connection has to be driven again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// At once: it has had its turn.
    Now,
    /// At this time at the latest; `None`: when something arrives.
    At(Option<Instant>),
}

impl Connection {
    /// A connection whose congestion control is `flow`.
    pub(crate) fn new(quic: Quic, flow: SharedFlow, now: Instant) -> Self {
        let (bridges, contents) = (HashMap::new(), Vec::new());
        let pacing = Pacing::new(now);
        Self {
            quic,
            flow,
            pacing,
            bridges,
            held: None,
            contents,
            ahead: 0,
            lost: 0,
            arrived: 0,
            arriving_since: now,
            is_trusted: false,
            window: UNAUTHENTICATED_WINDOW,
            waiting: VecDeque::new(),
            answered: 0,
        }
    }

    /// Lets as much arrive as the path carries: it is known who the other end is.
    pub(crate) fn trust(&mut self) {
        self.is_trusted = true;
        // An end that has made the connection opens the streams.
        if self.quic.side().is_server() {
            self.quic.set_max_concurrent_streams(Dir::Bi, VarInt::from_u32(STREAMS));
        }
        self.widen(FIRST_WINDOW);
    }

    fn widen(&mut self, window: u64) {
        if window > self.window {
            self.window = window;
            self.quic.set_receive_window(VarInt::from_u32(window as u32));
        }
    }

    /// Whether it is known who the other end is.
    pub(crate) fn is_trusted(&self) -> bool {
        self.is_trusted
    }

    /// Refuses a stream that the other end has opened.
    pub(crate) fn refuse(&mut self, stream: StreamId) {
        let nothing = VarInt::from_u32(0);
        // One that has ended needs no more.
        let _ = self.quic.recv_stream(stream).stop(nothing);
        let _ = self.quic.send_stream(stream).reset(nothing);
    }

    /// Handles what the endpoint has for the connection.
    pub(crate) fn handle(&mut self, event: ConnectionEvent) {
        self.quic.handle_event(event);
    }

    /// Opens a stream that leads to this local socket, as soon as the other end allows it.
    pub(crate) fn open(&mut self, socket: UnixStream) {
        self.waiting.push_back(socket);
    }

    /// Opens streams that wait, as many as the other end allows; returns them.
    pub(crate) fn open_waiting(&mut self) -> Vec<StreamId> {
        let mut opened = Vec::new();
        while !self.waiting.is_empty()
            && let Some(stream) = self.quic.streams().open(Dir::Bi)
            && let Some(socket) = self.waiting.pop_front()
        {
            self.bridges.insert(stream, Bridge::new(socket, stream));
            opened.push(stream);
        }
        opened
    }

    /// Leads a stream that the other end has opened to a local socket; returns the count of what it carries.
    pub(crate) fn attach(&mut self, stream: StreamId, socket: UnixStream) -> Arc<AtomicU64> {
        let bridge = Bridge::new(socket, stream);
        let carried = bridge.carried();
        self.bridges.insert(stream, bridge);
        carried
    }

    /// The bridge of a stream.
    pub(crate) fn bridge(&mut self, stream: StreamId) -> Option<&mut Bridge> {
        self.bridges.get_mut(&stream)
    }

    /// Whether no stream is left.
    pub(crate) fn is_unused(&self) -> bool {
        self.bridges.is_empty() && self.waiting.is_empty()
    }

    /// Whether the connection is closed, or lost.
    pub(crate) fn is_closed(&self) -> bool {
        self.quic.is_closed()
    }

    /// Whether nothing more is to be sent or received.
    pub(crate) fn is_drained(&self) -> bool {
        self.quic.is_drained()
    }

    /// Closes the connection.
    pub(crate) fn close(&mut self, now: Instant) {
        self.quic.close(now, VarInt::from_u32(0), bytes::Bytes::new());
    }

    /// Ends the local sockets of all streams.
    pub(crate) fn cut(&mut self) {
        self.waiting.clear();
        for (_, bridge) in self.bridges.drain() {
            bridge.cut();
        }
    }

    /// Does what is due: timers, streams, packets. `tell` hears what has happened.
    pub(crate) fn drive(
        &mut self,
        now: Instant,
        (handle, endpoint): (ConnectionHandle, &mut Endpoint),
        sockets: &Sockets,
        mut tell: impl FnMut(&mut Self, Change),
    ) -> Next {
        if self.quic.poll_timeout().is_some_and(|at| at <= now) {
            self.quic.handle_timeout(now);
        }
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(event) = endpoint.handle_event(handle, event) {
                self.quic.handle_event(event);
            }
        }
        while let Some(event) = self.quic.poll() {
            match event {
                Event::Connected => tell(self, Change::Connected),
                Event::ConnectionLost { reason } => {
                    self.cut();
                    tell(self, Change::Lost(reason));
                }
                Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                    while let Some(stream) = self.quic.streams().accept(Dir::Bi) {
                        tell(self, Change::Opened(stream));
                    }
                }
                Event::Stream(StreamEvent::Finished { id }) => {
                    if let Some(bridge) = self.bridges.get_mut(&id) {
                        bridge.mark_delivered();
                    }
                }
                Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    if let Some(bridge) = self.bridges.get_mut(&id) {
                        bridge.stop_giving();
                    }
                    // quinn would go on to send what it has.
                    let _ = self.quic.send_stream(id).reset(error_code);
                }
                // Streams are looked at in each turn.
                Event::Stream(_) | Event::HandshakeDataReady | Event::DatagramReceived | Event::DatagramsUnblocked => {}
            }
        }
        let more = self.deliver(now);
        let delivered = self.flow.lock().state().delivered;
        let lapse = |bridge: &mut Bridge| bridge.lapse(&mut self.quic, now, delivered);
        let lapses = self.bridges.values_mut().filter_map(lapse).min();
        self.refill();
        let wait = self.transmit(now, sockets);
        match (wait, more) {
            (Next::Now, _) | (_, true) => Next::Now,
            (Next::At(at), false) => Next::At(at.into_iter().chain(self.quic.poll_timeout()).chain(lapses).min()),
        }
    }

    /// Hands on what has arrived; whether there may be more at once.
    fn deliver(&mut self, now: Instant) -> bool {
        let mut more = false;
        let (quic, arrived) = (&mut self.quic, &mut self.arrived);
        // What waits for something that is missing has credit again: as much as the window at most.
        let waiting: u64 = self.bridges.values().map(Bridge::waiting).sum();
        let room = self.window.saturating_sub(waiting);
        let streams = self.bridges.len().max(1) as u64;
        self.bridges.retain(|_, bridge| {
            let (count, has_more) = bridge.deliver(quic, bridge.waiting() + room / streams);
            *arrived += count as u64;
            more |= has_more;
            !bridge.has_ended()
        });
        if self.is_trusted && now.saturating_duration_since(self.arriving_since) >= self.quic.rtt() {
            self.widen((self.arrived * WINDOWS).min(LARGEST_WINDOW));
            (self.arrived, self.arriving_since) = (0, now);
        }
        more
    }

    /// Takes more from the streams, where little of what they have given is left; whether there was any.
    fn refill(&mut self) -> bool {
        let state = self.flow.lock().state();
        let wanted = match state.pacing_rate {
            Some(rate) => (rate * AHEAD).as_u64(),
            None => state.window.as_u64() * WINDOWS_AHEAD,
        };
        let lost = self.quic.stats().path.lost_bytes;
        self.ahead += lost - std::mem::replace(&mut self.lost, lost);
        let missing = wanted.clamp(LEAST_AHEAD, MOST_AHEAD).saturating_sub(self.ahead);
        if missing < LEAST_AHEAD / 4 {
            return false;
        }
        let each = missing as usize / self.bridges.len().max(1);
        let quic = &mut self.quic;
        let given = self.bridges.values_mut().map(|bridge| bridge.give(quic, each)).sum::<usize>();
        self.ahead += given as u64;
        given > 0
    }

    /// Makes one packet that acknowledges what has come since packets last left, and carries data as well where some waits:
    /// quinn makes none without while the window is closed. `None` if nothing has come.
    fn answer(&mut self, now: Instant, before: &ConnectionStats) -> Option<Transmit> {
        if before.udp_rx.datagrams == std::mem::replace(&mut self.answered, before.udp_rx.datagrams) {
            return None;
        }
        self.flow.lock().force(true);
        self.contents.clear();
        let transmit = self.quic.poll_transmit(now, 1, &mut self.contents);
        self.flow.lock().force(false);
        transmit
    }

    /// Sends what may leave.
    fn transmit(&mut self, now: Instant, sockets: &Sockets) -> Next {
        for _ in 0..TURN {
            if let Some(transmit) = self.held.take()
                && !sockets.send(&transmit, &self.contents)
            {
                self.held = Some(transmit);
                return Next::At(None);
            }
            let (most, waits, rate) = {
                let mut flow = self.flow.lock();
                flow.prepare(now);
                let (rate, packet) = (flow.pacing_rate(), flow.state().packet);
                let waits = self.pacing.waits_until(now);
                flow.hold(waits.is_some());
                let run = Pacing::run(rate, packet).min(flow.room());
                (run.clamp(1, sockets.longest_run() as u64) as usize, waits, rate)
            };
            self.contents.clear();
            let before = self.quic.stats();
            let mut transmit = self.quic.poll_transmit(now, most, &mut self.contents);
            if transmit.is_none() {
                let is_open = waits.is_none() && self.flow.lock().room() > 0;
                if is_open {
                    self.ahead = 0;
                    if self.refill() {
                        continue;
                    }
                } else {
                    transmit = self.answer(now, &before);
                }
            }
            let Some(transmit) = transmit else {
                self.flow.lock().pause(waits.is_some());
                return Next::At(waits);
            };
            self.answered = before.udp_rx.datagrams;
            if eliciting(&self.quic.stats()) > eliciting(&before) {
                self.flow.lock().sent(now, transmit.size as u64);
                self.pacing.sent(now, ByteCount::new(transmit.size as u64), rate);
                self.ahead = self.ahead.saturating_sub(transmit.size as u64 * PAYLOAD / 100);
            }
            self.held = Some(transmit);
        }
        Next::Now
    }
}

/// Number of frames sent that the other end acknowledges.
fn eliciting(stats: &ConnectionStats) -> u64 {
    let frames = &stats.frame_tx;
    frames.crypto
        + frames.data_blocked
        + u64::from(frames.handshake_done)
        + frames.immediate_ack
        + frames.ack_frequency
        + frames.max_data
        + frames.max_stream_data
        + frames.max_streams_bidi
        + frames.max_streams_uni
        + frames.new_connection_id
        + frames.new_token
        + frames.path_challenge
        + frames.path_response
        + frames.ping
        + frames.reset_stream
        + frames.retire_connection_id
        + frames.stream_data_blocked
        + frames.streams_blocked_bidi
        + frames.streams_blocked_uni
        + frames.stop_sending
        + frames.stream
}
