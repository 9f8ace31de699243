//! How fast each connection of a session may send.
//!
//! Where the first connection's congestion control finds the rate of the path, the others may send
//! only once that one does not carry all of it ([`icdc_rate::sharing`]). Where it does not, all of
//! them are steered as one ([`icdc_rate::bundle`]).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crossbeam_channel::Sender as Channel;
use icdc_protocol::limits::MAX_STREAMS;
use icdc_protocol::message::SendOptions;
use icdc_rate::bundle::{Number, Owed};
use icdc_rate::processors::{self, Processors};
use icdc_rate::sharing::{Look, Share, Sharing};
use icdc_tcp::TcpInfo;
use icdc_tcp::congestion::finds_the_rate;
use icdc_tuning::{Tuned, bundle, member};
use icdc_units::{ByteCount, Rate, Span, Time};

use super::executor::Executor;
use crate::clock;
use crate::once::Once;
use crate::rate_limit::{Limit, RateLimit};
use crate::rate_share::RateShare;

/// See the module's description.
pub(super) struct Steering<'a> {
    executor: &'a Executor<'a>,
    limit: RateLimit,
    /// Connections that the rate was last shared by.
    shared_by: AtomicU64,
    /// What the connections after the first may send, where that one finds the rate of the path.
    others: Option<Mutex<Others>>,
    /// The connections after the first may take blocks.
    open: Once,
    /// What the processors of this host need.
    processors: Mutex<Processors>,
    more: More<'a>,
}

/// How more connections are had once the path or the processors need them.
enum More<'a> {
    /// The user has named a number.
    Never,
    /// This end makes them.
    Here(&'a Channel<u8>),
    /// The other end does.
    There,
}

struct Others {
    sharing: Sharing,
    /// Congestion control takes all connections for one flow.
    is_one_flow: bool,
    share: Share,
}

const NO_PANIC: &str = "no panic while rates are shared";

impl<'a> Steering<'a> {
    pub(super) fn new(
        executor: &'a Executor<'a>,
        options: &SendOptions,
        share: Option<Arc<RateShare>>,
        wanted: Option<&'a Channel<u8>>,
    ) -> Self {
        // A named algorithm is what the user wants to see at work.
        let finds_the_rate = executor.tuned.as_ref().is_some_and(|tuned| finds_the_rate(&tuned.congestion()));
        // A channel of ssh has a window of its own, of which the kernel knows nothing.
        let own = executor.link.socket().and_then(|_| executor.link.tcp_info());
        let is_long = own.is_some_and(|info| member(Time::ORIGIN, &info).is_some());
        let is_bundled = options.congestion.is_none() && !finds_the_rate && is_long;
        let known = executor.tuned.as_ref().and_then(Tuned::known_path);
        let is_one_flow = executor.tuned.as_ref().is_some_and(|tuned| tuned.bundle().is_some());
        let others = Others { sharing: Sharing::default(), is_one_flow, share: Share::Nothing };
        let steering = Self {
            executor,
            limit: RateLimit::new(options.rate, share, is_bundled.then(|| bundle(known))),
            shared_by: AtomicU64::new(1),
            others: finds_the_rate.then(|| Mutex::new(others)),
            open: Once::default(),
            processors: Mutex::new(Processors::new(crate::processors::count() as u64)),
            more: match (options.streams, wanted) {
                (Some(_), _) => More::Never,
                (None, Some(channel)) => More::Here(channel),
                (None, None) => More::There,
            },
        };
        steering.limit.allow(executor.max_rate());
        if steering.is_bundled() {
            steering.steer(clock::now());
        } else if steering.limit.limit().is_some() {
            steering.set_rates();
        }
        steering
    }

    /// Whether congestion control leaves the rate to be found here, by all connections as one.
    pub(super) fn is_bundled(&self) -> bool {
        self.limit.is_bundled()
    }

    /// What the first connection may send of what the user and the receiver's disk allow, and which
    /// of the two it is.
    pub(super) fn limit(&self) -> Option<Limit> {
        let limit = self.limit.limit()?;
        let steered = self.executor.link.tcp_info().filter(|_| self.is_bundled());
        let first = steered.map_or_else(|| self.rates().0, |info| info.max_pacing_rate);
        Some(Limit { rate: first, ..limit })
    }

