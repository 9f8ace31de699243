//! Executor of [`icdc_rate::controller`]: passes it the state of connections, ring and queue, and
//! sets ceilings, opens, requests and ends connections as it decides.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crossbeam_channel::Sender as Channel;
use icdc_link::LinkControl;
use icdc_protocol::Features;
use icdc_protocol::limits::{BLOCK_SIZE, MAX_STREAMS};
use icdc_protocol::message::{Feedback, SendOptions};
use icdc_rate::bundle::Number;
use icdc_rate::ceilings::{Ceilings, Limit, Limiter};
use icdc_rate::controller::{
    Action, ConnectionInfo, Controller, FIRST, KernelPaced, Mode, Observed, Pending, Setup, TcpState, Ticked,
};
use icdc_rate::disk_ceiling::RingState;
use icdc_tcp::TcpInfo;
use icdc_tcp::congestion::{BundleNumber, finds_the_rate};
use icdc_tuning::{Tuned, bundle, member};
use icdc_units::{ByteCount, Rate, Time};

use super::compressing::Compressing;
use super::executor::Executor;
use super::ways::{Way, Ways};
use crate::account::Account;
use crate::clock;
use crate::event::Event;
use crate::further_links::Wanted;
use crate::once::Once;
use crate::receiver::FEEDBACK;
use crate::user_ceiling::UserCeiling;

/// Executor of the rate controller of one session.
pub(super) struct Steering<'a> {
    executor: &'a Executor<'a>,
    /// Lock that serializes ticks, so that the actions of a later one are carried out later.
    turn: Mutex<()>,
    /// Ceiling of the user who runs the transfer.
    user: UserOf,
    /// Totals of the run, with the limit that this end sets as a daemon.
    account: &'a Account,
    /// Limit of the key in use, as a daemon at the other end has told it.
    told_key: Mutex<Option<Rate>>,
    ways: Ways,
    /// Signals that connections after the first may send blocks, by number; `None` if they always may.
    open: Option<Mutex<BTreeMap<Number, Arc<Once>>>>,
    more: More<'a>,
}

/// Owner of the user's ceiling.
enum UserOf {
    /// The user of this end.
    Here(Arc<UserCeiling>),
    /// The user of the other end, which tells of changes.
    There(UserCeiling),
}

/// Origin of more connections, when the path or the processors need them.
enum More<'a> {
    /// Nowhere: the user has set the number of connections.
    Never,
    /// This end makes them; the channel takes which are needed.
    Here(&'a Channel<Wanted>),
    /// The other end makes them.
    There,
}

const NO_PANIC: &str = "no panic while rates are decided";

impl<'a> Steering<'a> {
    /// New steering for a session that begins; `ceiling` is that of this end's user, `None` where the
    /// other end's user has it, and `wanted` is given if this end makes connections.
    pub(super) fn new(
        executor: &'a Executor<'a>,
        (options, account): (&SendOptions, &'a Account),
        ceiling: Option<&Arc<UserCeiling>>,
        wanted: Option<&'a Channel<Wanted>>,
    ) -> Self {
        let opens_later = executor.controller.lock().expect(NO_PANIC).opens_later();
        let steering = Self {
            executor,
            turn: Mutex::default(),
            user: match ceiling {
                Some(ceiling) => UserOf::Here(Arc::clone(ceiling)),
                None => UserOf::There(UserCeiling::new(options.rate)),
            },
            account,
            told_key: Mutex::default(),
            ways: Ways::of_first(&executor.link, executor.tuned.as_ref()),
            open: opens_later.then(Mutex::default),
            more: match (options.streams, wanted) {
                (Some(_), _) => More::Never,
                (None, Some(channel)) => More::Here(channel),
                (None, None) => More::There,
            },
        };
        steering.tick(clock::now(), &Pending::default());
        steering
    }

    /// Ticks until the session is over. `pending` returns what is still to be sent; called with
    /// `true`, also what each connection still owes.
    pub(super) fn run(&self, pending: impl Fn(bool) -> Pending) {
        loop {
            let now = clock::now();
            let needs_owed = self.controller().needs_owed(now);
            let next = self.tick(now, &pending(needs_owed));
            if self.executor.over.wait(next - clock::now()) {
                return;
            }
        }
    }

    /// Runs one tick of the rate controller; returns the time of the next.
    fn tick(&self, now: Time, pending: &Pending) -> Time {
        let turn = self.turn();
        let first = self.executor.link.tcp_info();
        let further = self.executor.further.in_use();
        let in_use: Vec<Number> = [FIRST].into_iter().chain(further.iter().map(|(number, _)| *number)).collect();
        let seen = |number, info: Option<&TcpInfo>| {
            let lead = self.ways.lead(number, &in_use);
            ConnectionInfo { number, lead, tcp: info.map(|info| tcp_state(now, info)) }
        };
        let further = further.iter().map(|(number, info)| seen(*number, info.as_ref()));
        let connections: Vec<_> = [seen(FIRST, first.as_ref())].into_iter().chain(further).collect();
        let ring = ring(&self.executor.feedback.lock().expect("no panic while feedback is stored"));
        let ring = as_on_the_way(ring, &self.executor.compressing);
        let key = self.lowest_key_ceiling();
        let (Ticked { actions, next }, state) = {
            let mut controller = self.controller();
            let mut changed = match controller.key_ceiling() == key {
                true => Vec::new(),
                false => controller.set_key_ceiling(key),
            };
            let user = match &self.user {
                UserOf::Here(ceiling) => ceiling.get(),
                UserOf::There(ceiling) => ceiling.get(),
            };
            let observed = Observed { connections: &connections, ring: &ring, pending, user };
            let ticked = controller.on_tick(now, observed);
            changed.extend(ticked.actions);
            (Ticked { actions: changed, ..ticked }, controller.state())
        };
        // Reports to other threads and the user must not delay other threads that set ceilings.
        let (ceilings, others): (Vec<_>, Vec<_>) =
            actions.into_iter().partition(|action| matches!(action, Action::SetCeiling(..) | Action::Open(_)));
        self.carry_out(ceilings);
        if let (Some(info), Some(tuned), Some(state)) = (&first, &self.executor.tuned, state) {
            tuned.update_algorithm(now, info, state);
        }
        drop(turn);
        self.carry_out(others);
        next
    }

    /// Lock that has the controller's actions carried out in the order in which it has decided
    /// them.
    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().expect(NO_PANIC)
    }

