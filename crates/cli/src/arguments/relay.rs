//! `icdc relay` as typed.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use icdc_trust::PublicKey;
use icdc_units::{ByteCount, Prefix, Rate, Span};

#[derive(Args, Debug)]
#[command(
    about = "Split TCP at a relay, for hosts that cannot be tuned",
    long_about = "Run a relay. It accepts plain TCP connections of hosts that cannot be tuned, and carries them over the long path to another \
        relay, on a connection that is tuned for that path. Both hosts keep their algorithm and their small buffers, because the round trip \
        to their relay is short.\n\n\
        Clients reach the relay through a forwarded port (--forward), SOCKS 5 (--socks5), a transparent redirect (--transparent), or \
        another relay (--peer). Routes (--route) choose the next hop by the longest prefix of the destination: another \
        relay's --peer, or the destination itself.\n\n\
        All settings can be in a file (--config); options add to it. SIGHUP reads the file again. SIGTERM stops the relay: it \
        accepts no more connections, and open ones have the --drain time to end. A listener uses a socket that systemd opened for its \
        address (LISTEN_FDS).\n\n\
        Without rules, a forwarded port serves everybody. SOCKS without users and peers without keys serve only this host, and SOCKS \
        reaches only public addresses. `--allow from=10.0.0.0/8` admits these clients and this host, and no others; \
        `--allow to=10.0.0.0/8` lets SOCKS clients reach these addresses.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  stopped by a signal, or --check found nothing wrong\n",
        "  1  the relay could not start\n",
        "  2  the command line or the configuration is invalid\n\n",
        "Examples:\n",
        "  # near the destination:\n",
        "  icdc relay --peer :2634 --allow from=192.0.2.1\n",
        "  # near the clients:\n",
        "  icdc relay --forward :5432=db.example.org:5432 --route default=192.0.2.2:2634\n",
        "  icdc relay --socks5 127.0.0.1:1080 --route default=relay.example.org:2634,direct\n",
        "  icdc relay --config /etc/icdc/relay.toml --check\n",
        "  icdc relay status\n",
    ),
    args_conflicts_with_subcommands = true
)]
pub(crate) struct RelayArguments {
    #[command(subcommand)]
    pub(crate) command: Option<RelayCommand>,

    #[command(flatten)]
    pub(crate) run: Box<RunArguments>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RelayCommand {
    Status(StatusArguments),
    Rules(RulesArguments),
}

/// Options for running a relay.
#[derive(Args, Debug)]
pub(crate) struct RunArguments {
    /// Read the configuration from this file; options add to it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,

    /// Only check the configuration
    #[arg(long)]
    pub(crate) check: bool,

    /// Forward connections that arrive at ADDR:PORT to HOST:PORT; may be given several times
    #[arg(long, value_name = "ADDR:PORT=HOST:PORT", value_parser = pair, help_heading = "Listeners")]
    pub(crate) forward: Vec<(String, String)>,

    /// Serve SOCKS 5 clients at this address
    #[arg(long, value_name = "ADDR:PORT", help_heading = "Listeners")]
    pub(crate) socks5: Vec<String>,

    /// Require SOCKS clients to log in; the file has one USER:PASSWORD per line
    #[arg(long, value_name = "FILE", requires = "socks5", help_heading = "Listeners", value_hint = ValueHint::FilePath)]
    pub(crate) socks5_users: Option<String>,

    /// Serve other relays at this address
    #[arg(long, value_name = "ADDR:PORT", help_heading = "Listeners")]
    pub(crate) peer: Vec<String>,

    /// Serve connections that `icdc relay rules` redirects to this address (TPROXY)
    #[arg(long, value_name = "ADDR:PORT", help_heading = "Listeners")]
    pub(crate) transparent: Vec<String>,

    /// Next hops for destinations of a prefix: other relays, or direct. If one fails, the next is
    /// tried
    #[arg(long, value_name = "PREFIX|default=HOST:PORT|direct[,…]", value_parser = pair, help_heading = "Routes")]
    pub(crate) route: Vec<(String, String)>,

    /// Number of connections to keep open to each next relay, which saves clients the handshakes
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Routes")]
    pub(crate) warm: usize,

    /// Public key of another relay: connections of --peer and --route then use TLS, and other keys
    /// are refused
    #[arg(long, value_name = "KEY", help_heading = "Routes")]
    pub(crate) peer_key: Vec<PublicKey>,

    /// This relay's own key [default: ~/.config/icdc/identity]
    #[arg(long, value_name = "FILE", help_heading = "Routes", value_hint = ValueHint::FilePath)]
    pub(crate) identity: Option<PathBuf>,

    /// Congestion control between relays, as with `icdc copy --cc`
    #[arg(long, value_name = "NAME", help_heading = "Legs")]
    pub(crate) cc: Option<String>,

    /// Rate limit of each connection between relays
    #[arg(long, value_name = "RATE", help_heading = "Legs")]
    pub(crate) rate: Option<Rate>,

    /// Size of the socket buffers between relays [default: they grow with the path]
    #[arg(long, value_name = "SIZE", help_heading = "Legs")]
    pub(crate) buffer: Option<ByteCount>,

    /// Send destinations the client's address by the PROXY protocol, version 2
    #[arg(long, help_heading = "Legs")]
    pub(crate) proxy_protocol: bool,

    /// Connect to destinations from the client's address instead of the relay's
    #[arg(long, help_heading = "Legs")]
    pub(crate) keep_source: bool,

    /// Allow matching connections. Conditions are listener=KIND, from=PREFIX, to=PREFIX and
    /// port=LO-HI. The first rule that matches decides
    #[arg(long, value_name = "CONDITION[,…]", help_heading = "Rules")]
    pub(crate) allow: Vec<String>,

