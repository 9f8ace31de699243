//! Completion of paths on other hosts, which is added to the scripts that are made from the command
//! line's definition.

use std::collections::BTreeSet;

use clap::Command;

use crate::arguments::CompletedShell;

/// Commands that take paths on other hosts.
const COMMANDS: [&str; 8] = ["copy", "sync", "ls", "du", "verify", "mkdir", "rm", "mv"];
/// Names of the arguments of these commands that are such paths.
const PLACES: [&str; 3] = ["places", "from", "to"];

/// A completion script as clap makes it, with completion of paths on other hosts added.
pub(super) fn added(shell: CompletedShell, script: &str, command: &Command) -> String {
    match shell {
        CompletedShell::Bash => {
            let valued = valued(command).into_iter().collect::<Vec<_>>().join("|");
            let functions = include_str!("remote_paths.bash");
            format!("{script}{}", functions.replace("@COMMANDS@", &COMMANDS.join("|")).replace("@VALUED@", &valued))
        }
        CompletedShell::Zsh => {
            let lines: Vec<String> = script.lines().map(zsh_line).collect();
            let script = lines.join("\n") + "\n";
            let end = script.rfind("if [ \"$funcstack[1]\"").unwrap_or(script.len());
            [&script[..end], include_str!("remote_paths.zsh"), &script[end..]].concat()
        }
        CompletedShell::Fish => {
            format!("{script}{}", include_str!("remote_paths.fish").replace("@COMMANDS@", &COMMANDS.join(" ")))
        }
    }
}

/// Options of these commands that take a value, as they are typed: `--port`, `-e`.
fn valued(command: &Command) -> BTreeSet<String> {
    let commands = command.get_subcommands().filter(|command| COMMANDS.contains(&command.get_name()));
    let options = commands.flat_map(Command::get_arguments).filter(|option| option.get_action().takes_values());
    let names = options.flat_map(|option| {
        let long = option.get_long_and_visible_aliases().unwrap_or_default();
        let long = long.into_iter().chain(option.get_all_aliases().unwrap_or_default());
        let short = option.get_short_and_visible_aliases().unwrap_or_default();
        let short = short.into_iter().chain(option.get_all_short_aliases().unwrap_or_default());
        let long: Vec<String> = long.map(|name| format!("--{name}")).collect();
        short.map(|letter| format!("-{letter}")).chain(long).collect::<Vec<_>>()
    });
    names.collect()
}

/// A line of the script for zsh: an argument that is a path on any host gets the completion for
/// such paths.
fn zsh_line(line: &str) -> String {
    let specification = line.trim_start_matches('\'').trim_start_matches('*').trim_start_matches(':');
    let name = specification.split(" -- ").next().unwrap_or_default();
    let is_place = line.starts_with('\'') && PLACES.contains(&name);
    match line.strip_suffix(":_files' \\").filter(|_| is_place) {
        Some(start) => format!("{start}:_icdc_paths' \\"),
        None => line.to_owned(),
    }
}
