//! Data connections that come by the port of the control link: whoever listens there hands them on.

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::{Receiver, Sender, unbounded};
use icdc_protocol::measure::{DATA_MAGIC, DATA_OPENING, Proof, Token, proof};
use rustix::event::{EventfdFlags, eventfd};

/// The measurements of a process that wait for data connections.
#[derive(Clone, Default)]
pub struct Expected(Arc<Mutex<HashMap<Proof, Waiting>>>);

struct Waiting {
    tell: Sender<Arrived>,
    wake: Arc<OwnedFd>,
}

/// A connection that has proved to know one of the tokens that are expected.
pub(crate) struct Arrived {
    pub(crate) stream: TcpStream,
    /// Proof and length of the run-up.
    pub(crate) said: Vec<u8>,
}

/// Those that one measurement waits for; they are no longer expected when it is dropped.
pub(crate) struct Awaited<'a> {
    expected: &'a Expected,
    proofs: Vec<Proof>,
    /// Readable when something has arrived.
    pub(crate) woken: Arc<OwnedFd>,
    pub(crate) arrived: Receiver<Arrived>,
}

impl Expected {
    /// Hands on a connection of which [`DATA_OPENING`] bytes have come and none have been read. One
    /// whose proof nobody expects is closed.
    pub fn deliver(&self, mut stream: TcpStream) {
        let mut opening = [0; DATA_OPENING];
        if let Err(error) = stream.read_exact(&mut opening) {
            return tracing::debug!("a data connection: {error}");
        }
        let (_, said) = opening.split_at(DATA_MAGIC.len());
        let waiting = said.first_chunk().and_then(|proof: &Proof| {
            let expected = self.lock();
            expected.get(proof).map(|waiting| (waiting.tell.clone(), Arc::clone(&waiting.wake)))
        });
        match waiting {
            Some((tell, wake)) => {
                let _ = tell.send(Arrived { stream, said: said.to_vec() });
                let _ = rustix::io::write(&*wake, &1_u64.to_ne_bytes());
            }
            None => tracing::debug!("a data connection with a wrong proof was closed"),
        }
    }

    /// From now on connections that know these tokens are expected.
    pub(crate) fn expect(&self, tokens: &[Token]) -> io::Result<Awaited<'_>> {
        let woken = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (tell, arrived) = unbounded();
        let proofs: Vec<Proof> = tokens.iter().map(proof).collect();
        let mut expected = self.lock();
        for proof in &proofs {
            expected.insert(*proof, Waiting { tell: tell.clone(), wake: Arc::clone(&woken) });
        }
        drop(expected);
        Ok(Awaited { expected: self, proofs, woken, arrived })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Proof, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        let mut expected = self.expected.lock();
        for proof in &self.proofs {
            expected.remove(proof);
        }
    }
}
