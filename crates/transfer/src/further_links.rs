//! The connections of a session after the first.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use crossbeam_channel::{Receiver as Queue, Sender as Channel};
use icdc_link::{Link, LinkControl};
use icdc_rate::bundle::Number;
use icdc_tcp::TcpInfo;
use icdc_units::{ByteCount, Rate, Span};

const NO_PANIC: &str = "no panic while connections are listed";

/// A data connection of a session after its first.
pub struct FurtherLink {
    /// Number of the connection, see [`Job::Join`](icdc_protocol::message::Job).
    pub number: u8,
    /// The connection.
    pub link: Link,
}

/// Connections that a session wants beside those that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// So many, the first included, by the route of the first.
    Connections(u8),
    /// Datagrams in place of all of them, if the far end can be reached by them: losses are more than TCP bears.
    Datagrams,
}

/// Source of a session's connections after the first: a queue of those that are made, and a channel
/// by which more are asked for.
#[derive(Clone, Copy)]
pub struct Joining<'a> {
    /// Queue that delivers the connections once they are made.
    pub joined: &'a Queue<FurtherLink>,
    /// Channel for the connections that the path needs, whenever these are more; `None` at the end that does not make connections.
    pub wanted: Option<&'a Channel<Wanted>>,
}

/// Controls of the connections after the first, those that were lost included: monitors and ends
/// them.
#[derive(Default)]
pub(crate) struct FurtherControls(Mutex<Lists>);

/// Controls of the connections after the first: of those in use, by number, and of those that were
/// shut down.
#[derive(Default)]
struct Lists {
    open: BTreeMap<u8, LinkControl>,
    lost: Vec<LinkControl>,
}

impl FurtherControls {
    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.0.lock().expect(NO_PANIC)
    }

    /// Registers a connection as in use.
    pub(crate) fn add(&self, number: u8, control: LinkControl) {
        self.lock().open.insert(number, control);
    }

    /// Shuts one connection down: it is in use no more, and its counters still enter the totals.
    pub(crate) fn shut(&self, number: u8) {
        let mut lists = self.lock();
        if let Some(control) = lists.open.remove(&number) {
            control.shutdown();
            lists.lost.push(control);
        }
    }

    /// Shuts down all connections after the first.
    pub(crate) fn shut_all(&self) {
        self.lock().open.values().for_each(LinkControl::shutdown);
    }

    /// Number of connections after the first that are in use.
    pub(crate) fn count(&self) -> u64 {
        self.lock().open.len() as u64
    }

    /// Limits the rate of one connection that is in use; `None` for no limit.
    pub(crate) fn set_rate_of(&self, number: Number, rate: Option<Rate>) {
        let lists = self.lock();
        if let Some(control) = u8::try_from(number).ok().and_then(|number| lists.open.get(&number)) {
            control.set_rate(rate);
        }
    }

    /// Time since anything last arrived over each open connection, by number.
    pub(crate) fn silences(&self) -> Vec<(u8, Span)> {
        self.lock().open.iter().map(|(number, control)| (*number, control.silence())).collect()
    }

    /// Kernel's TCP statistics of each connection in use, by number; `None` for a connection that
    /// is not TCP.
    pub(crate) fn in_use(&self) -> Vec<(Number, Option<TcpInfo>)> {
        let info = |(number, control): (&u8, &LinkControl)| (Number::from(*number), control.tcp_info());
        self.lock().open.iter().map(info).collect()
    }

    /// Kernel's TCP statistics of all TCP connections after the first, lost ones included.
    pub(crate) fn tcp_infos(&self) -> Vec<TcpInfo> {
        self.lock().all().filter_map(LinkControl::tcp_info).collect()
    }

    /// Payload bytes that have reached the peer's host over each connection in use, by number.
    pub(crate) fn delivered_by_each(&self) -> Vec<(u8, ByteCount)> {
        self.lock().open.iter().map(|(number, control)| (*number, control.delivered())).collect()
    }

    /// Payload bytes that have reached the peer's host over one connection; `None` if it is not in use.
    pub(crate) fn delivered_by(&self, number: u8) -> Option<ByteCount> {
        self.lock().open.get(&number).map(LinkControl::delivered)
    }

    /// Payload bytes that have reached the peer's host over all connections after the first.
    pub(crate) fn delivered(&self) -> ByteCount {
        self.lock().all().map(LinkControl::delivered).sum()
    }

    /// Payload bytes that have arrived from the peer over all connections after the first.
    pub(crate) fn received(&self) -> ByteCount {
        self.lock().all().map(LinkControl::received).sum()
    }
}

impl Lists {
    /// Controls of all connections after the first, those that were shut down included.
    fn all(&self) -> impl Iterator<Item = &LinkControl> {
        self.open.values().chain(&self.lost)
    }
}
