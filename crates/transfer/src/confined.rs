//! A session whose threads may open what it is about, and no other files.

use std::panic::resume_unwind;

use crossbeam_channel::bounded;
use icdc_confine::files::Files;
use icdc_session::SessionError;

use crate::stage_thread::all_of;

/// Runs `session` over `link` on a thread of its own, which `files` confine with all threads that it starts.
/// If there is no thread, `untold` tells the other end why.
///
/// # Errors
/// Those of `session`, and that there is no thread.
pub(crate) fn confined<L: Send, T: Send>(
    stage: &str,
    files: &Files,
    link: L,
    session: impl FnOnce(L) -> Result<T, SessionError> + Send,
    untold: impl FnOnce(L, SessionError) -> SessionError,
) -> Result<T, SessionError> {
    let (tell, told) = bounded(1);
    std::thread::scope(|scope| {
        let [thread] = match all_of(scope, [stage]) {
            Ok(thread) => thread,
            Err(error) => return Err(untold(link, error)),
        };
        let thread = thread.run(move || {
            files.enforce();
            // The caller waits for it.
            let _ = tell.send(session(link));
        });
        thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        told.recv().unwrap_or_else(|_| unreachable!("a thread that has not panicked has sent its result"))
    })
}
