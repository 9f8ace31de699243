//! Connections that have been let in, each by the grant of one key: what ends them when that grant
//! is gone, has expired or is used up, how many sessions they make, and how fast each may be.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use icdc_link::LinkControl;
use icdc_protocol::message::{Refusal, RefusalKind, TransferId};
use icdc_schedule::RateSchedule;
use icdc_stop::StopSignal;
use icdc_tcp::clock;
use icdc_trust::{AuthorizedKeys, Grant, PublicKey};
use icdc_units::{ByteCount, Rate, Span, Time};

use super::neighbours::{Number, Running};
use super::shares::{LimitsNow, SessionId, Shares};
use super::usage::Usage;
use super::usage_file::UsageFile;

/// Most sessions that a key may have at a time where its line does not say: each is a process.
const MOST_SESSIONS: NonZeroU32 = NonZeroU32::new(256).expect("it is not zero");
/// Most payload that a session reserves beyond what it is about to move.
const AHEAD: ByteCount = ByteCount::from_mib(8);
/// Divisor for the share of the remaining payload that a session reserves ahead at most, for the
/// sake of other sessions of the key.
const SHARE_AHEAD: u64 = 16;
/// Bytes that a session may move beyond the payload that it has reserved: names, digests, what TLS
/// adds to records.
const UNRESERVED: ByteCount = ByteCount::from_mib(1);
/// Divisor for the share of its reserved payload that a session may move in addition.
const UNRESERVED_SHARE: u64 = 16;
/// Most runs that are remembered because their limit is used up.
const MOST_SPENT: usize = 256;
/// Time for a session that is asked to end to tell the other end, before it is cut.
const PARTING: Span = Span::from_millis(400);

/// All connections that were admitted and have not ended, by number.
#[derive(Default)]
pub(super) struct Connections {
    state: Mutex<Talking>,
}

/// The open connections by number, with what new ones are checked against: runs whose limit is used
/// up, and sessions at other daemons.
#[derive(Default)]
struct Talking {
    next: u64,
    open: BTreeMap<u64, Connection>,
    /// The last runs whose next bytes a limit does not allow, with that limit: they are not let in
    /// again.
    spent: VecDeque<(PublicKey, TransferId, String)>,
    /// Sessions at [daemons beside this one](super::neighbours), each with its standing key.
    elsewhere: BTreeMap<Number, BTreeSet<SessionId>>,
    /// Limit of the rate of all sessions together; `None` for no limit.
    limit: Option<RateSchedule>,
    /// Shares of the sessions in this limit and those of their keys.
    shares: Shares,
}

/// A connection that was admitted, with its key, its transfer and the bytes that it has moved.
struct Connection {
    /// The standing key by which the connection came in.
    owner: PublicKey,
    /// Grant of the standing key at that time.
    grant: Grant,
    control: LinkControl,
    /// Transfer of its request; `None` until it has made one.
    transfer: Option<TransferId>,
    /// Whether a session of its own has reported what it moves: it has not joined another's.
    has_session: bool,
    /// Bytes that its session has moved, as last reported.
    moved: ByteCount,
    /// Number of these bytes that are counted in the key's usage.
    counted: ByteCount,
    /// Payload that its session may move in all, in bytes.
    reserved: ByteCount,
    stop: StopSignal,
    /// Time at which it is cut, once it was asked to end.
    cut_at: Option<Time>,
}

impl Connections {
    /// Registers a connection that was admitted by `grant`, the line of the standing key
    /// `owner`; returns a number that no other connection of this daemon has had. `stop` is
    /// requested when the line is removed, changes or expires, or the bytes that it allows
    /// are used up. A connection that does not end soon after that is shut down by `control`.
    pub(super) fn enter(&self, owner: PublicKey, grant: Grant, control: LinkControl, stop: StopSignal) -> u64 {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        let [moved, counted, reserved] = [ByteCount::ZERO; 3];
        let (transfer, has_session, cut_at) = (None, false, None);
        let connection =
            Connection { owner, grant, control, transfer, has_session, moved, counted, reserved, stop, cut_at };
        state.open.insert(number, connection);
        number
    }

