//! Admission of keys by a daemon, and their rights. A client with an unknown key completes the
//! handshake, and then gets one sentence with the line that the daemon's operator would have to
//! add, and nothing else.
//!
//! Standing keys are those of the `authorized_keys` file, which is read again whenever it has
//! changed. The holder of a standing key may let [temporary](temporary) ones in, within its own
//! rights as they stand at each use. A key whose line is removed or changed, has expired or is used
//! up loses its [connections](revocation), and those of the temporary keys that hang on it. Expiry
//! is judged by the wall clock as it is at each look: a clock that is set counts at once.

mod authorized_keys_file;
mod beside;
pub(crate) mod neighbours;
pub(crate) mod refusal_log_limit;
pub(crate) mod revocation;
mod shares;
mod temporary;
mod usage;
mod usage_file;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use icdc_link::LinkControl;
use icdc_metrics::RefusedReason;
use icdc_protocol::TransferId;
use icdc_protocol::message::{Refusal, RefusalKind, Transfer};
use icdc_schedule::RateSchedule;
use icdc_session_process::{AllowedCongestion, Ended, Rights, Root, User, may_become_others};
use icdc_stop::StopSignal;
use icdc_tcp::clock;
use icdc_trust::{AuthorizedKeys, Grant, PublicKey, TrustError};
use icdc_units::Time;

use self::authorized_keys_file::{AuthorizedKeysFile, unserved};
use self::neighbours::Neighbours;
use self::refusal_log_limit::RefusedLines;
use self::revocation::{Connections, SessionHandle};
use self::temporary::{Temporary, TemporaryKey};
use self::usage_file::UsageFile;
use crate::capabilities;
use crate::granted::{Granted, Scope};

/// Admission of keys by a daemon, and their rights: standing and temporary keys, and the
/// connections that they hold.
pub(crate) struct Admission {
    file: AuthorizedKeysFile,
    confined: Option<PathBuf>,
    congestion: AllowedCongestion,
    temporary: Temporary,
    connections: Arc<Connections>,
    usage: Arc<UsageFile>,
    /// Other daemons that let in the same keys.
    neighbours: Neighbours,
    /// Limit on log lines about failures of the daemon to serve those who come.
    failures: Mutex<RefusedLines>,
}

/// A connection that was admitted. Its end is to be reported by [`leave`](Self::leave); if it is
/// dropped without, it counts as cut.
pub(crate) struct Admitted<'a> {
    admission: &'a Admission,
    key: PublicKey,
    /// Number of the connection.
    number: u64,
    /// Whether the connection came by a temporary key.
    temporary: bool,
    /// Requests that the connection may make.
    pub(crate) granted: Granted,
    /// Signal that is requested when the key has lost what it was granted.
    pub(crate) stop: StopSignal,
    ended: Ended,
}

/// Reason for which a connection is not admitted.
#[derive(Debug)]
pub(crate) struct Denied {
    /// Reason as counted in the metrics.
    pub(crate) reason: RefusedReason,
    /// Refusal as sent to the client.
    pub(crate) refusal: Refusal,
}

impl Denied {
    fn new(reason: RefusedReason, refusal: Refusal) -> Self {
        Self { reason, refusal }
    }
}

impl From<Refusal> for Denied {
    fn from(refusal: Refusal) -> Self {
        Self { reason: reason_of(refusal.kind), refusal }
    }
}

/// The reason under which a refusal of this kind is counted in the metrics.
pub(crate) fn reason_of(kind: RefusalKind) -> RefusedReason {
    match kind {
        RefusalKind::NotAllowed => RefusedReason::NotAllowed,
        RefusalKind::Busy => RefusedReason::Limit,
        RefusalKind::Protocol | RefusalKind::Path | RefusalKind::Running => RefusedReason::Request,
        _ => RefusedReason::Internal,
    }
}

impl Admission {
    /// Opens the file of authorized keys. `confined` is the directory to which the roots of all
    /// keys are narrowed, `None` for no such limit; `congestion` are the algorithms that any client
    /// may ask for.
    ///
    /// # Errors
    /// See [`TrustError`].
    pub(crate) fn open(
        keys: &Path,
        confined: Option<PathBuf>,
        congestion: AllowedCongestion,
    ) -> Result<Self, TrustError> {
        Ok(Self {
            file: AuthorizedKeysFile::open(keys)?,
            confined,
            congestion,
            temporary: Temporary::default(),
            connections: Arc::default(),
            usage: Arc::new(UsageFile::beside_known_paths(keys)),
            neighbours: Neighbours::default(),
            failures: Mutex::default(),
        })
    }

