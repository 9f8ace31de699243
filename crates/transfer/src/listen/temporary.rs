//! Keys that are made for one transfer between two far ends and let in for one job of it.
//!
//! They vanish when that job is done, when nobody comes, or when a cut job is not resumed.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use icdc_protocol::TransferId;
use icdc_protocol::message::Job;
use icdc_trust::PublicKey;
use icdc_units::{Span, Time};

use crate::clock;
use crate::session::{Ended, Rights};

/// How long a temporary key waits for its first use.
const UNUSED: Span = Span::from_secs(60);
/// How long a temporary key whose job was cut waits for its next use.
const CUT: Span = Span::from_secs(15 * 60);
/// Most temporary keys at a time.
const MAX_TEMPORARY: usize = 256;

/// Keys that are let in for one job.
#[derive(Default)]
pub(crate) struct Temporary {
    keys: Mutex<HashMap<PublicKey, Guest>>,
}

struct Guest {
    rights: Rights,
    /// Connections that use the key now.
    connections: usize,
    /// When an unused key vanishes.
    expires: Time,
}

impl Temporary {
    /// Lets `key` in for one job of one transfer, within the rights of whom asks for it.
    pub(crate) fn admit(&self, key: PublicKey, transfer: TransferId, job: Job, asking: &Rights) -> Result<(), String> {
        let now = clock::now();
        let mut keys = self.keys(now);
        if keys.len() >= MAX_TEMPORARY {
            return Err("too many transfers between far ends are under way here; try again later".to_owned());
        }
        let label = format!("{} for {}", key.fingerprint(), asking.label);
        let rights = Rights { only: Some((transfer, job)), may_admit: false, label, ..asking.clone() };
        keys.insert(key, Guest { rights, connections: 0, expires: now + UNUSED });
        Ok(())
    }

    /// Rights of a connection with this key, which [`Temporary::ended`] has to be told the end of.
    pub(super) fn rights(&self, key: &PublicKey, now: Time) -> Option<Rights> {
        let mut keys = self.keys(now);
        let guest = keys.get_mut(key)?;
        guest.connections += 1;
        Some(guest.rights.clone())
    }

    /// A connection with this key has ended.
    pub(crate) fn ended(&self, key: &PublicKey, how: &Ended) {
        let now = clock::now();
        let mut keys = self.keys(now);
        let Some(guest) = keys.get_mut(key) else {
            return;
        };
        guest.connections = guest.connections.saturating_sub(1);
        guest.expires = now + CUT;
        if guest.connections == 0 && !matches!(how, Ended::Cut(_)) {
            keys.remove(key);
        }
    }

    fn keys(&self, now: Time) -> MutexGuard<'_, HashMap<PublicKey, Guest>> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.retain(|_, guest| guest.connections > 0 || guest.expires > now);
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Root;

    const TRANSFER: TransferId = [7; 16];

    fn key(number: u16) -> PublicKey {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&number.to_le_bytes());
        PublicKey::from_bytes(bytes)
    }

    /// Who may read, and lets the others in.
    fn asking() -> Rights {
        Rights {
            read: true,
            write: false,
            root: Root::Confined("/srv".into()),
            acting: None,
            only: None,
            may_admit: true,
            label: "somebody".into(),
        }
    }

    #[test]
    fn a_key_has_one_job_and_the_rights_of_whom_asked() {
        let temporary = Temporary::default();
        let enter = || temporary.rights(&key(9), clock::now());
        temporary.admit(key(9), TRANSFER, Job::DriveKey, &asking()).unwrap();
        let rights = enter().unwrap();
        assert_eq!(rights.only, Some((TRANSFER, Job::DriveKey)));
        assert!(rights.read && !rights.write && !rights.may_admit);
        assert!(matches!(rights.root, Root::Confined(root) if root == *"/srv"));
        // A further connection that ends leaves it, and so does a cut; the end of the job does not.
        assert!(enter().is_some());
        temporary.ended(&key(9), &Ended::Finished);
        temporary.ended(&key(9), &Ended::Cut("gone".into()));
        assert!(enter().is_some());
        temporary.ended(&key(9), &Ended::Finished);
        assert!(enter().is_none());
    }

    #[test]
    fn keys_that_nobody_uses_vanish() {
        let temporary = Temporary::default();
        let admit = || temporary.admit(key(9), TRANSFER, Job::DriveKey, &asking()).unwrap();
        let late = clock::now() + UNUSED + Span::from_secs(1);
        admit();
        assert!(temporary.rights(&key(9), late).is_none());
        admit();
        assert!(temporary.rights(&key(9), clock::now()).is_some());
        assert!(temporary.rights(&key(9), late).is_some(), "in use, however long");
    }

    #[test]
    fn their_number_is_bounded() {
        let temporary = Temporary::default();
        let admit = |number| temporary.admit(key(number), TRANSFER, Job::DriveKey, &asking());
        let admitted = (0..2 * MAX_TEMPORARY as u16).filter(|number| admit(*number).is_ok());
        assert_eq!(admitted.count(), MAX_TEMPORARY);
    }
}
