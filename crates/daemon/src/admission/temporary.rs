//! Keys that are made for one transfer between two far ends and let in for one job of it.
//!
//! Each hangs on the standing key that admitted it, by whose grant it is let in: what that key may
//! do is looked up at each use. They vanish when their job is done, when nobody comes, or when a
//! cut job is not resumed. [Daemons beside this one](super::neighbours) share them.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use icdc_protocol::TransferId;
use icdc_protocol::message::{Refusal, RefusalKind, Transfer};
use icdc_session_process::Ended;
use icdc_trust::PublicKey;
use icdc_units::{Span, Time};

use super::neighbours::{Number, Running, SharedKey, that_fit};

/// Lifetime of a temporary key before its first use.
const UNUSED: Span = Span::from_secs(60);
/// Lifetime of a temporary key whose job was cut, up to its next use.
const CUT: Span = Span::from_secs(15 * 60);
/// Most temporary keys of one standing key at a time.
const MAX_PER_KEY: usize = 64;
/// Most keys that are remembered once their job is done, for the neighbouring daemons.
const MOST_SPENT: usize = 256;

/// Temporary keys, each admitted for one job.
#[derive(Default)]
pub(super) struct Temporary {
    keys: Mutex<HashMap<PublicKey, AdmittedKey>>,
    /// The last keys whose job is done, the newest first.
    spent: Mutex<VecDeque<PublicKey>>,
}

/// A temporary key that is admitted, and its use.
struct AdmittedKey {
    admission: TemporaryKey,
    /// Number of connections that use the key now.
    connections: usize,
    /// Time at which the key vanishes if it is not in use.
    expires: Time,
    /// Whether the key was admitted or used here; otherwise only other daemons tell of it.
    is_own: bool,
    /// Neighbouring daemons that have the key too, and whether it is in use there.
    elsewhere: BTreeMap<Number, bool>,
}

/// Purpose of a temporary key: one job of one transfer between two far ends, for which a standing
/// key has admitted it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TemporaryKey {
    /// The standing key that admitted it.
    pub(super) by: PublicKey,
    pub(super) transfer: TransferId,
    pub(super) job: Transfer,
}

impl Temporary {
    /// Admits `key`, which is no standing key, for what `admission` says. Refused if it is admitted
    /// already, or its standing key has [`MAX_PER_KEY`] temporary ones.
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
        let (is_own, elsewhere) = (true, BTreeMap::new());
        keys.insert(key, AdmittedKey { admission, connections: 0, expires: now + UNUSED, is_own, elsewhere });
        Ok(())
    }

    /// Purpose of `key`; `None` if it is not admitted.
    pub(super) fn find(&self, key: &PublicKey, now: Time) -> Option<TemporaryKey> {
        self.keys(now).get(key).map(|entry| entry.admission.clone())
    }

    /// Records that a connection with this key has begun, whose end has to be reported to
    /// [`Temporary::ended`].
    pub(super) fn began(&self, key: &PublicKey, now: Time) {
        if let Some(entry) = self.keys(now).get_mut(key) {
            entry.connections += 1;
            entry.is_own = true;
        }
    }

    /// Records that a connection with this key has ended. The key is removed if that has ended its
    /// job, and kept for the next connection if the job was cut.
    pub(super) fn ended(&self, key: &PublicKey, how: &Ended, now: Time) {
        let mut keys = self.keys(now);
        let Some(entry) = keys.get_mut(key) else {
            return;
        };
        entry.connections = entry.connections.saturating_sub(1);
        match how {
            // No part of the job: it neither ends it nor adds to the time that it has.
            Ended::Joined | Ended::TurnedAway(_) => {}
            Ended::Finished | Ended::Interrupted | Ended::Refused(_) if !entry.is_in_use() => {
                keys.remove(key);
                self.mark_spent(*key);
            }
            _ => entry.expires = now + CUT,
        }
    }

    /// Remembers a key whose job is done, so that neighbouring daemons remove it too.
    fn mark_spent(&self, key: PublicKey) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.truncate(MOST_SPENT - 1);
        spent.push_front(key);
    }

    /// Puts into `running` the temporary keys and those whose job is done, for the neighbour `to`;
    /// keys that only it has are left out.
    pub(super) fn tell(&self, to: Option<Number>, running: &mut Running, now: Time) {
        let keys = self.keys(now);
        let told = keys.iter().filter(|(_, entry)| entry.is_to_be_told(to, now)).map(|(key, entry)| SharedKey {
            key: *key.as_bytes(),
            by: *entry.admission.by.as_bytes(),
            transfer: entry.admission.transfer,
            job: entry.admission.job.clone(),
            in_use: entry.is_in_use(),
            expires: entry.expires,
        });
        running.keys = that_fit(told);
        running.keys.sort_by_key(|shared| shared.key);
        let spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        running.spent = spent.iter().map(|key| *key.as_bytes()).collect();
    }

    /// Records the temporary keys that a neighbouring daemon has.
    pub(super) fn learn(&self, from: Number, running: &Running, now: Time) {
        let mut keys = self.keys(now);
        for entry in keys.values_mut() {
            entry.elsewhere.remove(&from);
        }
        let spent: HashSet<_> = self.spent.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        // What was under way when its job ended here does not bring a key back.
        for shared in running.keys.iter().filter(|shared| !spent.contains(&PublicKey::from_bytes(shared.key))) {
            let SharedKey { by, transfer, job, expires, .. } = shared.clone();
            let entry = keys.entry(PublicKey::from_bytes(shared.key)).or_insert_with(|| AdmittedKey {
                admission: TemporaryKey { by: PublicKey::from_bytes(by), transfer, job },
                connections: 0,
                expires,
                is_own: false,
                elsewhere: BTreeMap::new(),
            });
            entry.expires = entry.expires.max(expires);
            entry.elsewhere.insert(from, shared.in_use);
        }
        for key in running.spent.iter().map(|key| PublicKey::from_bytes(*key)) {
            if keys.get(&key).is_some_and(|entry| !entry.is_in_use()) {
                keys.remove(&key);
                self.mark_spent(key);
            }
        }
    }

    /// Takes over the keys of a neighbouring daemon that has ended; what was in use there counts as
    /// cut.
    pub(super) fn inherit(&self, from: Number, now: Time) {
        for entry in self.keys(now).values_mut() {
            if let Some(in_use) = entry.elsewhere.remove(&from) {
                entry.is_own = true;
                entry.expires = entry.expires.max(if in_use { now + CUT } else { now });
            }
        }
    }

    /// Locks the keys, and removes those that have expired by `now`.
    fn keys(&self, now: Time) -> MutexGuard<'_, HashMap<PublicKey, AdmittedKey>> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.retain(|_, entry| entry.connections > 0 || entry.expires > now || !entry.elsewhere.is_empty());
        keys
    }
}