    /// Sets the limit of the rate of all sessions together, which applies to those that run, too;
    /// `None` for no limit.
    pub(crate) fn set_limit(&self, limit: Option<RateSchedule>) {
        self.connections.set_limit(limit);
    }

    /// The keys of the authorized keys file as they were last read; the file is not read now.
    pub(crate) fn standing_keys(&self) -> Arc<AuthorizedKeys> {
        self.file.last_read()
    }

    /// Admits a connection by a client that has proved to hold `key`; the error is the refusal.
    pub(crate) fn enter(&self, key: &PublicKey, control: &LinkControl) -> Result<Admitted<'_>, Denied> {
        let keys = self.keys()?;
        let temporary = match keys.find(key) {
            Some(_) => None,
            None => Some(
                self.temporary
                    .find(key, clock::now())
                    .ok_or_else(|| Denied::new(RefusedReason::UnknownKey, unknown_key_refusal(key)))?,
            ),
        };
        let owner = temporary.as_ref().map_or(*key, |temporary| temporary.by);
        let grant = keys.find(&owner).ok_or_else(|| {
            not_allowed("the key that admitted this one is not among the daemon's authorized keys".to_owned())
        })?;
        self.check(&owner, grant, control)?;
        let mut granted = self.granted(&owner, grant, temporary.as_ref().map(|temporary| (key, temporary)))?;
        let stop = StopSignal::new();
        let number = self.connections.enter(owner, grant.clone(), control.clone(), stop.clone());
        granted.handle = Some(SessionHandle::new(&self.connections, &self.usage, number));
        let temporary = temporary.is_some();
        if temporary {
            self.temporary.began(key, clock::now());
        }
        let ended = Ended::Cut("the session broke off".to_owned());
        let admitted = Admitted { admission: self, key: *key, number, temporary, granted, stop, ended };
        // A change of the file that was acted upon before this connection stood among the others is
        // seen here.
        if self.keys()?.find(&owner).is_some_and(|now| now.allows_the_same(grant)) {
            Ok(admitted)
        } else {
            let reason = "the daemon's authorized keys have just changed; try again".to_owned();
            Err(Refusal { kind: RefusalKind::Busy, reason }.into())
        }
    }

    /// Admits `key` as a temporary key for one job of one transfer between two far ends, as long as
    /// and as far as the standing key `by` may do that job itself.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub(crate) fn admit(
        &self,
        by: PublicKey,
        key: PublicKey,
        transfer: TransferId,
        job: Transfer,
    ) -> Result<(), Refusal> {
        // A key that gets a line after this is standing from then on: that line counts at each use.
        if self.file.last_read().find(&key).is_some() {
            return Err(not_allowed(
                "this key has a line in the daemon's authorized keys, so that no other key can admit it".to_owned(),
            ));
        }
        self.temporary.admit(key, TemporaryKey { by, transfer, job }, clock::now())
    }

    /// Ends connections whose key is no longer authorized, has expired or has used up its bytes;
    /// also stores the usage of keys and informs neighbouring daemons. To be called a few times a
    /// second.
    pub(crate) fn update(&self, now: Time) {
        if let Some(keys) = self.file.changed() {
            self.connections.revoke(&keys, now);
        }
        self.usage.with(|usage| self.connections.update(usage, clock::wall(), now));
        self.usage.store(now);
        self.connections.cut_late(now);
        self.tell_neighbours(now);
    }

    /// Writes the bytes that each key has moved to the usage file, at the end of the daemon:
    /// threads that still serve connections may keep this value from being dropped then.
    pub(crate) fn keep_usage(&self) {
        self.usage.store_at_once();
    }

    /// Reads the authorized keys again, whether the file looks changed or not, and ends connections
    /// whose line has changed; returns the number of standing keys.
    ///
    /// # Errors
    /// See [`TrustError`].
    pub(crate) fn reload(&self, now: Time) -> Result<usize, TrustError> {
        let keys = self.file.read_again()?;
        self.connections.revoke(&keys, now);
        Ok(keys.len())
    }

    /// Refuses a connection whose `grant` has expired, does not admit the client's address, or has
    /// no bytes left today or in all. `owner` is the standing key, for whose usage it counts.
    fn check(&self, owner: &PublicKey, grant: &Grant, control: &LinkControl) -> Result<(), Denied> {
        let now = clock::wall();
        if grant.has_expired(now) {
            let reason = "this key has expired; ask the daemon's operator";
            return Err(Denied::new(RefusedReason::ExpiredKey, not_allowed(reason.to_owned())));
        }
        let address = control.address().map(|address| address.ip());
        if !grant.admits(address) {
            let reason = "this key may not be used from this address; ask the daemon's operator";
            return Err(Denied::new(RefusedReason::Address, not_allowed(reason.to_owned())));
        }
        let left = self.usage.with(|usage| usage.left(owner, &grant.limits, now));
        if let Some(left) = left.filter(|left| left.bytes.is_zero()) {
            // Not a lack of rights: a run that began with bytes left ends as one that failed.
            return Err(Denied::new(RefusedReason::Limit, Refusal::new(RefusalKind::Internal, left.used_up())));
        }
        Ok(())
    }

    /// The standing keys as they are in the file now. If it cannot be read, the refusal is a
    /// temporary one (`Busy`), because somebody may be writing the file.
    fn keys(&self) -> Result<Arc<AuthorizedKeys>, Refusal> {
        self.file.latest().map_err(|error| {
            if self.may_log() {
                tracing::error!("nobody is let in: {error}");
            }
            let reason = "the daemon cannot read its authorized keys; its log says why".to_owned();
            Refusal { kind: RefusalKind::Busy, reason }
        })
    }

    /// Whether one more line about a failure may be logged: a limit keeps those who come from
    /// filling the log.
    fn may_log(&self) -> bool {
        let line = self.failures.lock().unwrap_or_else(PoisonError::into_inner).next(clock::now());
        if let Some(left_out @ 1..) = line {
            tracing::error!("{left_out} more clients were refused for such a reason");
        }
        line.is_some()
    }

    /// Rights of a connection by `grant`, the line of the standing key `owner`. With a temporary
    /// key they are narrowed to the one job for which `owner` has admitted that key.
    fn granted(
        &self,
        owner: &PublicKey,
        grant: &Grant,
        temporary: Option<(&PublicKey, &TemporaryKey)>,
    ) -> Result<Granted, Refusal> {
        let granted = self.granted_by_line(owner, grant).map_err(|reason| {
            if self.may_log() {
                tracing::error!(key = owner.fingerprint(), "not let in: {reason}");
            }
            not_allowed(format!("the daemon cannot grant what its authorized keys say for this key: {reason}"))
        })?;
        Ok(match temporary {
            None => granted,
            Some((key, TemporaryKey { transfer, job, .. })) => {
                let label = format!("{} for {}", key.fingerprint(), granted.label);
                Granted { scope: Scope::OneTransfer(*transfer, Box::new(job.clone())), label, ..granted }
            }
        })
    }

    /// Rights by a line of the authorized keys; the error is the reason for which it cannot be
    /// served.
    fn granted_by_line(&self, key: &PublicKey, grant: &Grant) -> Result<Granted, String> {
        let label = match grant.comment.as_str() {
            "" => key.fingerprint(),
            comment => format!("{comment} ({})", key.fingerprint()),
        };
        if let Some(reason) = unserved(grant) {
            return Err(reason);
        }
        let (limits, of_all) = (&grant.limits, self.connections.limit());
        let rates = || [&limits.max_rate, &of_all].into_iter().flatten().filter(|rate| rate.limits());
        Ok(Granted {
            rights: Rights {
                access: grant.access,
                max_rate: None,
                highest_rate: rates().filter_map(RateSchedule::highest).min(),
                root: Root::Granted { directory: grant.root.clone(), within: self.confined.clone() },
                congestion: self.congestion.clone(),
            },
            scope: Scope::StandingKey,
            owners: grant.owners,
            unlimited: rates().next().is_none() && limits.bytes_per_day.is_none() && limits.quota.is_none(),
            handle: None,
            acting: acting(grant.user.as_deref())?,
            label,
        })
    }
}

