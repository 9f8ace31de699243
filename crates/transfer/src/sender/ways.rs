//! Which connections of a session take the same way: between the same two addresses. Those of a host with several network
//! cards take several, and what one of them carries says nothing about another.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard};

use icdc_link::LinkControl;
use icdc_rate::bundle::Number;
use icdc_rate::controller::FIRST;
use icdc_tcp::congestion::BundleNumber;
use icdc_tuning::Tuned;

const NO_PANIC: &str = "no panic while ways are noted";

/// Addresses of both ends of a connection; `None` for one that is not TCP.
pub(super) type Way = Option<(IpAddr, IpAddr)>;

/// Ways of the connections of a session, by number.
pub(super) struct Ways(Mutex<BTreeMap<Number, Taken>>);

/// Way of a connection, with the bundle that its congestion control counts it to, if any.
#[derive(Clone, Copy)]
struct Taken {
    way: Way,
    bundle: Option<BundleNumber>,
}

/// Way that a connection takes.
pub(super) fn way(control: &LinkControl) -> Way {
    let socket = control.socket()?;
    let (own, peer) = (socket.local_addr().ok()?, socket.peer_addr().ok()?);
    Some((own.ip().to_canonical(), peer.ip().to_canonical()))
}

impl Ways {
    /// The ways of a session that begins with this connection, tuned so.
    pub(super) fn of_first(control: &LinkControl, tuned: Option<&Tuned>) -> Self {
        let first = Taken { way: way(control), bundle: tuned.and_then(Tuned::bundle) };
        Self(Mutex::new(BTreeMap::from([(FIRST, first)])))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Number, Taken>> {
        self.0.lock().expect(NO_PANIC)
    }

    /// Bundle of the connections that take this way; `None` if there is none.
    pub(super) fn bundle(&self, way: Way) -> Option<BundleNumber> {
        self.lock().values().find(|taken| taken.way == way).and_then(|taken| taken.bundle)
    }

    /// Notes the way of a further connection.
    pub(super) fn note(&self, number: Number, way: Way, bundle: Option<BundleNumber>) {
        self.lock().insert(number, Taken { way, bundle });
    }

    /// The connection with the lowest number of those `in_use` that take the same way as `number`; itself if its way is not
    /// known.
    pub(super) fn lead(&self, number: Number, in_use: &[Number]) -> Number {
        let ways = self.lock();
        let way = |number: &Number| ways.get(number).map(|taken| taken.way);
        let own = way(&number);
        in_use.iter().copied().filter(|other| own.is_some() && way(other) == own).min().unwrap_or(number)
    }
}