impl AdmittedKey {
    /// Whether a connection uses it, here or at a neighbouring daemon.
    fn is_in_use(&self) -> bool {
        self.connections > 0 || self.elsewhere.values().any(|in_use| *in_use)
    }

    /// Whether the daemon `to` is to be told of this key; not if only that daemon itself has it.
    fn is_to_be_told(&self, to: Option<Number>, now: Time) -> bool {
        let is_kept_here = self.is_own && (self.connections > 0 || self.expires > now);
        is_kept_here || self.elsewhere.keys().any(|other| Some(*other) != to)
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
        TemporaryKey {
            by: key(number),
            transfer: [7; 16],
            job: Transfer::Send { sources: Vec::new(), options: Default::default() },
        }
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

    /// Daemons beside each other by these numbers: the first one tells the second one.
    fn tell(from: &Temporary, to: &Temporary, now: Time) {
        let mut running = Running::default();
        from.tell(Some(0), &mut running, now);
        to.learn(0, &running, now);
    }

    #[test]
    fn daemons_beside_each_other_share_keys_and_their_ends() {
        let (old, new) = (Temporary::default(), Temporary::default());
        let now = clock::now();
        let late = now + UNUSED + Span::from_secs(1);
        (1..=3).for_each(|number| old.admit(key(number), by(9), now).unwrap());
        (1..=2).for_each(|number| old.began(&key(number), now));
        tell(&old, &new, now);
        assert_eq!(new.find(&key(1), now), Some(by(9)));
        // Used up there, it is used up here; in use there, it stays as long as it likes.
        old.ended(&key(1), &Ended::Finished, now);
        tell(&old, &new, now);
        assert!(new.find(&key(1), now).is_none() && new.find(&key(2), late).is_some());
        assert!(new.find(&key(3), late).is_some(), "it is told of still");
        tell(&old, &new, late);
        assert!(new.find(&key(3), late).is_none(), "unused, it vanishes at both");
        // What was cut there goes on here, and ends for both.
        old.ended(&key(2), &Ended::Cut("gone".into()), late);
        tell(&old, &new, late);
        new.began(&key(2), late);
        new.ended(&key(2), &Ended::Finished, late);
        tell(&new, &old, late);
        assert!(new.find(&key(2), late).is_none() && old.find(&key(2), late).is_none());
    }

    #[test]
    fn the_keys_of_a_daemon_that_has_ended_go_on_at_the_next() {
        let (old, new) = (Temporary::default(), Temporary::default());
        let now = clock::now();
        old.admit(key(1), by(9), now).unwrap();
        old.began(&key(1), now);
        tell(&old, &new, now);
        // Neither keeps the other's alive.
        tell(&new, &old, now);
        let end = now + CUT;
        new.inherit(0, end);
        assert!(new.find(&key(1), end + CUT - Span::from_secs(1)).is_some());
        assert!(new.find(&key(1), end + CUT).is_none());
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
