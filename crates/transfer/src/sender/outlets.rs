//! The sending halves of a session's connections.
//!
//! All connections take blocks from one queue, so that a fast one carries more; the first one also
//! carries everything else, ahead of the blocks. Where the first one's congestion control finds the
//! rate of the path, the others take blocks only once that one does not carry all of it
//! ([`icdc_rate::sharing`]). Where it does not, all of them are steered as one
//! ([`icdc_rate::bundle`]).

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Scope;
use std::time::Duration;

use crossbeam_channel::{Receiver as Queue, never, select, select_biased};
use icdc_link::{Link, LinkError, Outlet, Parcel};
use icdc_protocol::message::{Goodbye, Message, SendOptions};
use icdc_rate::sharing::{Look, Share, Sharing};
use icdc_tcp::TcpInfo;
use icdc_tcp::congestion::finds_the_rate;
use icdc_tuning::{Tuned, bundle, member};
use icdc_units::{ByteCount, Rate, Span, Time};

use super::executor::Executor;
use super::sending_link::tune;
use crate::clock;
use crate::further_links::FurtherLink;
use crate::once::Once;
use crate::pace::{Limit, Pace};

/// Interval at which a sender with nothing to say shows that it lives.
const PING: Duration = Duration::from_secs(1);

pub(super) struct Outlets<'a> {
    executor: &'a Executor<'a>,
    wake: Queue<()>,
    data: Queue<Parcel>,
    bytes_sent: AtomicU64,
    pace: Pace,
    /// Connections that the rate was last shared by.
    shared_by: AtomicU64,
    /// What the connections after the first may send, where that one finds the rate of the path.
    others: Option<Mutex<Others>>,
    /// The connections after the first may take blocks.
    open: Once,
    /// Kernel name of the congestion control; `None` for the best that can be had.
    congestion: Option<&'a str>,
}

/// What a connection sends next.
enum Next {
    /// Those that wait for the first connection.
    Messages,
    Parcel(Box<Parcel>),
    /// The session is over.
    Over,
}

struct Others {
    sharing: Sharing,
    share: Share,
}

const NO_PANIC: &str = "no panic while rates are shared";

impl<'a> Outlets<'a> {
    pub(super) fn new(
        executor: &'a Executor<'a>,
        wake: Queue<()>,
        data: Queue<Parcel>,
        options: &'a SendOptions,
    ) -> Self {
        // A named algorithm is what the user wants to see at work.
        let finds_the_rate = executor.tuned.as_ref().is_some_and(|tuned| finds_the_rate(&tuned.congestion()));
        let is_long = executor.link.tcp_info().is_some_and(|info| member(Time::ORIGIN, &info).is_some());
        let is_steered = options.congestion.is_none() && !finds_the_rate && is_long;
        let known = executor.tuned.as_ref().and_then(Tuned::known_path);
        let others = Others { sharing: Sharing::default(), share: Share::Nothing };
        let outlets = Self {
            executor,
            wake,
            data,
            bytes_sent: AtomicU64::new(0),
            pace: Pace::new(options.rate, is_steered.then(|| bundle(known))),
            shared_by: AtomicU64::new(1),
            others: finds_the_rate.then(|| Mutex::new(others)),
            open: Once::default(),
            congestion: options.congestion.as_deref(),
        };
        if outlets.pace.is_steered() {
            outlets.steer(clock::now());
        } else if outlets.pace.limit().is_some() {
            outlets.set_rates();
        }
        outlets
    }

    /// Payload bytes handed to the sockets.
    pub(super) fn bytes_sent(&self) -> u64 {
        self.bytes_sent.load(Ordering::Relaxed)
    }

    /// Payload that the receiver's host has, over all connections.
    pub(super) fn delivered(&self) -> ByteCount {
        self.executor.link.delivered() + self.executor.further.delivered()
    }

    /// Segments retransmitted on all connections.
    pub(super) fn retransmitted_segments(&self) -> u64 {
        self.tcp_infos().iter().map(|info| info.segments_retransmitted).sum()
    }

    /// Bytes that were acknowledged on all connections.
    pub(super) fn acknowledged(&self) -> ByteCount {
        self.tcp_infos().iter().map(|info| info.bytes_acked).sum()
    }

    fn tcp_infos(&self) -> Vec<TcpInfo> {
        let mut infos = self.executor.further.tcp_infos();
        infos.extend(self.executor.link.tcp_info());
        infos
    }

