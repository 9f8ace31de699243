//! TCP connections that a session is going to need beside its first one, made while that one's
//! handshake and its request are under way.
//!
//! ```text
//! round trips   0     1           2               3
//! first         TCP   handshake   request         answer: data
//! others              TCP         handshake       Join, and data behind it
//! ```
//!
//! Each is made for one number of a connection in its session, and taken for one that leaves this
//! host by the same. How many there will be follows from what the first one's TCP handshake has shown of the path, by
//! the rules of the session itself, which then takes them. To the far end one that nobody takes is a
//! stranger who has said nothing.

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

/// How long one that has said nothing is good for: a far end closes it after ten seconds.
const FRESH: Span = Span::from_secs(5);

/// What decides how many connections a session begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// What the user has named.
    named: Option<u8>,
    limit: Option<Rate>,
    /// The most that the receiver's ring can serve.
    most: u8,
    sender: Sender,
}

/// Who sends, as far as that tells how many connections are needed.
#[derive(Clone, Copy, Debug)]
enum Sender {
    There,
    /// This end, whose connections begin from what is known of their path.
    Here,
    /// This end, with the congestion control that the user has named.
    HereAsNamed,
    /// This end, with one that perhaps needs no second connection.
    HereAlone,
}

impl Need {
    /// Of a connection without others.
    pub(crate) const ONE: Self = Self { named: None, limit: None, most: 1, sender: Sender::There };

    /// Of a copy that this end sends.
    pub(crate) fn of_push(options: &CopyOptions) -> Self {
        let sender = match options.send.congestion.as_deref() {
            None if may_find_the_rate() => Sender::HereAlone,
            None => Sender::Here,
            Some(name) if finds_the_rate(name) => Sender::HereAlone,
            Some(_) => Sender::HereAsNamed,
        };
        Self::of(options, sender)
    }

    /// Of a copy that the other end sends.
    pub(crate) fn of_pull(options: &CopyOptions) -> Self {
        Self::of(options, Sender::There)
    }

    fn of(options: &CopyOptions, sender: Sender) -> Self {
        let SendOptions { streams: named, rate: limit, .. } = options.send;
        Self { named, limit, most: receiver::most_connections(&options.receive), sender }
    }

    /// How many connections are needed beside this one, whose handshake is still to come; `least` in
    /// all, whatever the path needs.
    fn beside(&self, first: &TcpStream, least: u8) -> u8 {
        self.named.unwrap_or_else(|| self.of_path(first).max(least)).min(self.most).saturating_sub(1)
    }

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

/// A connection, and when it was made.
type Dated = Result<(Carrier, Time), ConnectError>;

/// See the module's description.
#[derive(Clone)]
pub(super) struct Ahead {
    need: Need,
    egresses: Egresses,
    /// One for each turn of the egresses.
    pools: Arc<[Pool<Dated>]>,
}

impl Ahead {
    pub(super) fn new(need: Need, egresses: &Egresses) -> Self {
        let pools = (0..egresses.connections()).map(|_| Pool::default()).collect();
        Self { need, egresses: egresses.clone(), pools }
    }

    /// The first connection of a session has just been made: begins those that it will need beside
    /// it, `least` in all.
    pub(super) fn begin_beside<M>(&self, first: &TcpStream, least: u8, make: M)
    where
        M: Fn(u8, &StopSignal) -> Result<Carrier, ConnectError> + Clone + Send + 'static,
    {
        for number in 1..=self.need.beside(first, least) {
            self.pool(number).begin(dated(number, make.clone()));
        }
    }

    /// One that was begun, or is made now, for the connection of this number.
    pub(super) fn take<M>(&self, number: u8, make: M, stop: &StopSignal) -> Result<Carrier, ConnectError>
    where
        M: Fn(u8, &StopSignal) -> Result<Carrier, ConnectError> + Clone + Send + 'static,
    {
        loop {
            let taken = self.pool(number).take(dated(number, make.clone()), stop);
            let (carrier, since) = taken.unwrap_or(Err(ConnectError::Interrupted))?;
            if clock::now() - since < FRESH {
                return Ok(carrier);
            }
        }
    }

    /// Those that nobody has taken are not needed.
    pub(super) fn end(&self) {
        self.pools.iter().for_each(Pool::end);
    }

    fn pool(&self, number: u8) -> &Pool<Dated> {
        &self.pools[self.egresses.turn(number)]
    }
}

fn dated<M>(number: u8, make: M) -> impl FnOnce(&StopSignal) -> Dated + Clone
where
    M: Fn(u8, &StopSignal) -> Result<Carrier, ConnectError> + Clone,
{
    move |stop| Ok((make(number, stop)?, clock::now()))
}
