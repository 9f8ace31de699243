//! Collects the status of a whole relay from its threads.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use icdc_tcp::clock;
use icdc_units::{ByteCount, Span};

use crate::acceptor::OpenListener;
use crate::config::ListenerKind;
use crate::context::RelayContext;
use crate::mailbox::{Mailbox, WorkerMessage};
use crate::status::{ConnectionStatus, ListenerStatus, Status, Totals};

/// Time limit for a worker's answer.
const TIMEOUT: Span = Span::from_secs(5);

/// Collector of a relay's status, from its workers, counters and listeners.
pub(crate) struct Monitor {
    context: Arc<RelayContext>,
    mailboxes: Vec<Arc<Mailbox>>,
    listeners: Mutex<Vec<OpenListener>>,
}

impl Monitor {
    /// Monitor of a relay with these workers and listeners.
    pub(crate) fn new(context: Arc<RelayContext>, mailboxes: Vec<Arc<Mailbox>>, listeners: Vec<OpenListener>) -> Self {
        Self { context, mailboxes, listeners: Mutex::new(listeners) }
    }

    /// The listeners that are open; for as long as this is held they do not change.
    pub(crate) fn open_listeners(&self) -> MutexGuard<'_, Vec<OpenListener>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Status of each listener.
    pub(crate) fn listeners(&self) -> Vec<ListenerStatus> {
        let status = |open: &OpenListener| ListenerStatus {
            kind: open.listener.kind.name(),
            address: open.address(),
            destination: match &open.listener.kind {
                ListenerKind::Forward(destination) => Some(destination.to_string()),
                _ => None,
            },
        };
        self.open_listeners().iter().map(status).collect()
    }

    /// Status of the whole relay, with the connections of all workers. Waits at most 5 s for each
    /// answer; workers that do not answer are left out.
    pub(crate) fn status(&self) -> Status {
        let mut connections: Vec<ConnectionStatus> = Vec::new();
        let (sender, answers) = channel();
        for mailbox in &self.mailboxes {
            mailbox.post(WorkerMessage::Status(sender.clone()));
        }
        for _ in &self.mailboxes {
            connections.extend(answers.recv_timeout(TIMEOUT.into()).unwrap_or_default());
        }
        connections.sort_by_key(|connection| std::cmp::Reverse(connection.buffered));
        Status {
            id: format!("{:016x}", self.context.id.0),
            seconds: (clock::now() - self.context.started).as_secs_f64(),
            listeners: self.listeners(),
            totals: self.totals(),
            connections,
        }
    }

    /// Totals of all connections, past ones included.
    pub(crate) fn totals(&self) -> Totals {
        let counters = &self.context.counters;
        Totals {
            open: self.context.clients.count(),
            accepted: counters.accepted.load(Relaxed),
            rejected: counters.rejected.load(Relaxed),
            unreachable: counters.unreachable.load(Relaxed),
            finished: counters.finished.load(Relaxed),
            aborted: counters.aborted.load(Relaxed),
            timed_out: counters.timed_out.load(Relaxed),
            bytes_up: counters.bytes_up.load(Relaxed),
            bytes_down: counters.bytes_down.load(Relaxed),
            buffered: ByteCount::new(counters.buffered()),
            waited_for_near: Span::from_nanos(counters.nanos_for_near.load(Relaxed)),
            waited_for_far: Span::from_nanos(counters.nanos_for_far.load(Relaxed)),
        }
    }

    /// The local addresses of these listeners.
    pub(crate) fn addresses(listeners: &[OpenListener]) -> Vec<SocketAddr> {
        listeners.iter().map(OpenListener::address).collect()
    }
}