    /// Carries out actions of the rate controller.
    fn carry_out(&self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::SetCeiling(FIRST, ceiling) => self.executor.link.set_rate(ceiling),
                Action::SetCeiling(number, ceiling) => self.executor.further.set_rate_of(number, ceiling),
                Action::Open(number) => self.opening(number).iter().for_each(|opening| opening.signal()),
                Action::WantConnections(count) => {
                    self.want(Wanted::Connections(u8::try_from(count).unwrap_or(MAX_STREAMS).min(MAX_STREAMS)));
                }
                Action::WantDatagrams => self.want(Wanted::Datagrams),
                Action::Retire(number) => self.executor.retire(number),
                Action::Paced(pace) => (self.executor.events)(Event::of_pace(pace)),
            }
        }
    }

    /// Requests connections from the end that makes them; not if the user has set the number.
    fn want(&self, wanted: Wanted) {
        match (&self.more, wanted) {
            (More::Never, _) => {}
            (More::Here(channel), wanted) => {
                let _ = channel.send(wanted);
            }
            (More::There, Wanted::Connections(count)) => self.executor.with(|machine| machine.on_scarcity(count)),
            (More::There, Wanted::Datagrams) if self.executor.peer().has(Features::DATAGRAMS) => {
                self.executor.with(|machine| machine.on_losses());
            }
            (More::There, Wanted::Datagrams) => {}
        }
    }

    /// Sets the ceiling of the key in use to the limit that a daemon at the other end has told, at
    /// once. The first one arrives before data may flow.
    pub(super) fn set_told_key_ceiling(&self, rate: Option<Rate>) {
        *self.told_key.lock().expect(NO_PANIC) = rate;
        self.account.note_told_max_rate(rate);
        let _turn = self.turn();
        let key = self.lowest_key_ceiling();
        let actions = self.controller().set_key_ceiling(key);
        self.carry_out(actions);
    }

    /// The lower of this end's limit for the key, as a daemon, and of what the other end has told: a
    /// client cannot lift the limit of its own key.
    fn lowest_key_ceiling(&self) -> Option<Rate> {
        let told = *self.told_key.lock().expect(NO_PANIC);
        [self.account.max_rate(), told].into_iter().flatten().min()
    }

    /// Changes the ceiling of the other end's user, from the next tick on; false if that user has
    /// none to set here.
    pub(super) fn set_user_ceiling(&self, rate: Option<Rate>) -> bool {
        let UserOf::There(ceiling) = &self.user else { return false };
        ceiling.set(rate);
        true
    }

    /// Who has paused the transfer, the user or a daemon for the key; `None` if data may flow.
    pub(super) fn paused_by(&self) -> Option<Limiter> {
        self.controller().paused_by()
    }

    /// Rate limit that a daemon sets to the key in use; `None` for no limit.
    pub(super) fn key_ceiling(&self) -> Option<Rate> {
        self.controller().key_ceiling()
    }

    /// Bundle of the connections that take the same way as one that is about to join; `None` if there is none.
    pub(super) fn bundle_of(&self, way: Way) -> Option<BundleNumber> {
        self.ways.bundle(way)
    }

    /// Notes that a connection which is not in use yet takes this way, in this bundle.
    pub(super) fn note_way(&self, number: u8, way: Way, bundle: Option<BundleNumber>) {
        self.ways.note(number.into(), way, bundle);
    }

    /// Tells the controller that a further connection is about to send.
    pub(super) fn on_joined(&self, number: u8) {
        let _turn = self.turn();
        let number = number.into();
        let further = self.executor.further.in_use().into_iter().map(|(number, _)| number);
        let in_use: Vec<Number> = [FIRST, number].into_iter().chain(further).collect();
        let actions = self.controller().on_joined(number, self.ways.lead(number, &in_use));
        self.carry_out(actions);
    }

    /// Signal that a connection after the first may send blocks; `None` if these always may.
    pub(super) fn opening(&self, number: Number) -> Option<Arc<Once>> {
        let mut openings = self.open.as_ref()?.lock().expect(NO_PANIC);
        Some(Arc::clone(openings.entry(number).or_default()))
    }

    /// Rate ceiling of the first connection, and what sets the lowest ceiling; `None` for no
    /// ceiling ([`Controller::limit`]).
    pub(super) fn limit(&self) -> Option<Limit> {
        self.controller().limit()
    }

    /// Rate that the path has free for this transfer; `None` while unknown
    /// ([`Controller::capacity`]).
    pub(super) fn capacity(&self) -> Option<Rate> {
        self.controller().capacity()
    }

    /// Whether losses keep the rate below what the path has ([`Controller::is_lossy`]).
    pub(super) fn is_lossy(&self) -> bool {
        self.controller().is_lossy()
    }

    /// Whether a connection should take a frame of this length while `unsent` bytes are left to be
    /// sent; `None` if that is not known ([`Controller::takes`]).
    pub(super) fn takes(&self, number: u8, frame: ByteCount, unsent: Option<ByteCount>) -> bool {
        self.controller().takes(number.into(), frame, unsent)
    }

    /// Number of bytes on the way from which a connection should leave parts to others; `None` for any ([`Controller::enough`]).
    pub(super) fn enough(&self, number: u8) -> Option<ByteCount> {
        self.controller().enough(number.into())
    }

    fn controller(&self) -> MutexGuard<'_, Controller> {
        self.executor.controller.lock().expect(NO_PANIC)
    }
}

