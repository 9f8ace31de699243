//! A device that is paced: its detour and its pump.

use icdc_scheduler::Tree;

use super::control::Control;
use super::departure::Pump;
use super::detour::Detour;
use super::error::WireError;
use super::line::Line;

/// A device whose outgoing traffic is paced, until dropped: its detour and its pump.
pub struct WirePacer {
    pump: Pump,
    _detour: Detour,
}

impl WirePacer {
    /// Takes over what the host sends through the device of `line`, in this thread's network
    /// namespace; frames wait until [`run`](Self::run).
    ///
    /// # Errors
    /// See [`WireError`]; the host sends as before.
    pub fn open(line: &Line, tree: Tree) -> Result<Self, WireError> {
        let (detour, tap) = Detour::prepare(&line.device)?;
        let pump = Pump::new(line, tree, tap, &detour)?;
        // No packet may be diverted before the pump reads.
        detour.divert()?;
        Ok(Self { pump, _detour: detour })
    }

    /// Paces in the calling thread, at raised priority, until `control` requests the end; packets
    /// that wait then stay queued.
    ///
    /// # Errors
    /// The device was removed, or reading or sending packets fails.
    pub fn run(&mut self, control: &Control) -> Result<(), WireError> {
        self.pump.run(control)
    }
}
