//! Streams over datagrams, which reach the guard of a listening end as its connections do.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use icdc_datagram::{Accepted, Algorithm, DatagramError, Listener};
use icdc_link::{OverDatagrams, OwnConnection};
use icdc_trust::{Identity, server_config};
use rustls::ServerConfig;

use crate::guard::Adoption;

/// Time for the last bytes of streams when the process ends.
const FAREWELL: Duration = Duration::from_secs(2);

/// Accepts connections over datagrams at the addresses and ports of TCP listeners, and hands their streams to a guard, which
/// runs their handshakes as those of connections over TCP. Where another program has the port, only TCP is served.
pub(crate) struct Datagrams {
    listeners: Vec<Listener>,
    /// Addresses that are not listened at yet: the predecessor of a daemon has them until its last stream over datagrams has
    /// ended, and refuses new ones meanwhile.
    missing: Vec<SocketAddr>,
    /// Configuration of the datagrams' own handshake, with a key made for it: it tells nothing of anybody.
    tls: Arc<ServerConfig>,
    adoption: Adoption,
}

impl Datagrams {
    /// Listens beside `listeners`.
    pub(crate) fn beside(listeners: &[TcpListener], adoption: Adoption) -> Self {
        let missing = listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
        let tls = server_config(&Identity::generate(), |_| true);
        let mut datagrams = Self { listeners: Vec::new(), missing, tls, adoption };
        for (address, error) in datagrams.listen() {
            tracing::info!(%address, "no datagrams are received: {error}");
        }
        datagrams
    }

    /// Tries again to listen where it was not possible.
    pub(crate) fn retry(&mut self) {
        // It was told the first time.
        let _ = self.listen();
    }

    /// Accepts no more connections; those that are open end with their streams.
    pub(crate) fn close(&mut self) {
        self.listeners.iter().for_each(Listener::close);
        self.missing.clear();
    }

    /// Waits until what the streams have been given has arrived, but not for long: the process is about to end.
    pub(crate) fn finish(&mut self) {
        self.close();
        self.listeners.drain(..).for_each(|listener| listener.finish(FAREWELL));
    }

    /// Listens at the missing addresses; returns what failed.
    fn listen(&mut self) -> Vec<(SocketAddr, DatagramError)> {
        let mut failed = Vec::new();
        for address in std::mem::take(&mut self.missing) {
            match self.at(address) {
                Ok(listener) => self.listeners.push(listener),
                Err(error) => failed.push((address, error)),
            }
        }
        self.missing = failed.iter().map(|(address, _)| *address).collect();
        failed
    }

    fn at(&self, address: SocketAddr) -> Result<Listener, DatagramError> {
        let (tls, adoption) = (Arc::clone(&self.tls), self.adoption.clone());
        let take = move |Accepted { socket, peer, incoming }| {
            adoption.adopt(OverDatagrams::new(socket, peer, OwnConnection::Accepted(incoming)).into());
        };
        Listener::start(icdc_datagram::listen(address)?, tls, Algorithm::default(), take)
    }
}
