//! Keys that are made for one transfer between two far ends and let in for one job of it.
//!
//! Each hangs on the standing key that admitted it, by whose grant it is let in: what that key may
//! do is looked up at each use. They vanish when their job is done, when nobody comes, or when a
//! cut job is not resumed.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use icdc_protocol::TransferId;
use icdc_protocol::message::{Job, Refusal, RefusalKind};
use icdc_trust::PublicKey;
use icdc_units::{Span, Time};

use crate::ended::Ended;

/// How long a temporary key waits for its first use.
const UNUSED: Span = Span::from_secs(60);
/// How long a temporary key whose job was cut waits for its next use.
const CUT: Span = Span::from_secs(15 * 60);
/// Most temporary keys of one standing key at a time.
const MAX_PER_KEY: usize = 64;

/// Keys that are let in for one job.
#[derive(Default)]
pub(super) struct Temporary {
    keys: Mutex<HashMap<PublicKey, AdmittedKey>>,
}

struct AdmittedKey {
    admission: TemporaryKey,
    /// Connections that use the key now.
    connections: usize,
    /// When an unused key vanishes.
    expires: Time,
}

/// What a temporary key is for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TemporaryKey {
    /// The standing key that admitted it.
    pub(super) by: PublicKey,
    pub(super) transfer: TransferId,
    pub(super) job: Job,
}

impl Temporary {
    /// Lets `key`, which is no standing one, in for what `admission` says.
    pub(super) fn admit(&self, key: PublicKey, admission: TemporaryKey, now: Time) -> Result<(), Refusal> {
        let mut keys = self.keys(now);
        if keys.contains_key(&key) {
            let reason = "this key is admitted for a transfer already; each transfer makes its own".to_owned();
            return Err(Refusal { kind: RefusalKind::NotAllowed, reason });
        }
        if keys.values().filter(|entry| entry.admission.by == admission.by).count() >= MAX_PER_KEY {
            let reason = format!(
                "{MAX_PER_KEY} transfers between far ends are under way here for this key, which is the limit; try again when one has ended"
            );
            return Err(Refusal { kind: RefusalKind::Busy, reason });
        }
        keys.insert(key, AdmittedKey { admission, connections: 0, expires: now + UNUSED });
        Ok(())
    }

    /// What `key` was admitted for, if it was.
    pub(super) fn find(&self, key: &PublicKey, now: Time) -> Option<TemporaryKey> {
        self.keys(now).get(key).map(|entry| entry.admission.clone())
    }

    /// A connection with this key has begun, the end of which [`Temporary::ended`] has to be told.
    pub(super) fn began(&self, key: &PublicKey, now: Time) {
        if let Some(entry) = self.keys(now).get_mut(key) {
            entry.connections += 1;
        }
    }

    /// A connection with this key has ended.
    pub(super) fn ended(&self, key: &PublicKey, how: &Ended, now: Time) {
        let mut keys = self.keys(now);
        let Some(entry) = keys.get_mut(key) else {
            return;
        };
        entry.connections = entry.connections.saturating_sub(1);
        match how {
            // No part of the job: it neither ends it nor adds to the time that it has.
            Ended::Joined | Ended::TurnedAway(_) => {}
            Ended::Finished | Ended::Interrupted | Ended::Refused(_) if entry.connections == 0 => {
                keys.remove(key);
            }
            _ => entry.expires = now + CUT,
        }
    }

    fn keys(&self, now: Time) -> MutexGuard<'_, HashMap<PublicKey, AdmittedKey>> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.retain(|_, entry| entry.connections > 0 || entry.expires > now);
        keys
    }
}

#[cfg(test)]
mod tests {
    use icdc_tcp::clock;

    use super::*;

    fn key(number: u16) -> PublicKey {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&number.to_le_bytes());
        PublicKey::from_bytes(bytes)
    }

    fn by(number: u16) -> TemporaryKey {
        TemporaryKey { by: key(number), transfer: [7; 16], job: Job::DriveKey }
    }

    #[test]
    fn a_key_lasts_as_long_as_its_job() {
        let temporary = Temporary::default();
        let now = clock::now();
        temporary.admit(key(9), by(1), now).unwrap();
        assert_eq!(temporary.find(&key(9), now), Some(by(1)));
        temporary.began(&key(9), now);
        // A further connection that ends leaves it, and so does a cut; the end of the job does not.
        temporary.began(&key(9), now);
        temporary.ended(&key(9), &Ended::Finished, now);
        temporary.ended(&key(9), &Ended::Cut("gone".into()), now);
        assert!(temporary.find(&key(9), now).is_some());
        temporary.began(&key(9), now);
        temporary.ended(&key(9), &Ended::Finished, now);
        assert!(temporary.find(&key(9), now).is_none());
    }

    #[test]
    fn what_is_not_the_end_of_the_job_leaves_its_key_the_time_that_it_had() {
        let temporary = Temporary::default();
        let now = clock::now();
        temporary.admit(key(9), by(1), now).unwrap();
        (0..3).for_each(|_| temporary.began(&key(9), now));
        temporary.ended(&key(9), &Ended::Cut("gone".into()), now);
        let later = now + Span::from_secs(10);
        temporary.ended(&key(9), &Ended::Joined, later);
        temporary.ended(&key(9), &Ended::TurnedAway(Refusal::new(RefusalKind::Busy, "no such transfer")), later);
        let last = now + CUT;
        assert!(temporary.find(&key(9), last - Span::from_secs(1)).is_some());
        assert!(temporary.find(&key(9), last).is_none());
    }

    #[test]
    fn keys_that_nobody_uses_vanish() {
        let temporary = Temporary::default();
        let now = clock::now();
        let late = now + UNUSED + Span::from_secs(1);
        temporary.admit(key(9), by(1), now).unwrap();
        assert!(temporary.find(&key(9), late).is_none());
        temporary.admit(key(9), by(1), now).unwrap();
        temporary.began(&key(9), now);
        assert!(temporary.find(&key(9), late).is_some(), "in use, however long");
    }

    #[test]
    fn nobody_takes_over_the_key_of_another() {
        let temporary = Temporary::default();
        let now = clock::now();
        temporary.admit(key(9), by(1), now).unwrap();
        assert_eq!(temporary.admit(key(9), by(2), now).unwrap_err().kind, RefusalKind::NotAllowed);
        assert_eq!(temporary.find(&key(9), now), Some(by(1)));
    }

    #[test]
    fn they_are_counted_by_the_key_that_admits_them() {
        let temporary = Temporary::default();
        let now = clock::now();
        let admit = |number| temporary.admit(key(number), by(1), now);
        let admitted = (100..100 + 2 * MAX_PER_KEY as u16).filter(|number| admit(*number).is_ok());
        assert_eq!(admitted.count(), MAX_PER_KEY);
        temporary.admit(key(9), by(2), now).unwrap();
    }
}
