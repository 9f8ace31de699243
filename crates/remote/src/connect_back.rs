//! A far end that connects to the starting end, because its own port cannot be reached. What comes
//! of it is served like a connection to that port.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use icdc_link::{DEAD_AFTER, LinkError, Outlet};
use icdc_protocol::Message;
use icdc_protocol::limits::MAX_STREAMS;
use icdc_protocol::message::ConnectBack;
use icdc_protocol::validate::clip;
use icdc_stop::StopSignal;
use icdc_tcp::Family;
use icdc_tuning::buffers::beginning;
use icdc_units::Span;

use crate::listen::guard::Adoption;

/// How long a connection may take.
const PATIENCE: Span = Span::from_secs(15);

/// See the module's description.
#[derive(Clone)]
pub(crate) struct Connector {
    family: Family,
    adoption: Adoption,
    /// To the starting end.
    outlet: Arc<Mutex<Box<dyn Outlet>>>,
    /// Connections that are being made.
    pending: Arc<AtomicUsize>,
    /// The starting end listens from its first order on.
    is_heard: Arc<Once>,
}

impl Connector {
    pub(crate) fn new(family: Family, adoption: Adoption, outlet: Box<dyn Outlet>) -> Self {
        Self {
            family,
            adoption,
            outlet: Arc::new(Mutex::new(outlet)),
            pending: Arc::default(),
            is_heard: Arc::new(Once::new()),
        }
    }

    /// Connects, on a thread of its own; tells the starting end if that fails.
    pub(crate) fn connect(&self, order: ConnectBack) {
        self.is_heard.call_once(|| self.give_signs_of_life());
        let number = order.number;
        if self.pending.fetch_add(1, Ordering::Relaxed) >= usize::from(MAX_STREAMS) {
            self.pending.fetch_sub(1, Ordering::Relaxed);
            return self.fail(number, "too many connections are being made already".to_owned());
        }
        let connector = self.clone();
        let connecting = std::thread::Builder::new().name("connect-back".into()).spawn(move || {
            match connector.reach(&order) {
                Ok(stream) => connector.adoption.adopt(stream),
                Err(reason) => connector.fail(number, reason),
            }
            connector.pending.fetch_sub(1, Ordering::Relaxed);
        });
        if let Err(error) = connecting {
            self.pending.fetch_sub(1, Ordering::Relaxed);
            self.fail(number, format!("no thread: {error}"));
        }
    }

    /// From now on, so that the starting end does not take this one for dead.
    fn give_signs_of_life(&self) {
        let connector = self.clone();
        let signs = std::thread::Builder::new().name("signs-of-life".into());
        let giving = signs.spawn(move || {
            // Nobody asks this signal to stop: it is the clock.
            let clock = StopSignal::new();
            while connector.tell(Message::Ping).is_ok() && !clock.wait(DEAD_AFTER / 4) {}
        });
        if let Err(error) = giving {
            tracing::debug!("no signs of life: {error}");
        }
    }

    fn reach(&self, ConnectBack { secret, addresses, port, .. }: &ConnectBack) -> Result<TcpStream, String> {
        let mut addresses = addresses.clone();
        addresses.extend(address_of_ssh().filter(|address| !addresses.contains(address)));
        let places = addresses.into_iter().filter(|address| self.family.admits(*address));
        let places: Vec<SocketAddr> = places.map(|address| SocketAddr::new(address, *port)).collect();
        let mut stream = icdc_tcp::connect_any("the starting end", places, PATIENCE, &beginning())
            .map_err(|error| error.to_string())?;
        stream.write_all(&shown(secret)).map_err(|error| format!("send: {error}"))?;
        Ok(stream)
    }

    fn fail(&self, number: u32, reason: String) {
        if let Err(error) = self.tell(Message::NotConnected { number, reason: clip(reason) }) {
            tracing::debug!("the starting end is gone: {error}");
        }
    }

    fn tell(&self, message: Message) -> Result<(), LinkError> {
        let mut outlet = self.outlet.lock().unwrap_or_else(PoisonError::into_inner);
        outlet.send(message.into()).and_then(|()| outlet.flush())
    }
}

/// What a connection begins with, so that who asked knows it. The digest of the secret: who asks
/// must not choose what is written to a port that may be another's.
pub(crate) fn shown(secret: &[u8; 32]) -> [u8; 32] {
    let mut shown = [0; 32];
    shown.copy_from_slice(digest(&SHA256, secret).as_ref());
    shown
}

/// From where ssh has come (sshd(8): `SSH_CONNECTION` begins with the client's address).
fn address_of_ssh() -> Option<IpAddr> {
    let words = std::env::var("SSH_CONNECTION").ok()?;
    let address: IpAddr = words.split(' ').next()?.parse().ok()?;
    Some(address.to_canonical())
}
