//! Choice of the value of each setting for a command.

use std::ffi::OsStr;

use anyhow::{anyhow, bail};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use super::far_hosts::{FarHosts, Reach};
use super::layers::{Given, Layers};
use super::option;
use super::settings::{Form, Setting};
use crate::applies::{Concern, Mismatch};
use crate::route::Route;

/// A setting with the value that files or variables give it for one command.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) setting: &'static Setting,
    /// The strongest value outside of the command line, if there is one.
    pub(super) given: Option<Given>,
    /// Reason for which the value given in `given` is not used; `None` if it is used.
    pub(super) unused: Option<String>,
}

impl Choice {
    /// The given value, if it is used; `None` if the built-in value or the command line counts.
    pub(super) fn counting(&self) -> Option<&Given> {
        self.given.as_ref().filter(|_| self.unused.is_none())
    }
}

/// Chooses the values of settings for a command that reaches `far_hosts`, or for any host without
/// one; `matches` are those of its command line, whose options go before.
///
/// # Errors
/// A variable has no value of the option, or two values that count contradict each other.
pub(super) fn choose(
    settings: impl Iterator<Item = &'static Setting>,
    command: &Command,
    matches: Option<&ArgMatches>,
    layers: &Layers,
    far_hosts: Option<&FarHosts>,
) -> anyhow::Result<Vec<Choice>> {
    let mut choices: Vec<Choice> = Vec::new();
    let route = |text: &str| text.parse::<Route>().ok();
    let mut via = matches.and_then(|matches| typed(matches, "via")).as_deref().and_then(route);
    for setting in settings {
        let by_hand = matches.and_then(|matches| by_hand(setting, command, matches));
        let mut choice = match by_hand {
            Some(option) => Choice { setting, given: None, unused: Some(format!("{option} is on the command line")) },
            None => {
                let given = strongest(setting, layers, far_hosts)?;
                let unused = given
                    .as_ref()
                    .zip(far_hosts)
                    .and_then(|(given, far_hosts)| unused(setting, given, far_hosts, via.as_ref()));
                Choice { setting, given, unused: unused.map(str::to_owned) }
            }
        };
        if let Some(Given { value, source, .. }) = choice.counting()
            && let Some(argument) = option::argument(command, setting)
            && let Err(what) = option::check(argument, value)
        {
            bail!("{source}: {}: {what}", value.to_string_lossy());
        }
        if setting.concern == Concern::Route
            && let Some(given) = choice.counting()
        {
            via = given.value.to_str().and_then(route);
        }
        contradictions(&mut choice, &mut choices, command)?;
        choices.push(choice);
    }
    Ok(choices)
}

