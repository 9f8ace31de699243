//! Connections that have been let in, each by the grant of one key: what ends them when that grant
//! is gone.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use icdc_link::LinkControl;
use icdc_stop::StopSignal;
use icdc_trust::{AuthorizedKeys, Grant, PublicKey};
use icdc_units::{Span, Time};

/// How long a session that is asked to end may take to tell the other end.
const PARTING: Span = Span::from_millis(400);

/// All connections that were let in and have not ended, by number.
#[derive(Default)]
pub(super) struct Connections {
    state: Mutex<Talking>,
}

#[derive(Default)]
struct Talking {
    next: u64,
    open: BTreeMap<u64, Connection>,
}

struct Connection {
    /// The standing key that it came in by, and what that key was granted then.
    owner: PublicKey,
    grant: Grant,
    control: LinkControl,
    stop: StopSignal,
    /// When it is cut, once it was asked to end.
    cut_at: Option<Time>,
}

impl Connections {
    /// Enters a connection; `stop` is requested when its grant is gone. Answers its number.
    pub(super) fn enter(&self, owner: PublicKey, grant: Grant, control: LinkControl, stop: StopSignal) -> u64 {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.open.insert(number, Connection { owner, grant, control, stop, cut_at: None });
        number
    }

    /// Forgets a connection that has ended.
    pub(super) fn leave(&self, number: u64) {
        // It may be the last to hold the link, whose end takes its time.
        let connection = self.state().open.remove(&number);
        drop(connection);
    }

    /// Asks every connection to end whose key is not granted any more what it was.
    pub(super) fn revoke(&self, keys: &AuthorizedKeys, now: Time) {
        let mut asked = Vec::new();
        for connection in self.state().open.values_mut() {
            let granted = keys.find(&connection.owner);
            let stands = granted.is_some_and(|granted| granted.allows_the_same(&connection.grant));
            if !stands && connection.cut_at.is_none() {
                connection.cut_at = Some(now + PARTING);
                let key = connection.owner.fingerprint();
                tracing::info!(
                    key,
                    peer = connection.control.peer(),
                    "its line in authorized_keys has changed: it ends"
                );
                asked.push(connection.stop.clone());
            }
        }
        asked.iter().for_each(StopSignal::request);
    }

    /// Cuts the connections that were asked to end and have not in time.
    pub(super) fn cut_late(&self, now: Time) {
        for connection in self.state().open.values_mut() {
            if connection.cut_at.is_some_and(|cut_at| cut_at <= now) {
                connection.control.shutdown();
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, Talking> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
