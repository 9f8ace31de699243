//! The further TCP connections of a session, made during the handshake and the request of the
//! first.
//!
//! ```text
//! round trips   0     1           2               3
//! first         TCP   handshake   request         answer: data
//! others              TCP         handshake       Join, and data behind it
//! ```
//!
//! Each is made for one number of a connection in its session, and taken for a number that has the
//! same egress. Their count follows from the path as the first TCP handshake has shown it, by the
//! rules of the session itself, which then takes them. The far end closes one that is not taken as
//! an unauthenticated connection.

use std::net::TcpStream;
use std::sync::Arc;

use icdc_link::Carrier;
use icdc_protocol::message::SendOptions;
use icdc_rate::connection_count::{KERNEL_BUFFERS, needed_for};
use icdc_stop::StopSignal;
use icdc_tcp::congestion::{finds_the_rate, may_find_the_rate};
use icdc_tcp::{Egresses, Privileges, clock};
use icdc_transfer::receiver;
use icdc_tuning::known_paths;
use icdc_units::{Rate, Span, Time};

use super::error::ConnectError;
use super::pool::Pool;
use crate::options::CopyOptions;

/// Age up to which a connection that was made in advance is used: a far end closes it after ten
/// seconds.
const MAX_AGE: Span = Span::from_secs(5);

/// Inputs that decide how many connections a session begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// Number of connections that the user has set; `None` for automatic.
    named: Option<u8>,
    limit: Option<Rate>,
    /// Maximum number of connections that the receiver's ring can serve.
    most: u8,
    sender: Sender,
}

/// End that sends the data, as far as it decides how many connections are needed.
#[derive(Clone, Copy, Debug)]
enum Sender {
    /// The other end.
    There,
    /// This end, whose connections begin with the known rate of their path.
    Here,
    /// This end, with the congestion control that the user has set.
    HereAsNamed,
    /// This end, with a congestion control that finds the path's rate by one connection.
    HereAlone,
}

impl Need {
    /// Need of a single connection, without further ones.
    pub(crate) const ONE: Self = Self { named: None, limit: None, most: 1, sender: Sender::There };

    /// Need of a copy that this end sends.
    pub(crate) fn of_push(options: &CopyOptions) -> Self {
        let sender = match options.send.congestion.as_deref() {
            None if may_find_the_rate() => Sender::HereAlone,
            None => Sender::Here,
            Some(name) if finds_the_rate(name) => Sender::HereAlone,
            Some(_) => Sender::HereAsNamed,
        };
        Self::of(options, sender)
    }

    /// Need of a copy that the other end sends.
    pub(crate) fn of_pull(options: &CopyOptions) -> Self {
        Self::of(options, Sender::There)
    }

    /// Need of a copy with these options, in which `sender` sends.
    fn of(options: &CopyOptions, sender: Sender) -> Self {
        let SendOptions { streams: named, rate: limit, .. } = options.send;
        Self { named, limit, most: receiver::most_connections(&options.receive), sender }
    }

    /// Number of connections needed beside `first`, whose TLS handshake is still to come; `least`
    /// is the lowest total where the user sets none.
    fn beside(&self, first: &TcpStream, least: u8) -> u8 {
        self.named.unwrap_or_else(|| self.of_path(first).max(least)).min(self.most).saturating_sub(1)
    }

    /// Number of connections, the first included, that the path needs by its round-trip time as
    /// `first` has measured it, and by its known rate if there is one.
    fn of_path(&self, first: &TcpStream) -> u8 {
        let known = match self.sender {
            Sender::HereAlone => return 1,
            Sender::Here => known_paths::resume(first, &Privileges::own()).map(|known| known.rate),
            Sender::HereAsNamed | Sender::There => None,
        };
        let seen = icdc_tcp::info(first);
        seen.map_or(1, |info| needed_for(KERNEL_BUFFERS, info.min_rtt, known, self.limit))
    }
}

/// Outcome of making a connection: the connection with the time when it was made.
type Dated = Result<(Carrier, Time), ConnectError>;

/// Maker of a session's further connections before the session takes them: pools of them, one for
/// each egress.
#[derive(Clone)]
pub(super) struct Ahead {
    need: Need,
    egresses: Egresses,
    /// Pools of connections, one for each egress.
    pools: Arc<[Pool<Dated>]>,
}

impl Ahead {
    /// Empty pools for sessions with this need.
    pub(super) fn new(need: Need, egresses: &Egresses) -> Self {
        let pools = (0..egresses.connections()).map(|_| Pool::default()).collect();
        Self { need, egresses: egresses.clone(), pools }
    }

    /// Begins to make, in threads, the connections that a session needs beside its `first`, which
    /// has just been made; `least` is the lowest total.
    pub(super) fn begin_beside<M>(&self, first: &TcpStream, least: u8, make: M)
    where
        M: Fn(u8, &StopSignal) -> Result<Carrier, ConnectError> + Clone + Send + 'static,
    {
        for number in 1..=self.need.beside(first, least) {
            self.pool(number).begin(dated(number, make.clone()));
        }
    }

    /// Takes a connection that was begun for the egress of connection `number`, or makes one now.
    pub(super) fn take<M>(&self, number: u8, make: M, stop: &StopSignal) -> Result<Carrier, ConnectError>
    where
        M: Fn(u8, &StopSignal) -> Result<Carrier, ConnectError> + Clone + Send + 'static,
    {
        loop {
            let taken = self.pool(number).take(dated(number, make.clone()), stop);
            let (carrier, since) = taken.unwrap_or(Err(ConnectError::Interrupted))?;
            if clock::now() - since < MAX_AGE {
                return Ok(carrier);
            }
        }
    }

    /// Closes the connections that were not taken.
    pub(super) fn end(&self) {
        self.pools.iter().for_each(Pool::end);
    }

    /// The pool of the egress that connection `number` uses.
    fn pool(&self, number: u8) -> &Pool<Dated> {
        &self.pools[self.egresses.turn(number)]
    }
}

/// Function for a pool: makes connection `number`, and notes when it was made.
fn dated<M>(number: u8, make: M) -> impl FnOnce(&StopSignal) -> Dated + Clone
where
    M: Fn(u8, &StopSignal) -> Result<Carrier, ConnectError> + Clone,
{
    move |stop| Ok((make(number, stop)?, clock::now()))
}
