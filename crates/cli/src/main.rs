//! `icdc`, the program: arguments as typed → plan → run → report.
//!
//! | module | what |
//! |---|---|
//! | `arguments` | the command line as typed; source of help, man pages and completions |
//! | `values`, `rules`, `instant`, `schedule` | what may be written as the value of an option |
//! | `route` | `--via`: the route that data takes
//! | `plan` | what a copy's command line means, with nothing left to doubt |
//! | `choosing` | which of the sources' items are copied: rules, and the files that hold them |
//! | `shards` | a copy in parts that several hosts carry out: planned, copied, joined |
//! | `slurm` | such a copy by nodes of a Slurm cluster |
//! | `copy` | runs a plan and shows its events: progress bar, JSON lines, summary, HTML report |
//! | `ctl` | a running copy shown, paused, resumed, stopped, its rate changed |
//! | `looking` | what is in a tree, and what differs between two |
//! | `changing` | directories made, items removed and renamed |
//! | `measure` | what TCP carries to another host |
//! | `doctor` | a preflight check of this host, and of the path to another one |
//! | `serve`, `far_end` | the other ends |
//! | `reporting` | hooks when something has ended, fireflies while it lasts |
//! | `relay` | split TCP for hosts that cannot be tuned |
//! | `lab` | the emulated long fat network |
//! | `cc` | our own congestion control in the running kernel |
//! | `pace` | other programs' traffic |
//! | `keygen` | identities and known hosts |
//! | `config` | settings: options that files and variables set |
//! | `version` | how this program was built, and what this host allows it |
//! | `generate` | man pages and completions |
//! | `habits` | options and commands that other programs have, and what does it here |
//! | `advise` | that advice in messages on command lines that are not understood |
//! | `rsync` | command lines of rsync, translated |
//! | `console`, `exit`, `logs`, `signals`, `clock`, `command_line` | what they share: terminal, exit codes, log lines, stop signals, the date |
//!
//! Everything that moves data is in `icdc-client` and `icdc-daemon` below, and the crates that it
//! stands on.

#![forbid(unsafe_code)]

mod advise;
mod applies;
mod arguments;
mod cc;
mod changing;
mod chmod;
mod choosing;
mod clock;
mod command_line;
mod config;
mod console;
mod copy;
mod ctl;
mod doctor;
mod exit;
mod far_end;
mod generate;
mod habits;
mod instant;
mod keygen;
mod lab;
mod leftovers;
mod listed;
mod logs;
mod looking;
mod measure;
mod owner_rules;
mod pace;
mod plan;
mod relay;
mod reporting;
mod route;
mod rsync;
mod rules;
mod serve;
mod shards;
mod signals;
mod slurm;
mod values;
mod version;

use std::process::ExitCode;

use clap::FromArgMatches as _;

use crate::arguments::{Arguments, Command, VersionArguments};
use crate::config::{Applied, ApplyError};
use crate::console::Console;

/// Memory allocator of builds with musl, whose own one lets one thread in at a time.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let definition = arguments::command();
    let console = Console::new();
    let words = match rsync::expanded(advise::translated(std::env::args_os()), &console) {
        Ok(words) => words,
        Err(sentence) => {
            console.complain(&sentence);
            return ExitCode::from(exit::USAGE);
        }
    };
    let matches = match definition.clone().try_get_matches_from(&words) {
        Ok(matches) => matches,
        Err(message) => return help_or_usage_error(advise::advise(message, &definition, &words)),
    };
    signals::survive_file_size_limit();
    if let Ok(arguments @ VersionArguments { version: true, .. }) = VersionArguments::from_arg_matches(&matches) {
        return ExitCode::from(version::run(&arguments, &console));
    }
    let (matches, applied) = match config::apply(definition, matches, words.into_iter()) {
        Ok(configured) => configured,
        Err(ApplyError::Settings(error)) => return ExitCode::from(console.give_up(&error, exit::USAGE)),
        Err(ApplyError::CommandLine(message)) => return help_or_usage_error(message),
    };
    match Arguments::from_arg_matches(&matches) {
        Ok(arguments) => ExitCode::from(run(arguments.command, &applied, &console)),
        Err(message) => help_or_usage_error(message),
    }
}

/// Runs the command that was typed and returns the exit code.
fn run(command: Command, applied: &Applied, console: &Console) -> u8 {
    let code = match command {
        Command::Copy(arguments) => match &arguments.plan {
            Some(directory) => shards::copy(&arguments, directory, console),
            None => copy::run(*arguments, console),
        },
        Command::Sync(arguments) => copy::sync(arguments.into_copy(), console),
        Command::Ls(arguments) => looking::ls(*arguments, console),
        Command::Du(arguments) => looking::du(*arguments, console),
        Command::Verify(arguments) => looking::verify(*arguments, console),
        Command::Mkdir(arguments) => changing::mkdir(*arguments, console),
        Command::Rm(arguments) => changing::rm(*arguments, console),
        Command::Mv(arguments) => changing::mv(*arguments, console),
        Command::Plan(arguments) => shards::run(*arguments, console),
        Command::Ctl(arguments) => ctl::run(&arguments, console),
        Command::Leftovers(arguments) => leftovers::run(&arguments, console),
        Command::Slurm(arguments) => slurm::run(arguments, console),
        Command::Serve(arguments) => exit::finish(serve::run(*arguments, console), console),
        Command::Keygen(arguments) => exit::finish(keygen::run(arguments, console), console),
        Command::Lab(arguments) => lab::run(*arguments, console),
        Command::Measure(arguments) => measure::run(*arguments, console),
        Command::Doctor(arguments) => doctor::run(*arguments, console),
        Command::Cc(arguments) => cc::run(arguments, console),
        Command::Relay(arguments) => relay::run(arguments, console),
        Command::Pace(arguments) => pace::run(*arguments, console),
        Command::Config(arguments) => config::run(&arguments, &arguments::command(), console),
        Command::Completions(arguments) => exit::finish(generate::print(&arguments, console), console),
        Command::Session => exit::finish(serve::session(console), console),
        Command::FarEnd { told } => exit::finish(far_end::run(told, console), console),
        Command::ConnectForSsh { address } => exit::finish(far_end::connect_for_ssh(address), console),
        Command::Generate(arguments) => exit::finish(generate::run(&arguments), console),
    };
    // Whoever has not typed a value looks for its mistake elsewhere.
    if let (exit::USAGE | exit::NOT_LET_IN, Some(told)) = (code, applied.told()) {
        console.complain(&told);
    }
    code
}

/// Prints help and version to standard output, and errors as all other messages; returns the exit
/// code.
fn help_or_usage_error(message: clap::Error) -> ExitCode {
    if message.use_stderr() {
        let text = message.render().to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        Console::new().complain(text.trim_end());
        return ExitCode::from(exit::USAGE);
    }
    // Nobody is left to be told if standard output is closed.
    let _ = message.print();
    ExitCode::SUCCESS
}
