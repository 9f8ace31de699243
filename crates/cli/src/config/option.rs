//! The option of a command that a setting stands for: its help, its built-in value, its values.

use std::error::Error as _;
use std::ffi::OsStr;

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command};

use super::settings::Setting;

/// The command that these words name, such as `plan join`; `None` if there is none.
pub(super) fn command<'a>(root: &'a Command, words: &str) -> Option<&'a Command> {
    words.split(' ').try_fold(root, |command, word| command.find_subcommand(word))
}

/// The option of this setting in a command.
pub(super) fn argument<'a>(command: &'a Command, setting: &Setting) -> Option<&'a Arg> {
    let id = setting.id();
    command.get_arguments().find(|argument| argument.get_id() == id.as_str())
}

/// The setting's option as the first command that has it defines it.
pub(super) fn first<'a>(root: &'a Command, setting: &Setting) -> Option<&'a Arg> {
    setting.commands.iter().find_map(|words| argument(command(root, words)?, setting))
}

/// Built-in value of an option as text: its default, or what its help names as such; empty if there
/// is none.
pub(super) fn built_in(argument: &Arg) -> String {
    let values: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !values.is_empty() {
        return values.join(",");
    }
    if argument.get_action().takes_values() {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let (_, rest) = help.split_once("[default: ").unwrap_or_default();
        return rest.split(']').next().unwrap_or_default().to_owned();
    }
    "false".to_owned()
}

/// The definition of all commands, by whose options the values in files are checked.
pub(super) struct Options<'a>(pub(super) &'a Command);

impl Options<'_> {
    /// Checks that the setting's option takes this text as its value.
    ///
    /// # Errors
    /// The setting's option does not take it; says what it takes.
    pub(super) fn check(&self, setting: &Setting, text: &str) -> Result<(), String> {
        match first(self.0, setting) {
            Some(argument) => check(argument, OsStr::new(text)),
            // This build does not have the command.
            None => Ok(()),
        }
    }

    /// The commands, without those below others, that have an option `--name`.
    pub(super) fn commands_with(&self, name: &str) -> Vec<&str> {
        let has_it = |command: &&Command| {
            command.get_arguments().any(|argument| argument.get_long() == Some(name) && !argument.is_hide_set())
        };
        self.0
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
            .filter(has_it)
            .map(Command::get_name)
            .collect()
    }
}

/// Checks that an option accepts this text as its value, with the option's own parser.
///
/// # Errors
/// The message that says what the option takes.
pub(super) fn check(argument: &Arg, text: &OsStr) -> Result<(), String> {
    let value = Arg::new("value").value_parser(argument.get_value_parser().clone()).required(true);
    let probe = Command::new("icdc").no_binary_name(true).disable_help_flag(true).arg(value);
    let Err(error) = probe.try_get_matches_from([OsStr::new("--"), text]) else { return Ok(()) };
    if let Some(reason) = error.source() {
        return Err(reason.to_string());
    }
    Err(match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(values)) => format!("write one of {}", values.join(", ")),
        _ => "this is no value of the option".to_owned(),
    })
}
