//! A configuration as typed: a TOML file, with the options of the command line added.

use serde::Deserialize;

/// The whole file. Quantities are text with units, as on command lines.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Draft {
    /// Listeners.
    #[serde(default)]
    pub listen: Vec<ListenDraft>,
    /// Routes.
    #[serde(default)]
    pub route: Vec<RouteDraft>,
    /// Rules, in order.
    #[serde(default)]
    pub rule: Vec<RuleDraft>,
    /// Legs between relays.
    #[serde(default)]
    pub leg: LegDraft,
    /// Legs to destinations.
    #[serde(default)]
    pub exit: ExitDraft,
    /// Limits.
    #[serde(default)]
    pub limits: LimitsDraft,
    /// File of this relay's key, for legs with TLS.
    pub identity: Option<String>,
    /// Worker threads.
    pub threads: Option<usize>,
    /// `ADDR:PORT` for Prometheus.
    pub metrics: Option<String>,
    /// Path of the socket for `icdc relay status`; empty for none.
    pub status: Option<String>,
}

/// A listener: exactly one of the four kinds, with its settings.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ListenDraft {
    /// `ADDR:PORT` whose clients all have one destination.
    pub forward: Option<String>,
    /// Destination of its clients, `HOST:PORT`.
    pub to: Option<String>,
    /// `ADDR:PORT` for SOCKS 5.
    pub socks5: Option<String>,
    /// File with lines `USER:PASSWORD`.
    pub users: Option<String>,
    /// `ADDR:PORT` for other relays.
    pub peer: Option<String>,
    /// Public keys of relays that are admitted; the legs then have TLS.
    #[serde(default)]
    pub keys: Vec<String>,
    /// `ADDR:PORT` for TPROXY.
    pub transparent: Option<String>,
}

/// A route.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RouteDraft {
    /// Prefix of destinations; all without.
    pub to: Option<String>,
    /// `HOST:PORT` of relays, or `direct`; best first.
    #[serde(default)]
    pub via: Vec<String>,
    /// Public key of these relays; the legs then have TLS.
    pub key: Option<String>,
    /// Connections to keep open to each relay.
    #[serde(default)]
    pub warm: usize,
}

/// A rule.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RuleDraft {
    /// `allow` or `deny`.
    pub action: String,
    /// Kind of listener.
    pub listener: Option<String>,
    /// Prefix of clients.
    pub from: Option<String>,
    /// Prefix of destinations.
    pub to: Option<String>,
    /// Port of destinations, one or a range `LO-HI`.
    pub ports: Option<String>,
}

/// Legs between relays.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LegDraft {
    /// Congestion control, or `auto`.
    pub congestion: Option<String>,
    /// Ceiling of each connection's rate.
    pub rate: Option<String>,
    /// Size of the buffers.
    pub buffer: Option<String>,
}

/// Legs to destinations.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ExitDraft {
    /// Send the PROXY protocol, version 2.
    #[serde(default)]
    pub proxy_protocol: bool,
    /// Connect from the client's address.
    #[serde(default)]
    pub keep_source: bool,
}

/// Limits.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LimitsDraft {
    /// Connections in all.
    pub connections: Option<usize>,
    /// Connections of one client address.
    pub per_client: Option<usize>,
    /// Bytes buffered in the relay.
    pub memory: Option<String>,
    /// Bytes buffered of one connection.
    pub memory_per_connection: Option<String>,
    /// Time for a client to make its request.
    pub greeting: Option<String>,
    /// Time to reach a destination.
    pub connect: Option<String>,
    /// Time without data until a connection is closed.
    pub idle: Option<String>,
    /// Time for connections to end when the relay stops.
    pub drain: Option<String>,
}

impl Draft {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// Where and what is wrong, over several lines.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())
    }
}
