//! `icdc config`: which settings count for a host, and where they are from.

use anyhow::Context as _;
use clap::Command;
use serde_json::{Value, json};

use super::choice::{Choice, choose};
use super::far_hosts::{FarHosts, target_of};
use super::layers::{Layers, Source};
use super::settings;
use super::{option, page};
use crate::arguments::ConfigArguments;
use crate::console::Console;
use crate::exit;

/// Runs `icdc config` and returns the exit code; `root` is the whole command line's definition.
pub(crate) fn run(arguments: &ConfigArguments, root: &Command, console: &Console) -> u8 {
    if arguments.example {
        page::example(root).lines().for_each(|line| console.result(line));
    } else if let Err(error) = explain(arguments, root, console) {
        return console.give_up(&error, exit::USAGE);
    }
    console.flush();
    if console.has_lost_results() { exit::FAILED } else { 0 }
}

/// A setting as it is shown: the value that counts, the built-in one, and its option.
struct Explained<'a> {
    choice: Choice,
    built_in: String,
    argument: &'a clap::Arg,
}

/// Prints the settings in effect for the host that is asked about, or for any host.
fn explain(arguments: &ConfigArguments, root: &Command, console: &Console) -> anyhow::Result<()> {
    let far_hosts = match &arguments.explain {
        Some(host) => {
            let location = target_of(host).with_context(|| {
                format!("--explain {}: not a host; write [USER@]HOST or icdc://HOST[:PORT]", host.to_string_lossy())
            })?;
            Some(FarHosts::to(Some(location)))
        }
        None => None,
    };
    let layers = Layers::read(&option::Options(root))?;
    let mut explained = Vec::new();
    for command in first_commands() {
        let definition = option::command(root, command).with_context(|| format!("there is no icdc {command}"))?;
        let settings = settings::all().filter(|setting| setting.commands.first() == Some(&command));
        for choice in choose(settings, definition, None, &layers, far_hosts.as_ref())? {
            let argument =
                option::first(root, choice.setting).with_context(|| format!("{}: no option", choice.setting.key))?;
            explained.push(Explained { built_in: option::built_in(argument), choice, argument });
        }
    }
    let far = arguments.explain.is_some();
    if arguments.json {
        let host = arguments.explain.as_ref().map(|host| host.to_string_lossy());
        let files =
            layers.looked_at.iter().map(|(path, read)| json!({ "path": path.display().to_string(), "read": read }));
        let settings = explained.iter().map(object);
        let object =
            json!({ "host": host, "files": files.collect::<Value>(), "settings": settings.collect::<Value>() });
        console.json(&object.to_string());
        return Ok(());
    }
    for (path, is_read) in &layers.looked_at {
        let state = if *is_read { "read" } else { "not found" };
        console.result(&format!("# {}: {state}", path.display()));
    }
    match (layers.has_variables, layers.looked_at.is_empty()) {
        (false, _) => console.result("# neither files nor variables are used"),
        (true, true) => console.result("# no file is read"),
        (true, false) => {}
    }
    lines(&explained, far).iter().for_each(|line| console.result(line));
    Ok(())
}

/// The first command that has each setting's option, each once: from it the option is described.
fn first_commands() -> Vec<&'static str> {
    let mut commands: Vec<&str> = Vec::new();
    for first in settings::all().filter_map(|setting| setting.commands.first()) {
        if !commands.contains(first) {
            commands.push(first);
        }
    }
    commands
}

/// Lines with key, value and source of each setting; those of the daemon only where no host is
/// asked about (`far`).
fn lines(explained: &[Explained<'_>], far: bool) -> Vec<String> {
    let shown = explained.iter().filter(|one| !(far && one.choice.setting.is_of_daemon()));
    let rows: Vec<[String; 3]> = shown
        .map(|one| {
            let Choice { setting, given, unused } = &one.choice;
            let key = if setting.is_of_daemon() { format!("serve.{}", setting.key) } else { setting.key.to_owned() };
            match (one.choice.counting(), given, unused) {
                (Some(given), ..) => [key, given.value.to_string_lossy().into_owned(), given.source.to_string()],
                (None, Some(given), Some(why)) => {
                    let source = format!(
                        "built in; {} from {} does not count: {why}",
                        given.value.to_string_lossy(),
                        given.source
                    );
                    [key, one.built_in.clone(), source]
                }
                _ => [key, one.built_in.clone(), "built in".to_owned()],
            }
        })
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count().min(40)).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    rows.iter().map(|[key, value, source]| format!("{key:first$}  {value:second$}  {source}")).collect()
}

/// JSON object of a setting.
fn object(one: &Explained<'_>) -> Value {
    let Choice { setting, given, unused } = &one.choice;
    let source = |source: &Source| match source {
        Source::Variable(name) => json!({ "kind": "variable", "variable": name }),
        Source::File { path, line, heading } => {
            json!({ "kind": "file", "path": path.display().to_string(), "line": line, "section": heading })
        }
    };
    let (value, from) = match one.choice.counting() {
        Some(given) => (given.value.to_string_lossy().into_owned(), source(&given.source)),
        None => (one.built_in.clone(), json!({ "kind": "built_in" })),
    };
    let left_out = given.as_ref().zip(unused.as_ref()).map(
        |(given, why)| json!({ "value": given.value.to_string_lossy(), "source": source(&given.source), "why": why }),
    );
    json!({
        "key": setting.key,
        "section": if setting.is_of_daemon() { "serve" } else { "host" },
        "option": option_of(one.argument),
        "variable": setting.variable,
        "commands": setting.commands,
        "value": value,
        "source": from,
        "unused": left_out,
    })
}

/// The option's long name with its dashes.
fn option_of(argument: &clap::Arg) -> String {
    argument.get_long().map_or_else(String::new, |name| format!("--{name}"))
}
