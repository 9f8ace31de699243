//! Makes a configuration of a draft: parses and loads every value, or names the one that is wrong.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use icdc_protocol::relay::Destination;
use icdc_trust::{Identity, PublicKey, ServerPin, TrustError, client_config, server_config};
use icdc_units::{ByteCount, Prefix, Rate, Span};
use thiserror::Error;

use super::draft::{Draft, LegDraft, LimitsDraft, ListenDraft, RouteDraft, RuleDraft};
use super::limits::Limits;
use super::listener::{Listener, ListenerKind};
use super::routes::{Hop, LegSettings, NextRelay, Route, Routes};
use super::rules::{Rule, Rules};
use super::users::Users;

/// ALPN name of the TLS between relays.
const ALPN: &[u8] = b"icdc-relay/1";
/// Warm connections to one relay, at most.
const MAX_WARM: usize = 1024;
/// Greatest number of worker threads.
const MAX_THREADS: usize = 256;

/// A relay's whole configuration, checked.
#[derive(Debug)]
pub struct Config {
    /// Addresses at which clients connect, with their protocols.
    pub listeners: Vec<Listener>,
    /// Next hops by destination.
    pub routes: Routes,
    /// Access rules in order.
    pub rules: Rules,
    /// Settings of legs between relays.
    pub leg: LegSettings,
    /// Settings of legs to destinations.
    pub exit: Exit,
    /// Limits of connections, memory and time.
    pub limits: Limits,
    /// Number of worker threads.
    pub threads: usize,
    /// Address of the metrics for Prometheus; `None` for none.
    pub metrics: Option<SocketAddr>,
    /// The socket of `icdc relay status`; `None` for none.
    pub status: Option<PathBuf>,
}

/// Settings of legs to destinations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exit {
    /// Whether to send the header of the PROXY protocol, version 2, before the data.
    pub proxy_protocol: bool,
    /// Whether to connect from the client's address in place of the relay's.
    pub keep_source: bool,
}

/// A configuration that cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A value of an entry is wrong.
    #[error("{place}: {what}")]
    Value {
        /// The listener, route, rule or setting.
        place: String,
        /// Fault of the value.
        what: String,
    },
    /// The configuration has no listener.
    #[error(
        "there is no listener: give one with --forward, --socks5, --peer or --transparent, or a [[listen]] in a file"
    )]
    NoListener,
    /// The relay's own key, which TLS needs, cannot be loaded.
    #[error("{0}; legs with keys need this relay's own: make it with `icdc keygen`, or name it with --identity")]
    Identity(TrustError),
}

impl Config {
    /// Makes a configuration of a draft. `identity` and `status` are used where the draft names
    /// none.
    ///
    /// # Errors
    /// The first value that cannot be used.
    pub fn new(draft: &Draft, identity: Option<&Path>, status: Option<PathBuf>) -> Result<Self, ConfigError> {
        let named = draft.identity.as_deref().map(Path::new);
        let keys = Keys { file: named.or(identity) };
        let listeners: Vec<Listener> = numbered("listen", &draft.listen, |draft| listener(draft, &keys))?;
        if listeners.is_empty() {
            return Err(ConfigError::NoListener);
        }
        let routes = Routes(numbered("route", &draft.route, |draft| route(draft, &keys))?);
        let rules = Rules(numbered("rule", &draft.rule, |draft| rule(draft).map_err(Wrong::Value))?);
        let threads = draft.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        if !(1..=MAX_THREADS).contains(&threads) {
            return Err(value("threads", format!("from 1 to {MAX_THREADS}")));
        }
        Ok(Self {
            listeners,
            routes,
            rules,
            leg: leg(&draft.leg)?,
            exit: Exit { proxy_protocol: draft.exit.proxy_protocol, keep_source: draft.exit.keep_source },
            limits: limits(&draft.limits)?,
            threads,
            metrics: draft.metrics.as_deref().map(|text| parsed("metrics", text)).transpose()?,
            status: match &draft.status {
                Some(path) => Some(PathBuf::from(path)).filter(|path| !path.as_os_str().is_empty()),
                None => status,
            },
        })
    }
}

/// Error in an entry of the configuration.
enum Wrong {
    /// A value is wrong, for this reason.
    Value(String),
    /// The relay's own key cannot be loaded.
    Identity(TrustError),
}

impl<T: Display> From<T> for Wrong {
    fn from(what: T) -> Self {
        Self::Value(what.to_string())
    }
}

