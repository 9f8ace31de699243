//! The sending end of the data: one thread per connection that writes zeros, and a look at `TCP_INFO` each 10 ms.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use icdc_protocol::Message;
use icdc_protocol::limits::MAX_MEASURE_ERRORS;
use icdc_protocol::measure::{ControlMessage, Order, Received, Sample, Sent};
use icdc_rate::known_paths::{PathWatch, Resumption};
use icdc_rate::path_ceiling::{self, Steering};
use icdc_tcp::algorithm::{self, Chosen};
use icdc_tcp::{ConnectionState, TcpInfo};
use icdc_units::{ByteCount, Rate, Span, Time};

use super::control_link::{ControlLink, Incoming, Next};
use super::{granted, local};
use crate::error::SessionError;
use crate::stand_in::{self, StandIn};
use crate::{buffers, clock, known_paths, pace};

/// Time between two samples.
const TICK: Span = Span::from_millis(10);
/// How long the receiver may take beyond the agreed time to say that it is over.
const GRACE: Span = Span::from_secs(60);
/// How long it may take when the user does not want to wait any longer.
const STOP_GRACE: Span = Span::from_secs(10);

static ZEROS: [u8; 256 << 10] = [0; 256 << 10];

/// How it went.
pub(super) struct Outcome {
    pub(super) sent: Sent,
    pub(super) received: Received,
    pub(super) interrupted: bool,
}

/// A connection that is ready to send.
pub(super) struct Prepared {
    /// What its congestion control became.
    pub(super) chosen: Chosen,
    /// What is known of the path.
    pub(super) known: Option<Resumption>,
}

impl Prepared {
    pub(super) fn gains_by_run_up(&self) -> bool {
        stand_in::gains_by_run_up(self.known, &self.chosen.name)
    }
}

/// Makes a fresh connection one that sends as ordered.
pub(super) fn prepare(order: &Order, socket: &TcpStream) -> Result<Prepared, String> {
    if let Some(window) = order.window {
        icdc_tcp::set_buffers(socket, window, ByteCount::ZERO).map_err(|error| error.to_string())?;
    } else if order.congestion.is_none() {
        buffers::prepare_to_send(socket);
    }
    let known = if order.congestion.is_none() { known_paths::resume(socket) } else { None };
    let chosen = match order.congestion.as_deref() {
        None => algorithm::choose_best(socket, known),
        Some(name) => algorithm::choose(socket, name),
    };
    let chosen = chosen.map_err(|error| error.to_string())?;
    if let Some(share) = share(order) {
        icdc_tcp::set_pacing_rate(socket, share).map_err(|error| error.to_string())?;
    }
    // What has not left when it is over shall not linger in the kernel.
    rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO))
        .map_err(|error| format!("setsockopt(SO_LINGER): {error}"))?;
    Ok(Prepared { chosen, known })
}

/// What the user allows each connection. The kernel counts in bytes, of which there must be one at least.
fn share(order: &Order) -> Option<Rate> {
    order.rate.map(|rate| (rate / u64::from(order.streams)).max(Rate::from_bits_per_second(8)))
}

/// Sends until the receiver says that it is over. `known` is what is known of the path, `has_run_up` whether the connections'
/// windows have grown already.
pub(super) fn run(
    order: &Order,
    sockets: &[TcpStream],
    known: Option<Resumption>,
    has_run_up: bool,
    control: &ControlLink,
    samples: &mut dyn FnMut(Vec<Sample>),
) -> Result<Outcome, SessionError> {
    let budget = AtomicU64::new(order.bytes.map_or(u64::MAX, ByteCount::as_u64));
    let (tell, ended) = bounded(sockets.len());
    let end = || {
        for socket in sockets {
            // One that is gone already needs no end.
            let _ = icdc_tcp::shutdown(socket);
        }
    };
    thread::scope(|scope| {
        for (number, socket) in sockets.iter().enumerate() {
            let (budget, tell) = (&budget, tell.clone());
            let pump = move || {
                let reason = pump(socket, budget).err();
                let _ = tell.send(reason.map(|error| format!("data connection {number}: send: {error}")));
            };
            if let Err(error) = thread::Builder::new().name(format!("send-{number}")).spawn_scoped(scope, pump) {
                end();
                return Err(local("clone", error));
            }
        }
        let outcome = watch(order, sockets, pacers(order, sockets, known, has_run_up), control, &ended, samples);
        end();
        outcome
    })
}

