//! The command line as typed. Every value has the type that it stands for; what a combination means
//! is decided in [`crate::plan`]. Help, man pages and completions are made from here.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum, ValueHint};
use icdc_protocol::limits::MAX_STREAMS;
use icdc_protocol::message::Preserve;
use icdc_units::{ByteCount, Span};

use crate::values::{
    Ceiling, Congestion, DaemonAddress, PortRange, ceiling, comment, congestion, daemon_address, listen_address,
    port_range, preserve, ring,
};

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "icdc",
    version,
    about = "Disk-to-disk copy across long fat networks over one paced, encrypted, verified TCP stream",
    long_about = "icdc moves data disk to disk across the world at the rate that the path and the disks can really carry, \
                  over one paced, encrypted, verified TCP stream, without tuning by hand.\n\n\
                  Sizes are written 256MiB or 4MB; rates are bits (900mbit, 10gbit) or bytes with a capital B (1.2GB/s, \
                  100MiB/s); times are 25us, 300ms, 10min. RUST_LOG=debug shows what happens inside, on standard error.",
    after_long_help = concat!(
        "Examples:\n",
        "  icdc copy data.bin results/ user@far.example.org:/srv/in/     push by ssh\n",
        "  icdc copy far.example.org:run7/ run7                          pull by ssh\n",
        "  icdc keygen; icdc copy run7 icdc://dtn.example.org/in/        push to a daemon\n",
    ),
    arg_required_else_help = true,
    disable_help_subcommand = true,
    max_term_width = 110
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Copy(Box<CopyArguments>),
    Serve(ServeArguments),
    Keygen(KeygenArguments),
    Lab(Box<crate::lab::arguments::LabArguments>),
    /// What ssh starts: one transfer over standard input and output
    #[command(hide = true)]
    FarEnd,
    /// Write man pages or shell completions
    #[command(hide = true)]
    Generate(GenerateArguments),
}

#[derive(Args, Debug)]
#[command(
    about = "Copy files and directories, from and to this host, ssh hosts and daemons",
    long_about = "Copy files and directories.\n\n\
        SRC and DST are PATH, [USER@]HOST:PATH (by ssh) or icdc://HOST[:PORT]/PATH (by a daemon). All sources are on one \
        host. A name with a colon is local if a slash comes before the colon: ./a:b.\n\n\
        SRC/ with a trailing slash means what is in the directory, SRC the directory itself. Into a DST that exists as a \
        directory, or ends in a slash, sources are put under their own names; one source takes the name DST otherwise.\n\n\
        Files appear under their names only when they are complete and durable. A copy that was interrupted goes on \
        where it stopped when the same command is run again.",
    after_long_help = concat!(
        "Output:\n",
        "  Standard output gets a line that sums the run up, or with --json one event per line, the\n",
        "  last of type summary. Everything else, the progress bar included, is on standard error.\n\n",
        "  The first interrupt (Ctrl-C, SIGTERM) stops cleanly, a second one at once.\n\n",
        "Exit codes:\n",
        "  0  all done and verified\n",
        "  1  done, but some items failed; each is named on standard error\n",
        "  2  the command line is not understood or makes no sense\n",
        "  3  could not connect, or was not let in\n",
        "  4  interrupted; run the same command again to go on from there\n\n",
        "Examples:\n",
        "  icdc copy data.bin user@far.example.org:/srv/in/\n",
        "  icdc copy --rate 900mbit --report run7.html far.example.org:run7/ run7\n",
        "  icdc copy --exclude '*.tmp' --update run7 icdc://dtn.example.org/in/\n",
        "  icdc copy --json a.example.org:run7 b.example.org:/srv/ | tail -n 1\n",
        "  icdc copy --ssh 'ssh -p 2222 -i key' --send-self --port 5000-5010 run7 far.example.org:\n",
    )
)]
pub(crate) struct CopyArguments {
    /// What to copy
    #[arg(required = true, value_name = "SRC", value_hint = ValueHint::AnyPath)]
    pub(crate) sources: Vec<OsString>,

    /// Where to
    #[arg(required = true, value_name = "DST", value_hint = ValueHint::AnyPath)]
    pub(crate) destination: OsString,

