//! The running sessions of a process: one per transfer and part, found again by further
//! connections.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crossbeam_channel::{Receiver as Queue, Sender as Channel, TrySendError, bounded};
use icdc_link::{Link, LinkControl};
use icdc_protocol::limits::MAX_STREAMS;
use icdc_protocol::message::{Job, Refusal, RefusalKind, TransferId};
use icdc_stop::StopSignal;
use icdc_tcp::{Privileges, clock};
use icdc_transfer::{FurtherLink, Joining};
use icdc_trust::PublicKey;

/// Time limit for a newer connection to wait for the end of the session that it replaces, and for a
/// further connection to wait for the session that it belongs to.
const HANDOVER: Duration = Duration::from_secs(10);

/// Most further connections that may wait for a session to take them: it never has more in all.
const MOST_JOINING: usize = MAX_STREAMS as usize;

/// Registry of the running sessions of a process, by transfer and part: further connections find
/// their session in it. Clones share it.
#[derive(Clone, Default)]
pub struct Sessions {
    shared: Arc<Registry>,
    /// Measurements that wait for data connections.
    pub measurements: icdc_measure::Expected,
    /// Privileges with which sessions tune their sockets.
    pub(crate) privileges: Privileges,
}

/// The running sessions, by transfer and part, and a signal of changes.
#[derive(Default)]
struct Registry {
    running: Mutex<HashMap<(TransferId, Part), Running>>,
    changed: Condvar,
}

/// Role of a session in its transfer. Sessions are registered by transfer and role, because a
/// daemon that copies to itself runs two sessions of one transfer: one drives, for the client's
/// key, the other moves the data, for the key that was made for this transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The session connects to another far end on behalf of a client.
    Drive,
    /// The session sends or receives over the connection that asked for it, and over those that
    /// join it.
    Move,
    /// The session measures; its data connections are no links, so that none can join it.
    Measure,
    /// The session lists what is there; it has one connection.
    List,
    /// The session makes, removes or renames items; it has one connection.
    Change,
}

impl Part {
    /// The part that a session with this job has.
    pub fn of(job: &Job) -> Self {
        match job {
            Job::Measure(_) => Self::Measure,
            Job::List(_) => Self::List,
            Job::Change(_) => Self::Change,
            Job::Transfer(_) | Job::Join { .. } => Self::Move,
            Job::Admit { .. } | Job::Drive(_) | Job::DriveKey => Self::Drive,
        }
    }
}

/// Entry of a running session in the registry: the key and connection that asked for it, and the
/// ways to end it and to add connections.
struct Running {
    peer: Option<PublicKey>,
    control: LinkControl,
    stop: StopSignal,
    join: Channel<FurtherLink>,
    /// Whether a newer connection waits for the session's end.
    is_replaced: bool,
}

/// Guard object of a session's entry in the registry, which is removed when this is dropped.
pub struct Registered<'a> {
    sessions: &'a Sessions,
    /// Id of the session's transfer.
    pub transfer: TransferId,
    part: Part,
    /// Signal that is requested when the session is to end.
    pub stop: StopSignal,
    /// Further connections that have arrived for the session.
    pub joined: Queue<FurtherLink>,
}

impl Sessions {
    /// An empty registry for a process that a daemon has started: its measurements get data
    /// connections by `measurements`, and its sockets are tuned with these privileges.
    pub fn of_session_process(measurements: icdc_measure::Expected, privileges: Privileges) -> Self {
        Self { measurements, privileges, shared: Arc::default() }
    }

    /// Number of running sessions.
    pub fn count(&self) -> usize {
        self.shared.running.lock().expect("no panic in the registry").len()
    }

    /// Asks every session to make durable what it has and to end.
    pub fn interrupt_all(&self) {
        let running = self.shared.running.lock().expect("no panic in the registry");
        running.values().for_each(|session| session.stop.request());
    }

