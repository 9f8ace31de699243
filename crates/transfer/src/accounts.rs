//! Users and groups of this host, looked up by a thread that is started before a session's threads
//! are confined: directory services take files and sockets that those may not have.

use crossbeam_channel::{Sender as Channel, bounded, unbounded};
use icdc_limits::thread::start;
use icdc_protocol::owners::is_account_name;
use icdc_session::SessionError;

use crate::stage_thread;

/// A lookup that the accounts' thread carries out; it passes its answer on by itself.
type Question = Box<dyn FnOnce() + Send>;

/// Handle of the thread that looks up users and groups of this host for a confined session. The
/// thread ends when this is dropped.
pub(crate) struct Accounts {
    questions: Channel<Question>,
}

impl Accounts {
    /// Starts the thread, before the session's threads are confined.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn start() -> Result<Self, SessionError> {
        let (questions, asked) = unbounded::<Question>();
        let answer = move || asked.iter().for_each(|question| question());
        start("icdc-accounts", answer).map_err(stage_thread::local)?;
        Ok(Self { questions })
    }

    /// Id of the user of this name; `None` if this host has none.
    pub(crate) fn user_id(&self, name: Vec<u8>) -> Option<u32> {
        self.ask(move || icdc_accounts::user_id(&name)).filter(|id| *id != u32::MAX)
    }

    /// Id of the group of this name; `None` if this host has none.
    pub(crate) fn group_id(&self, name: Vec<u8>) -> Option<u32> {
        self.ask(move || icdc_accounts::group_id(&name)).filter(|id| *id != u32::MAX)
    }

    /// Name of the user with this id; `None` if this host has none that can be told.
    pub(crate) fn user_name(&self, id: u32) -> Option<Vec<u8>> {
        self.ask(move || icdc_accounts::user_name(id)).filter(|name| is_account_name(name))
    }

    /// Name of the group with this id; `None` if this host has none that can be told.
    pub(crate) fn group_name(&self, id: u32) -> Option<Vec<u8>> {
        self.ask(move || icdc_accounts::group_name(id)).filter(|name| is_account_name(name))
    }

    /// Has the thread answer `question`, and waits for that; `None` also if the thread has ended.
    fn ask<T: Send + 'static>(&self, question: impl FnOnce() -> Option<T> + Send + 'static) -> Option<T> {
        let (answer, answers) = bounded(1);
        // The asking thread waits for it.
        let question = move || drop(answer.send(question()));
        self.questions.send(Box::new(question)).ok()?;
        answers.recv().ok().flatten()
    }
}
