//! Limit on concurrent ssh logins, and the outcome of earlier ones.
//!
//! A server lets a few unauthenticated connections wait (`MaxStartups`, 10 by default) and drops
//! others. No more than that log in at once, fewer once one was dropped. After a permanent failure
//! of one, those that still wait for their turn fail as well.
//!
//! A login by way of a jump host logs in there first, and then at the host behind it; each of the two
//! servers counts its own. As the first login has shown how long both take, others follow those before
//! them so that they reach each server when those have most likely left it:
//!
//! ```text
//!             ├─ longer of both times ─┤
//! jump host   ■■■■■■ 1 to 9 ■■■■■■     ■■■■■ 10 to 18 ■■■■■
//! host                            ■■■■■■ 1 to 9 ■■■■■■■■■■ ■■■■■ 10 to 18 ■■■■■■■■■
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use icdc_stop::StopSignal;
use icdc_tcp::clock;
use icdc_units::{Ratio, Span, Time};

use super::error::ConnectError;
use super::remote_shell::Login;

/// Maximum number of concurrent logins: one less than OpenSSH's server accepts by default.
const MAX_LOGINS: usize = 9;
/// Maximum number of dropped logins of one session that are tried again.
const MAX_DROPS: u32 = 24;
/// Time after which a login follows another one by way of a jump host, as a part of the longer one of
/// the times that it is estimated to take at the two servers. Chosen: computation is not in them.
const MARGIN: Ratio = Ratio::new(9, 8);

/// Limiter of concurrent ssh logins to a host, also by way of jump hosts. It halves its limit when a
/// server drops a login, fails all that wait after a permanent failure, and remembers which kind of
/// login works.
#[derive(Default)]
pub(super) struct Logins {
    state: Mutex<LoginState>,
    freed: Condvar,
}

/// State of the logins to one server.
struct LoginState {
    /// Times at which the logins that are running were begun, in order.
    running: VecDeque<Time>,
    /// Maximum number of logins that may run at once at a server.
    most: usize,
    /// Time after which another login may follow one that is still running, where each passes two servers or more.
    follows_after: Option<Span>,
    /// Kind of login that works.
    login: Login,
    /// Number of logins of this session that the server dropped.
    drops: u32,
    /// Error of the first permanent failure; `None` if there was none.
    gave_up: Option<String>,
}

impl Default for LoginState {
    fn default() -> Self {
        Self {
            running: VecDeque::new(),
            most: MAX_LOGINS,
            follows_after: None,
            login: Login::OfItsOwn,
            drops: 0,
            gave_up: None,
        }
    }
}

/// Permission for another login, or the time or event to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    Now,
    /// At this time, or sooner if one ends.
    At(Time),
    WhenOneEnds,
}

impl LoginState {
    /// Whether another login may begin at `now`.
    fn admission(&self, now: Time) -> Admission {
        let running = self.running.len();
        let Some(follows_after) = self.follows_after else {
            return if running < self.most { Admission::Now } else { Admission::WhenOneEnds };
        };
        let followed = self.running.iter().take_while(|begun| now - **begun >= follows_after).count();
        match self.running.get(followed) {
            _ if running >= 2 * self.most => Admission::WhenOneEnds,
            Some(begun) if running - followed >= self.most => Admission::At(*begun + follows_after),
            _ => Admission::Now,
        }
    }
}

/// Permission for one login, which counts as running until this is dropped.
pub(super) struct Turn<'a> {
    logins: &'a Logins,
    begun: Time,
    /// Kind of login to use.
    pub(super) login: Login,
}

impl Logins {
    /// Sets the kind of login for the logins that follow.
    pub(super) fn set(&self, login: Login) {
        self.state().login = login;
    }

    /// Kind of login for the next one.
    pub(super) fn login(&self) -> Login {
        self.state().login
    }