/// Writes until the budget of all connections is spent, and ends this one.
fn pump(mut socket: &TcpStream, budget: &AtomicU64) -> std::io::Result<()> {
    loop {
        let chunk = ZEROS.len() as u64;
        let claim = budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(chunk)));
        let left = claim.unwrap_or_default().min(chunk);
        if left == 0 {
            return socket.shutdown(std::net::Shutdown::Write);
        }
        match socket.write_all(&ZEROS[..left as usize]) {
            Ok(()) => {}
            // This end has ended it.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn watch(
    order: &Order,
    sockets: &[TcpStream],
    mut pacers: Vec<Pacer<'_>>,
    control: &ControlLink,
    ended: &Receiver<Option<String>>,
    samples: &mut dyn FnMut(Vec<Sample>),
) -> Result<Outcome, SessionError> {
    let begun = clock::now();
    let mut backstop = begun + Span::from_nanos(order.nanos) + GRACE;
    let (mut tick, mut interrupted, mut errors) = (begun, false, Vec::new());
    let mut path = PathWatch::default();
    let received = loop {
        match control.next(ended, tick) {
            Next::Deadline => {
                let now = clock::now();
                if now >= backstop {
                    return Err(SessionError::Cut("the receiver does not say that it is over".into()));
                }
                let infos = look(sockets);
                samples(sampled(&infos, now - begun));
                for pacer in &mut pacers {
                    if let Some(info) = &infos[pacer.stream] {
                        pacer.steer(now, info);
                    }
                }
                watch_path(&mut path, order, &infos, now, |info| free(sockets, &pacers, info));
                tick = (tick + TICK).max(now);
            }
            Next::Worker(reason) => errors.extend(reason),
            Next::Incoming(Incoming::Control(ControlMessage::Received(received))) => break received,
            Next::Incoming(Incoming::Stop) => {
                interrupted = true;
                backstop = backstop.min(clock::now() + STOP_GRACE);
                control.send_message(Message::Interrupt);
            }
            Next::Incoming(other) => return Err(other.unexpected("the end of the data")),
        }
    };
    let span = clock::now() - begun;
    samples(sampled(&look(sockets), span));
    if let (Some(found), Some(socket)) = (path.found(), sockets.first()) {
        known_paths::remember(socket, found);
    }
    errors.truncate(MAX_MEASURE_ERRORS);
    let infos: Vec<TcpInfo> = sockets.iter().filter_map(|socket| icdc_tcp::info(socket).ok()).collect();
    let mut sent = account(order, sockets, &infos, span, errors);
    if let Some(own) = pacers.first().and_then(|pacer| pacer.stand_in.own()) {
        own.clone_into(&mut sent.congestion);
    }
    Ok(Outcome { sent, received, interrupted })
}

/// What the path carries shows only where nothing else limits, on one connection.
fn watch_path(
    path: &mut PathWatch,
    order: &Order,
    infos: &[Option<TcpInfo>],
    now: Time,
    free: impl Fn(&TcpInfo) -> Option<Rate>,
) {
    let ([info], None, None) = (infos, order.rate, order.window) else { return };
    match info {
        Some(info) => {
            path.found_free(now, free(info), info.bytes_acked, info.min_rtt);
            path.update(now, info.bytes_acked, info.segments_retransmitted, info.min_rtt, info.mss);
        }
        None => path.pause(),
    }
}

/// What was found that the path has free for the first connection, which `info` is of.
fn free(sockets: &[TcpStream], pacers: &[Pacer<'_>], info: &TcpInfo) -> Option<Rate> {
    match pacers.first() {
        Some(pacer) => (pacer.steering.state() != path_ceiling::State::Climb).then(|| pacer.steering.ceiling()),
        None => {
            let name = icdc_tcp::congestion(sockets.first()?).ok()?;
            algorithm::finds_the_rate(&name).then(|| info.found_rate()).flatten()
        }
    }
}

/// A connection whose congestion control does not find the rate by itself.
struct Pacer<'a> {
    socket: &'a TcpStream,
    /// Its number.
    stream: usize,
    steering: Steering,
    stand_in: StandIn,
    /// What the user allows.
    most: Rate,
}

