//! Settings: values of options that files and variables give, where the command line does not.
//!
//! ```text
//! command line ─ clap ─► which command, which far hosts, which options
//!                                      │
//! ICDC_* ──────────────────┐           ▼
//! ~/.config/icdc/config.toml ─► layers ─► choice ─► defaults of the command's options ─ clap ─► arguments
//! /etc/icdc/config.toml ───┘
//! ```
//!
//! A value that is chosen becomes the option's default, so the command line wins by itself, and
//! whatever reads the arguments knows nothing of settings.
//!
//! | file | what |
//! |---|---|
//! | `settings` | the table: which options are settings |
//! | `file` | where files are, and their bytes |
//! | `document` | what a file says |
//! | `fault` | what is wrong in a file, with the line that has it |
//! | `pattern` | which hosts a section is for |
//! | `far_hosts` | the far hosts of a command |
//! | `layers` | variables and files by precedence |
//! | `option` | the option that a setting stands for |
//! | `choice` | which value counts in a command |
//! | `explain` | `icdc config` |
//! | `page` | the shipped example and the table of the man page |

mod choice;
mod document;
mod explain;
mod far_hosts;
mod fault;
mod file;
mod layers;
mod option;
mod page;
mod pattern;
pub(crate) mod settings;

use std::ffi::OsString;

use clap::{ArgMatches, Command};

pub(crate) use explain::run;
#[cfg(feature = "experiments")]
pub(crate) use file::switch_off;

use choice::{Choice, choose};
use far_hosts::FarHosts;
use layers::{Given, Layers};
use settings::Setting;

/// Settings from files and variables that a command uses, one text each: `rate 900mbit
/// (ICDC_RATE)`.
#[derive(Debug, Default)]
pub(crate) struct Applied(Vec<String>);

impl Applied {
    /// Sentence that lists them, for the user of a command that has failed; `None` if there are
    /// none.
    pub(crate) fn told(&self) -> Option<String> {
        let Self(values) = self;
        (!values.is_empty()).then(|| format!("settings that are not on the command line: {}", values.join(", ")))
    }
}

/// Reason why a command line cannot be carried out.
pub(crate) enum ApplyError {
    /// A file or a variable cannot be used.
    Settings(anyhow::Error),
    /// The command line itself is wrong, as clap reports it.
    CommandLine(clap::Error),
}

/// Parses the command line once more, with the values from files and variables as defaults of its
/// options. `words` are those that `root` has understood as `matches`.
///
/// # Errors
/// Settings cannot be used. Commands without settings read none.
pub(crate) fn apply(
    root: Command,
    matches: ArgMatches,
    words: impl Iterator<Item = OsString>,
) -> Result<(ArgMatches, Applied), ApplyError> {
    let (path, of_command) = path_of(&matches);
    let of_path = path.join(" ");
    let settings: Vec<&'static Setting> =
        settings::all().filter(|setting| setting.commands.contains(&of_path.as_str())).collect();
    let Some(command) = option::command(&root, &of_path).filter(|_| !settings.is_empty()) else {
        return Ok((matches, Applied::default()));
    };
    let layers = Layers::read(&option::Options(&root)).map_err(ApplyError::Settings)?;
    let far_hosts = FarHosts::of(of_command);
    let choices = choose(settings.into_iter(), command, Some(of_command), &layers, Some(&far_hosts))
        .map_err(ApplyError::Settings)?;
    let counting: Vec<(&Choice, &Given)> =
        choices.iter().filter_map(|choice| Some((choice, choice.counting()?))).collect();
    if counting.is_empty() {
        return Ok((matches, Applied::default()));
    }
    let applied = counting
        .iter()
        .map(|(choice, given)| format!("{} {} ({})", choice.setting.key, given.value.to_string_lossy(), given.source));
    let applied = Applied(applied.collect());
    let defaults = counting.into_iter().map(|(choice, given)| (choice.setting.id(), given.value.clone())).collect();
    let configured = with_defaults(root, &path, defaults);
    let matches = configured.try_get_matches_from(words).map_err(ApplyError::CommandLine)?;
    Ok((matches, applied))
}

/// The words of the command that is asked for, and its own matches.
fn path_of(matches: &ArgMatches) -> (Vec<String>, &ArgMatches) {
    let (mut path, mut innermost) = (Vec::new(), matches);
    while let Some((name, matches)) = innermost.subcommand() {
        path.push(name.to_owned());
        innermost = matches;
    }
    (path, innermost)
}

/// The command definition `root`, with other default values for options of the subcommand at
/// `path`.
fn with_defaults(root: Command, path: &[String], defaults: Vec<(String, OsString)>) -> Command {
    match path {
        [] => defaults
            .into_iter()
            .fold(root, |command, (id, value)| command.mut_arg(id, |argument| argument.default_value(value))),
        [name, rest @ ..] => root.mut_subcommand(name, |command| with_defaults(command, rest, defaults)),
    }
}
