//! The definition of the whole command line: what is typed, and what the table of settings adds.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Args as _, Command, CommandFactory as _, FromArgMatches as _};

use super::groups::grouped;
use super::rsync::rsync;
use super::{Arguments, VersionArguments};
use crate::config::settings::{self, Form, Setting};

/// The definition that command lines are read by, and that pages are made from.
pub(crate) fn command() -> Command {
    // `--version` stands alone, without a subcommand.
    let command = Arguments::command().disable_version_flag(true).subcommand_required(false);
    let command = VersionArguments::augment_args(command).subcommand(rsync());
    let command = ["copy", "sync"].iter().fold(command, |command, name| command.mut_subcommand(name, grouped));
    let flags = settings::all().filter(|setting| setting.form == Form::Flag);
    flags.fold(command, |command, setting| {
        setting.commands.iter().fold(command, |command, path| {
            let words: Vec<&str> = path.split(' ').collect();
            with_negation(command, &words, setting)
        })
    })
}

/// Parses a command line without the settings of files and variables.
pub(crate) fn parse_from(
    words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<Arguments, clap::Error> {
    Arguments::from_arg_matches(&command().try_get_matches_from(words)?)
}

/// Adds `--no-KEY` to a command: what a file or a variable sets can be undone.
fn with_negation(command: Command, path: &[&'static str], setting: &Setting) -> Command {
    match path {
        [] => {
            let name = format!("no-{}", setting.key);
            let negation = Arg::new(name.clone()).long(name).action(ArgAction::SetTrue).hide(true);
            command.arg(negation.overrides_with(setting.id()))
        }
        [name, rest @ ..] => command.mut_subcommand(name, |command| with_negation(command, rest, setting)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_an_option_of_its_commands() {
        let root = command();
        for setting in settings::all() {
            for path in setting.commands {
                let command = path.split(' ').fold(&root, |command, word| command.find_subcommand(word).unwrap());
                let id = setting.id();
                let argument = command.get_arguments().find(|argument| argument.get_id() == id.as_str());
                let argument = argument.unwrap_or_else(|| panic!("icdc {path} has no argument {id}"));
                assert_eq!(argument.get_long(), Some(setting.key));
                assert_eq!(argument.get_action().takes_values(), setting.form != Form::Flag, "{id}");
            }
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        command().debug_assert();
    }
}