    /// Expects each login to take the time `at_first` at a jump host, and then `behind` at the hosts behind it.
    pub(super) fn by_jump_host(&self, at_first: Span, behind: Span) {
        self.state().follows_after = Some(at_first.max(behind) * MARGIN);
        self.wake();
    }

    /// Resets drops and failures for another session.
    pub(super) fn forget_failures(&self) {
        let mut state = self.state();
        (state.drops, state.gave_up) = (0, None);
    }

    /// Locks the state.
    fn state(&self) -> MutexGuard<'_, LoginState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until fewer logins than the limit are running, and counts one more. Fails once a login
    /// has failed permanently, or `stop` is requested.
    pub(super) fn await_turn(self: &Arc<Self>, stop: &StopSignal) -> Result<Turn<'_>, ConnectError> {
        let _woken = stop.while_waiting({
            let logins = Arc::clone(self);
            move || logins.wake()
        });
        let mut state = self.state();
        while state.gave_up.is_none() && !stop.is_requested() {
            let wait = match state.admission(clock::now()) {
                Admission::Now => break,
                Admission::At(time) => Some(time - clock::now()),
                Admission::WhenOneEnds => None,
            };
            state = self.await_change(state, wait);
        }
        if stop.is_requested() {
            return Err(ConnectError::Interrupted);
        }
        if let Some(reason) = state.gave_up.clone() {
            return Err(ConnectError::NoMoreLogins { reason });
        }
        let begun = clock::now();
        state.running.push_back(begun);
        Ok(Turn { logins: self, begun, login: state.login })
    }

    /// Waits until the state changes, or at most for this time.
    fn await_change<'a>(&self, state: MutexGuard<'a, LoginState>, most: Option<Span>) -> MutexGuard<'a, LoginState> {
        match most {
            Some(most) => match self.freed.wait_timeout(state, most.into()) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            },
            None => self.freed.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Records that a server has dropped a login, and halves the limit; true if another attempt
    /// is allowed.
    pub(super) fn record_drop(&self) -> bool {
        let mut state = self.state();
        state.most = (state.most / 2).max(1);
        // The estimate of the time at the jump host may be wrong.
        state.follows_after = None;
        state.drops += 1;
        state.drops <= MAX_DROPS
    }

    /// Records a permanent failure: those that wait for their turn, and later ones of the session,
    /// fail with it.
    pub(super) fn give_up(&self, error: &ConnectError) {
        self.state().gave_up.get_or_insert_with(|| error.to_string());
        self.wake();
    }

    /// Makes all waiting callers check their condition again.
    fn wake(&self) {
        // The lock is taken once so that a caller between its check and its wait is not missed.
        drop(self.state());
        self.freed.notify_all();
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.logins.state();
        if let Some(place) = state.running.iter().position(|begun| *begun == self.begun) {
            state.running.remove(place);
        }
        drop(state);
        self.logins.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_by_way_of_a_jump_host_follows_another() {
        let second = |number: u64| Time::ORIGIN + Span::from_secs(number);
        let begun = |times: &[u64], follows_after| LoginState {
            running: times.iter().map(|time| second(*time)).collect(),
            most: 2,
            follows_after,
            ..LoginState::default()
        };
        let direct = |times, now| begun(times, None).admission(second(now));
        assert_eq!(direct(&[1], 2), Admission::Now);
        assert_eq!(direct(&[1, 1], 1000), Admission::WhenOneEnds);
        let chained = |times, now| begun(times, Some(Span::from_secs(10))).admission(second(now));
        assert_eq!(chained(&[1], 2), Admission::Now);
        assert_eq!(chained(&[1, 3], 4), Admission::At(second(11)));
        assert_eq!(chained(&[1, 3], 11), Admission::Now);
        assert_eq!(chained(&[1, 3, 11], 12), Admission::At(second(13)));
        assert_eq!(chained(&[1, 3, 11, 13], 30), Admission::WhenOneEnds, "the servers have enough of them");
        assert_eq!(chained(&[11, 13], 30), Admission::Now);
    }
}
