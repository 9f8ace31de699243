//! `icdc pace`: other programs' traffic.

mod policy;
mod wire;

use crate::arguments::pace::{PaceArguments, PaceCommand};
use crate::console::Console;
use crate::logs;

/// Runs `icdc pace` and returns the exit code.
pub(crate) fn run(arguments: PaceArguments, console: &Console) -> u8 {
    logs::start(console, logs::Level::OFF);
    match arguments.command {
        PaceCommand::Policy(arguments) => policy::run(arguments, console),
        PaceCommand::Wire(arguments) => wire::run(&arguments, console),
    }
}
