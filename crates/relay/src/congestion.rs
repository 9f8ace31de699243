//! The congestion control of legs to other relays, loaded as long as legs may need it.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use icdc_tcp::algorithm::{Hold, choose};
use icdc_tcp::set_congestion;

/// Shared by all threads.
#[derive(Debug, Default)]
pub(crate) struct LegCongestion {
    /// What this relay has loaded itself.
    hold: Mutex<Option<Hold>>,
    has_complained: AtomicBool,
}

impl LegCongestion {
    /// Keeps what was loaded when the relay started, or read its configuration anew.
    pub(crate) fn keep(&self, hold: Option<Hold>) {
        *self.hold.lock().unwrap_or_else(PoisonError::into_inner) = hold;
    }

    /// Lets a leg take the algorithm of this name. One that another process had loaded, and has taken away, is loaded.
    pub(crate) fn take(&self, leg: &impl AsFd, name: &str) {
        if set_congestion(leg, name).is_ok() {
            return;
        }
        let missing = match choose(leg, name) {
            Ok(chosen) => {
                if chosen.hold.is_some() {
                    self.keep(chosen.hold);
                }
                chosen.instead
            }
            Err(error) => Some(error.to_string()),
        };
        match missing {
            Some(why) if !self.has_complained.swap(true, Relaxed) => tracing::warn!("legs to other relays: {why}"),
            Some(_) => {}
            None => self.has_complained.store(false, Relaxed),
        }
    }
}
