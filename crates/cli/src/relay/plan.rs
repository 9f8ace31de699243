//! The configuration of a relay: its file, with the options of the command line added.

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use icdc_relay::config::{ListenDraft, RouteDraft, RuleDraft};
use icdc_relay::{Config, Draft};
use icdc_trust::{Paths, PublicKey};
use icdc_units::{ByteCount, Span};

use crate::arguments::relay::{RunArguments, StatusSocket};

/// Configuration of the relay: that of its file, which is read anew each time, with the options
/// added.
pub(super) fn config(arguments: &RunArguments) -> anyhow::Result<Config> {
    let mut draft = match &arguments.config {
        None => Draft::default(),
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            Draft::parse(&text).map_err(anyhow::Error::msg).with_context(|| path.display().to_string())?
        }
    };
    listeners(arguments, &mut draft);
    routes(arguments, &mut draft)?;
    rules(arguments, &mut draft)?;
    limits(arguments, &mut draft);
    let identity = arguments.identity.clone().or_else(|| Paths::from_environment().map(|paths| paths.identity));
    // An option goes before the file.
    if arguments.identity.is_some() {
        draft.identity = None;
    }
    if arguments.socket.status_socket.is_some() {
        draft.status = None;
    }
    Ok(Config::new(&draft, identity.as_deref(), status_socket(&arguments.socket))?)
}

/// Path of the relay's status socket; `None` if none is named and this user has no directory for
/// it.
pub(super) fn status_socket(given: &StatusSocket) -> Option<PathBuf> {
    let directory = || match rustix::process::geteuid().is_root() {
        true => Some(PathBuf::from("/run")),
        false => std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute()),
    };
    given.status_socket.clone().or_else(|| Some(directory()?.join("icdc-relay.sock")))
}

/// Adds the listeners that the options name.
fn listeners(arguments: &RunArguments, draft: &mut Draft) {
    let RunArguments { forward, socks5, peer, transparent, .. } = arguments;
    draft.listen.extend(forward.iter().map(|(address, to)| ListenDraft {
        forward: Some(address.clone()),
        to: Some(to.clone()),
        ..ListenDraft::default()
    }));
    draft.listen.extend(socks5.iter().map(|address| ListenDraft {
        socks5: Some(address.clone()),
        users: arguments.socks5_users.clone(),
        ..ListenDraft::default()
    }));
    draft.listen.extend(peer.iter().map(|address| ListenDraft {
        peer: Some(address.clone()),
        keys: arguments.peer_key.iter().map(ToString::to_string).collect(),
        ..ListenDraft::default()
    }));
    draft.listen.extend(
        transparent.iter().map(|address| ListenDraft { transparent: Some(address.clone()), ..ListenDraft::default() }),
    );
}

/// Adds the routes, and the properties of connections, that the options name.
fn routes(arguments: &RunArguments, draft: &mut Draft) -> anyhow::Result<()> {
    let key = key_of_routes(arguments)?;
    draft.route.extend(arguments.route.iter().map(|(to, via)| {
        let via: Vec<String> = via.split(',').map(str::to_owned).collect();
        let key = key.filter(|_| via.iter().any(|hop| leads_to_relay(hop))).map(ToString::to_string);
        RouteDraft { to: Some(to.clone()), via, key, warm: arguments.warm }
    }));
    let leg = &mut draft.leg;
    leg.congestion = arguments.cc.clone().or_else(|| leg.congestion.take());
    leg.rate = arguments.rate.map(|rate| format!("{rate:#}")).or_else(|| leg.rate.take());
    leg.buffer = size(arguments.buffer).or_else(|| leg.buffer.take());
    draft.exit.proxy_protocol |= arguments.proxy_protocol;
    draft.exit.keep_source |= arguments.keep_source;
    Ok(())
}

/// The key of the relays that --route names. A key that would protect nothing is an error: its user
/// does not expect legs without TLS.
fn key_of_routes(arguments: &RunArguments) -> anyhow::Result<Option<&PublicKey>> {
    let RunArguments { route, peer, peer_key, .. } = arguments;
    let has_relay = route.iter().any(|(_, via)| via.split(',').any(leads_to_relay));
    match peer_key.as_slice() {
        [] => Ok(None),
        _ if !has_relay && peer.is_empty() => bail!(
            "--peer-key has no use: add --peer ADDR:PORT, to which the relay with this key may connect, or --route \
             PREFIX=HOST:PORT, by which this one connects to it; in a file, keys stand as `keys` in [[listen]] and `key` in [[route]]"
        ),
        [key] => Ok(Some(key)),
        _ if !has_relay => Ok(None),
        _ => bail!("with --route give one --peer-key; a file can give each [[route]] its `key`"),
    }
}

/// Whether a next hop of a route is a relay, not `direct`.
fn leads_to_relay(hop: &str) -> bool {
    hop != "direct"
}

/// Puts the rules of `--deny` and `--allow` before those of the file.
fn rules(arguments: &RunArguments, draft: &mut Draft) -> anyhow::Result<()> {
    let given = |action: &str, conditions: &[String]| -> anyhow::Result<Vec<RuleDraft>> {
        conditions.iter().map(|text| rule(action, text).with_context(|| format!("--{action} {text}"))).collect()
    };
    let mut rules = given("deny", &arguments.deny)?;
    rules.extend(given("allow", &arguments.allow)?);
    // Rules of the command line go before those of the file.
    rules.append(&mut draft.rule);
    draft.rule = rules;
    Ok(())
}

/// Parses the conditions of one rule; `action` is `deny` or `allow`.
fn rule(action: &str, text: &str) -> anyhow::Result<RuleDraft> {
    let mut rule = RuleDraft { action: action.to_owned(), ..RuleDraft::default() };
    for part in text.split(',') {
        let (name, value) = part.split_once('=').context("a condition is NAME=VALUE")?;
        let condition = match name {
            "listener" => &mut rule.listener,
            "from" => &mut rule.from,
            "to" => &mut rule.to,
            "port" => &mut rule.ports,
            _ => bail!("{name:?} is none of listener, from, to and port"),
        };
        ensure!(condition.is_none(), "{name} is given twice");
        *condition = Some(value.to_owned());
    }
    Ok(rule)
}

/// Sets the limits that the options name.
fn limits(arguments: &RunArguments, draft: &mut Draft) {
    let limits = &mut draft.limits;
    limits.connections = arguments.connections.or(limits.connections);
    limits.per_client = arguments.per_client.or(limits.per_client);
    limits.memory = size(arguments.memory).or_else(|| limits.memory.take());
    limits.memory_per_connection =
        size(arguments.memory_per_connection).or_else(|| limits.memory_per_connection.take());
    limits.greeting = span(arguments.greeting).or_else(|| limits.greeting.take());
    limits.connect = span(arguments.connect).or_else(|| limits.connect.take());
    limits.idle = span(arguments.idle).or_else(|| limits.idle.take());
    limits.drain = span(arguments.drain).or_else(|| limits.drain.take());
    draft.threads = arguments.threads.or(draft.threads);
    draft.metrics = arguments.metrics.clone().or_else(|| draft.metrics.take());
}

/// A size as a configuration file would have it, without rounding.
fn size(given: Option<ByteCount>) -> Option<String> {
    given.map(|size| format!("{size:#}"))
}

/// A time as a configuration file would have it, without rounding.
fn span(given: Option<Span>) -> Option<String> {
    given.map(|span| format!("{span:#}"))
}