/// Whether an option is on the command line; a command need not have it.
fn is_typed(matches: &ArgMatches, id: &str) -> bool {
    matches!(matches.try_contains_id(id), Ok(true)) && matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// Value of an option as typed on the command line; `None` if it was not typed.
fn typed(matches: &ArgMatches, id: &str) -> Option<String> {
    if !is_typed(matches, id) {
        return None;
    }
    matches.get_raw(id)?.next()?.to_str().map(str::to_owned)
}

/// The option on the command line that overrides the setting: its own, `--no-KEY`, or one that
/// cannot be given together with it; `None` if none does.
fn by_hand(setting: &Setting, command: &Command, matches: &ArgMatches) -> Option<String> {
    let argument = option::argument(command, setting)?;
    let negation = format!("no-{}", setting.key);
    let own = [argument.get_id().as_str(), negation.as_str()].into_iter().find(|id| is_typed(matches, id));
    let contrary = || {
        command
            .get_arguments()
            .find(|other| is_typed(matches, other.get_id().as_str()) && contradict(command, argument, other))
    };
    match own {
        Some(id) if id == negation => Some(format!("--{negation}")),
        Some(_) => Some(format!("--{}", setting.key)),
        None => contrary().map(|other| match (other.get_long(), other.get_short()) {
            (Some(name), _) => format!("--{name}"),
            (None, Some(letter)) => format!("-{letter}"),
            (None, None) => other.get_id().to_string(),
        }),
    }
}

/// Whether the command's definition says that two options cannot be given together.
fn contradict(command: &Command, one: &clap::Arg, other: &clap::Arg) -> bool {
    let lists = |one: &clap::Arg, other: &clap::Arg| {
        command.get_arg_conflicts_with(one).iter().any(|argument| argument.get_id() == other.get_id())
    };
    one.get_id() != other.get_id() && (lists(one, other) || lists(other, one))
}

/// The value of highest precedence for these far hosts; `None` if nothing is given. An
/// error if two hosts need one value and are given two.
fn strongest(setting: &Setting, layers: &Layers, far_hosts: Option<&FarHosts>) -> anyhow::Result<Option<Given>> {
    let Some(far_hosts) = far_hosts else { return Ok(layers.strongest(setting, &[])) };
    let reach = match setting.concern {
        Concern::SshHost => Some(Reach::Ssh),
        Concern::DaemonHost => Some(Reach::Daemon),
        _ => None,
    };
    let hosts: Vec<&str> = far_hosts.ends.iter().map(|end| end.host.as_str()).collect();
    let own = far_hosts.ends.iter().filter(|end| Some(end.reach) == reach);
    let mut given = layers.strongest(setting, &hosts);
    for (index, end) in own.enumerate() {
        let of_end = layers.strongest(setting, &[&end.host]);
        let value = |given: &Option<Given>| given.as_ref().map(|given| given.value.clone());
        if index > 0 && value(&of_end) != value(&given) {
            return Err(two_values(setting, far_hosts, given.as_ref(), of_end.as_ref()));
        }
        given = of_end;
    }
    Ok(given)
}

/// Error for two far hosts, both reached by ssh or both daemons, that have different values where
/// the copy takes one.
fn two_values(
    setting: &Setting,
    far_hosts: &FarHosts,
    of_destination: Option<&Given>,
    of_source: Option<&Given>,
) -> anyhow::Error {
    let shown = |given: Option<&Given>| match given {
        Some(Given { value, source, .. }) => format!("{value:?} ({source})"),
        None => "the built-in value".to_owned(),
    };
    let host = |index: usize| far_hosts.ends.get(index).map_or("", |end| end.host.as_str());
    anyhow!(
        "{key}: a copy between two remote hosts takes one value, and there is {} for {} and {} for {}: give --{key}, or copy to \
         this host first",
        shown(of_destination),
        host(0),
        shown(of_source),
        host(1),
        key = setting.key
    )
}

/// Reason why a value is not used for these far hosts, to which data takes the route `via` where
/// that is given; `None` if it is used.
fn unused(setting: &Setting, given: &Given, far_hosts: &FarHosts, via: Option<&Route>) -> Option<&'static str> {
    let own_route = || given.value.to_str().and_then(|text| text.parse().ok());
    let via = if setting.concern == Concern::Route { own_route() } else { via.cloned() };
    let mismatch = setting.concern.mismatch(far_hosts.hosts(), &via.unwrap_or(Route::Auto));
    let has_login = setting.concern == Concern::ProxyLogin && login_is_in_environment();
    mismatch.map(Mismatch::reason).or_else(|| has_login.then_some("ICDC_PROXY_LOGIN has the login"))
}

/// Whether ICDC_PROXY_LOGIN holds a proxy login, which goes before a file of it that is named in a
/// file or a variable.
fn login_is_in_environment() -> bool {
    std::env::var_os("ICDC_PROXY_LOGIN").is_some_and(|value| !value.is_empty())
}

/// Marks the weaker of two given values as unused if their options contradict each other; equal
/// ranks are an error.
fn contradictions(choice: &mut Choice, before: &mut [Choice], command: &Command) -> anyhow::Result<()> {
    for other in before {
        let (Some(given), Some(of_other)) = (choice.counting(), other.counting()) else { continue };
        let arguments = option::argument(command, choice.setting).zip(option::argument(command, other.setting));
        let is_on = |setting: &Setting, value: &OsStr| setting.form != Form::Flag || value == "true";
        let contradict = is_on(choice.setting, &given.value)
            && is_on(other.setting, &of_other.value)
            && arguments.is_some_and(|(one, other)| contradict(command, one, other));
        if !contradict {
            continue;
        }
        match given.rank.cmp(&of_other.rank) {
            std::cmp::Ordering::Equal => bail!(
                "{} ({}) and {} ({}) contradict each other: leave one of them out",
                choice.setting.key,
                given.source,
                other.setting.key,
                of_other.source
            ),
            std::cmp::Ordering::Greater => {
                choice.unused = Some(format!("{} contradicts it ({})", other.setting.key, of_other.source))
            }
            std::cmp::Ordering::Less => {
                other.unused = Some(format!("{} contradicts it ({})", choice.setting.key, given.source));
            }
        }
    }
    Ok(())
}