    /// Deny matching connections; these rules are evaluated before those of --allow
    #[arg(long, value_name = "CONDITION[,…]", help_heading = "Rules")]
    pub(crate) deny: Vec<String>,

    /// Most connections [default: 16384]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) connections: Option<usize>,

    /// Most connections of one client address [default: 1024]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) per_client: Option<usize>,

    /// Most bytes buffered in the relay and its sockets, in total [default: 4GiB]
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    pub(crate) memory: Option<ByteCount>,

    /// Most bytes buffered for one connection, and largest socket buffer [default: 256MiB]
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    pub(crate) memory_per_connection: Option<ByteCount>,

    /// Time for a client to make its request [default: 10s]
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    pub(crate) greeting: Option<Span>,

    /// Time to reach a destination [default: 20s]
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    pub(crate) connect: Option<Span>,

    /// Time without data in either direction until a connection is closed [default: 1h]
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    pub(crate) idle: Option<Span>,

    /// Time for open connections to end when the relay stops [default: 30s]
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    pub(crate) drain: Option<Span>,

    /// Threads that move data [default: one per processor]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) threads: Option<usize>,

    /// Serve Prometheus metrics at this address
    #[arg(long, value_name = "ADDR:PORT", help_heading = "Monitoring")]
    pub(crate) metrics: Option<String>,

    #[command(flatten)]
    pub(crate) socket: StatusSocket,
}

/// Option that names the socket by which a running relay gives its status.
#[derive(Args, Debug)]
pub(crate) struct StatusSocket {
    /// Socket of `icdc relay status` [default: /run/icdc-relay.sock, or in $XDG_RUNTIME_DIR]
    #[arg(long, value_name = "PATH", help_heading = "Monitoring", value_hint = ValueHint::FilePath)]
    pub(crate) status_socket: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(
    about = "Print the status of a running relay",
    long_about = "Print the status of the relay on this host: its listeners, totals since its start, and every connection with both legs: \
        rate, round-trip time, congestion window, queue, retransmissions, and the leg that limits.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  done\n",
        "  1  no relay answers\n",
        "  2  the command line is invalid\n\n",
        "Examples:\n",
        "  icdc relay status\n",
        "  icdc relay status --json | jq '.connections[] | select(.up.limited_by == \"far\")'\n",
    )
)]
pub(crate) struct StatusArguments {
    /// Print one object
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) socket: StatusSocket,
}

#[derive(Args, Debug)]
#[command(
    about = "Print, apply or remove the rules that redirect connections to a transparent listener",
    long_about = "Print, apply or remove nftables and routing rules that redirect TCP connections routed through this host to the relay's \
        --transparent listener (TPROXY), for IPv4 and IPv6. Connections to this host itself are not redirected.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  done\n",
        "  1  the command failed\n",
        "  2  the command line is invalid\n\n",
        "Examples:\n",
        "  icdc relay rules print --listener 2635 --port 80,443\n",
        "  icdc relay rules apply --listener 2635 --from 10.1.0.0/16 --interface eth1\n",
        "  icdc relay rules remove\n",
    )
)]
pub(crate) struct RulesArguments {
    #[command(subcommand)]
    pub(crate) command: RulesCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// Print a shell script that applies the rules
    #[command(after_long_help = "Examples:\n  icdc relay rules print --listener 2635 --port 80,443\n")]
    Print(SteeringArguments),
    /// Apply the rules, in place of earlier ones; needs root
    #[command(
        after_long_help = "Examples:\n  icdc relay rules apply --listener 2635 --from 10.1.0.0/16 --interface eth1\n"
    )]
    Apply(SteeringArguments),
    /// Remove the rules; needs root
    #[command(after_long_help = "Examples:\n  icdc relay rules remove\n")]
    Remove(MarkArguments),
}

/// Options of the rules that redirect connections to a transparent listener.
#[derive(Args, Debug)]
pub(crate) struct SteeringArguments {
    /// Port of the transparent listener
    #[arg(long, value_name = "PORT")]
    pub(crate) listener: u16,

    /// Destination ports to redirect [default: all]
    #[arg(long, value_name = "PORT[,PORT...]", value_delimiter = ',')]
    pub(crate) port: Vec<u16>,

    /// Prefixes of clients [default: all]
    #[arg(long, value_name = "PREFIX[,PREFIX...]", value_delimiter = ',', value_parser = crate::values::prefix)]
    pub(crate) from: Vec<Prefix>,

    /// Device on which clients' packets arrive [default: any]
    #[arg(long, value_name = "NAME", value_parser = device)]
    pub(crate) interface: Option<String>,

    #[command(flatten)]
    pub(crate) mark: MarkArguments,
}

/// Options that name the firewall mark and the routing table of redirected packets.
#[derive(Args, Debug)]
pub(crate) struct MarkArguments {
    /// Firewall mark for the redirected packets
    #[arg(long, value_name = "NUMBER", default_value_t = 7388)]
    pub(crate) mark: u32,

    /// Routing table for the redirected packets
    #[arg(long, value_name = "NUMBER", default_value_t = 7388)]
    pub(crate) table: u32,
}

/// Parses `A=B` into both parts.
fn pair(text: &str) -> Result<(String, String), String> {
    let (front, back) = text.split_once('=').ok_or("expected two parts with = between")?;
    Ok((front.to_owned(), back.to_owned()))
}

/// Parses the name of a network device as the kernel allows it, so that it can stand in a rule.
fn device(text: &str) -> Result<String, String> {
    let proper = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'@');
    if text.is_empty() || text.len() > 15 || !text.bytes().all(proper) {
        return Err("a device has up to 15 letters, digits, -, _, . and @".to_owned());
    }
    Ok(text.to_owned())
}