impl Admitted<'_> {
    /// Reports that the connection has ended, and how.
    pub(crate) fn leave(mut self, how: Ended) {
        self.ended = how;
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        let Admission { connections, usage, .. } = self.admission;
        usage.with(|usage| connections.leave(self.number, usage, clock::wall()));
        if self.temporary {
            self.admission.temporary.ended(&self.key, &self.ended, clock::now());
        }
    }
}

fn not_allowed(reason: String) -> Refusal {
    Refusal { kind: RefusalKind::NotAllowed, reason }
}

/// The refusal of an unknown key, with the line to add to the authorized keys.
fn unknown_key_refusal(key: &PublicKey) -> Refusal {
    let names_user = rustix::process::geteuid().is_root() || may_become_others();
    let user = if names_user { ",user=NAME" } else { "" };
    not_allowed(format!(
        "the daemon does not know this key; have its operator add this line to the authorized keys: root=/DIR,rights=rw{user} {key}"
    ))
}

/// User as which the session's process is to run, by the `user=` of the key's line; `None` for the
/// daemon's own user. The error is the reason for which the daemon cannot act as that user.
fn acting(user: Option<&str>) -> Result<Option<Arc<User>>, String> {
    let Some(name) = user else { return Ok(None) };
    let user = User::of_name(name).map_err(|error| error.to_string())?;
    match user.uid() == rustix::process::geteuid().as_raw() {
        true if user.uid() == 0 && capabilities::have_been_given_up() => {
            Err("it acts as root, and the daemon has given up the rights of root because no key did when it started; \
             restart the daemon"
                .to_owned())
        }
        true => Ok(None),
        false if may_become_others() => Ok(Some(Arc::new(user))),
        false => Err(format!(
            "it says user={name}, and only a daemon that runs as root, or has CAP_SETUID and CAP_SETGID, can act as \
             another user"
        )),
    }
}

