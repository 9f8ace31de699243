//! Ways of a session's connections: those between the same two addresses take the same one. Those of
//! a host with several network cards take several, and what one carries says nothing about another.

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

/// Ways of the connections of a session, in the order in which these came.
pub(super) struct Ways(Mutex<Vec<Taken>>);

/// Way of a connection, with the bundle that its congestion control counts it to, if any.
#[derive(Clone, Copy)]
struct Taken {
    number: Number,
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
        let first = Taken { number: FIRST, way: way(control), bundle: tuned.and_then(Tuned::bundle) };
        Self(Mutex::new(vec![first]))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Taken>> {
        self.0.lock().expect(NO_PANIC)
    }

    /// Bundle of the connections that take this way; `None` if there is none.
    pub(super) fn bundle(&self, way: Way) -> Option<BundleNumber> {
        self.lock().iter().filter(|taken| taken.way == way).find_map(|taken| taken.bundle)
    }

    /// Notes the way of a further connection, before it is in use.
    pub(super) fn note(&self, number: Number, way: Way, bundle: Option<BundleNumber>) {
        self.lock().push(Taken { number, way, bundle });
    }

    /// The connection that leads the way of `number`: the one of those `in_use` that came first. One
    /// that comes later leads no earlier one, whatever its number.
    pub(super) fn lead(&self, number: Number, in_use: &[Number]) -> Number {
        let ways = self.lock();
        let own = ways.iter().find(|taken| taken.number == number).map(|taken| taken.way);
        let mut of_way = ways.iter().filter(|taken| Some(taken.way) == own).map(|taken| taken.number);
        of_way.find(|other| in_use.contains(other)).unwrap_or(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_came_first_leads_whatever_its_number() {
        let far = IpAddr::from([192, 0, 2, 1]);
        let way = |card: u8| Some((IpAddr::from([10, 0, 0, card]), far));
        let ways = Ways(Mutex::new(vec![Taken { number: FIRST, way: way(1), bundle: None }]));
        for (number, card) in [(5, 2), (3, 2), (1, 2), (2, 1)] {
            ways.note(number, way(card), None);
        }
        let in_use = [0, 1, 2, 3, 5];
        assert_eq!(in_use.map(|number| ways.lead(number, &in_use)), [0, 5, 0, 5, 5]);
        assert_eq!([1, 3].map(|number| ways.lead(number, &[0, 1, 2, 3])), [3, 3], "that has ended");
        // What is no TCP has one way.
        ways.note(7, None, None);
        ways.note(6, None, None);
        assert_eq!(ways.lead(6, &[0, 6, 7]), 7);
    }
}