    /// Removes a connection that has ended, after counting in its key's usage what it has moved.
    pub(super) fn leave(&self, number: u64, usage: &mut Usage, now: SystemTime) {
        // It may be the last to hold the link, whose end takes its time.
        let mut connection = self.state().open.remove(&number);
        if let Some(connection) = &mut connection {
            connection.count(usage, now);
        }
        drop(connection);
    }

    /// Asks every connection to end whose standing key has no line in `keys`, the authorized keys
    /// as they are now, or one that grants something else.
    pub(super) fn revoke(&self, keys: &AuthorizedKeys, now: Time) {
        self.end(now, |connection| {
            let granted = keys.find(&connection.owner);
            let stands = granted.is_some_and(|granted| granted.allows_the_same(&connection.grant));
            (!stands).then_some("the connection ends: its line in authorized_keys has changed")
        });
    }

    /// Counts what was moved, and asks every connection to end whose grant has expired or is used
    /// up. A session may still move what was reserved for it, even if others of its key have used
    /// up the rest.
    pub(super) fn update(&self, usage: &mut Usage, wall: SystemTime, now: Time) {
        let mut within = HashSet::new();
        for connection in self.state().open.values_mut() {
            connection.count(usage, wall);
            within.extend(connection.transfer.filter(|_| connection.keeps_to_its_reserve()));
        }
        self.end(now, |connection| {
            if connection.grant.has_expired(wall) {
                return Some("the connection ends: its line in authorized_keys has expired");
            }
            let left = usage.left(&connection.owner, &connection.grant.limits, wall);
            let is_used_up = left.is_some_and(|left| left.bytes.is_zero());
            let is_within = connection.transfer.is_some_and(|transfer| within.contains(&transfer));
            (is_used_up && !is_within)
                .then_some("the connection ends: its key has used up the bytes that its line in authorized_keys allows")
        });
        self.state().share_out(wall, now);
    }

    /// Reserves `bytes` of payload for the session of a connection, and some ahead. Returns how
    /// much may move, unlimited where bytes are not limited; the error is the limit that is used
    /// up.
    fn reserve(&self, number: u64, bytes: ByteCount, usage: &mut Usage, wall: SystemTime) -> Result<ByteCount, String> {
        let mut state = self.state();
        let Some(connection) = state.open.get(&number) else { return Err("the connection has ended".to_owned()) };
        let (owner, limits, transfer) = (connection.owner, connection.grant.limits.clone(), connection.transfer);
        // What the sockets have carried comes first: some of it may wait to be reserved.
        let begun = connection.moved.max(connection.reserved);
        let wanted = connection.reserved + bytes;
        state.open.values_mut().for_each(|connection| connection.count(usage, wall));
        let Some(left) = usage.left(&owner, &limits, wall) else { return Ok(ByteCount::MAX) };
        let held = state.open.values().filter(|other| other.owner == owner).map(|other| other.reserved - other.moved);
        let free = held.fold(left.bytes, |free, held| free - held);
        let more = wanted - begun;
        if more > free {
            let reason = left.used_up();
            state.spent.truncate(MOST_SPENT - 1);
            if let Some(transfer) = transfer {
                state.spent.push_front((owner, transfer, reason.clone()));
            }
            return Err(reason);
        }
        let ahead = AHEAD.min(ByteCount::new((free - more).as_u64() / SHARE_AHEAD));
        if let Some(connection) = state.open.get_mut(&number) {
            connection.reserved = wanted + ahead;
        }
        Ok(bytes + ahead)
    }

    /// Asks every connection to end for which `reason` returns one.
    fn end(&self, now: Time, reason: impl Fn(&Connection) -> Option<&'static str>) {
        let mut asked = Vec::new();
        for connection in self.state().open.values_mut().filter(|connection| connection.cut_at.is_none()) {
            if let Some(reason) = reason(connection) {
                connection.cut_at = Some(now + PARTING);
                tracing::info!(key = connection.owner.fingerprint(), peer = connection.control.peer(), "{reason}");
                asked.push(connection.stop.clone());
            }
        }
        asked.iter().for_each(StopSignal::request);
    }

