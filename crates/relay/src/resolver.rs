//! Names to addresses, on threads of their own: the system's resolver blocks.

use std::io;
use std::net::ToSocketAddrs;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use icdc_protocol::relay::HostName;
use icdc_tcp::clock;
use icdc_units::Time;

use crate::leg::canonical;
use crate::mailbox::{Letter, Mailbox};

/// Names that are resolved at once.
const THREADS: usize = 4;
/// Names that may wait for that.
const QUEUE: usize = 1024;

/// Takes questions; its threads end when it is dropped.
pub(crate) struct Resolver {
    questions: SyncSender<Question>,
}

struct Question {
    name: HostName,
    port: u16,
    /// The connection, and which of its questions this is.
    number: (u64, u64),
    asker: Arc<Mailbox>,
    /// From then on nobody waits for the answer.
    until: Time,
}

impl Resolver {
    pub(crate) fn start() -> io::Result<Self> {
        let (questions, waiting) = sync_channel(QUEUE);
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..THREADS {
            let waiting = Arc::clone(&waiting);
            thread::Builder::new().name("resolve".to_owned()).spawn(move || answer(&waiting))?;
        }
        Ok(Self { questions })
    }

    /// Asks for the addresses of a name; the answer comes by letter, or not at all if it is not begun by `until`. False if
    /// too many wait already.
    pub(crate) fn ask(
        &self,
        (name, port): (&HostName, u16),
        number: (u64, u64),
        asker: &Arc<Mailbox>,
        until: Time,
    ) -> bool {
        let question = Question { name: name.clone(), port, number, asker: Arc::clone(asker), until };
        match self.questions.try_send(question) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
    }
}

fn answer(waiting: &Mutex<Receiver<Question>>) {
    loop {
        // The lock is held while nothing is asked; one thread at a time takes a question.
        let question = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Question { name, port, number, asker, until }) = question else { return };
        if clock::now() >= until {
            continue;
        }
        let found = (name.as_str(), port).to_socket_addrs();
        let found = found.map(|addresses| addresses.map(canonical).collect());
        asker.post(Letter::Resolved(number, found));
    }
}
