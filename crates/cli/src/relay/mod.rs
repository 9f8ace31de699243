//! `icdc relay`: split TCP.
//!
//! | file | what |
//! |---|---|
//! | `plan` | the configuration of a file and options |
//! | `status` | what a running relay tells |

mod plan;
mod status;

use anyhow::Context;
use icdc_relay::tproxy::RedirectRules;
use icdc_relay::{Relay, RelayError};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::arguments::RelayArguments;
use crate::arguments::relay::{MarkArguments, RelayCommand, RulesCommand, RunArguments, SteeringArguments};
use crate::console::Console;
use crate::{exit, logs};

/// Runs `icdc relay` and returns the exit code.
pub(crate) fn run(arguments: RelayArguments, console: &Console) -> u8 {
    match arguments.command {
        None => relay(&arguments.run, console),
        Some(RelayCommand::Status(arguments)) => exit::finish(status::run(&arguments, console), console),
        Some(RelayCommand::Rules(arguments)) => exit::finish(rules(arguments.command, console), console),
    }
}

/// Runs a relay, or only checks its configuration; returns the exit code.
fn relay(arguments: &RunArguments, console: &Console) -> u8 {
    logs::start(console, logs::Level::INFO);
    let config = match plan::config(arguments) {
        Ok(config) => config,
        Err(error) => return console.give_up(&error, exit::USAGE),
    };
    if arguments.check {
        console.result("the configuration can be used");
        console.flush();
        return 0;
    }
    match serve(arguments, config, console) {
        Ok(()) => 0,
        Err(error) => {
            let code = match error.downcast_ref() {
                Some(RelayError::Congestion(_)) => exit::USAGE,
                _ => exit::FAILED,
            };
            console.give_up(&error, code)
        }
    }
}

/// Runs the relay until a signal stops it; reloads the configuration at SIGHUP.
fn serve(arguments: &RunArguments, config: icdc_relay::Config, console: &Console) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).context("signals cannot be watched")?;
    let status = config.status.clone();
    let mut drain = config.limits.drain;
    let relay = Relay::start(config)?;
    for signal in signals.forever() {
        if signal != SIGHUP {
            break;
        }
        match plan::config(arguments) {
            Ok(config) => {
                let limits = config.limits;
                match relay.reload(config) {
                    Ok(()) => drain = limits.drain,
                    Err(error) => console.complain(&format!("the configuration stays as it was: {error}")),
                }
            }
            Err(error) => console.complain(&format!("the configuration stays as it was: {error:#}")),
        }
    }
    console.complain(&format!("stopping; connections have {drain} to end (again: stop at once)"));
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if signals.forever().any(|signal| signal != SIGHUP) {
            signal_hook::low_level::exit(exit::FAILED.into());
        }
    })?;
    let broken = relay.stop(drain);
    if broken > 0 {
        console.complain(&format!("{broken} connections did not end in time and were reset"));
    }
    if let Some(path) = status {
        // The next relay would remove it as well.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Runs `icdc relay rules`: prints, applies or removes the rules that redirect connections to the
/// relay.
fn rules(command: RulesCommand, console: &Console) -> anyhow::Result<()> {
    match command {
        RulesCommand::Print(arguments) => {
            console.result(redirect_rules(arguments).script().trim_end());
            console.flush();
        }
        RulesCommand::Apply(arguments) => redirect_rules(arguments).apply()?,
        RulesCommand::Remove(mark) => {
            let MarkArguments { mark, table } = mark;
            RedirectRules { listener: 0, ports: vec![], from: vec![], interface: None, mark, table }.remove()?;
        }
    }
    Ok(())
}

/// The redirection that the arguments ask for.
fn redirect_rules(arguments: SteeringArguments) -> RedirectRules {
    let SteeringArguments { listener, port, from, interface, mark: MarkArguments { mark, table } } = arguments;
    RedirectRules { listener, ports: port, from, interface, mark, table }
}
