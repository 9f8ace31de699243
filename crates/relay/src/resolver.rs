//! Name resolution on threads of its own: the system's resolver blocks.
//!
//! A zone whose servers do not answer holds a thread for many seconds. Names that clients choose
//! therefore get a part of the threads, and each client a part of that: neither other clients nor
//! the names of the configuration wait for it.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use icdc_protocol::relay::HostName;
use icdc_tcp::{canonical, clock};
use icdc_units::Time;

use crate::mailbox::{Mailbox, QueryId, WorkerMessage};

/// Names that are resolved at the same time.
const THREADS: usize = 16;
/// Lookups at a time of names that clients have chosen.
const OF_CLIENTS: usize = 12;
/// Lookups at a time of names that one client has chosen.
const OF_ONE: usize = 4;
/// Names that may wait for a thread.
const QUEUE: usize = 1024;

/// Resolves names on threads of its own, which end when it is dropped.
pub(crate) struct Resolver {
    queue: Arc<Queue>,
}

/// The function that resolves a name.
type Lookup = fn(&str, u16) -> io::Result<Vec<SocketAddr>>;

/// The client that has chosen a name; `None` for names of the configuration.
pub(crate) type Requester = Option<IpAddr>;

/// A request to resolve a name.
pub(crate) struct Query {
    pub(crate) name: HostName,
    pub(crate) port: u16,
    pub(crate) requester: Requester,
    pub(crate) id: QueryId,
    pub(crate) answer_to: Arc<Mailbox>,
    /// The query is not begun after this time.
    pub(crate) deadline: Time,
}

/// Queries that wait for a thread.
#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

/// Waiting queries, and the threads that resolve names of clients now.
#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Query>,
    /// Threads that resolve names of clients, in all and for each.
    busy: usize,
    busy_for: HashMap<IpAddr, usize>,
    is_closed: bool,
}

impl Resolver {
    /// Starts the threads that resolve names by the system's resolver.
    pub(crate) fn start() -> io::Result<Self> {
        Self::with(|name, port| Ok((name, port).to_socket_addrs()?.map(canonical).collect()))
    }

    /// Starts the threads, which resolve names by `lookup`.
    fn with(lookup: Lookup) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        for _ in 0..THREADS {
            let queue = Arc::clone(&queue);
            thread::Builder::new().name("resolve".to_owned()).spawn(move || queue.serve(lookup))?;
        }
        Ok(Self { queue })
    }

    /// Queues a query; the answer is posted as a message, unless the query could not be begun by
    /// its deadline. False if too many wait already.
    pub(crate) fn resolve(&self, query: Query) -> bool {
        let mut state = self.queue.state();
        // One client cannot fill the queue for all others.
        let own = state.waiting.iter().filter(|other| other.requester == query.requester).count();
        if own >= QUEUE / 4 || state.waiting.len() >= QUEUE {
            return false;
        }
        state.waiting.push_back(query);
        self.queue.changed.notify_one();
        true
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.queue.state().is_closed = true;
        self.queue.changed.notify_all();
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves names on one thread, until the resolver is dropped. Queries whose deadline has
    /// passed have no answer.
    fn serve(&self, lookup: Lookup) {
        while let Some(Query { name, port, requester, id, answer_to, deadline }) = self.next() {
            if clock::now() < deadline {
                answer_to.post(WorkerMessage::Resolved(id, lookup(name.as_str(), port)));
            }
            self.state().count_done(requester);
            // A query that waited for this part of the threads may begin.
            self.changed.notify_one();
        }
    }

    /// Waits for the next query that may begin; `None` once the resolver is dropped.
    fn next(&self) -> Option<Query> {
        let mut state = self.state();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(query) = state.take() {
                return Some(query);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl QueueState {
    /// Takes the first waiting query that may begin; `None` if there is none.
    fn take(&mut self) -> Option<Query> {
        let place = self.waiting.iter().position(|query| self.may_begin(query.requester))?;
        let query = self.waiting.remove(place)?;
        if let Some(client) = query.requester {
            self.busy += 1;
            *self.busy_for.entry(client).or_default() += 1;
        }
        Some(query)
    }

    /// Whether a query of this client may begin: the limits of threads for all clients and for each
    /// hold.
    fn may_begin(&self, requester: Requester) -> bool {
        let Some(client) = requester else { return true };
        self.busy < OF_CLIENTS && self.busy_for.get(&client).is_none_or(|busy| *busy < OF_ONE)
    }

    /// Counts a query as ended.
    fn count_done(&mut self, requester: Requester) {
        let Some(client) = requester else { return };
        self.busy -= 1;
        if let Some(busy) = self.busy_for.get_mut(&client) {
            *busy -= 1;
            if *busy == 0 {
                self.busy_for.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use icdc_units::Span;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    /// No server answers for names that begin with `slow` while a test lasts.
    fn lookup(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if name.starts_with("slow") {
            loop {
                thread::park();
            }
        }
        Ok(vec![([192, 0, 2, 1], port).into()])
    }

    #[test]
    fn names_that_no_server_answers_delay_only_their_client() {
        let resolver = Resolver::with(lookup).expect("threads");
        let mailbox = Arc::new(Mailbox::new().expect("eventfd"));
        let resolve = |name: &str, requester: Requester, connection: u64| {
            let is_queued = resolver.resolve(Query {
                name: HostName::new(name).expect(name),
                port: 80,
                requester,
                id: QueryId { connection, number: 0 },
                answer_to: Arc::clone(&mailbox),
                deadline: clock::now() + Span::from_secs(60),
            });
            assert!(is_queued, "{name} of {requester:?}");
        };
        let client = |last: u8| Some(IpAddr::from([198, 51, 100, last]));
        let is_answered = |number: u64| {
            let timeout = Timespec { tv_sec: 20, tv_nsec: 0 };
            let woken = poll(&mut [PollFd::new(&mailbox.wakeup, PollFlags::IN)], Some(&timeout));
            assert_eq!(woken, Ok(1), "no answer to {number}");
            let numbers = mailbox.take().into_iter().filter_map(|message| match message {
                WorkerMessage::Resolved(id, Ok(_)) => Some(id.connection),
                _ => None,
            });
            assert_eq!(numbers.collect::<Vec<_>>(), [number]);
        };
        let flood = |attacker: u8| (0..50).for_each(|_| resolve("slow.example", client(attacker), 1000));
        flood(1);
        flood(2);
        resolve("www.example", client(9), 1);
        is_answered(1);
        flood(3);
        resolve("db.example", None, 2);
        is_answered(2);
    }
}
