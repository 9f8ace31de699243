//! Threads named after their work, for `top -H` and `perf`.
//!
//! A session first starts all threads that it needs, and begins once it has them: if one cannot be
//! started, nothing is under way yet that would have to be ended.

use std::thread::{Scope, ScopedJoinHandle};

use crossbeam_channel::{Sender, bounded};
use icdc_limits::thread::{NoThread, start_scoped};
use icdc_session::SessionError;

/// Work that is handed to a waiting thread.
type Work<'scope> = Box<dyn FnOnce() + Send + 'scope>;

/// A started thread that waits for its work; it ends without any if this is dropped.
pub(crate) struct Ready<'scope> {
    hand: Sender<Work<'scope>>,
    thread: ScopedJoinHandle<'scope, ()>,
}

impl<'scope> Ready<'scope> {
    /// Starts `work` on the waiting thread.
    pub(crate) fn run(self, work: impl FnOnce() + Send + 'scope) -> ScopedJoinHandle<'scope, ()> {
        // It waits for just this.
        let _ = self.hand.send(Box::new(work));
        self.thread
    }
}

/// Starts one waiting thread for each of `stages`, either all of them or none.
///
/// # Errors
/// The first one that cannot be started.
pub(crate) fn all_of<'scope, const COUNT: usize>(
    scope: &'scope Scope<'scope, '_>,
    stages: [&str; COUNT],
) -> Result<[Ready<'scope>; COUNT], SessionError> {
    let ready: Vec<_> = stages.iter().map(|stage| ready(scope, stage)).collect::<Result<_, _>>().map_err(local)?;
    Ok(ready.try_into().unwrap_or_else(|_| unreachable!("one was started for each stage")))
}

/// Starts one waiting thread called `icdc-STAGE`.
fn ready<'scope>(scope: &'scope Scope<'scope, '_>, stage: &str) -> Result<Ready<'scope>, NoThread> {
    let (hand, handed) = bounded::<Work<'scope>>(1);
    let thread = try_start(scope, stage, move || {
        if let Ok(work) = handed.recv() {
            work();
        }
    })?;
    Ok(Ready { hand, thread })
}

/// Starts `work` on a thread called `icdc-STAGE`.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn try_start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    stage: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, NoThread> {
    start_scoped(scope, &format!("icdc-{stage}"), work)
}

/// Session error that says that a thread could not be started.
pub(crate) fn local(error: NoThread) -> SessionError {
    SessionError::Local(error.to_string())
}