    /// Counts a connection to the session of `transfer`; refuses it if its key would have too many
    /// sessions then, or has used up its bytes in that transfer. All connections of a transfer make
    /// one session of their standing key, those of its temporary keys included.
    fn take(&self, number: u64, transfer: TransferId) -> Result<(), Refusal> {
        let mut state = self.state();
        let Some(connection) = state.open.get(&number) else { return Ok(()) };
        let owner = connection.owner;
        if let Some((.., reason)) = state.spent.iter().find(|(key, spent, _)| (*key, *spent) == (owner, transfer)) {
            return Err(Refusal::new(RefusalKind::Internal, reason.clone()));
        }
        let most = connection.grant.limits.max_sessions.unwrap_or(MOST_SESSIONS);
        let others = state.open.iter().filter(|(other, held)| **other != number && held.owner == connection.owner);
        let elsewhere = state.elsewhere.values().flatten().filter(|(key, _)| *key == owner);
        let elsewhere = elsewhere.map(|(_, transfer)| *transfer);
        let running: HashSet<_> = others.filter_map(|(_, held)| held.transfer).chain(elsewhere).collect();
        if !running.contains(&transfer) && running.len() >= most.get() as usize {
            let reason = format!(
                "this key has as many sessions as it may have at a time, which is {most}; try again when one has ended"
            );
            return Err(Refusal::new(RefusalKind::Busy, reason));
        }
        if let Some(connection) = state.open.get_mut(&number) {
            connection.transfer = Some(transfer);
        }
        state.share_out(clock::wall(), clock::now());
        Ok(())
    }

    /// Sets the limit of the rate of all sessions together, which applies at once; `None` for no limit.
    pub(super) fn set_limit(&self, limit: Option<RateSchedule>) {
        let mut state = self.state();
        state.limit = limit;
        state.share_out(clock::wall(), clock::now());
    }

    /// The limit of the rate of all sessions together; `None` if there is none.
    pub(super) fn limit(&self) -> Option<RateSchedule> {
        self.state().limit.clone()
    }

    /// Puts into `running` the sessions at this daemon and at its neighbours, except those of the
    /// neighbour `to`, which is told of them.
    pub(super) fn tell(&self, to: Option<Number>, running: &mut Running) {
        let state = self.state();
        let own = state.open.values().filter_map(Connection::id);
        let others = state.elsewhere.iter().filter(|(other, _)| Some(**other) != to);
        let all: BTreeSet<_> = own.chain(others.flat_map(|(_, sessions)| sessions.iter().copied())).collect();
        running.sessions = all.into_iter().map(|(key, transfer)| (*key.as_bytes(), transfer)).collect();
    }

    /// Records the sessions that a neighbouring daemon has.
    pub(super) fn learn(&self, from: Number, running: &Running) {
        let sessions = running.sessions.iter().map(|(key, transfer)| (PublicKey::from_bytes(*key), *transfer));
        self.state().elsewhere.insert(from, sessions.collect());
    }

    /// Forgets the sessions of a neighbouring daemon that has ended.
    pub(super) fn forget(&self, from: Number) {
        self.state().elsewhere.remove(&from);
    }