    /// What the first connection may send of what the user and the receiver's disk allow, and which
    /// of the two it is.
    pub(super) fn limit(&self) -> Option<Limit> {
        let limit = self.pace.limit()?;
        let steered = self.executor.link.tcp_info().filter(|_| self.pace.is_steered());
        let first = steered.map_or_else(|| self.rates().0, |info| info.max_pacing_rate);
        Some(Limit { rate: first, ..limit })
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
    pub(super) fn free(&self, info: &TcpInfo) -> Option<Rate> {
        match &self.others {
            // What the others carry is not free for the first one.
            Some(others) => info.found_rate().filter(|_| others.lock().expect(NO_PANIC).share == Share::Nothing),
            None => self.pace.free(),
        }
    }

    /// Number of connections in use.
    pub(super) fn connections(&self) -> u64 {
        1 + self.executor.further.count()
    }

    /// Follows what the receiver's ring allows and, where the first connection finds the rate, what
    /// that one leaves to the others.
    pub(super) fn follow(&self, now: Time) {
        let feedback = *self.executor.feedback.lock().expect("no panic while feedback is stored");
        let info = self.executor.link.tcp_info();
        let change = self.pace.look(&feedback, info.as_ref().map_or(Span::ZERO, |info| info.rtt));
        let shared_out = info.as_ref().is_some_and(|info| self.share_out(now, info));
        let connections = self.connections();
        let fewer = self.shared_by.swap(connections, Ordering::Relaxed) > connections;
        if (change.limit || shared_out || (fewer && self.is_limited())) && !self.pace.is_steered() {
            self.set_rates();
        }
        if shared_out {
            self.open();
        }
        change.event.into_iter().for_each(|event| (self.executor.events)(event));
    }

    /// Whether congestion control leaves the rate to be found here.
    pub(super) fn is_steered(&self) -> bool {
        self.pace.is_steered()
    }

    /// Steers all connections as one until the session is over.
    pub(super) fn run_steering(&self) {
        while let Some(next) = self.steer(clock::now()) {
            if self.executor.over.wait(next - clock::now()) {
                return;
            }
        }
    }

    /// Looks at all connections and sets their ceilings; when to look again.
    fn steer(&self, now: Time) -> Option<Time> {
        let first = self.executor.link.tcp_info();
        let infos = first.iter().map(|info| (0, info.clone())).chain(self.executor.further.in_use());
        let members: Vec<_> = infos.filter_map(|(number, info)| Some((number, member(now, &info)?))).collect();
        let steps = self.pace.steer(now, &members)?;
        for (number, ceiling) in steps.ceilings {
            match number {
                0 => self.executor.link.set_rate(ceiling),
                _ => self.executor.further.set_rate_of(number, ceiling),
            }
        }
        if let (Some(info), Some(tuned)) = (&first, &self.executor.tuned) {
            tuned.look(now, info, steps.state);
        }
        steps.event.into_iter().for_each(|event| (self.executor.events)(event));
        Some(steps.next)
    }

    /// Whether what a connection may send depends on how many there are.
    fn is_limited(&self) -> bool {
        self.pace.limit().is_some() || self.others.is_some()
    }

    fn set_rates(&self) {
        let (first, each) = self.rates();
        self.executor.link.set_rate(first);
        // Those that take no blocks yet need no rate.
        if !each.is_zero() {
            self.executor.further.set_rate(each);
        }
    }

    /// What the connections after the first may send together; true if that is another rate than
    /// before.
    fn share_out(&self, now: Time, info: &TcpInfo) -> bool {
        let Some(others) = &self.others else { return false };
        if self.executor.further.count() == 0 {
            return false;
        }
        let further = self.executor.further.tcp_infos();
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

    /// Takes a further connection into use.
    pub(super) fn add<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, link: FurtherLink) {
        let FurtherLink { number, link: Link { outlet, inlet, control } } = link;
        if !self.executor.with(|machine| machine.on_joined(number)) {
            return control.shutdown();
        }
        let tuned = tune(&control, self.congestion).unwrap_or_else(|error| {
            tracing::debug!("a further connection keeps its congestion control: {error}");
            None
        });
        self.executor.further.add(number, control);
        if self.is_limited() && !self.pace.is_steered() {
            self.set_rates();
        }
        scope.spawn(move || {
            // Nothing comes back on a further connection; its receiving half only has to stay open.
            let _open = inlet;
            // Keeps its congestion control loaded.
            let _tuned = tuned;
            self.run_further(number, outlet);
        });
    }

    /// Serves the first connection until the session is over; what is left of the messages by then
    /// is still sent.
    pub(super) fn run_first(&self, mut outlet: Box<dyn Outlet>) {
        let sent = self.serve_first(&mut *outlet);
        let now = clock::now();
        self.executor.with(|machine| match sent {
            Ok(()) => machine.on_sent(now),
            Err(error) => machine.on_send_failed(now, error.into()),
        });
    }

    /// Sends blocks, once the connections after the first may, until this one has ended or the
    /// session is over.
    fn run_further(&self, number: u8, mut outlet: Box<dyn Outlet>) {
        let outlet = &mut *outlet;
        let may_serve = if self.others.is_some() { self.await_share(outlet) } else { Ok(true) };
        let served = match may_serve {
            Ok(true) => self.serve_further(number, outlet),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = served {
            tracing::debug!(%error, number, "a further connection has ended");
            self.executor.with(|machine| machine.on_connection_ended(number));
        }
    }

    /// Waits until the connections after the first may take blocks; false if the session ends
    /// before.
    fn await_share(&self, outlet: &mut dyn Outlet) -> Result<bool, LinkError> {
        loop {
            select! {
                recv(self.open.channel()) -> _ => return Ok(true),
                recv(self.executor.over.channel()) -> _ => return Ok(false),
                default(PING) => {
                    outlet.send(Message::Ping.into())?;
                    outlet.flush()?;
                }
            }
        }
    }

    fn serve_first(&self, outlet: &mut dyn Outlet) -> Result<(), LinkError> {
        loop {
            match self.next(outlet, &self.wake)? {
                Next::Messages => self.send_messages(outlet)?,
                Next::Parcel(parcel) => self.send(outlet, *parcel)?,
                Next::Over => {
                    self.send_messages(outlet)?;
                    return outlet.flush();
                }
            }
        }
    }

    fn serve_further(&self, number: u8, outlet: &mut dyn Outlet) -> Result<(), LinkError> {
        let no_messages = never();
        while let Next::Parcel(parcel) = self.next(outlet, &no_messages)? {
            if !self.executor.with(|machine| machine.on_handed(number, &parcel.message)) {
                return Ok(());
            }
            self.send(outlet, *parcel)?;
        }
        outlet.flush()
    }

    /// What a connection sends next; waits for it.
    fn next(&self, outlet: &mut dyn Outlet, wake: &Queue<()>) -> Result<Next, LinkError> {
        if wake.try_recv().is_ok() {
            return Ok(Next::Messages);
        }
        if self.executor.over.wait(Span::ZERO) {
            return Ok(Next::Over);
        }
        let no_data = never();
        let data = if self.executor.is_data_stopped() { &no_data } else { &self.data };
        if let Ok(parcel) = data.try_recv() {
            return Ok(Next::Parcel(Box::new(parcel)));
        }
        outlet.flush()?;
        Ok(select_biased! {
            recv(wake) -> woken => woken.map_or(Next::Over, |()| Next::Messages),
            recv(self.executor.over.channel()) -> _ => Next::Over,
            recv(data) -> parcel => parcel.map_or(Next::Over, |parcel| Next::Parcel(Box::new(parcel))),
            default(PING) => Next::Parcel(Box::new(Message::Ping.into())),
        })
    }

    fn send_messages(&self, outlet: &mut dyn Outlet) -> Result<(), LinkError> {
        while let Some(message) = self.executor.next_message() {
            self.send(outlet, self.with_account(message).into())?;
        }
        Ok(())
    }

    fn send(&self, outlet: &mut dyn Outlet, parcel: Parcel) -> Result<(), LinkError> {
        let _busy = self.executor.stages.send.busy();
        let length = parcel.payload_length() as u64;
        outlet.send(parcel)?;
        self.bytes_sent.fetch_add(length, Ordering::Relaxed);
        Ok(())
    }

    /// A goodbye tells what the connections did.
    fn with_account(&self, message: Message) -> Message {
        let Message::Goodbye(goodbye) = message else { return message };
        self.sample(clock::now());
        Message::Goodbye(Goodbye {
            bytes_sent: self.bytes_sent(),
            retransmitted_segments: self.retransmitted_segments(),
            limited_by: self.executor.stages.charged_by_name(),
            ..goodbye
        })
    }

    /// Charges the time since the last call to the stage that limited.
    pub(super) fn sample(&self, now: Time) {
        let executor = self.executor;
        executor.stages.sample(now, &executor.link, executor.idle_stage(), self.limit());
    }
}
