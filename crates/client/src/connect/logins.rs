//! Limit on concurrent ssh logins, and the outcome of earlier ones.
//!
//! A server lets a few unauthenticated connections wait (`MaxStartups`, 10 by default) and drops
//! others. No more than that log in at once, fewer once one was dropped. After a permanent failure
//! of one, those that still wait for their turn fail as well.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use icdc_stop::StopSignal;

use super::error::ConnectError;
use super::remote_shell::Login;

/// Maximum number of concurrent logins: one less than OpenSSH's server accepts by default.
const MAX_LOGINS: usize = 9;
/// Maximum number of dropped logins of one session that are tried again.
const MAX_DROPS: u32 = 24;

/// Limiter of concurrent ssh logins to one server. It halves its limit when the server drops a
/// login, fails all that wait after a permanent failure, and remembers which kind of login works.
pub(super) struct Logins {
    state: Mutex<LoginState>,
    freed: Condvar,
}

/// State of the logins to one server.
struct LoginState {
    /// Number of logins that are running.
    running: usize,
    /// Maximum number of logins that may run at once.
    most: usize,
    /// Kind of login that works.
    login: Login,
    /// Number of logins of this session that the server dropped.
    drops: u32,
    /// Error of the first permanent failure; `None` if there was none.
    gave_up: Option<String>,
}

impl Default for Logins {
    fn default() -> Self {
        let state = LoginState { running: 0, most: MAX_LOGINS, login: Login::OfItsOwn, drops: 0, gave_up: None };
        Self { state: Mutex::new(state), freed: Condvar::new() }
    }
}

/// Permission for one login, which counts as running until this is dropped.
pub(super) struct Turn<'a> {
    logins: &'a Logins,
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
        let is_full =
            |state: &mut LoginState| state.running >= state.most && state.gave_up.is_none() && !stop.is_requested();
        let waited = self.freed.wait_while(self.state(), is_full);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if stop.is_requested() {
            return Err(ConnectError::Interrupted);
        }
        if let Some(reason) = state.gave_up.clone() {
            return Err(ConnectError::NoMoreLogins { reason });
        }
        state.running += 1;
        Ok(Turn { logins: self, login: state.login })
    }

    /// Records that the server has dropped a login, and halves the limit; true if another attempt
    /// is allowed.
    pub(super) fn record_drop(&self) -> bool {
        let mut state = self.state();
        state.most = (state.most / 2).max(1);
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
        self.logins.state().running -= 1;
        self.logins.freed.notify_one();
    }
}