/// Error for a wrong value: the entry at fault, and what is wrong with it.
fn value(place: impl Into<String>, what: impl Into<String>) -> ConfigError {
    ConfigError::Value { place: place.into(), what: what.into() }
}

/// Parses the value of a setting; the error names the setting `place`.
fn parsed<T: FromStr<Err: Display>>(place: &str, text: &str) -> Result<T, ConfigError> {
    text.parse().map_err(|error: T::Err| value(place, format!("{text:?}: {error}")))
}

/// Converts each draft in a list by `make`; errors name the entry by `what` and its number, from 1.
fn numbered<D, T>(what: &str, drafts: &[D], make: impl Fn(&D) -> Result<T, Wrong>) -> Result<Vec<T>, ConfigError> {
    (1..)
        .zip(drafts)
        .map(|(number, draft)| {
            make(draft).map_err(|wrong| match wrong {
                Wrong::Value(text) => value(format!("{what} {number}"), text),
                Wrong::Identity(error) => ConfigError::Identity(error),
            })
        })
        .collect()
}

/// The file of this relay's own key, if one is configured.
struct Keys<'a> {
    file: Option<&'a Path>,
}

impl Keys<'_> {
    /// Loads the relay's own key; an error if no file is configured.
    fn identity(&self) -> Result<Identity, Wrong> {
        let file = self.file.ok_or("keys need this relay's own: name its file with --identity")?;
        Identity::load(file).map_err(Wrong::Identity)
    }
}

/// Checks the draft of a listener, and loads its users or keys.
fn listener(draft: &ListenDraft, keys: &Keys<'_>) -> Result<Listener, Wrong> {
    let given = [&draft.forward, &draft.socks5, &draft.peer, &draft.transparent];
    let (Some(address), 1) = (given.into_iter().flatten().next(), given.into_iter().flatten().count()) else {
        return Err("exactly one of forward, socks5, peer and transparent, each with ADDR:PORT".into());
    };
    let misplaced = [
        ("to", draft.to.is_some() && draft.forward.is_none()),
        ("users", draft.users.is_some() && draft.socks5.is_none()),
        ("keys", !draft.keys.is_empty() && draft.peer.is_none()),
    ];
    if let Some((name, _)) = misplaced.into_iter().find(|(_, is)| *is) {
        return Err(format!("{name} is not for a listener of this kind").into());
    }
    let kind = if draft.forward.is_some() {
        let to = draft.to.as_deref().ok_or("a forward needs its destination: to = \"HOST:PORT\"")?;
        ListenerKind::Forward(to.parse()?)
    } else if draft.socks5.is_some() {
        let users = draft.users.as_deref().map(|file| Users::load(Path::new(file))).transpose()?;
        ListenerKind::Socks5(users.map(Arc::new))
    } else if draft.peer.is_some() {
        ListenerKind::Peer(server_tls(&draft.keys, keys)?)
    } else {
        ListenerKind::Transparent
    };
    Ok(Listener { address: listen_address(address)?, kind })
}

/// Parses `ADDR:PORT`; without an address it means all of this host's, of both families.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let whole = if text.starts_with(':') { format!("[::]{text}") } else { text.to_owned() };
    whole.parse().map_err(|_| format!("{text:?} is not ADDR:PORT, such as 127.0.0.1:1080, [::1]:1080 or :1080"))
}

/// TLS settings of a `peer` listener that admits relays with these keys; `None` without keys, for
/// legs in clear.
fn server_tls(keys: &[String], own: &Keys<'_>) -> Result<Option<Arc<rustls::ServerConfig>>, Wrong> {
    if keys.is_empty() {
        return Ok(None);
    }
    let accepted = keys.iter().map(|key| key.parse()).collect::<Result<Vec<PublicKey>, _>>()?;
    let mut tls = server_config(&own.identity()?, move |key| accepted.contains(key));
    Arc::make_mut(&mut tls).alpn_protocols = vec![ALPN.to_vec()];
    Ok(Some(tls))
}

