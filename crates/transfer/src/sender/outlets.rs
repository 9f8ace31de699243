//! The sending halves of a session's connections.
//!
//! All connections take blocks from one queue, so that a fast one carries more; the first one also
//! carries everything else, ahead of the blocks. Where the first one's congestion control finds the rate of the path, the others take
//! blocks only once that one does not carry all of it ([`icdc_rate::sharing`]).

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Scope;
use std::time::Duration;

use crossbeam_channel::{Receiver as Queue, never, select, select_biased};
use icdc_protocol::message::{Message, SendOptions};
use icdc_rate::sharing::{Look, Share, Sharing};
use icdc_tcp::TcpInfo;
use icdc_tcp::algorithm::finds_the_rate;
use icdc_units::{ByteCount, Rate, Span, Time};

use super::Shared;
use crate::ending::Once;
use crate::error::SessionError;
use crate::link::{Link, LinkControl, Outlet, Parcel};
use crate::pace::{self, Limit, Pace};

/// Interval at which a sender with nothing to say shows that it lives.
const PING: Duration = Duration::from_secs(1);

/// How long the receiving half may take to learn why the connection broke.
const REASON: Span = Span::from_millis(500);

pub(crate) struct Outlets<'a> {
    shared: &'a Shared<'a>,
    control: Queue<Parcel>,
    data: Queue<Parcel>,
    bytes_sent: AtomicU64,
    data_stopped: AtomicBool,
    /// The connections after the first.
    further: Mutex<Vec<LinkControl>>,
    pace: Pace,
    /// What the connections after the first may send, where that one finds the rate of the path.
    others: Option<Mutex<Others>>,
    /// The connections after the first may take blocks.
    open: Once,
    /// Kernel name of the congestion control; `None` for the best that can be had.
    congestion: Option<&'a str>,
}

struct Others {
    sharing: Sharing,
    share: Share,
}

const NO_PANIC: &str = "no panic while rates are shared";

impl<'a> Outlets<'a> {
    pub(crate) fn new(
        shared: &'a Shared<'a>,
        control: Queue<Parcel>,
        data: Queue<Parcel>,
        options: &'a SendOptions,
    ) -> Self {
        // A named algorithm is what the user wants to see at work.
        let finds_the_rate = shared.link.congestion().is_some_and(|name| finds_the_rate(&name));
        let is_steered = options.congestion.is_none() && !finds_the_rate;
        let others = Others { sharing: Sharing::default(), share: Share::Nothing };
        let outlets = Self {
            shared,
            control,
            data,
            bytes_sent: AtomicU64::new(0),
            data_stopped: AtomicBool::new(false),
            further: Mutex::default(),
            pace: Pace::new(options.rate, is_steered.then(|| pace::steering(shared.link.known_path()))),
            others: finds_the_rate.then(|| Mutex::new(others)),
            open: Once::default(),
            congestion: options.congestion.as_deref(),
        };
        if outlets.pace.limit().is_some() {
            outlets.set_rates();
        }
        outlets
    }

    /// Payload bytes handed to the sockets.
    pub(crate) fn bytes_sent(&self) -> u64 {
        self.bytes_sent.load(Ordering::Relaxed)
    }

    /// Payload that the receiver's host has, over all connections.
    pub(crate) fn delivered(&self) -> ByteCount {
        let further = self.further.lock().expect("no panic while connections are listed");
        further.iter().chain([&self.shared.link]).map(LinkControl::delivered).sum()
    }

    /// Segments retransmitted on all connections.
    pub(crate) fn retransmitted_segments(&self) -> u64 {
        self.tcp_infos().iter().map(|info| info.segments_retransmitted).sum()
    }

    /// Bytes that were acknowledged on all connections.
    pub(crate) fn acknowledged(&self) -> ByteCount {
        self.tcp_infos().iter().map(|info| info.bytes_acked).sum()
    }

    fn tcp_infos(&self) -> Vec<TcpInfo> {
        let further = self.further.lock().expect("no panic while connections are listed");
        further.iter().chain([&self.shared.link]).filter_map(LinkControl::tcp_info).collect()
    }

    /// What the first connection may send of what the user and the receiver's disk allow, and which of the two it is.
    pub(crate) fn limit(&self) -> Option<Limit> {
        let (first, _) = self.rates();
        self.pace.limit().map(|limit| Limit { rate: first, ..limit })
    }

    /// What the first connection may send, and each of the others.
    fn rates(&self) -> (Rate, Rate) {
        let connections = self.connections();
        let limit = self.pace.limit().map_or(Rate::MAX, |limit| limit.rate);
        let equal = if limit == Rate::MAX { limit } else { limit / connections };
        let share = self.others.as_ref().map(|others| others.lock().expect(NO_PANIC).share);
        let each = match share {
            None | Some(Share::Anything) => equal,
            Some(Share::Nothing) => Rate::ZERO,
            Some(Share::Rate(rate)) => equal.min(rate / (connections - 1).max(1)),
        };
        let first = if limit == Rate::MAX { limit } else { limit - each * (connections - 1) };
        (first, each)
    }

    /// What the path has free, as far as the first connection knows.
    pub(crate) fn free(&self, info: &TcpInfo) -> Option<Rate> {
        match &self.others {
            // What the others carry is not free for the first one.
            Some(others) => info.found_rate().filter(|_| others.lock().expect(NO_PANIC).share == Share::Nothing),
            None => self.pace.free(),
        }
    }

    /// Number of connections in use.
    pub(crate) fn connections(&self) -> u64 {
        1 + self.further.lock().expect("no panic while connections are listed").len() as u64
    }

