//! The sending end of the data: one thread per connection that writes zeros, and a sample of
//! `TCP_INFO` every 10 ms.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::bounded;
use icdc_limits::thread::start_scoped;
use icdc_protocol::Message;
use icdc_protocol::limits::MAX_MEASURE_ERRORS;
use icdc_protocol::measure::{ControlMessage, MeasureRequest, Received, Sample, Sent};
use icdc_rate::known_paths::{PathWatch, Resumption};
use icdc_rate::path_ceiling::{State, Steering};
use icdc_session::SessionError;
use icdc_tcp::congestion::finds_the_rate;
use icdc_tcp::{ConnectionState, Privileges, TcpInfo, clock};
use icdc_tuning::{SendingManner, Tuned, observation, steering};
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::control_link::{ControlLink, Incoming, Next, Watched};
use crate::sockets::granted;

/// Interval at which the sender samples `TCP_INFO`.
const TICK: Span = Span::from_millis(10);
/// Time limit for the receiver to report the end, beyond the agreed time.
const GRACE: Span = Span::from_secs(60);
/// Time limit for the receiver to report the end after the user has interrupted the measurement.
const STOP_GRACE: Span = Span::from_secs(10);

/// Number of bytes of one write.
const CHUNK: usize = 256 << 10;

/// Result of sending a measurement's data.
pub(super) struct Outcome {
    pub(super) sent: Sent,
    pub(super) received: Received,
    pub(super) interrupted: bool,
}

/// Tunes a new connection for sending as requested.
pub(super) fn prepare(
    order: &MeasureRequest,
    socket: Arc<TcpStream>,
    privileges: &Privileges,
) -> Result<Tuned, String> {
    let congestion = order.congestion.as_deref();
    let manner = SendingManner { congestion, background: false };
    let tuned = match order.window {
        Some(window) => {
            icdc_tcp::set_buffers(&*socket, window, ByteCount::ZERO).map_err(|error| error.to_string())?;
            Tuned::choose(socket, manner, privileges)
        }
        None if congestion.is_some() => Tuned::choose(socket, manner, privileges),
        None => Tuned::prepare(socket, manner, privileges),
    };
    let tuned = tuned.map_err(|error| error.to_string())?;
    if let Some(share) = share(order) {
        icdc_tcp::set_pacing_rate(tuned.socket(), Some(share)).map_err(|error| error.to_string())?;
    }
    // Unsent data is discarded when it is over.
    rustix::net::sockopt::set_socket_linger(tuned.socket(), Some(Duration::ZERO))
        .map_err(|error| format!("setsockopt(SO_LINGER): {error}"))?;
    Ok(tuned)
}

/// Rate limit of each connection: its share of the requested limit, at least one byte per second,
/// the kernel's unit; `None` for no limit.
fn share(order: &MeasureRequest) -> Option<Rate> {
    order.rate.map(|rate| (rate / u64::from(order.streams)).max(Rate::from_bits_per_second(8)))
}

/// Sends until the receiver reports the end; returns the result. `has_run_up` tells whether the
/// connections' windows have grown already.
pub(super) fn run(
    order: &MeasureRequest,
    connections: &[Tuned],
    has_run_up: bool,
    control: &ControlLink,
    samples: &mut dyn FnMut(Vec<Sample>),
) -> Result<Outcome, SessionError> {
    let budget = AtomicU64::new(order.bytes.map_or(u64::MAX, ByteCount::as_u64));
    let (tell, ended) = bounded(connections.len());
    let end = || {
        for connection in connections {
            // It fails for a connection that has ended.
            let _ = icdc_tcp::shutdown(connection.socket());
        }
    };
    thread::scope(|scope| {
        for (number, connection) in connections.iter().enumerate() {
            let (socket, budget, tell) = (connection.socket(), &budget, tell.clone());
            let pump = move || {
                let reason = pump(socket, budget).err();
                let _ = tell.send(reason.map(|error| format!("data connection {number}: send: {error}")));
            };
            if let Err(error) = start_scoped(scope, &format!("send-{number}"), pump) {
                end();
                return Err(SessionError::Local(error.to_string()));
            }
        }
        let watched = Watched { control, workers: &ended };
        let outcome = watch(order, connections, pacers(order, connections, has_run_up), watched, samples);
        end();
        outcome
    })
}

