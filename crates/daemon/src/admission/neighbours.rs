//! Daemons that let in the same keys at a time, as two do while the older one still has sessions:
//! each tells the other its sessions and temporary keys.
//!
//! It tells all of them whenever they have changed. They count for as long as the channel lasts,
//! which ends with either process, however that ends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use icdc_protocol::TransferId;
use icdc_protocol::message::Transfer;
use icdc_units::Time;
use serde::{Deserialize, Serialize};

use icdc_session_process::channel::Channel;

/// Room for temporary keys in one message, in bytes; the longest message has twice as many.
const ROOM: usize = 1 << 20;

/// Sessions and temporary keys of a daemon, as told to another that lets in the same keys, so that
/// both keep the limits of these keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Running {
    /// Sessions, each with its standing key.
    pub(super) sessions: Vec<([u8; 32], TransferId)>,
    pub(super) keys: Vec<SharedKey>,
    /// Temporary keys whose job is done.
    pub(super) spent: Vec<[u8; 32]>,
}

/// A temporary key and its purpose, as told to another daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SharedKey {
    pub(super) key: [u8; 32],
    /// The standing key that admitted it.
    pub(super) by: [u8; 32],
    pub(super) transfer: TransferId,
    pub(super) job: Transfer,
    /// Whether a connection uses the key now.
    pub(super) in_use: bool,
    /// Time at which the key vanishes unless it is in use, by the clock of the host, which both
    /// daemons have.
    pub(super) expires: Time,
}

/// Number by which a neighbouring daemon is known here.
pub(super) type Number = u64;

/// The neighbouring daemons, which are told of sessions and temporary keys.
#[derive(Default)]
pub(super) struct Neighbours(Mutex<List>);

/// The neighbouring daemons, and the number that the next one gets.
#[derive(Default)]
struct List {
    next: Number,
    all: Vec<Neighbour>,
}

/// A neighbouring daemon, with the channel to it.
struct Neighbour {
    number: Number,
    channel: Arc<Channel>,
    /// Sessions and temporary keys that the neighbour was told of last.
    told: Running,
}

impl Neighbours {
    /// Adds a neighbour, which knows what was `told` to it; returns its number.
    pub(super) fn enter(&self, channel: Arc<Channel>, told: Running) -> Number {
        let mut list = self.list();
        let number = list.next;
        list.next += 1;
        list.all.push(Neighbour { number, channel, told });
        number
    }

    /// Removes a neighbour that has ended.
    pub(super) fn leave(&self, number: Number) {
        self.list().all.retain(|neighbour| neighbour.number != number);
    }

    /// Tells each neighbour what has changed for it; `running` returns what it should know.
    pub(super) fn tell(&self, running: impl Fn(Number) -> Running) {
        for Neighbour { number, channel, told } in &mut self.list().all {
            let now = running(*number);
            if *told == now {
                continue;
            }
            // The end of the channel is noticed by who listens.
            match channel.send(&now, None) {
                Ok(()) => *told = now,
                Err(error) => tracing::debug!("the other daemon is not told of sessions: {error}"),
            }
        }
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As many of the keys as fit into one message.
pub(super) fn that_fit(keys: impl Iterator<Item = SharedKey>) -> Vec<SharedKey> {
    let mut left = ROOM;
    let fits = |key: &SharedKey| {
        let length = postcard::to_stdvec(key).map_or(usize::MAX, |bytes| bytes.len());
        left.checked_sub(length).inspect(|rest| left = *rest).is_some()
    };
    keys.filter(fits).collect()
}
