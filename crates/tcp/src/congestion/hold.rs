//! A socket takes one of ours; what this process has loaded stays as long as anybody in it holds
//! it.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use icdc_cc::Algorithm;
use icdc_rate::known_paths::Resumption;

#[cfg(feature = "ebpf")]
use super::ebpf::{Loaded, load, tell};
use super::error::LoadError;
use super::names::registered;
#[cfg(not(feature = "ebpf"))]
use super::without::{Loaded, load, tell};
use crate::{CongestionError, set_congestion};

/// Keeps an algorithm loaded. All sockets of a process share it.
#[derive(Clone, Debug)]
pub struct Hold {
    pub(super) loaded: Arc<Loaded>,
}

/// How often somebody else may load or unload the algorithm between our two calls.
const TRIES: u32 = 20;

/// Lets the socket take one of ours, loaded if it must be, and tells it what is `known` of the
/// path.
///
/// # Errors
/// It cannot be had: why, as a sentence for the user.
pub(super) fn take(
    fd: &impl AsFd,
    algorithm: &'static Algorithm,
    known: Option<Resumption>,
) -> Result<Option<Hold>, String> {
    let (mut reason, kernel_name) = (String::new(), algorithm.kernel_name());
    let tell = |hold: Option<&Hold>| {
        if let Some(known) = &known {
            tell(fd, algorithm, hold.map(|hold| &*hold.loaded), known);
        }
    };
    for _ in 0..TRIES {
        // If this process has loaded it, the next socket shall find it as well.
        let hold = held(algorithm);
        if registered(algorithm) {
            tell(hold.as_ref());
        }
        match set_congestion(fd, &kernel_name) {
            Ok(()) => return Ok(hold),
            Err(CongestionError::Unknown { .. }) => {}
            Err(error) => return Err(error.to_string()),
        }
        match held_or_loaded(algorithm) {
            // What this process holds until the socket has it.
            Ok(hold) => {
                tell(Some(&hold));
                match set_congestion(fd, &kernel_name) {
                    Ok(()) => return Ok(Some(hold)),
                    Err(error) => reason = error.to_string(),
                }
            }
            // Another process was faster; it may be gone again by the next call.
            Err(error @ LoadError::Taken { .. }) => reason = error.to_string(),
            Err(error) => return Err(error.to_string()),
        }
    }
    Err(reason)
}

/// What this process has loaded, as long as anybody in it holds it.
static LOADED: Mutex<Vec<(&'static str, Weak<Loaded>)>> = Mutex::new(Vec::new());

pub(super) fn held(algorithm: &Algorithm) -> Option<Hold> {
    let loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut found = loaded.iter().filter(|(name, _)| *name == algorithm.name).filter_map(|(_, weak)| weak.upgrade());
    found.next().map(|loaded| Hold { loaded })
}

fn held_or_loaded(algorithm: &'static Algorithm) -> Result<Hold, LoadError> {
    if let Some(hold) = held(algorithm) {
        return Ok(hold);
    }
    // Two threads that load at once are like two processes: one of them finds the name taken, and
    // tries again.
    let fresh = Arc::new(load(algorithm, &[])?);
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    loaded.retain(|(_, weak)| weak.strong_count() > 0);
    loaded.push((algorithm.name, Arc::downgrade(&fresh)));
    Ok(Hold { loaded: fresh })
}
