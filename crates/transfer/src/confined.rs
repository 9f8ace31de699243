//! A session whose threads may open what it is about, and no other files.

use std::panic::resume_unwind;

use crossbeam_channel::bounded;
use icdc_confine::files::Files;
use icdc_session::SessionError;

use crate::stage_thread::all_of;

/// Runs `session` over `link` on a thread of its own, which together with all threads that it
/// starts may open only `files`. If no thread can be started, `not_started` reports the cause to
/// the other end.
///
/// # Errors
/// Errors of `session`, or of starting the thread.
pub(crate) fn confined<L: Send, T: Send>(
    stage: &str,
    files: &Files,
    link: L,
    session: impl FnOnce(L) -> Result<T, SessionError> + Send,
    not_started: impl FnOnce(L, SessionError) -> SessionError,
) -> Result<T, SessionError> {
    let (result, results) = bounded(1);
    std::thread::scope(|scope| {
        let [thread] = match all_of(scope, [stage]) {
            Ok(thread) => thread,
            Err(error) => return Err(not_started(link, error)),
        };
        let thread = thread.run(move || {
            files.enforce();
            // The caller waits for it.
            let _ = result.send(session(link));
        });
        thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        results.recv().unwrap_or_else(|_| unreachable!("a thread that has not panicked has sent its result"))
    })
}