    /// Follows what the receiver's ring and the path allow.
    pub(crate) fn steer(&self, now: Time) {
        let feedback = *self.shared.feedback.lock().expect("no panic while feedback is stored");
        let info = self.shared.link.tcp_info();
        let change = self.pace.look(now, &feedback, info.as_ref(), self.connections());
        let shared_out = info.as_ref().is_some_and(|info| self.share_out(now, info));
        if change.limit || shared_out {
            self.set_rates();
        }
        if shared_out {
            self.open();
        }
        if let (Some(state), Some(info)) = (change.state, &info) {
            self.shared.link.look(now, info, state);
        }
        change.events.into_iter().for_each(|event| (self.shared.events)(event));
    }

    fn set_rates(&self) {
        let (first, each) = self.rates();
        self.shared.link.set_rate(first);
        // Those that take no blocks yet need no rate.
        if !each.is_zero() {
            let further = self.further.lock().expect("no panic while connections are listed");
            further.iter().for_each(|connection| connection.set_rate(each));
        }
    }

    /// What the connections after the first may send together; true if that is another rate than before.
    fn share_out(&self, now: Time, info: &TcpInfo) -> bool {
        let Some(others) = &self.others else { return false };
        let further: Vec<TcpInfo> = {
            let further = self.further.lock().expect("no panic while connections are listed");
            further.iter().filter_map(LinkControl::tcp_info).collect()
        };
        if further.is_empty() {
            return false;
        }
        let look = Look {
            at: now,
            round_trip: info.rtt,
            // A ceiling that holds the first one down is a rate that it has found, too.
            pacing: Some(info.pacing_rate).filter(|rate| *rate < Rate::MAX),
            first: info.bytes_acked,
            others: further.iter().fold(ByteCount::ZERO, |sum, info| sum + info.bytes_acked),
            held_up: info.receive_window_limited,
            blocks_wait: !self.data.is_empty(),
        };
        let mut others = others.lock().expect(NO_PANIC);
        let share = others.sharing.look(&look);
        std::mem::replace(&mut others.share, share) != share
    }

    /// Lets the connections after the first take blocks, whose rates have been set.
    fn open(&self) {
        if let Some(others) = &self.others
            && others.lock().expect(NO_PANIC).share != Share::Nothing
        {
            self.open.tell();
        }
    }

    /// Nothing of what waits shall be sent any more: the user stops the run.
    pub(crate) fn stop_data(&self) {
        self.data_stopped.store(true, Ordering::Relaxed);
    }

    /// Ends all connections after the first.
    pub(crate) fn shut_further(&self) {
        self.further.lock().expect("no panic while connections are listed").iter().for_each(LinkControl::shutdown);
    }

    /// Takes a further connection into use.
    pub(crate) fn add<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, link: Link) {
        let Link { outlet, inlet, control } = link;
        if let Err(error) = control.set_congestion(self.congestion) {
            tracing::debug!("a further connection keeps its congestion control: {error}");
        }
        self.further.lock().expect("no panic while connections are listed").push(control);
        if self.pace.limit().is_some() || self.others.is_some() {
            self.set_rates();
        }
        scope.spawn(move || {
            // Nothing comes back on a further connection; its receiving half only has to stay open.
            let _open = inlet;
            self.run(outlet, &never(), self.others.is_some());
        });
    }

    /// Serves the first connection until the session is over; what is queued for control by then is
    /// still sent.
    pub(crate) fn run_first(&self, outlet: Box<dyn Outlet>) {
        self.run(outlet, &self.control, false);
    }

    /// Waits until the connections after the first may take blocks; false if the session ends before.
    fn await_share(&self, outlet: &mut dyn Outlet) -> Result<bool, SessionError> {
        loop {
            select! {
                recv(self.open.channel()) -> _ => return Ok(true),
                recv(self.shared.over.channel()) -> _ => return Ok(false),
                default(PING) => {
                    outlet.send(Message::Ping.into())?;
                    outlet.flush()?;
                }
            }
        }
    }

    /// `waits`: for the share of the connections after the first.
    fn run(&self, mut outlet: Box<dyn Outlet>, control: &Queue<Parcel>, waits: bool) {
        let may_serve = if waits { self.await_share(&mut *outlet) } else { Ok(true) };
        let served = may_serve.and_then(|may| if may { self.serve(&mut *outlet, control) } else { Ok(()) });
        if let Err(error) = served {
            // The receiver's reason for closing may still be on its way in.
            self.shared.wait_for_reason(REASON);
            self.shared.fail(error);
        }
    }

    fn serve(&self, outlet: &mut dyn Outlet, control: &Queue<Parcel>) -> Result<(), SessionError> {
        let no_data = never();
        loop {
            let data = if self.data_stopped.load(Ordering::Relaxed) { &no_data } else { &self.data };
            let next = control.try_recv().or_else(|_| data.try_recv());
            let parcel = match next {
                Ok(parcel) => parcel,
                Err(_) => {
                    outlet.flush()?;
                    select_biased! {
                        recv(control) -> parcel => match parcel { Ok(parcel) => parcel, Err(_) => return Ok(()) },
                        recv(data) -> parcel => match parcel { Ok(parcel) => parcel, Err(_) => return Ok(()) },
                        recv(self.shared.over.channel()) -> _ => return self.drain(outlet, control),
                        default(PING) => Parcel { message: Message::Ping, payload: None },
                    }
                }
            };
            let _busy = self.shared.stages.send.busy();
            let length = parcel.payload.as_ref().map_or(0, |(_, length)| *length as u64);
            outlet.send(parcel)?;
            self.bytes_sent.fetch_add(length, Ordering::Relaxed);
        }
    }

    fn drain(&self, outlet: &mut dyn Outlet, control: &Queue<Parcel>) -> Result<(), SessionError> {
        for parcel in control.try_iter() {
            outlet.send(parcel)?;
        }
        outlet.flush()?;
        Ok(())
    }
}