    /// Command that reaches a host; called as CMD HOST COMMAND…
    #[arg(long, value_name = "CMD", default_value = "ssh", help_heading = "Connection", value_hint = ValueHint::CommandString)]
    pub(crate) ssh: String,

    /// The icdc program at the far side
    #[arg(long, value_name = "PATH", default_value = "icdc", help_heading = "Connection")]
    pub(crate) remote_icdc: String,

    /// Send this program to the far side and run it there, for hosts that do not have it
    #[arg(long, conflicts_with = "remote_icdc", help_heading = "Connection")]
    pub(crate) send_self: bool,

    /// Data port at the listening side, one or a range [default: the system chooses]
    #[arg(long, value_name = "LO-HI", value_parser = port_range, help_heading = "Connection")]
    pub(crate) port: Option<PortRange>,

    /// Use IPv4 only
    #[arg(short = '4', conflicts_with = "ipv6", help_heading = "Connection")]
    pub(crate) ipv4: bool,

    /// Use IPv6 only
    #[arg(short = '6', help_heading = "Connection")]
    pub(crate) ipv6: bool,

    /// Identity to show to daemons [default: ~/.config/icdc/identity]
    #[arg(long, value_name = "FILE", help_heading = "Connection", value_hint = ValueHint::FilePath)]
    pub(crate) identity: Option<PathBuf>,

    /// Keys of known daemons [default: ~/.config/icdc/known_hosts]
    #[arg(long, value_name = "FILE", help_heading = "Connection", value_hint = ValueHint::FilePath)]
    pub(crate) known_hosts: Option<PathBuf>,

    /// For how long to try to connect again after a cut, counted from the last progress
    #[arg(long, value_name = "TIME", default_value = "10min", help_heading = "Connection")]
    pub(crate) retry_for: Span,

    /// Ceiling of the sending rate, such as 900mbit or 1.2GB/s
    #[arg(long, value_name = "RATE|auto", default_value = "auto", value_parser = ceiling, help_heading = "Speed")]
    pub(crate) rate: Ceiling,

    /// TCP congestion control of the sender, by its kernel name
    #[arg(long, value_name = "NAME|auto", default_value = "auto", value_parser = congestion, help_heading = "Speed")]
    pub(crate) cc: Congestion,

    /// Number of TCP connections
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=i64::from(MAX_STREAMS)), help_heading = "Speed")]
    pub(crate) streams: u8,

    /// Memory between network and disk at the receiver
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = ring, help_heading = "Speed")]
    pub(crate) ring: ByteCount,

    /// Read every file back from the medium before it is published
    #[arg(long, help_heading = "What to copy and how")]
    pub(crate) verify: bool,

    /// Begin anew instead of using what an interrupted run left
    #[arg(long, help_heading = "What to copy and how")]
    pub(crate) no_resume: bool,

    /// Skip files of equal size and modification time
    #[arg(long, help_heading = "What to copy and how")]
    pub(crate) update: bool,

    /// Only tell what would be sent
    #[arg(long, conflicts_with = "report", help_heading = "What to copy and how")]
    pub(crate) dry_run: bool,

    /// Leave out names (*.tmp) or paths (build/*.o) that match; may be given several times
    #[arg(long, value_name = "GLOB", help_heading = "What to copy and how")]
    pub(crate) exclude: Vec<String>,

    /// What to carry besides the data: mode, times, links, owner, xattr, sparse; or all, or none
    #[arg(long, value_name = "LIST", default_value = "mode,times,links,sparse", value_parser = preserve, help_heading = "What to copy and how")]
    pub(crate) preserve: Preserve,

    /// One JSON event per line on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    /// Write a report with plots when the run ends
    #[arg(long, value_name = "FILE.html", help_heading = "Output", value_hint = ValueHint::FilePath)]
    pub(crate) report: Option<PathBuf>,

    /// Progress on standard error; auto: if that is a terminal
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    pub(crate) progress: ProgressMode,

    /// Name every item and connection on standard error
    #[arg(short, long, action = ArgAction::SetTrue, help_heading = "Output")]
    pub(crate) verbose: bool,
}