/// Writes zeros until the byte budget of all connections is spent, then ends this connection's
/// direction.
fn pump(mut socket: &TcpStream, budget: &AtomicU64) -> std::io::Result<()> {
    let zeros = vec![0; CHUNK];
    loop {
        let chunk = CHUNK as u64;
        let claim = budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(chunk)));
        let left = claim.unwrap_or_default().min(chunk);
        if left == 0 {
            return socket.shutdown(std::net::Shutdown::Write);
        }
        match socket.write_all(&zeros[..left as usize]) {
            Ok(()) => {}
            // This end has shut the connection down.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Samples the connections and sets their pacing rates every [`TICK`], until the receiver reports
/// the end.
fn watch(
    order: &MeasureRequest,
    connections: &[Tuned],
    mut pacers: Vec<Pacer<'_>>,
    watched: Watched<'_, Option<String>>,
    samples: &mut dyn FnMut(Vec<Sample>),
) -> Result<Outcome, SessionError> {
    let begun = clock::now();
    let mut backstop = begun + Span::from_nanos(order.nanos) + GRACE;
    let (mut tick, mut interrupted, mut errors) = (begun, false, Vec::new());
    let mut path = PathWatch::default();
    let received = loop {
        match watched.next(tick) {
            Next::Deadline => {
                let now = clock::now();
                if now >= backstop {
                    return Err(SessionError::Cut("the receiver does not say that it is over".into()));
                }
                let infos = inspect(connections);
                samples(sampled(&infos, now - begun));
                for pacer in &mut pacers {
                    if let Some(info) = &infos[pacer.stream] {
                        pacer.steer(now, info);
                    }
                }
                watch_path(&mut path, order, &infos, now, |info| found_free_rate(connections, &pacers, info));
                tick = (tick + TICK).max(now);
            }
            Next::Worker(reason) => errors.extend(reason),
            Next::Incoming(Incoming::Control(ControlMessage::Received(received))) => break received,
            Next::Incoming(Incoming::Stop) => {
                interrupted = true;
                backstop = backstop.min(clock::now() + STOP_GRACE);
                watched.control.send_message(Message::Interrupt);
            }
            Next::Incoming(other) => return Err(other.unexpected("the end of the data")),
        }
    };
    let span = clock::now() - begun;
    samples(sampled(&inspect(connections), span));
    if let (Some(found), Some(first)) = (path.found(), connections.first()) {
        first.remember_path(found);
    }
    errors.truncate(MAX_MEASURE_ERRORS);
    let infos: Vec<TcpInfo> = connections.iter().filter_map(|one| icdc_tcp::info(one.socket()).ok()).collect();
    let sent = sent_figures(order, connections.first(), &infos, span, errors);
    Ok(Outcome { sent, received, interrupted })
}

/// Records what a measurement shows of the path's rate; nothing if it has several connections, a
/// rate limit or fixed buffers, which may limit it instead.
fn watch_path(
    path: &mut PathWatch,
    order: &MeasureRequest,
    infos: &[Option<TcpInfo>],
    now: Time,
    free: impl Fn(&TcpInfo) -> Option<Rate>,
) {
    let ([info], None, None) = (infos, order.rate, order.window) else { return };
    match info {
        Some(info) => {
            path.found_free(now, free(info), info.bytes_acked, info.min_rtt);
            path.update(now, info.path_counters());
        }
        None => path.pause(),
    }
}

/// Free rate of the path as found by the first connection, whose state is `info`; `None` while
/// unknown, and always where the user has named an algorithm that does not find it.
fn found_free_rate(connections: &[Tuned], pacers: &[Pacer<'_>], info: &TcpInfo) -> Option<Rate> {
    match pacers.first() {
        Some(pacer) => pacer.steering.ceiling().filter(|_| pacer.steering.state() != State::Climb),
        None => finds_the_rate(&connections.first()?.congestion()).then(|| info.found_rate()).flatten(),
    }
}

/// Controller of the pacing rate of one connection, from its `TCP_INFO`; for any congestion control
/// but `icdc`, which finds the path's rate by itself.
struct Pacer<'a> {
    connection: &'a Tuned,
    /// Number of the connection.
    stream: usize,
    steering: Steering,
    /// Rate limit that the user has set; `None` for none.
    most: Option<Rate>,
}

/// Makes a pacer for each connection whose congestion control does not find the rate; none if the
/// user named an algorithm, which is then measured as it is.
fn pacers<'a>(order: &MeasureRequest, connections: &'a [Tuned], has_run_up: bool) -> Vec<Pacer<'a>> {
    if order.congestion.is_some() {
        return Vec::new();
    }
    let left = |(_, connection): &(usize, &Tuned)| !finds_the_rate(&connection.congestion());
    let most = share(order);
    let known = connections.first().and_then(Tuned::known_path);
    let share = known.map(|known| Resumption { rate: known.rate / u64::from(order.streams), ..known });
    let pacer = |(stream, connection): (usize, &'a Tuned)| {
        let pacer = Pacer { connection, stream, steering: steering(share), most };
        pacer.set(pacer.steering.ceiling());
        if has_run_up {
            connection.begin_data();
        }
        pacer
    };
    connections.iter().enumerate().filter(left).map(pacer).collect()
}

