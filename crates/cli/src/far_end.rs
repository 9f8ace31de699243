//! `icdc far-end`: what ssh starts. Standard output belongs to the protocol.

use crate::console::Console;
use crate::{exit, logs};

/// Runs the far end and returns the exit code.
pub(crate) fn run(console: &Console) -> u8 {
    logs::start(console, "off");
    match icdc_transfer::far_end() {
        Ok(()) => 0,
        Err(error) => {
            console.complain(&error.to_string());
            exit::FAILED
        }
    }
}
