//! Limits on connections: in all, per client, and of clients that have not authenticated.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use icdc_units::Span;

/// Counts of the open connections of a relay: in all, of each client, and of clients that have not
/// authenticated.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    counts: Mutex<Counts>,
    emptied: Condvar,
}

/// Numbers of open connections against which the limits are checked.
#[derive(Debug, Default)]
struct Counts {
    all: usize,
    by_client: HashMap<IpAddr, usize>,
    /// Connections that have to show a key or a password, and have not yet.
    unauthenticated: usize,
}

/// A connection's slot among those that are allowed; released when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    clients: Arc<Clients>,
    client: Option<IpAddr>,
    is_unauthenticated: bool,
}

impl Clients {
    /// A slot among at most `most`; `None` if all are taken.
    pub(crate) fn take_slot(self: &Arc<Self>, most: usize) -> Option<Slot> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.all >= most {
            return None;
        }
        counts.all += 1;
        Some(Slot { clients: Arc::clone(self), client: None, is_unauthenticated: false })
    }

    /// Waits until no connection is left, or for `span`; returns how many there are then.
    pub(crate) fn wait_until_empty(&self, span: Span) -> usize {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.emptied.wait_timeout_while(counts, span.into(), |counts| counts.all > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.all
    }

    /// Number of open connections.
    pub(crate) fn count(&self) -> usize {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).all
    }
}

impl Slot {
    /// Counts the connection for a client; returns false if that client has `most` already.
    pub(crate) fn assign_to(&mut self, client: IpAddr, most: usize) -> bool {
        let client = network_of(client);
        let mut counts = self.clients.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.by_client.entry(client).or_default();
        if *count >= most {
            return false;
        }
        *count += 1;
        self.client = Some(client);
        true
    }

    /// Counts the connection as one whose client has to show a key or a password; returns false if
    /// `most` of these are open already.
    pub(crate) fn mark_unauthenticated(&mut self, most: usize) -> bool {
        let mut counts = self.clients.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.unauthenticated >= most {
            return false;
        }
        counts.unauthenticated += 1;
        self.is_unauthenticated = true;
        true
    }

    /// Records that the client has shown its key or password.
    pub(crate) fn mark_authenticated(&mut self) {
        if std::mem::take(&mut self.is_unauthenticated) {
            self.clients.counts.lock().unwrap_or_else(PoisonError::into_inner).unauthenticated -= 1;
        }
    }

    /// Counts the connection for no client from now on: its client is another relay, whose own
    /// clients are counted instead.
    pub(crate) fn release(&mut self) {
        let mut counts = self.clients.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.forget(self.client.take());
    }
}

/// Network that counts as one client: an IPv4 address, or the /64 of an IPv6 address, all of which
/// one host may use.
fn network_of(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

impl Counts {
    /// Subtracts one connection of this client.
    fn forget(&mut self, client: Option<IpAddr>) {
        if let Some(client) = client
            && let Some(count) = self.by_client.get_mut(&client)
        {
            *count -= 1;
            if *count == 0 {
                self.by_client.remove(&client);
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut counts = self.clients.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.all -= 1;
        if counts.all == 0 {
            self.clients.emptied.notify_all();
        }
        counts.forget(self.client);
        counts.unauthenticated -= usize::from(self.is_unauthenticated);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_released() {
        let clients = Arc::new(Clients::default());
        let one: IpAddr = [192, 0, 2, 1].into();
        let mut first = clients.take_slot(2).expect("a slot");
        assert!(first.assign_to(one, 1));
        let mut second = clients.take_slot(2).expect("a slot");
        assert!(!second.assign_to(one, 1) && clients.take_slot(2).is_none());
        drop(first);
        assert!(second.assign_to(one, 1));
        second.release();
        assert!(second.assign_to(one, 1), "what was released is free again");
        drop(second);
        assert_eq!(clients.count(), 0);
        assert!(clients.counts.lock().expect("lock").by_client.is_empty());
    }

    #[test]
    fn an_ipv6_network_is_one_client() {
        let clients = Arc::new(Clients::default());
        let assign = |slot: &mut Slot, text: &str| slot.assign_to(text.parse().expect(text), 1);
        let [mut one, mut two, mut three] = [(); 3].map(|()| clients.take_slot(3).expect("a slot"));
        assert!(assign(&mut one, "2001:db8::1"));
        assert!(!assign(&mut two, "2001:db8::ffff:2") && assign(&mut two, "2001:db8:0:1::1"));
        assert!(assign(&mut three, "::ffff:192.0.2.1"), "IPv4 is counted by the address");
    }

    #[test]
    fn unauthenticated_clients_leave_slots_to_others() {
        let clients = Arc::new(Clients::default());
        let [mut one, mut two] = [(); 2].map(|()| clients.take_slot(9).expect("a slot"));
        assert!(one.mark_unauthenticated(1) && !two.mark_unauthenticated(1));
        one.mark_authenticated();
        one.mark_authenticated();
        assert!(two.mark_unauthenticated(1));
        drop(two);
        assert!(one.mark_unauthenticated(1));
    }
}