    /// Cuts the connections that were asked to end and have not in time.
    pub(super) fn cut_late(&self, now: Time) {
        for connection in self.state().open.values_mut() {
            if connection.cut_at.is_some_and(|cut_at| cut_at <= now) {
                connection.control.shutdown();
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, Talking> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Talking {
    /// Connections whose own sessions go by this key and transfer, each with its number.
    fn sessions_of(&self, id: SessionId) -> impl Iterator<Item = (u64, &Connection)> {
        let open = self.open.iter().map(|(number, connection)| (*number, connection));
        open.filter(move |(_, connection)| connection.has_session && connection.id() == Some(id))
    }

    /// Shares the limits that apply at this time out to the sessions.
    fn share_out(&mut self, wall: SystemTime, now: Time) {
        let all = self.limit.as_ref().and_then(|limit| limit.at_wall(wall));
        let mut limits = LimitsNow { all, of_keys: BTreeMap::new() };
        let mut running = BTreeSet::new();
        for connection in self.open.values() {
            running.extend(connection.id());
            let limit = connection.grant.limits.max_rate.as_ref().and_then(|limit| limit.at_wall(wall));
            if let Some(limit) = limit {
                let lowest = limits.of_keys.entry(connection.owner).or_insert(limit);
                *lowest = limit.min(*lowest);
            }
        }
        let elsewhere = self.elsewhere.values().flatten().copied().collect();
        self.shares.share_out(&running, &elsewhere, &limits, now);
    }
}

impl Connection {
    /// The session that it belongs to; `None` until it has made a request.
    fn id(&self) -> Option<SessionId> {
        Some((self.owner, self.transfer?))
    }

    /// Whether payload was reserved for its session, and little else has moved.
    fn keeps_to_its_reserve(&self) -> bool {
        let share = ByteCount::new(self.reserved.as_u64() / UNRESERVED_SHARE);
        !self.reserved.is_zero() && self.moved <= self.reserved + share + UNRESERVED
    }

    /// Counts in the key's usage what the connection has moved since the last call.
    fn count(&mut self, usage: &mut Usage, now: SystemTime) {
        let limits = &self.grant.limits;
        if limits.bytes_per_day.is_none() && limits.quota.is_none() {
            return;
        }
        usage.add(&self.owner, self.moved - self.counted, now);
        self.counted = self.counted.max(self.moved);
    }
}

/// Handle of an admitted connection's entry, by which its session joins a transfer, reserves
/// payload and reports its bytes. They count against the limits of the key.
#[derive(Clone)]
pub(crate) struct SessionHandle {
    connections: Arc<Connections>,
    /// Usage file of the daemon: it is written for the last time when the daemon gives it up.
    usage: Weak<UsageFile>,
    number: u64,
}

impl SessionHandle {
    pub(super) fn new(connections: &Arc<Connections>, usage: &Arc<UsageFile>, number: u64) -> Self {
        Self { connections: Arc::clone(connections), usage: Arc::downgrade(usage), number }
    }

    /// Sets the bytes that the session has moved in all, over all connections: what is new is later
    /// counted in the key's usage, whose daily limit and quota end the session.
    pub(crate) fn note_moved(&self, bytes: ByteCount) {
        let mut state = self.connections.state();
        let Some(connection) = state.open.get_mut(&self.number) else { return };
        (connection.moved, connection.has_session) = (bytes, true);
        if let Some(id) = connection.id() {
            let moved = state.sessions_of(id).map(|(_, session)| session.moved);
            let moved = moved.fold(ByteCount::ZERO, |sum, moved| sum + moved);
            state.shares.note(&id, moved, clock::now());
        }
    }

    /// Limit of the session's rate at present, its share of those of its key and of the daemon; `None`
    /// for no limit, zero if nothing may flow.
    pub(crate) fn limit(&self) -> Option<Rate> {
        let state = self.connections.state();
        let id = state.open.get(&self.number)?.id()?;
        // A client may request several sessions by the number of one transfer.
        let others = state.sessions_of(id).filter(|(number, _)| *number != self.number).count() as u64;
        state.shares.share(&id).map(|share| share.scaled(1, others + 1))
    }

    /// Reserves payload that the session is about to move from the key's daily limit and quota;
    /// returns how much may move from now on, [`ByteCount::MAX`] if the key has no such limit.
    ///
    /// # Errors
    /// The limit that is used up, as a sentence for the client.
    pub(crate) fn reserve(&self, bytes: ByteCount) -> Result<ByteCount, String> {
        let Some(usage) = self.usage.upgrade() else { return Err("the daemon is ending".to_owned()) };
        usage.with(|usage| self.connections.reserve(self.number, bytes, usage, clock::wall()))
    }

    /// Counts the connection to the session of `transfer`, unless the key has as many other
    /// sessions as it may, or has used up its bytes in that transfer.
    pub(crate) fn take(&self, transfer: TransferId) -> Result<(), Refusal> {
        self.connections.take(self.number, transfer)
    }
}

impl fmt::Debug for SessionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionHandle").field(&self.number).finish()
    }
}
