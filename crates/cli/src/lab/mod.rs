//! `icdc lab`: the emulated and the simulated path from the command line.

#[cfg_attr(not(feature = "experiments"), path = "scenario_missing.rs")]
mod scenario;
mod sim;
mod status;
mod view;

use std::ffi::{OsStr, OsString};

use anyhow::{Context, Result};
use icdc_lab::{Lab, LabError, registry};

use crate::arguments::lab::{DownArguments, ExecArguments, LabArguments, LabCommand, UpArguments};
use crate::console::Console;
use crate::{exit, logs};

/// Runs `icdc lab` and returns the exit code.
pub(crate) fn run(arguments: LabArguments, console: &Console) -> u8 {
    let result = match arguments.command {
        LabCommand::Up(arguments) => return up(&arguments, console),
        LabCommand::Down(arguments) => down(&arguments),
        LabCommand::Status(arguments) => status::run(&arguments),
        LabCommand::Exec(arguments) => exec(&arguments),
        LabCommand::Run(arguments) => return scenario::run(&arguments, console),
        LabCommand::List => return scenario::list(console),
        LabCommand::Report(arguments) => view::write(&arguments),
        LabCommand::Sim(arguments) => return sim::run(*arguments, console),
        LabCommand::Wire => {
            logs::start(console, logs::Level::WARN);
            icdc_lab::wire::main().map_err(Into::into)
        }
    };
    exit::finish(result, console)
}

/// Runs `icdc lab up`: creates a lab and prints its properties.
fn up(arguments: &UpArguments, console: &Console) -> u8 {
    let settings = match arguments.settings() {
        Ok(settings) => settings,
        Err(error) => return console.give_up(&error, exit::USAGE),
    };
    let name = &arguments.name.name;
    let made = std::env::current_exe()
        .context("cannot find this program's own file")
        .and_then(|program| Ok(Lab::up(name, &settings, &program)?));
    match made {
        Ok(lab) => {
            println!("{}", status::describe(&lab.record));
            0
        }
        Err(error) => {
            let code = match error.downcast_ref() {
                Some(LabError::Settings(_) | LabError::Name(_)) => exit::USAGE,
                _ => exit::FAILED,
            };
            console.give_up(&error, code)
        }
    }
}

/// Runs `icdc lab down`: removes a lab, or all of this user.
fn down(arguments: &DownArguments) -> Result<()> {
    if !arguments.all {
        return Ok(icdc_lab::down(&arguments.name.name)?);
    }
    // One that resists does not keep the others standing.
    registry::names()?.iter().map(|name| icdc_lab::down(name)).fold(Ok(()), Result::and)?;
    Ok(())
}

/// Runs `icdc lab exec`: becomes the command on a host of a lab; returns only if that fails.
fn exec(arguments: &ExecArguments) -> Result<()> {
    let lab = Lab::find(&arguments.name.name)?;
    let mut command = arguments.command.clone();
    if arguments.shell {
        command = ["sh", "-c"].map(OsString::from).into_iter().chain([joined(&arguments.command)]).collect();
    }
    Err(lab.exec(arguments.host, &command).into())
}

/// The arguments in one, with a space between, as ssh sends them.
fn joined(arguments: &[OsString]) -> OsString {
    arguments.join(OsStr::new(" "))
}