#[cfg(test)]
mod tests {
    use icdc_protocol::message::{Message, Request};
    use icdc_trust::Access;
    use icdc_units::ByteCount;

    use super::*;

    fn key(number: u8) -> PublicKey {
        PublicKey::from_bytes([number; 32])
    }

    fn file(lines: &str) -> (tempfile::TempDir, PathBuf) {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("authorized_keys");
        std::fs::write(&path, lines).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        (directory, path)
    }

    fn directory(granted: &Granted) -> PathBuf {
        match &granted.rights.root {
            Root::Granted { directory, .. } => directory.clone(),
            Root::Unconfined { .. } => panic!("a daemon confines everybody"),
        }
    }

    /// Rights of a connection by this key.
    fn grant_of(admission: &Admission, number: u8) -> Result<Granted, Refusal> {
        let (link, _) = icdc_link::memory_pair();
        let entered = admission.enter(&key(number), &link.control);
        entered.map(|admitted| admitted.granted.clone()).map_err(|denied| denied.refusal)
    }

    #[test]
    fn a_key_gets_what_its_line_says_and_others_are_told_the_line_to_add() {
        let (directory_, path) = file("");
        let user = if rustix::process::geteuid().is_root() { ",user=root" } else { "" };
        let line = format!("root={},rights=w{user} {} me", directory_.path().display(), key(1));
        std::fs::write(&path, line).unwrap();
        let admission = Admission::open(&path, None, AllowedCongestion::Any).unwrap();
        let granted = grant_of(&admission, 1).unwrap();
        assert!(granted.rights.access == Access::Write && !granted.owners && granted.scope == Scope::StandingKey);
        assert_eq!(directory(&granted), directory_.path().canonicalize().unwrap());
        assert!(granted.label.contains("me"));
        let refusal = grant_of(&admission, 2).unwrap_err().reason;
        assert!(refusal.contains(&key(2).to_string()), "{refusal}");
    }