    /// What the path has free, as far as the first connection knows.
    pub(super) fn free(&self, info: &TcpInfo) -> Option<Rate> {
        match &self.others {
            Some(others) => {
                let Others { is_one_flow, share, .. } = &*others.lock().expect(NO_PANIC);
                match (share, is_one_flow) {
                    (Share::Nothing, _) => info.found_rate(),
                    (_, true) => info.found_rate().map(|first| first + self.executor.further.pacing_rate()),
                    // What the others carry is not free for the first one.
                    (_, false) => None,
                }
            }
            None => self.limit.free(),
        }
    }

    /// The daemon at the other end lets no session of the key in use go faster. It says so before data may flow.
    pub(super) fn allow(&self, rate: Rate) {
        self.executor.allow(rate);
        if self.limit.allow(Some(rate)) && !self.is_bundled() {
            self.set_rates();
        }
    }

    /// Steers all connections as one until the session is over.
    pub(super) fn run(&self) {
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
        let steps = self.limit.steer(now, &members)?;
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
        if let Some(wanted) = steps.wanted {
            self.want(wanted);
        }
        Some(steps.next)
    }

    /// The path or the processors need so many connections.
    fn want(&self, connections: u64) {
        let wanted = u8::try_from(connections).unwrap_or(MAX_STREAMS).min(MAX_STREAMS);
        match self.more {
            More::Never => {}
            More::Here(channel) => {
                let _ = channel.send(wanted);
            }
            More::There => self.executor.with(|machine| machine.on_scarcity(wanted)),
        }
    }

    /// Whether a connection should take a frame of this length while so much is left to be sent: what
    /// the slowest ones carry last, all wait for.
    pub(super) fn takes(&self, number: u8, frame: ByteCount, unsent: ByteCount) -> bool {
        self.limit.takes(number.into(), frame, unsent)
    }

    /// The connection that holds up the end: the others would sooner have sent what it owes.
    pub(super) fn holding_up(&self, owed: &[Owed]) -> Option<Number> {
        self.limit.holding_up(owed)
    }

    /// Follows what the receiver's ring allows and, where the first connection finds the rate, what
    /// that one leaves to the others; `blocks_wait` if there are any that nobody has taken.
    /// The connections' threads have `worked` for so long.
    pub(super) fn follow(&self, now: Time, blocks_wait: bool, worked: Span) {
        let feedback = *self.executor.feedback.lock().expect("no panic while feedback is stored");
        let info = self.executor.link.tcp_info();
        let change = self.limit.look(&feedback, info.as_ref().map_or(Span::ZERO, |info| info.rtt));
        let shared_out = info.as_ref().is_some_and(|info| self.share_out(now, info, blocks_wait));
        let connections = self.executor.connections();
        let look = processors::Look { at: now, connections, worked, blocks_wait };
        if let Some(wanted) = self.processors.lock().expect(NO_PANIC).look(&look) {
            self.want(wanted);
        }
        let fewer = self.shared_by.swap(connections, Ordering::Relaxed) > connections;
        if (change.limit || shared_out || (fewer && self.is_limited())) && !self.is_bundled() {
            self.set_rates();
        }
        if shared_out {
            self.open();
        }
        change.event.into_iter().for_each(|event| (self.executor.events)(event));
    }

    /// A further connection is in use.
    pub(super) fn on_added(&self) {
        if self.is_limited() && !self.is_bundled() {
            self.set_rates();
        }
    }

    /// Tells when the connections after the first may take blocks; `None` if they always may.
    pub(super) fn opening(&self) -> Option<&Once> {
        self.others.as_ref().map(|_| &self.open)
    }

    /// What the first connection may send, and each of the others.
    fn rates(&self) -> (Rate, Rate) {
        let connections = self.executor.connections();
        // Within one host the receiver holds the sender up by itself.
        let limit = match self.executor.link.peer_key() {
            None if self.executor.link.tcp_info().is_none() => self.limit.user(),
            _ => self.limit.limit().map(|limit| limit.rate),
        };
        let limit = limit.unwrap_or(Rate::MAX);
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

    /// Whether what a connection may send depends on how many there are.
    fn is_limited(&self) -> bool {
        self.limit.limit().is_some() || self.others.is_some()
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
    fn share_out(&self, now: Time, info: &TcpInfo, blocks_wait: bool) -> bool {
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
            blocks_wait,
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
}
