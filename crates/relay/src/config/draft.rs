//! A configuration as typed: a TOML file, with the options of the command line added.

use serde::Deserialize;

/// A relay's configuration as typed and not checked yet: the whole file, with the options
/// of the command line added. Rates, sizes and times are text with units, as on command
/// lines.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Draft {
    /// Listeners (`[[listen]]`).
    #[serde(default)]
    pub listen: Vec<ListenDraft>,
    /// Routes (`[[route]]`).
    #[serde(default)]
    pub route: Vec<RouteDraft>,
    /// Access rules in order (`[[rule]]`).
    #[serde(default)]
    pub rule: Vec<RuleDraft>,
    /// Settings of the legs between relays (`[leg]`).
    #[serde(default)]
    pub leg: LegDraft,
    /// Settings of the legs to destinations (`[exit]`).
    #[serde(default)]
    pub exit: ExitDraft,
    /// Limits of connections, memory and time (`[limits]`).
    #[serde(default)]
    pub limits: LimitsDraft,
    /// File of this relay's key, for legs with TLS; the file of the command's default if absent.
    pub identity: Option<String>,
    /// Number of worker threads; one per available processor if absent.
    pub threads: Option<usize>,
    /// Address `ADDR:PORT` at which Prometheus fetches the metrics; none if absent.
    pub metrics: Option<String>,
    /// Path of the socket for `icdc relay status`; empty for none, the default one if absent.
    pub status: Option<String>,
}

/// A listener: exactly one of the four kinds, with its settings.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ListenDraft {
    /// `ADDR:PORT` whose clients all have one destination.
    pub forward: Option<String>,
    /// Destination `HOST:PORT` of all clients of a forwarding listener.
    pub to: Option<String>,
    /// Address `ADDR:PORT` of a SOCKS 5 listener.
    pub socks5: Option<String>,
    /// File of the SOCKS users, with lines `USER:PASSWORD`.
    pub users: Option<String>,
    /// Address `ADDR:PORT` of a listener for other relays.
    pub peer: Option<String>,
    /// Public keys of relays that are admitted; the legs then have TLS.
    #[serde(default)]
    pub keys: Vec<String>,
    /// Address `ADDR:PORT` of a transparent listener (TPROXY).
    pub transparent: Option<String>,
}

/// A route as text: for which destinations it is, and its next hops.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RouteDraft {
    /// Address prefix of the route's destinations; all if absent or `default`.
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

/// An access rule as text; a condition that is absent matches everything.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RuleDraft {
    /// Action of the rule on a connection it matches: `allow` or `deny`.
    pub action: String,
    /// Kind of listener that the rule is for.
    pub listener: Option<String>,
    /// Address prefix of the clients that the rule is for.
    pub from: Option<String>,
    /// Address prefix of the destinations that the rule is for.
    pub to: Option<String>,
    /// Port of destinations, one or a range `LO-HI`.
    pub ports: Option<String>,
}

/// Settings of the legs between relays, as text; an absent one means `auto`, no ceiling, and
/// buffers that grow.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LegDraft {
    /// Congestion control of these legs by name, or `auto`.
    pub congestion: Option<String>,
    /// Ceiling of the rate of each connection.
    pub rate: Option<String>,
    /// Size of the socket buffers.
    pub buffer: Option<String>,
}

/// Settings of the legs to destinations as the configuration file has them; an absent one is false.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ExitDraft {
    /// Whether to send the header of the PROXY protocol, version 2, before the data.
    #[serde(default)]
    pub proxy_protocol: bool,
    /// Whether to connect to the destination from the client's own address.
    #[serde(default)]
    pub keep_source: bool,
}

/// The relay's limits as the configuration file has them; an absent one has its default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LimitsDraft {
    /// Greatest number of open connections in all.
    pub connections: Option<usize>,
    /// Greatest number of open connections of one client address.
    pub per_client: Option<usize>,
    /// Most bytes that the relay buffers in all.
    pub memory: Option<String>,
    /// Most bytes that the relay buffers for one connection.
    pub memory_per_connection: Option<String>,
    /// Time limit for a client to make its request.
    pub greeting: Option<String>,
    /// Time limit for reaching a destination.
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
    /// The text is no valid configuration: where and what is wrong, over several lines.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())
    }
}