    #[test]
    fn the_file_is_read_again_when_it_changes_and_nobody_comes_in_when_it_is_broken() {
        let (_directory, path) = file(&format!("root=/ {}\n", key(1)));
        let admission = Admission::open(&path, None, AllowedCongestion::Any).unwrap();
        let is_let_in = |number| grant_of(&admission, number).is_ok();
        assert!(is_let_in(1) && !is_let_in(2));
        std::fs::write(&path, format!("root=/ {}\n", key(2))).unwrap();
        assert!(!is_let_in(1) && is_let_in(2));
        std::fs::write(&path, "what is this").unwrap();
        assert!(!is_let_in(2));
        std::fs::remove_file(&path).unwrap();
        assert!(!is_let_in(2));
    }

    #[test]
    fn a_temporary_key_has_what_the_key_has_that_admitted_it_and_no_more() {
        let (_directory, path) = file(&format!("root=/usr {}\nroot=/ {}\n", key(1), key(2)));
        let admission = Admission::open(&path, None, AllowedCongestion::Any).unwrap();
        let job = Transfer::Send { sources: vec![b"x".to_vec()], options: Default::default() };
        admission.admit(key(1), key(9), [7; 16], job.clone()).unwrap();
        let granted = grant_of(&admission, 9).unwrap();
        assert_eq!(granted.scope, Scope::OneTransfer([7; 16], Box::new(job.clone())));
        assert!(granted.rights.access == Access::Read && directory(&granted) == Path::new("/usr"));
        // What its line says now, not what it said then.
        std::fs::write(&path, format!("root=/etc {}\nroot=/ {}\n", key(1), key(2))).unwrap();
        assert_eq!(directory(&grant_of(&admission, 9).unwrap()), Path::new("/etc"));
        // A standing key is nobody's to admit, nor to take the place of.
        let refused = admission.admit(key(1), key(2), [7; 16], job).unwrap_err();
        assert_eq!(refused.kind, RefusalKind::NotAllowed);
        std::fs::write(&path, format!("root=/etc {}\nroot=/var {}\n", key(1), key(9))).unwrap();
        let granted = grant_of(&admission, 9).unwrap();
        assert!(granted.scope == Scope::StandingKey && directory(&granted) == Path::new("/var"));
        std::fs::write(&path, format!("root=/ {}\n", key(2))).unwrap();
        assert!(grant_of(&admission, 9).is_err() && grant_of(&admission, 1).is_err());
    }

    #[test]
    fn connections_end_whose_grant_is_gone_and_no_others() {
        let (_directory, path) = file(&format!("root=/ {}\nroot=/ {} other\n", key(1), key(2)));
        let admission = Admission::open(&path, None, AllowedCongestion::Any).unwrap();
        let job = Transfer::Send { sources: vec![b"x".to_vec()], options: Default::default() };
        admission.admit(key(1), key(9), [7; 16], job).unwrap();
        let (link, _far) = icdc_link::memory_pair();
        let [one, temporary, other] = [1, 9, 2].map(|number| admission.enter(&key(number), &link.control).unwrap());
        let asked = || [&one, &temporary, &other].map(|admitted| admitted.stop.is_requested());
        // A comment more is no change, and a file that cannot be read for a moment none either.
        for (text, expected) in [
            (format!("# why\nroot=/ {} me\nroot=/ {}\n", key(1), key(2)), [false; 3]),
            ("half a li".to_owned(), [false; 3]),
            (format!("root=/ {}\n", key(2)), [true, true, false]),
        ] {
            std::fs::write(&path, &text).unwrap();
            (0..2).for_each(|_| admission.update(clock::now()));
            assert_eq!(asked(), expected, "{text}");
        }
        std::fs::remove_file(&path).unwrap();
        admission.update(clock::now());
        assert!(!asked()[2], "a file that is being replaced may be gone for a moment");
        admission.update(clock::now());
        assert_eq!(asked(), [true; 3]);
        one.leave(Ended::Finished);
    }

