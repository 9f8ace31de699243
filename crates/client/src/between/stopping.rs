//! Exchanges with a far end that the user asks to stop.

use icdc_link::LinkControl;
use icdc_stop::{Listening, StopSignal};

use crate::error::CopyError;

/// Shuts a link down when the user asks to stop, until the result is dropped.
pub(super) fn shut_down_on(stop: &StopSignal, control: &LinkControl) -> Listening {
    let control = control.clone();
    stop.while_waiting(move || control.shutdown())
}

/// Converts an error: to itself, or to [`CopyError::Interrupted`] if the user asked to stop.
pub(super) fn unless_stopped(error: CopyError, stop: &StopSignal) -> CopyError {
    if stop.is_requested() { CopyError::Interrupted } else { error }
}