#[derive(Args, Debug)]
#[command(
    about = "Run a daemon that gives and takes files by key",
    long_about = "Run a daemon. Clients come with icdc://HOST[:PORT]/PATH; who may do what beneath which directory stands in the \
        file of authorized keys, one line per key:\n\n\
        \x20   root=/srv/data,rights=rw icdc-ed25519 BASE64 someone@example.org\n\n\
        Give the daemon's own public key to its users; they remember it with `icdc keygen --trust`. The daemon stops \
        cleanly at SIGTERM or SIGINT.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  stopped by a signal\n",
        "  1  could not listen, or could not read its keys\n",
        "  2  the command line is not understood\n\n",
        "Examples:\n",
        "  icdc keygen && icdc serve\n",
        "  icdc serve --listen 192.0.2.7:2633 --root /srv/data --identity /etc/icdc/identity\n",
    )
)]
pub(crate) struct ServeArguments {
    /// Where to listen
    #[arg(long, value_name = "ADDR:PORT", default_value = "[::]:2633", value_parser = listen_address)]
    pub(crate) listen: SocketAddr,

    /// Directory beneath which all roots of keys must lie [default: each key's own root alone]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) root: Option<PathBuf>,

    /// Who may do what [default: ~/.config/icdc/authorized_keys]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) authorized_keys: Option<PathBuf>,

    /// Identity of the daemon [default: ~/.config/icdc/identity]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) identity: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(
    about = "Make an identity, or remember the key of a daemon",
    long_about = "Make an identity: an Ed25519 key pair in `identity` (private, mode 0600) and `identity.pub`. Users of daemons and \
        daemons each have one. An existing identity is never overwritten.\n\n\
        With --trust, remember the public key of a daemon instead, so that `icdc copy` knows it.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  done\n",
        "  1  the identity exists already, the host is known by another key, or a file could not be written\n",
        "  2  the command line is not understood\n\n",
        "Examples:\n",
        "  icdc keygen\n",
        "  icdc keygen --identity /etc/icdc/identity --comment dtn.example.org\n",
        "  icdc keygen --trust dtn.example.org 'icdc-ed25519 BASE64'\n",
        "  icdc keygen --trust '[2001:db8::1]:4000' 'icdc-ed25519 BASE64'\n",
    )
)]
pub(crate) struct KeygenArguments {
    /// Where to write the private key; the public one goes beside it [default: ~/.config/icdc/identity]
    #[arg(long, value_name = "FILE", conflicts_with = "trust", value_hint = ValueHint::FilePath)]
    pub(crate) identity: Option<PathBuf>,

    /// Words to recognise the key by.
    #[arg(help = "Words to recognise the key by [default: USER@HOST]", long, value_name = "TEXT", conflicts_with = "trust", value_parser = comment)]
    pub(crate) comment: Option<String>,

    /// Remember that this daemon has the public key KEY
    #[arg(long, value_name = "HOST[:PORT]", requires = "key", value_parser = daemon_address)]
    pub(crate) trust: Option<DaemonAddress>,

    /// Where to remember it [default: ~/.config/icdc/known_hosts]
    #[arg(long, value_name = "FILE", requires = "trust", value_hint = ValueHint::FilePath)]
    pub(crate) known_hosts: Option<PathBuf>,

    /// The daemon's public key as its owner gives it.
    #[arg(help = "The daemon's public key: 'icdc-ed25519 BASE64 [COMMENT]'", value_name = "KEY", requires = "trust")]
    pub(crate) key: Vec<String>,
}

#[derive(Args, Debug)]
#[command(
    after_long_help = "Examples:\n  icdc generate man /usr/local/share/man/man1\n  icdc generate completions .\n"
)]
pub(crate) struct GenerateArguments {
    /// What to write
    pub(crate) what: Generated,
    /// An existing directory to write it to
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Generated {
    /// Man pages, one per subcommand
    Man,
    /// Completions for bash, zsh and fish
    Completions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressMode {
    /// If standard error is a terminal
    Auto,
    /// Not at all
    Never,
    /// As a bar on a terminal, else as a line each second
    Always,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn preserve_defaults_to_what_the_protocol_defaults_to() {
        let default = Arguments::try_parse_from(["icdc", "copy", "a", "b"]).unwrap();
        let Command::Copy(copy) = default.command else { panic!("copy was asked for") };
        assert_eq!(copy.preserve, Preserve::default());
    }
}
