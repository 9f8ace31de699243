//! Measuring on a machine that others use, too.

use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};

const ATTEMPTS: u32 = 6;

/// The machine for one test at a time: a lab takes what two processors can give.
pub fn machine() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Measures until what came of it holds. Where others take the processors for a while, what depends
/// on time is spoilt, so one attempt of a few is enough; the last one's failure is told.
pub fn in_a_calm_moment<T>(mut attempt: impl FnMut() -> Result<T, String>) -> T {
    for _ in 1..ATTEMPTS {
        if let Ok(measured) = attempt() {
            return measured;
        }
    }
    attempt().unwrap_or_else(|why| panic!("after {ATTEMPTS} attempts: {why}"))
}

/// What [`in_a_calm_moment`] wants to be told.
pub fn holds(condition: bool, otherwise: impl Debug) -> Result<(), String> {
    if condition { Ok(()) } else { Err(format!("{otherwise:?}")) }
}
