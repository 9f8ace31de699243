//! The congestion control of legs to other relays, kept loaded while legs may need it.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use icdc_tcp::congestion::{Hold, choose};
use icdc_tcp::{Privileges, set_congestion};

/// Congestion control of the legs between relays, shared by all threads.
#[derive(Debug, Default)]
pub(crate) struct LegCongestion {
    /// Keeps the algorithm loaded, if this relay has loaded it.
    hold: Mutex<Option<Hold>>,
    has_warned: AtomicBool,
}

impl LegCongestion {
    /// Holds the algorithm that was loaded when the relay started or reloaded its configuration, in
    /// place of the one held before.
    pub(crate) fn keep(&self, hold: Option<Hold>) {
        *self.hold.lock().unwrap_or_else(PoisonError::into_inner) = hold;
    }

    /// Sets the algorithm of a leg. One that another process had loaded and has unloaded is loaded
    /// again; where that fails, the leg keeps the system's, and a warning is logged once.
    pub(crate) fn set_on(&self, leg: &impl AsFd, name: &str) {
        if set_congestion(leg, name).is_ok() {
            return;
        }
        let missing = match choose(leg, name, &Privileges::own()) {
            Ok(chosen) => {
                if chosen.hold.is_some() {
                    self.keep(chosen.hold);
                }
                chosen.instead
            }
            Err(error) => Some(error.to_string()),
        };
        match missing {
            Some(why) if !self.has_warned.swap(true, Relaxed) => tracing::warn!("legs to other relays: {why}"),
            Some(_) => {}
            None => self.has_warned.store(false, Relaxed),
        }
    }
}
