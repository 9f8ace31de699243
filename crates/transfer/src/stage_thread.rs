//! Threads that bear the name of what they do, for `top -H` and `perf`.

use std::thread::{Builder, Scope, ScopedJoinHandle};

/// Starts `work` on a thread called `icdc-STAGE`.
///
/// # Panics
/// As [`Scope::spawn`]: where no thread can be had.
pub(crate) fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    stage: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    try_start(scope, stage, work).expect("a thread can be had")
}

/// The same for one that others can do without; `None` where no thread can be had.
pub(crate) fn try_start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    stage: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Option<ScopedJoinHandle<'scope, T>> {
    Builder::new().name(format!("icdc-{stage}")).spawn_scoped(scope, work).ok()
}