    /// Registers a session. A session of the same part in the same transfer is a connection that
    /// broke without this end having noticed: if the same key held it, it is ended first, and
    /// waited for at most 10 s. A request of `stop` ends the session.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn register(
        &self,
        transfer: TransferId,
        part: Part,
        control: &LinkControl,
        stop: &StopSignal,
    ) -> Result<Registered<'_>, Refusal> {
        let entry = (transfer, part);
        let peer = control.peer_key();
        let deadline = clock::now() + HANDOVER.into();
        let mut running = self.shared.running.lock().expect("no panic in the registry");
        while let Some(session) = running.get_mut(&entry) {
            if session.peer != peer {
                return Err(Refusal::new(RefusalKind::NotAllowed, "the transfer belongs to another key"));
            }
            if clock::now() >= deadline {
                return Err(Refusal::new(RefusalKind::Busy, "an earlier connection of this transfer does not end"));
            }
            // Whoever wants to join from now on belongs to the newer one.
            session.is_replaced = true;
            session.control.shutdown();
            (running, _) = self
                .shared
                .changed
                .wait_timeout(running, Duration::from_millis(100))
                .expect("no panic in the registry");
        }
        let (join, joined) = bounded(MOST_JOINING);
        let stop = stop.clone();
        running.insert(entry, Running { peer, control: control.clone(), stop: stop.clone(), join, is_replaced: false });
        self.shared.changed.notify_all();
        Ok(Registered { sessions: self, transfer, part, stop, joined })
    }

    /// Hands a further connection to the session that it belongs to, for which it waits at most 10
    /// s; the error gives the connection back, to be refused.
    pub fn join(&self, transfer: TransferId, further: FurtherLink) -> Result<(), (Link, Refusal)> {
        let peer = further.link.control.peer_key();
        let deadline = clock::now() + HANDOVER.into();
        let mut running = self.shared.running.lock().expect("no panic in the registry");
        loop {
            if running.get(&(transfer, Part::Measure)).is_some_and(|session| session.peer == peer) {
                let reason = "no connection joins a measurement";
                return Err((further.link, Refusal::new(RefusalKind::NotAllowed, reason)));
            }
            match running.get(&(transfer, Part::Move)) {
                Some(session) if session.peer == peer && !session.is_replaced => {
                    // Nobody waits under the lock.
                    return session.join.try_send(further).map_err(|untaken| {
                        let reason = match &untaken {
                            TrySendError::Full(_) => "too many connections wait to join the session",
                            TrySendError::Disconnected(_) => "the session is ending",
                        };
                        (untaken.into_inner().link, Refusal::new(RefusalKind::Busy, reason))
                    });
                }
                Some(session) if session.peer != peer => {
                    return Err((
                        further.link,
                        Refusal::new(RefusalKind::NotAllowed, "the transfer belongs to another key"),
                    ));
                }
                _ if clock::now() >= deadline => {
                    return Err((further.link, Refusal::new(RefusalKind::Busy, "no such transfer is running")));
                }
                _ => {
                    (running, _) = self
                        .shared
                        .changed
                        .wait_timeout(running, Duration::from_millis(100))
                        .expect("no panic in the registry");
                }
            }
        }
    }
}

impl Registered<'_> {
    /// The session's further connections, as the other end makes them.
    pub(crate) fn joining(&self) -> Joining<'_> {
        Joining { joined: &self.joined, wanted: None }
    }

    /// The measurements that wait for data connections, and the privileges with which their sockets
    /// are tuned.
    pub(crate) fn measuring(&self) -> (&icdc_measure::Expected, &Privileges) {
        (&self.sessions.measurements, &self.sessions.privileges)
    }

    /// Privileges with which the session tunes its sockets.
    pub(crate) fn privileges(&self) -> &Privileges {
        &self.sessions.privileges
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.sessions.shared.running.lock().expect("no panic in the registry").remove(&(self.transfer, self.part));
        self.sessions.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use icdc_units::Span;

    use super::*;

    #[test]
    fn a_further_connection_waits_for_the_session_that_replaces_another() {
        let (sessions, pause) = (Sessions::default(), StopSignal::new());
        let [(old, _a), (new, _b), (further, _c)] = [(); 3].map(|()| icdc_link::memory_pair());
        let register = |control| sessions.register([7; 16], Part::Move, control, &pause).unwrap();
        let replaced = register(&old.control);
        std::thread::scope(|scope| {
            let (register, sessions, control) = (&register, &sessions, &new.control);
            let replacing = scope.spawn(move || register(control));
            let is_replaced = || sessions.shared.running.lock().unwrap().values().any(|session| session.is_replaced);
            while !is_replaced() {
                let _ = pause.wait(Span::from_millis(1));
            }
            let joining = scope.spawn(move || sessions.join([7; 16], FurtherLink { number: 1, link: further }));
            for _ in 0..50 {
                assert!(replaced.joined.is_empty() && !joining.is_finished());
                let _ = pause.wait(Span::from_millis(1));
            }
            drop(replaced);
            let replacing = replacing.join().unwrap();
            assert!(joining.join().unwrap().is_ok());
            assert_eq!(replacing.joined.len(), 1);
        });
    }

    #[test]
    fn no_more_connections_wait_for_a_session_than_it_can_have() {
        let sessions = Sessions::default();
        let (first, _far) = icdc_link::memory_pair();
        let registered = sessions.register([7; 16], Part::Move, &first.control, &StopSignal::new()).unwrap();
        let join = || sessions.join([7; 16], FurtherLink { number: 1, link: icdc_link::memory_pair().0 });
        assert!((0..MOST_JOINING).all(|_| join().is_ok()));
        let (_, refusal) = join().unwrap_err();
        assert!(refusal.kind == RefusalKind::Busy && refusal.reason.contains("too many"), "{}", refusal.reason);
        drop(registered.joined.recv().unwrap());
        assert!(join().is_ok(), "there is room again");
    }

    #[test]
    fn nothing_joins_a_measurement() {
        let sessions = Sessions::default();
        let (first, _far) = icdc_link::memory_pair();
        let registered = sessions.register([7; 16], Part::Measure, &first.control, &StopSignal::new()).unwrap();
        let further = FurtherLink { number: 1, link: icdc_link::memory_pair().0 };
        let (_, refusal) = sessions.join([7; 16], further).unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::NotAllowed);
        assert!(registered.joined.is_empty());
    }
}