    #[test]
    fn a_change_that_cannot_be_read_at_first_counts_as_soon_as_it_can() {
        use std::os::unix::fs::PermissionsExt;
        let (directory, path) = file(&format!("root=/ {}\nroot=/ {}\n", key(1), key(2)));
        let admission = Admission::open(&path, None, AllowedCongestion::Any).unwrap();
        let (link, _far) = icdc_link::memory_pair();
        let removed = admission.enter(&key(1), &link.control).unwrap();
        let look = || (0..3).for_each(|_| admission.update(clock::now()));
        // Others could exchange the file, so that it is not read. Its own stamp does not tell when
        // that is mended.
        let mode = |mode| std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o777);
        std::fs::write(&path, format!("root=/ {}\n", key(2))).unwrap();
        look();
        assert!(!removed.stop.is_requested() && admission.reload(clock::now()).is_err());
        mode(0o700);
        look();
        assert!(removed.stop.is_requested());
    }

    #[test]
    fn a_temporary_key_outlives_a_connection_that_was_turned_away() {
        let (_directory, path) = file(&format!("root=/ {}\n", key(1)));
        let admission = Admission::open(&path, None, AllowedCongestion::Any).unwrap();
        let job = Transfer::Send { sources: vec![b"x".to_vec()], options: Default::default() };
        admission.admit(key(1), key(9), [7; 16], job).unwrap();
        for first in
            [Message::Ping, Message::Request(Request::new([8; 16], icdc_protocol::message::Job::Join { stream: 1 }))]
        {
            let (link, mut far) = icdc_link::memory_pair();
            let admitted = admission.enter(&key(9), &link.control).unwrap();
            far.outlet.send(first.into()).unwrap();
            far.outlet.flush().unwrap();
            let answered = crate::request::serve_connection(
                link,
                &admitted.granted,
                &Default::default(),
                &admitted.stop,
                &crate::request::InThisProcess,
            );
            admitted.leave(answered.ended);
        }
        assert!(grant_of(&admission, 9).is_ok());
    }

    #[test]
    fn a_line_that_has_expired_or_does_not_admit_the_address_lets_nobody_in() {
        let lines = format!(
            "root=/,expires=2001-01-01 {}\nroot=/,expires=2999-01-01 {}\nroot=/,from=192.0.2.7 {}\n",
            key(1),
            key(2),
            key(3)
        );
        let (_directory, path) = file(&lines);
        let admission = Admission::open(&path, None, AllowedCongestion::Any).unwrap();
        let expired = grant_of(&admission, 1).unwrap_err();
        assert!(expired.reason.contains("expired") && !expired.reason.contains("2001"), "{}", expired.reason);
        assert!(grant_of(&admission, 2).is_ok());
        // A link in memory comes from no address.
        let elsewhere = grant_of(&admission, 3).unwrap_err();
        assert!(elsewhere.reason.contains("address") && !elsewhere.reason.contains("192"), "{}", elsewhere.reason);
        // Nor does a temporary key outlive the one that it hangs on.
        let job = Transfer::Send { sources: vec![b"x".to_vec()], options: Default::default() };
        admission.admit(key(1), key(9), [7; 16], job).unwrap();
        assert!(grant_of(&admission, 9).unwrap_err().reason.contains("expired"));
    }

    #[test]
    fn connections_end_when_their_line_expires_and_no_others() {
        let (_directory, path) = file(&format!("root=/,expires=2999-01-01 {}\nroot=/ {}\n", key(1), key(2)));
        let admission = Admission::open(&path, None, AllowedCongestion::Any).unwrap();
        let job = Transfer::Send { sources: vec![b"x".to_vec()], options: Default::default() };
        admission.admit(key(1), key(9), [7; 16], job).unwrap();
        let (link, _far) = icdc_link::memory_pair();
        let running = [1, 9, 2].map(|number| admission.enter(&key(number), &link.control).unwrap());
        let expires = admission.file.last_read().find(&key(1)).unwrap().expires.unwrap();
        let at = |wall| {
            admission.usage.with(|usage| admission.connections.update(usage, wall, clock::now()));
            running.each_ref().map(|admitted| admitted.stop.is_requested())
        };
        assert_eq!(at(expires - std::time::Duration::from_nanos(1)), [false; 3]);
        assert_eq!(at(expires), [true, true, false]);
    }

    #[test]
    fn sessions_of_a_key_are_counted_by_their_transfers() {
        let (_directory, path) = file(&format!("root=/,max-sessions=2 {}\nroot=/ {}\n", key(1), key(2)));
        let admission = Admission::open(&path, None, AllowedCongestion::Any).unwrap();
        let (link, _far) = icdc_link::memory_pair();
        let enter = |number| admission.enter(&key(number), &link.control).unwrap();
        let take = |admitted: &Admitted<'_>, transfer: u8| {
            admitted.granted.handle.as_ref().map_or(Ok(()), |handle| handle.take([transfer; 16]))
        };
        let [first, second, third, further] = [(); 4].map(|()| enter(1));
        take(&first, 1).unwrap();
        take(&second, 2).unwrap();
        let refused = take(&third, 3).unwrap_err();
        assert!(refused.kind == RefusalKind::Busy && refused.reason.contains("which is 2;"), "{}", refused.reason);
        take(&further, 2).unwrap();
        // A temporary key counts as the one that it hangs on.
        let job = Transfer::Send { sources: vec![b"x".to_vec()], options: Default::default() };
        admission.admit(key(1), key(9), [4; 16], job).unwrap();
        let temporary = enter(9);
        assert!(take(&temporary, 4).is_err());
        let unlimited: Vec<_> = (0..5).map(|_| enter(2)).collect();
        (10..).zip(&unlimited).for_each(|(transfer, admitted)| take(admitted, transfer).unwrap());
        drop(second);
        assert!(take(&third, 3).is_err(), "a further connection of that session is there");
        drop(further);
        take(&third, 3).unwrap();
        assert!(take(&temporary, 4).is_err());
        first.leave(Ended::Finished);
        take(&temporary, 4).unwrap();
    }

    #[test]
    fn a_key_that_has_used_up_its_bytes_is_not_let_in() {
        let (_directory, path) = file(&format!("root=/,quota=1kB {}\nroot=/ {}\n", key(1), key(2)));
        let admission = Admission {
            usage: Arc::new(UsageFile::in_memory()),
            ..Admission::open(&path, None, AllowedCongestion::Any).unwrap()
        };
        let (link, _far) = icdc_link::memory_pair();
        let running = [1, 2].map(|number| admission.enter(&key(number), &link.control).unwrap());
        assert!(!running[0].granted.unlimited && running[1].granted.unlimited);
        let moved = |bytes| {
            for number in [1, 2] {
                admission.usage.with(|usage| usage.add(&key(number), ByteCount::new(bytes), clock::wall()));
            }
            admission.update(clock::now());
            running.each_ref().map(|admitted| admitted.stop.is_requested())
        };
        assert_eq!(moved(999), [false, false]);
        assert!(grant_of(&admission, 1).is_ok());
        assert_eq!(moved(1), [true, false]);
        let refused = grant_of(&admission, 1).unwrap_err();
        assert!(refused.reason.contains("used up"), "{}", refused.reason);
        assert!(grant_of(&admission, 2).is_ok());
    }

    #[test]
    fn bytes_are_reserved_for_each_session_before_they_are_moved() {
        let (_directory, path) = file(&format!("root=/,quota=20MB {}\nroot=/ {}\n", key(1), key(2)));
        let admission = Admission {
            usage: Arc::new(UsageFile::in_memory()),
            ..Admission::open(&path, None, AllowedCongestion::Any).unwrap()
        };
        let (link, _far) = icdc_link::memory_pair();
        let [first, second, free] = [1, 1, 2].map(|number| admission.enter(&key(number), &link.control).unwrap());
        let handle = |admitted: &Admitted<'_>| admitted.granted.handle.clone().unwrap();
        let (first_handle, second_handle) = (handle(&first), handle(&second));
        let (mb, mut taken) = (|number: u64| ByteCount::new(number * 1_000_000), 0);
        for handle in [&first_handle, &second_handle].repeat(20) {
            taken += handle.reserve(mb(4)).map_or(0, ByteCount::as_u64);
        }
        assert!((16_000_000..=20_000_000).contains(&taken), "{taken}");
        let refused = first_handle.reserve(mb(4)).unwrap_err();
        assert!(refused.contains("quota=20MB"), "{refused}");
        assert_eq!(handle(&free).reserve(mb(4)), Ok(ByteCount::MAX));
        // What was reserved and not moved is there for others when its session has ended.
        first.leave(Ended::Finished);
        assert!(second_handle.reserve(mb(4)).is_ok());
        // What has arrived, and waits to be stored, is not counted twice.
        let alone = Admission {
            usage: Arc::new(UsageFile::in_memory()),
            ..Admission::open(&path, None, AllowedCongestion::Any).unwrap()
        };
        let only = alone.enter(&key(1), &link.control).unwrap();
        let handle = handle(&only);
        handle.note_moved(mb(19));
        (0..4).for_each(|_| assert!(handle.reserve(mb(4)).is_ok()));
    }

    #[test]
    fn a_session_ends_well_with_what_was_reserved_for_it_when_others_have_used_up_the_rest() {
        let (_directory, path) = file(&format!("root=/,quota=20MB {}", key(1)));
        let admission = Admission {
            usage: Arc::new(UsageFile::in_memory()),
            ..Admission::open(&path, None, AllowedCongestion::Any).unwrap()
        };
        let (link, _far) = icdc_link::memory_pair();
        let entered = [1, 1, 2].map(|transfer| {
            let admitted = admission.enter(&key(1), &link.control).unwrap();
            let handle = admitted.granted.handle.clone().unwrap();
            handle.take([transfer; 16]).unwrap();
            (admitted, handle)
        });
        let [(first, handle), (further, _), (other, other_handle)] = &entered;
        let mb = |number: u64| ByteCount::new(number * 1_000_000);
        handle.reserve(mb(16)).unwrap();
        // The socket of the other one has taken in what it has not asked for yet.
        handle.note_moved(mb(16));
        other_handle.note_moved(mb(5));
        admission.update(clock::now());
        let asked = [first, further, other].map(|admitted| admitted.stop.is_requested());
        assert_eq!(asked, [false, false, true]);
        // Nor may it move whatever it likes besides.
        handle.note_moved(mb(19));
        admission.update(clock::now());
        assert!(first.stop.is_requested() && further.stop.is_requested());
    }

    #[test]
    fn sessions_that_go_by_one_transfer_have_the_limit_together() {
        let (_directory, path) = file(&format!("root=/,max-rate=8mbit {}", key(1)));
        let admission = Admission::open(&path, None, AllowedCongestion::Any).unwrap();
        let (link, _far) = icdc_link::memory_pair();
        let [first, joined, second] = [(); 3].map(|()| admission.enter(&key(1), &link.control).unwrap());
        let handles = [&first, &joined, &second].map(|admitted| admitted.granted.handle.clone().unwrap());
        handles.iter().for_each(|handle| handle.take([1; 16]).unwrap());
        let limit = |number: usize| handles[number].limit().unwrap().as_bits_per_second();
        handles[0].note_moved(ByteCount::new(1));
        assert_eq!(limit(0), 8_000_000, "the connection that has joined it is no session");
        handles[2].note_moved(ByteCount::new(1));
        assert_eq!((limit(0), limit(2)), (4_000_000, 4_000_000));
        first.leave(Ended::Finished);
        assert_eq!(limit(2), 8_000_000);
    }

    #[test]
    fn a_drop_box_is_one_of_its_key_and_of_those_that_hang_on_it() {
        let (_directory, path) = file("");
        let user = if rustix::process::geteuid().is_root() { ",user=root" } else { "" };
        std::fs::write(&path, format!("root=/,rights=drop-box,max-rate=1gbit{user} {}", key(1))).unwrap();
        let admission = Admission::open(&path, None, AllowedCongestion::Any).unwrap();
        let job = Transfer::Receive { destination: b"x".to_vec(), options: Default::default() };
        admission.admit(key(1), key(9), [7; 16], job).unwrap();
        for number in [1, 9] {
            let granted = grant_of(&admission, number).unwrap();
            assert_eq!(granted.rights.access, Access::DropBox { owner: *key(1).as_bytes() });
            assert_eq!(granted.rights.highest_rate, "1gbit".parse().ok());
        }
    }

    #[test]
    fn a_key_with_a_user_needs_a_daemon_that_is_root() {
        let own = rustix::process::geteuid();
        if own.is_root() {
            assert_eq!(acting(Some("nobody")).unwrap().as_deref(), Some(&User::of_name("nobody").unwrap()));
            assert!(acting(Some("root")).unwrap().is_none());
        } else {
            assert!(acting(Some("root")).unwrap_err().contains("root"));
        }
        assert!(acting(None).unwrap().is_none());
        assert!(acting(Some("no-such-user-here")).unwrap_err().contains("no-such-user-here"));
    }
}