/// Checks the draft of a route, and loads the relay's own key if its legs have TLS.
fn route(draft: &RouteDraft, keys: &Keys<'_>) -> Result<Route, Wrong> {
    let to = match draft.to.as_deref() {
        None | Some("default") => None,
        Some(prefix) => Some(Prefix::of_text(prefix)?),
    };
    if draft.via.is_empty() {
        return Err("via names no next hop: give a relay's HOST:PORT, or direct".into());
    }
    if draft.warm > MAX_WARM {
        return Err(format!("warm is at most {MAX_WARM}").into());
    }
    if draft.key.is_some() && draft.via.iter().all(|hop| hop == "direct") {
        return Err("key has no use: via names no relay's HOST:PORT".into());
    }
    let tls = match &draft.key {
        None => None,
        Some(key) => {
            let mut tls = client_config(&keys.identity()?, ServerPin::Exact(key.parse()?));
            Arc::make_mut(&mut tls).alpn_protocols = vec![ALPN.to_vec()];
            Some(tls)
        }
    };
    let hop = |text: &String| -> Result<Hop, Wrong> {
        if text == "direct" {
            return Ok(Hop::Direct);
        }
        let place: Destination = text.parse()?;
        Ok(Hop::Relay(Arc::new(NextRelay::new(place, tls.clone(), draft.warm))))
    };
    Ok(Route { to, via: draft.via.iter().map(hop).collect::<Result<_, _>>()? })
}

/// Checks the draft of an access rule.
fn rule(draft: &RuleDraft) -> Result<Rule, String> {
    let allow = match draft.action.as_str() {
        "allow" => true,
        "deny" => false,
        other => return Err(format!("action is allow or deny, not {other:?}")),
    };
    let listener = draft.listener.clone();
    if let Some(name) = &listener
        && !["forward", "socks5", "peer", "transparent"].contains(&name.as_str())
    {
        return Err(format!("listener is forward, socks5, peer or transparent, not {name:?}"));
    }
    let prefix =
        |text: &Option<String>| text.as_deref().map(Prefix::of_text).transpose().map_err(|error| error.to_string());
    let ports = draft.ports.as_deref().map(port_range).transpose()?;
    Ok(Rule { allow, listener, from: prefix(&draft.from)?, to: prefix(&draft.to)?, ports })
}

/// Parses a port, or a range `LO-HI`.
fn port_range(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    match (low.parse(), high.parse()) {
        (Ok(low), Ok(high)) if low <= high => Ok(low..=high),
        _ => Err(format!("{text:?} is not a port, or a range LO-HI")),
    }
}

/// Checks the settings of the legs between relays.
fn leg(draft: &LegDraft) -> Result<LegSettings, ConfigError> {
    let pacing: Option<Rate> = draft.rate.as_deref().map(|text| parsed("leg rate", text)).transpose()?;
    if pacing.is_some_and(|rate| rate.as_bytes_per_second() < 1000) {
        return Err(value("leg rate", "the least is 8kbit"));
    }
    let buffer: Option<ByteCount> = draft.buffer.as_deref().map(|text| parsed("leg buffer", text)).transpose()?;
    if buffer.is_some_and(|size| !(ByteCount::from_kib(4)..=ByteCount::from_mib(1024)).contains(&size)) {
        return Err(value("leg buffer", "from 4KiB to 1GiB"));
    }
    Ok(LegSettings { congestion: draft.congestion.clone().filter(|name| name != "auto"), pacing, buffer })
}

/// Checks the limits, and fills in the default of each that is absent.
fn limits(draft: &LimitsDraft) -> Result<Limits, ConfigError> {
    let default = Limits::default();
    let span = |name: &str, text: &Option<String>, default: Span| -> Result<Span, ConfigError> {
        let span = text.as_deref().map_or(Ok(default), |text| parsed(name, text))?;
        if span.as_millis() == 0 { Err(value(name, "1ms at least")) } else { Ok(span) }
    };
    let size = |name: &str, text: &Option<String>, default: ByteCount| -> Result<ByteCount, ConfigError> {
        let size = text.as_deref().map_or(Ok(default), |text| parsed(name, text))?;
        if size < ByteCount::from_mib(1) { Err(value(name, "1MiB at least")) } else { Ok(size) }
    };
    let limits = Limits {
        connections: draft.connections.unwrap_or(default.connections),
        per_client: draft.per_client.unwrap_or(default.per_client),
        memory: size("memory", &draft.memory, default.memory)?,
        memory_per_connection: size(
            "memory-per-connection",
            &draft.memory_per_connection,
            default.memory_per_connection,
        )?,
        greeting: span("greeting", &draft.greeting, default.greeting)?,
        connect: span("connect", &draft.connect, default.connect)?,
        idle: span("idle", &draft.idle, default.idle)?,
        drain: span("drain", &draft.drain, default.drain)?,
    };
    if limits.connections == 0 || limits.per_client == 0 {
        return Err(value("limits", "connections and per-client are 1 at least"));
    }
    Ok(limits)
}
