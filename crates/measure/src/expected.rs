//! Data connections to the port of the control link, delivered by the listener there.

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::{Receiver, unbounded};
use icdc_protocol::measure::{DATA_MAGIC, DATA_OPENING, Proof, Token, proof};
use rustix::event::{EventfdFlags, eventfd};

/// Registry of the measurements that wait for data connections to the port of the control link.
#[derive(Clone, Default)]
pub struct Expected(Arc<Shared>);

/// State of an [`Expected`], shared by its clones: the function for connections with each proof.
#[derive(Default)]
struct Shared {
    waiting: Mutex<HashMap<Proof, Taker>>,
    /// Function that is called with new proofs before they count as expected; `None` for none.
    announce: Option<Announce>,
}

/// Function that registers new proofs with the process that listens, and returns when that is done.
type Announce = Box<dyn Fn(&[Proof]) + Send + Sync>;

/// Function that receives a connection that has sent one of its proofs.
type Taker = Arc<dyn Fn(Arrived) + Send + Sync>;

/// A connection that has proved to know an expected token.
#[derive(Debug)]
pub struct Arrived {
    /// The connection.
    pub stream: TcpStream,
    /// Bytes that were read from the connection: proof and length of the run-up.
    pub said: Vec<u8>,
}

/// Registration of a set of expected proofs, which ends when it is dropped.
pub struct Expecting {
    expected: Expected,
    proofs: Vec<Proof>,
}

/// The data connections that one measurement waits for; it waits until this is dropped.
pub(crate) struct Awaited {
    _expecting: Expecting,
    /// Descriptor that becomes readable when a connection has arrived.
    pub(crate) woken: Arc<OwnedFd>,
    pub(crate) arrived: Receiver<Arrived>,
}

impl Expected {
    /// Registry of a process that does not listen itself: `announce` registers proofs with another
    /// process, which delivers the connections; they are registered when `announce` returns.
    #[must_use]
    pub fn announcing(announce: impl Fn(&[Proof]) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared { announce: Some(Box::new(announce)), ..Shared::default() }))
    }

    /// Delivers a connection of which [`DATA_OPENING`] bytes have arrived and none have been read.
    /// A connection with an unexpected proof is closed.
    pub fn deliver(&self, mut stream: TcpStream) {
        let mut opening = [0; DATA_OPENING];
        match stream.read_exact(&mut opening) {
            Ok(()) => self.hand_on(Arrived { stream, said: opening[DATA_MAGIC.len()..].to_vec() }),
            Err(error) => tracing::debug!("a data connection: {error}"),
        }
    }

    /// Delivers a connection whose opening has been read to the measurement that expects its proof;
    /// closes it if there is none.
    pub fn hand_on(&self, arrived: Arrived) {
        let taker = arrived.said.first_chunk().and_then(|proof: &Proof| self.lock().get(proof).cloned());
        match taker {
            Some(taker) => taker(arrived),
            None => tracing::debug!("a data connection with a wrong proof was closed"),
        }
    }

    /// Makes connections with these proofs go to `taker` from now on.
    pub fn expect(&self, proofs: Vec<Proof>, taker: impl Fn(Arrived) + Send + Sync + 'static) -> Expecting {
        let taker: Taker = Arc::new(taker);
        self.lock().extend(proofs.iter().map(|proof| (*proof, Arc::clone(&taker))));
        if let Some(announce) = &self.0.announce {
            announce(&proofs);
        }
        Expecting { expected: self.clone(), proofs }
    }

    /// Registers these tokens, without waiting: connections that prove one of them are queued in
    /// the result from now on.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub(crate) fn register_all(&self, tokens: &[Token]) -> io::Result<Awaited> {
        let woken = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (tell, arrived) = unbounded();
        let wake = Arc::clone(&woken);
        let expecting = self.expect(tokens.iter().map(proof).collect(), move |arrived| {
            let _ = tell.send(arrived);
            let _ = rustix::io::write(&*wake, &1_u64.to_ne_bytes());
        });
        Ok(Awaited { _expecting: expecting, woken, arrived })
    }

    /// The expected proofs, locked, each with the function that takes its connection.
    fn lock(&self) -> MutexGuard<'_, HashMap<Proof, Taker>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Expecting {
    fn drop(&mut self) {
        let mut waiting = self.expected.lock();
        for proof in &self.proofs {
            waiting.remove(proof);
        }
    }
}
