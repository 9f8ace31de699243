//! Puts one of icdc's algorithms on a socket; what this process has loaded stays loaded as long as
//! any part of it holds it.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use icdc_cc::Algorithm;

#[cfg(feature = "ebpf")]
use super::ebpf::{Loaded, load, tell};
use super::error::LoadError;
use super::names::registered;
use super::path_hints::PathHints;
#[cfg(not(feature = "ebpf"))]
use super::without::{Loaded, load, tell};
use crate::{CongestionError, set_congestion};

/// Reference that keeps an algorithm loaded which this process has loaded; the last one that is
/// dropped unloads it.
#[derive(Clone, Debug)]
pub struct Hold {
    pub(super) loaded: Arc<Loaded>,
}

/// Result of setting one of icdc's algorithms on a socket.
#[derive(Debug)]
pub struct SetResult {
    /// Hold on the algorithm; `None` if this process has not loaded it. The socket keeps its
    /// algorithm without it.
    pub hold: Option<Hold>,
    /// Whether the algorithm has received all hints.
    pub has_hints: bool,
}

/// Maximum number of attempts to set an algorithm, as another process may load or unload it between
/// two calls.
const TRIES: u32 = 20;

/// Sets one of icdc's algorithms on the socket, which is loaded if necessary, and passes the hints
/// about the socket to it.
///
/// # Errors
/// Reason for the failure, as a sentence for the user.
pub(super) fn take(fd: &impl AsFd, algorithm: &'static Algorithm, hints: &PathHints) -> Result<SetResult, String> {
    let (mut reason, kernel_name) = (String::new(), algorithm.kernel_name());
    let tell = |hold: Option<&Hold>| !hints.is_nothing() && tell(fd, algorithm, hold.map(|hold| &*hold.loaded), hints);
    for _ in 0..TRIES {
        // If this process has loaded it, the next socket will find it as well.
        let hold = held(algorithm);
        let has_hints = registered(algorithm) && tell(hold.as_ref());
        match set_congestion(fd, &kernel_name) {
            Ok(()) => return Ok(SetResult { hold, has_hints }),
            Err(CongestionError::Unknown { .. }) => {}
            Err(error) => return Err(error.to_string()),
        }
        match held_or_loaded(algorithm) {
            // What this process holds until the socket has it.
            Ok(hold) => {
                let has_hints = tell(Some(&hold));
                match set_congestion(fd, &kernel_name) {
                    Ok(()) => return Ok(SetResult { hold: Some(hold), has_hints }),
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

/// Algorithms that this process has loaded, by name; those without a [`Hold`] left are unloaded.
static LOADED: Mutex<Vec<(&'static str, Weak<Loaded>)>> = Mutex::new(Vec::new());

/// Returns one more hold on `algorithm` if this process has loaded it and a hold on it is
/// left; `None` otherwise. Loads nothing.
pub(super) fn held(algorithm: &Algorithm) -> Option<Hold> {
    let loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut found = loaded.iter().filter(|(name, _)| *name == algorithm.name).filter_map(|(_, weak)| weak.upgrade());
    found.next().map(|loaded| Hold { loaded })
}

/// Loads `algorithm` in the background and keeps it loaded as long as this process lives: loading
/// takes some tens of milliseconds, in which a connection can be made.
pub(super) fn load_ahead(algorithm: &'static Algorithm) {
    static AHEAD: Mutex<Option<Hold>> = Mutex::new(None);
    let load = move || match held_or_loaded(algorithm) {
        Ok(hold) => *AHEAD.lock().unwrap_or_else(PoisonError::into_inner) = Some(hold),
        Err(error) => tracing::debug!("{} is not loaded ahead: {error}", algorithm.name),
    };
    if let Err(error) = std::thread::Builder::new().name("load".to_owned()).spawn(load) {
        tracing::debug!("{} is not loaded ahead: {error}", algorithm.name);
    }
}

/// Returns one more hold on `algorithm`, which is loaded if no hold is left; waits while another
/// thread loads it.
fn held_or_loaded(algorithm: &'static Algorithm) -> Result<Hold, LoadError> {
    if let Some(hold) = held(algorithm) {
        return Ok(hold);
    }
    // One thread loads, the others wait for it.
    static LOADING: Mutex<()> = Mutex::new(());
    let _loading = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(hold) = held(algorithm) {
        return Ok(hold);
    }
    let fresh = Arc::new(load(algorithm, &[])?);
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    loaded.retain(|(_, weak)| weak.strong_count() > 0);
    loaded.push((algorithm.name, Arc::downgrade(&fresh)));
    Ok(Hold { loaded: fresh })
}