/// Unless the user named an algorithm, which is then what is to be measured.
fn pacers<'a>(order: &Order, sockets: &'a [TcpStream], known: Option<Resumption>, has_run_up: bool) -> Vec<Pacer<'a>> {
    if order.congestion.is_some() {
        return Vec::new();
    }
    let left = |(_, socket): &(usize, &TcpStream)| {
        !icdc_tcp::congestion(socket).is_ok_and(|name| algorithm::finds_the_rate(&name))
    };
    let most = share(order).unwrap_or(Rate::MAX);
    let share = known.map(|known| Resumption { rate: known.rate / u64::from(order.streams), ..known });
    let pacer = |(stream, socket)| {
        let mut pacer = Pacer { socket, stream, steering: pace::steering(share), stand_in: StandIn::default(), most };
        pacer.set(pacer.steering.ceiling());
        if has_run_up {
            pacer.stand_in.take_over(socket);
        }
        pacer
    };
    sockets.iter().enumerate().filter(left).map(pacer).collect()
}

impl Pacer<'_> {
    fn steer(&mut self, now: Time, info: &TcpInfo) {
        let decision = pace::observation(now, info).and_then(|observation| self.steering.observe(&observation));
        if let Some(decision) = decision {
            self.set(decision.ceiling);
        }
        self.stand_in.look(self.socket, now, info, self.steering.state());
    }

    fn set(&self, ceiling: Rate) {
        if let Err(error) = icdc_tcp::set_pacing_rate(self.socket, ceiling.min(self.most)) {
            tracing::debug!("pacing rate not set: {error}");
        }
    }
}

/// What the kernel says of each connection that is still one.
fn look(sockets: &[TcpStream]) -> Vec<Option<TcpInfo>> {
    let open = |socket| icdc_tcp::info(socket).ok().filter(|info| info.state != ConnectionState::Closed);
    sockets.iter().map(open).collect()
}

/// One sample of each of them.
fn sampled(infos: &[Option<TcpInfo>], at: Span) -> Vec<Sample> {
    let infos = infos.iter().enumerate().filter_map(|(stream, info)| Some((stream, info.as_ref()?)));
    infos
        .map(|(stream, info)| Sample {
            stream: stream as u8,
            at_nanos: at.as_nanos(),
            rtt_nanos: info.rtt.as_nanos(),
            min_rtt_nanos: info.min_rtt.as_nanos(),
            cwnd_bytes: info.window().as_u64(),
            pacing_rate_bps: info.pacing_rate.as_bits_per_second(),
            delivery_rate_bps: info.delivery_rate.as_bits_per_second(),
            retransmitted_segments: info.segments_retransmitted,
            bytes_acked: info.bytes_acked.as_u64(),
        })
        .collect()
}

fn account(order: &Order, sockets: &[TcpStream], infos: &[TcpInfo], span: Span, errors: Vec<String>) -> Sent {
    let total = |part: fn(&TcpInfo) -> Span| infos.iter().map(|info| part(info).as_nanos()).sum();
    let rtts = infos.iter().map(|info| info.min_rtt.as_nanos()).filter(|rtt| *rtt > 0);
    Sent {
        congestion: sockets.first().and_then(|socket| icdc_tcp::congestion(socket).ok()).unwrap_or_default(),
        mss: infos.iter().map(|info| info.mss.as_u64()).max().unwrap_or_default(),
        window: granted(order, sockets, |buffers| buffers.send),
        retransmitted_segments: infos.iter().map(|info| info.segments_retransmitted).sum(),
        min_rtt_nanos: rtts.min().unwrap_or_default(),
        open_nanos: span.as_nanos() * infos.len() as u64,
        busy_nanos: total(|info| info.busy),
        receive_window_nanos: total(|info| info.receive_window_limited),
        send_buffer_nanos: total(|info| info.send_buffer_limited),
        errors,
        notices: Vec::new(),
    }
}
