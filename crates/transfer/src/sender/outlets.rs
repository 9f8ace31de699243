//! The sending halves of a session's connections.
//!
//! All connections take blocks from one queue, so that a fast one carries more; the first one also
//! carries everything else, ahead of the blocks.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Scope;
use std::time::Duration;

use crossbeam_channel::{Receiver as Queue, never, select_biased};
use icdc_protocol::message::Message;
use icdc_tcp::TcpInfo;
use icdc_tcp::algorithm::finds_the_rate;
use icdc_units::{ByteCount, Rate, Time};

use super::Shared;
use crate::error::SessionError;
use crate::link::{Link, LinkControl, Outlet, Parcel};
use crate::pace::{self, Limit, Pace};

/// Interval at which a sender with nothing to say shows that it lives.
const PING: Duration = Duration::from_secs(1);

/// How long the receiving half may take to learn why the connection broke.
const REASON: Duration = Duration::from_millis(500);

pub(crate) struct Outlets<'a> {
    shared: &'a Shared<'a>,
    control: Queue<Parcel>,
    data: Queue<Parcel>,
    bytes_sent: AtomicU64,
    data_stopped: AtomicBool,
    /// The connections after the first.
    further: Mutex<Vec<LinkControl>>,
    pace: Pace,
    /// The first connection's congestion control finds the rate of the path.
    finds_the_rate: bool,
    /// Kernel name of the congestion control; empty for the best that can be had.
    congestion: &'a str,
}

impl<'a> Outlets<'a> {
    pub(crate) fn new(
        shared: &'a Shared<'a>,
        control: Queue<Parcel>,
        data: Queue<Parcel>,
        ceiling: Option<Rate>,
        congestion: &'a str,
    ) -> Self {
        // A named algorithm is what the user wants to see at work.
        let finds_the_rate = shared.link.congestion().is_some_and(|name| finds_the_rate(&name));
        let is_steered = congestion.is_empty() && !finds_the_rate;
        let outlets = Self {
            shared,
            control,
            data,
            bytes_sent: AtomicU64::new(0),
            data_stopped: AtomicBool::new(false),
            further: Mutex::default(),
            pace: Pace::new(ceiling, is_steered.then(|| pace::steering(shared.link.known_path()))),
            finds_the_rate,
            congestion,
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

    /// Segments sent again on all connections.
    pub(crate) fn retransmitted_segments(&self) -> u64 {
        let further = self.further.lock().expect("no panic while connections are listed");
        further
            .iter()
            .chain(std::iter::once(&self.shared.link))
            .filter_map(LinkControl::tcp_info)
            .map(|info| info.segments_retransmitted)
            .sum()
    }

    /// What each connection may send of what the user and the receiver's disk allow, and which of the two it is.
    pub(crate) fn limit(&self) -> Option<Limit> {
        self.pace.limit().map(|limit| Limit { rate: limit.rate / self.connections(), ..limit })
    }

    /// What was found that the path has free; of several connections that find it by themselves each knows only a part.
    pub(crate) fn free(&self, info: &TcpInfo) -> Option<Rate> {
        match self.finds_the_rate {
            true => pace::found(info).filter(|_| self.connections() == 1),
            false => self.pace.free(),
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
        if change.limit {
            self.set_rates();
        }
        if let (Some(state), Some(info)) = (change.state, &info) {
            self.shared.link.look(now, info, state);
        }
        change.events.into_iter().for_each(|event| (self.shared.events)(event));
    }

    fn set_rates(&self) {
        let rate = self.limit().map_or(Rate::MAX, |limit| limit.rate);
        let further = self.further.lock().expect("no panic while connections are listed");
        further.iter().chain([&self.shared.link]).for_each(|connection| connection.set_rate(rate));
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
        if self.pace.limit().is_some() {
            self.set_rates();
        }
        scope.spawn(move || {
            // Nothing comes back on a further connection; its receiving half only has to stay open.
            let _open = inlet;
            self.run(outlet, &never());
        });
    }

    /// Serves the first connection until the session is over; what is queued for control by then is
    /// still sent.
    pub(crate) fn run_first(&self, outlet: Box<dyn Outlet>) {
        self.run(outlet, &self.control);
    }

    fn run(&self, mut outlet: Box<dyn Outlet>, control: &Queue<Parcel>) {
        if let Err(error) = self.serve(&mut *outlet, control) {
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
                        recv(self.shared.over) -> _ => return self.drain(outlet, control),
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