/// Rate controller of a session that begins with this link; `tuned` is the tuning of its socket,
/// and `key` the ceiling of the key in use.
pub(super) fn controller(
    link: &LinkControl,
    tuned: Option<&Tuned>,
    options: &SendOptions,
    key: Option<Rate>,
) -> Controller {
    let setup = Setup {
        is_local: link.peer_key().is_none() && link.tcp_info().is_none(),
        processors: crate::processors::count() as u64,
        block: ByteCount::from(BLOCK_SIZE),
        feedback_interval: FEEDBACK,
    };
    Controller::new(mode(link, tuned, options), setup, Ceilings::of(key, options.rate))
}

/// Mode of the rate controller for a session over this link: by the kernel's pacing, for a bundle,
/// or for each connection.
fn mode(link: &LinkControl, tuned: Option<&Tuned>, options: &SendOptions) -> Mode {
    if tuned.is_some_and(|tuned| finds_the_rate(&tuned.congestion())) {
        let is_one_flow = tuned.is_some_and(|tuned| tuned.bundle().is_some());
        return Mode::KernelPaced(Box::new(KernelPaced::new(is_one_flow)));
    }
    // A channel of ssh has a window of its own, of which the kernel knows nothing.
    let own = link.socket().and_then(|_| link.tcp_info());
    let is_long = own.is_some_and(|info| member(Time::ORIGIN, &info).is_some());
    // A named algorithm is what the user wants to see at work.
    if options.congestion.is_some() || !is_long {
        return Mode::PerConnection;
    }
    Mode::Bundle(Box::new(bundle(tuned.and_then(Tuned::known_path), options.background)))
}

/// Excerpt of a connection's TCP statistics for the rate controller.
fn tcp_state(now: Time, info: &TcpInfo) -> TcpState {
    TcpState {
        round_trip: info.rtt,
        acknowledged: info.bytes_acked,
        pacing_rate: info.pacing_rate,
        max_pacing_rate: info.max_pacing_rate,
        in_flight: info.unacked > 0,
        window_limited: info.receive_window_limited,
        member: member(now, info),
    }
}

/// The ring by the bytes that travel for what is in it.
fn as_on_the_way(ring: RingState, compressing: &Compressing) -> RingState {
    let drained = ring.drained.map(|rate| {
        let in_a_second = compressing.on_the_way(ByteCount::new(rate.as_bytes_per_second()));
        Rate::from_bytes_per_second(in_a_second.as_u64())
    });
    RingState { size: compressing.on_the_way(ring.size), drained, ..ring }
}

/// State of the receiver's ring for the rate controller, by the last feedback.
fn ring(feedback: &Feedback) -> RingState {
    RingState {
        waiting: feedback.ring_used,
        blocks: feedback.ring_blocks,
        size: ByteCount::new(u64::from(feedback.ring_blocks) * BLOCK_SIZE as u64),
        drained: feedback.write_rate.map(Rate::from_bytes_per_second),
    }
}