impl Pacer<'_> {
    /// Takes a new `TCP_INFO` of the connection, and sets the pacing rate that follows from it.
    fn steer(&mut self, now: Time, info: &TcpInfo) {
        let decision = observation(now, info).and_then(|observation| self.steering.observe(&observation));
        if let Some(decision) = decision {
            self.set(decision.ceiling);
        }
        self.connection.update_algorithm(now, info, self.steering.state());
    }

    /// Sets the lower one of this ceiling and the user's limit.
    fn set(&self, ceiling: Option<Rate>) {
        let lowest = [ceiling, self.most].into_iter().flatten().min();
        if let Err(error) = icdc_tcp::set_pacing_rate(self.connection.socket(), lowest) {
            tracing::debug!("pacing rate not set: {error}");
        }
    }
}

/// Reads `TCP_INFO` of each connection; `None` for one that is closed.
fn inspect(connections: &[Tuned]) -> Vec<Option<TcpInfo>> {
    let open = |one: &Tuned| icdc_tcp::info(one.socket()).ok().filter(|info| info.state != ConnectionState::Closed);
    connections.iter().map(open).collect()
}

/// Samples of all open connections at the time `at`.
fn sampled(infos: &[Option<TcpInfo>], at: Span) -> Vec<Sample> {
    let infos = infos.iter().enumerate().filter_map(|(stream, info)| Some((stream, info.as_ref()?)));
    infos
        .map(|(stream, info)| Sample {
            stream: stream as u8,
            at_nanos: at.as_nanos(),
            rtt_nanos: info.rtt.as_nanos(),
            min_rtt_nanos: info.min_rtt.as_nanos(),
            cwnd_bytes: info.window().as_u64(),
            pacing_rate_bps: info.pacing_rate.map_or(u64::MAX, Rate::as_bits_per_second),
            delivery_rate_bps: info.delivery_rate.as_bits_per_second(),
            retransmitted_segments: info.segments_retransmitted,
            bytes_acked: info.bytes_acked.as_u64(),
        })
        .collect()
}

/// Figures of the sending end after `span`, from the last state of each connection (`infos`).
fn sent_figures(
    order: &MeasureRequest,
    first: Option<&Tuned>,
    infos: &[TcpInfo],
    span: Span,
    errors: Vec<String>,
) -> Sent {
    let total = |part: fn(&TcpInfo) -> Span| infos.iter().map(|info| part(info).as_nanos()).sum();
    let rtts = infos.iter().map(|info| info.min_rtt.as_nanos()).filter(|rtt| *rtt > 0);
    Sent {
        congestion: first.map(Tuned::congestion).unwrap_or_default(),
        mss: infos.iter().map(|info| info.mss.as_u64()).max().unwrap_or_default(),
        window: granted(order, first.map(Tuned::socket), |buffers| buffers.send),
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
