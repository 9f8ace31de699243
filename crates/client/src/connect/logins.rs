//! Whose turn it is to log in, and what has become of logins before.
//!
//! A server lets a few logins wait at once (`MaxStartups`, 10 by default) and drops others. No more
//! than that are begun at once, fewer once one was dropped. Once one has failed for good, those that
//! still wait for their turn give up as well.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use icdc_stop::StopSignal;

use super::error::ConnectError;
use super::remote_shell::Login;

/// Logins that wait at once: one less than OpenSSH's servers let by default.
const LOGINS: usize = 9;
/// Logins of one session that may be dropped and tried again.
const DROPS: u32 = 24;

/// See the module's description.
pub(super) struct Logins {
    state: Mutex<LoginState>,
    freed: Condvar,
}

struct LoginState {
    /// Those that are under way.
    running: usize,
    /// Those that may be.
    most: usize,
    /// What works.
    login: Login,
    /// Those of this session that were dropped.
    drops: u32,
    /// Why one has failed for good.
    gave_up: Option<String>,
}

impl Default for Logins {
    fn default() -> Self {
        let state = LoginState { running: 0, most: LOGINS, login: Login::OfItsOwn, drops: 0, gave_up: None };
        Self { state: Mutex::new(state), freed: Condvar::new() }
    }
}

/// The right to log in; given back when dropped.
pub(super) struct Turn<'a> {
    logins: &'a Logins,
    /// How it is to be done.
    pub(super) login: Login,
}

impl Logins {
    /// What is done from now on where another login would ask.
    pub(super) fn set(&self, login: Login) {
        self.state().login = login;
    }

    /// How the next one is done.
    pub(super) fn login(&self) -> Login {
        self.state().login
    }

    /// Another session begins: what has failed before is tried again.
    pub(super) fn forget_failures(&self) {
        let mut state = self.state();
        (state.drops, state.gave_up) = (0, None);
    }

    fn state(&self) -> MutexGuard<'_, LoginState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for others to be through, unless one of them fails for good.
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

    /// The server has dropped one: it lets fewer wait. Whether there may be another attempt.
    pub(super) fn may_be_dropped(&self) -> bool {
        let mut state = self.state();
        state.most = (state.most / 2).max(1);
        state.drops += 1;
        state.drops <= DROPS
    }

    pub(super) fn give_up(&self, error: &ConnectError) {
        self.state().gave_up.get_or_insert_with(|| error.to_string());
        self.wake();
    }

    /// Has all that wait look again.
    fn wake(&self) {
        // Whoever has just looked waits before the lock is free.
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
