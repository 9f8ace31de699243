//! How many connections there are, in all and of each client.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use icdc_units::Span;

/// The book of them.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    book: Mutex<Book>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct Book {
    all: usize,
    by_client: HashMap<IpAddr, usize>,
    /// Of those who have to show a key or a password, and have not yet.
    strangers: usize,
}

/// A connection's place; given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    clients: Arc<Clients>,
    client: Option<IpAddr>,
    is_stranger: bool,
}

impl Clients {
    /// A place among at most `most`; `None` if all are taken.
    pub(crate) fn enter(self: &Arc<Self>, most: usize) -> Option<Place> {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        if book.all >= most {
            return None;
        }
        book.all += 1;
        Some(Place { clients: Arc::clone(self), client: None, is_stranger: false })
    }

    /// Waits until nobody is left, or for `span`; how many are there then.
    pub(crate) fn wait_until_empty(&self, span: Span) -> usize {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.left.wait_timeout_while(book, span.into(), |book| book.all > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.all
    }

    pub(crate) fn count(&self) -> usize {
        self.book.lock().unwrap_or_else(PoisonError::into_inner).all
    }
}

impl Place {
    /// Says whose it is; false if that client has `most` already.
    pub(crate) fn belongs_to(&mut self, client: IpAddr, most: usize) -> bool {
        let client = household(client);
        let mut book = self.clients.book.lock().unwrap_or_else(PoisonError::into_inner);
        let count = book.by_client.entry(client).or_default();
        if *count >= most {
            return false;
        }
        *count += 1;
        self.client = Some(client);
        true
    }

    /// Says that it is of somebody who has to show a key or a password; false if `most` of these have not done so.
    pub(crate) fn is_of_a_stranger(&mut self, most: usize) -> bool {
        let mut book = self.clients.book.lock().unwrap_or_else(PoisonError::into_inner);
        if book.strangers >= most {
            return false;
        }
        book.strangers += 1;
        self.is_stranger = true;
        true
    }

    /// It has been shown.
    pub(crate) fn is_known(&mut self) {
        if std::mem::take(&mut self.is_stranger) {
            self.clients.book.lock().unwrap_or_else(PoisonError::into_inner).strangers -= 1;
        }
    }

    /// Says that it is nobody's, for now.
    pub(crate) fn release(&mut self) {
        let mut book = self.clients.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.forget(self.client.take());
    }
}

/// Who has one address of IPv6 has all of its /64.
fn household(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

impl Book {
    /// One connection less of this client.
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

impl Drop for Place {
    fn drop(&mut self) {
        let mut book = self.clients.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.all -= 1;
        if book.all == 0 {
            self.clients.left.notify_all();
        }
        book.forget(self.client);
        book.strangers -= usize::from(self.is_stranger);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back() {
        let clients = Arc::new(Clients::default());
        let one: IpAddr = [192, 0, 2, 1].into();
        let mut first = clients.enter(2).expect("room");
        assert!(first.belongs_to(one, 1));
        let mut second = clients.enter(2).expect("room");
        assert!(!second.belongs_to(one, 1) && clients.enter(2).is_none());
        drop(first);
        assert!(second.belongs_to(one, 1));
        second.release();
        assert!(second.belongs_to(one, 1), "what was released is free again");
        drop(second);
        assert_eq!(clients.count(), 0);
        assert!(clients.book.lock().expect("lock").by_client.is_empty());
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let clients = Arc::new(Clients::default());
        let belongs = |place: &mut Place, text: &str| place.belongs_to(text.parse().expect(text), 1);
        let [mut one, mut two, mut three] = [(); 3].map(|()| clients.enter(3).expect("room"));
        assert!(belongs(&mut one, "2001:db8::1"));
        assert!(!belongs(&mut two, "2001:db8::ffff:2") && belongs(&mut two, "2001:db8:0:1::1"));
        assert!(belongs(&mut three, "::ffff:192.0.2.1"), "IPv4 is counted by the address");
    }

    #[test]
    fn strangers_leave_room_for_those_who_are_known() {
        let clients = Arc::new(Clients::default());
        let [mut one, mut two] = [(); 2].map(|()| clients.enter(9).expect("room"));
        assert!(one.is_of_a_stranger(1) && !two.is_of_a_stranger(1));
        one.is_known();
        one.is_known();
        assert!(two.is_of_a_stranger(1));
        drop(two);
        assert!(one.is_of_a_stranger(1));
    }
}
