//! Names to addresses, on threads of their own: the system's resolver blocks.
//!
//! A zone whose servers do not answer holds a thread for many seconds. So the names that clients choose have a part of the threads, and
//! one client a part of that: neither other clients nor the names of the configuration wait for it.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use icdc_protocol::relay::HostName;
use icdc_tcp::clock;
use icdc_units::Time;

use crate::leg::canonical;
use crate::mailbox::{Letter, Mailbox};

/// Names that are resolved at once,
const THREADS: usize = 16;
/// of these, such that clients have chosen,
const OF_CLIENTS: usize = 12;
/// and such that one client has chosen.
const OF_ONE: usize = 4;
/// Names that may wait for that.
const QUEUE: usize = 1024;

/// Takes questions; its threads end when it is dropped.
pub(crate) struct Resolver {
    desk: Arc<Desk>,
}

/// How a name becomes addresses.
type Lookup = fn(&str, u16) -> io::Result<Vec<SocketAddr>>;

/// Who has chosen a name: a client, or the configuration.
pub(crate) type Asker = Option<IpAddr>;

pub(crate) struct Question {
    pub(crate) name: HostName,
    pub(crate) port: u16,
    pub(crate) asker: Asker,
    /// The connection, and which of its questions this is.
    pub(crate) number: (u64, u64),
    pub(crate) answer_to: Arc<Mailbox>,
    /// From then on nobody waits for the answer.
    pub(crate) until: Time,
}

/// Where questions wait.
#[derive(Default)]
struct Desk {
    book: Mutex<Book>,
    changed: Condvar,
}

#[derive(Default)]
struct Book {
    waiting: VecDeque<Question>,
    /// Threads that answer questions of clients, in all and of each.
    busy: usize,
    busy_for: HashMap<IpAddr, usize>,
    is_closed: bool,
}

impl Resolver {
    pub(crate) fn start() -> io::Result<Self> {
        Self::with(|name, port| Ok((name, port).to_socket_addrs()?.map(canonical).collect()))
    }

    fn with(lookup: Lookup) -> io::Result<Self> {
        let desk = Arc::new(Desk::default());
        for _ in 0..THREADS {
            let desk = Arc::clone(&desk);
            thread::Builder::new().name("resolve".to_owned()).spawn(move || desk.serve(lookup))?;
        }
        Ok(Self { desk })
    }

    /// Asks for the addresses of a name; the answer comes by letter, or not at all if it is not begun in time. False if
    /// too many wait already.
    pub(crate) fn ask(&self, question: Question) -> bool {
        let mut book = self.desk.book();
        // One client cannot fill the desk for all others.
        let own = book.waiting.iter().filter(|other| other.asker == question.asker).count();
        if own >= QUEUE / 4 || book.waiting.len() >= QUEUE {
            return false;
        }
        book.waiting.push_back(question);
        self.desk.changed.notify_one();
        true
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.desk.book().is_closed = true;
        self.desk.changed.notify_all();
    }
}

impl Desk {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, lookup: Lookup) {
        while let Some(Question { name, port, asker, number, answer_to, until }) = self.next() {
            if clock::now() < until {
                answer_to.post(Letter::Resolved(number, lookup(name.as_str(), port)));
            }
            self.book().is_done(asker);
            // Whoever waited for this part of the threads may go on.
            self.changed.notify_one();
        }
    }

    /// The next question whose turn it is; `None` when all is over.
    fn next(&self) -> Option<Question> {
        let mut book = self.book();
        loop {
            if book.is_closed {
                return None;
            }
            if let Some(question) = book.take() {
                return Some(question);
            }
            book = self.changed.wait(book).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Book {
    fn take(&mut self) -> Option<Question> {
        let place = self.waiting.iter().position(|question| self.has_turn(question.asker))?;
        let question = self.waiting.remove(place)?;
        if let Some(client) = question.asker {
            self.busy += 1;
            *self.busy_for.entry(client).or_default() += 1;
        }
        Some(question)
    }

    fn has_turn(&self, asker: Asker) -> bool {
        let Some(client) = asker else { return true };
        self.busy < OF_CLIENTS && self.busy_for.get(&client).is_none_or(|busy| *busy < OF_ONE)
    }

    fn is_done(&mut self, asker: Asker) {
        let Some(client) = asker else { return };
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
    use std::time::Duration;

    use icdc_units::Span;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    /// A name of which no server tells anything for as long as a test lasts.
    fn lookup(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if name.starts_with("slow") {
            thread::park_timeout(Duration::from_secs(60));
        }
        Ok(vec![([192, 0, 2, 1], port).into()])
    }

    #[test]
    fn names_that_nobody_answers_hold_up_only_who_asks_for_them() {
        let resolver = Resolver::with(lookup).expect("threads");
        let mailbox = Arc::new(Mailbox::new().expect("eventfd"));
        let ask = |name: &str, asker: Asker, number: u64| {
            let answered = resolver.ask(Question {
                name: HostName::new(name).expect(name),
                port: 80,
                asker,
                number: (number, 0),
                answer_to: Arc::clone(&mailbox),
                until: clock::now() + Span::from_secs(60),
            });
            assert!(answered, "{name} of {asker:?}");
        };
        let client = |last: u8| Some(IpAddr::from([198, 51, 100, last]));
        let is_answered = |number: u64| {
            let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
            let rung = poll(&mut [PollFd::new(&mailbox.bell, PollFlags::IN)], Some(&patience));
            assert_eq!(rung, Ok(1), "no answer to {number}");
            let numbers = mailbox.take().into_iter().filter_map(|letter| match letter {
                Letter::Resolved((number, _), Ok(_)) => Some(number),
                _ => None,
            });
            assert_eq!(numbers.collect::<Vec<_>>(), [number]);
        };
        let flood = |attacker: u8| (0..50).for_each(|_| ask("slow.example", client(attacker), 1000));
        flood(1);
        flood(2);
        ask("www.example", client(9), 1);
        is_answered(1);
        flood(3);
        ask("db.example", None, 2);
        is_answered(2);
    }
}
