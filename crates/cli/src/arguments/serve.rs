//! `icdc serve` as typed.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use icdc_daemon::{AuditPlace, WhenFull};
use icdc_schedule::{RateSchedule, limit_schedule};
use icdc_units::ByteCount;

use super::ReportingArguments;
use crate::values::{amount, listen_address};

#[derive(Args, Debug)]
#[command(
    about = "Run a daemon that sends and receives files for authorized keys",
    long_about = "Run a daemon. Clients connect with icdc://HOST[:PORT]/PATH. The file of authorized keys has one line per key; it \
        says which directory the key can access and what it may do there:\n\n\
        \x20   root=/srv/data,rights=rw,user=data icdc-ed25519 BASE64 someone@example.org\n\n\
        The key may also have OpenSSH's form (ssh-ed25519 BASE64). root= is the only directory that the key can access. rights= is \
        r, w, rw or drop-box (create new files, and nothing else); the default is r. user= is the system user that the sessions of \
        the key run as; if the daemon runs as root and the key may write, it is required. owner=keep lets the client set owners \
        and set-id bits. expires=2027-01-31 and from=\"10.0.0.0/8\" say until when and from which addresses the key is accepted. \
        max-rate=1gbit, max-sessions=4, bytes-per-day=1TB and quota=10TB limit its use, max-rate=\"mon-fri 08:00-18:00=200mbit, \
        else=1gbit\" by the time. The daemon watches the file: if a line is \
        removed or changed, or expires, the running transfers of its key end within a second. A transfer whose next data would \
        exceed bytes-per-day or quota fails, and its message names the limit.\n\n\
        Give the daemon's public key to its users. They add it with `icdc keygen --trust`.\n\n\
        Each session is a process of its own, which runs as the user of its key. The daemon itself gives up the rights of root that \
        no key needs.\n\n\
        Under systemd, the daemon reports that it is ready and alive (Type=notify, WatchdogSec=), and how many sessions it has. It \
        uses the sockets that systemd passes to it, if any.",
    after_long_help = concat!(
        "Signals:\n",
        "  SIGTERM, SIGINT  stop: interrupt running transfers so that they can be resumed\n",
        "  SIGHUP           reload: read identity, authorized keys and max-rate again, reopen the audit log\n",
        "  SIGUSR1          drain: accept no more connections, and end with the last session\n",
        "  SIGUSR2          upgrade: start the program file as it is now, hand the listening sockets over,\n",
        "                   and end with the last session\n\n",
        "Exit codes:\n",
        "  0  stopped by a signal\n",
        "  1  could not listen, or could not read its keys\n",
        "  2  the command line is invalid\n\n",
        "Examples:\n",
        "  icdc serve                 # with ~/.config/icdc/identity (icdc keygen) and authorized_keys\n",
        "  icdc serve --listen 192.0.2.7:2633 --root /srv/data --identity /etc/icdc/identity\n",
    )
)]
pub(crate) struct ServeArguments {
    /// Address and port to listen on
    #[arg(long, value_name = "ADDR:PORT", default_value = "[::]:2633", value_parser = listen_address)]
    pub(crate) listen: SocketAddr,

    /// Refuse keys whose root= is not beneath this directory [default: allow any root=]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) root: Option<PathBuf>,

    /// File of authorized keys [default: ~/.config/icdc/authorized_keys]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) authorized_keys: Option<PathBuf>,

    /// Private key of the daemon [default: ~/.config/icdc/identity]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) identity: Option<PathBuf>,

    /// Limit of the rate of all sessions together, both directions counted, such as 10gbit, or limits over time, as in
    /// 'mon-fri 08:00-18:00=200mbit, else=2gbit'; 0 lets nothing through at that time [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = limit_schedule)]
    pub(crate) max_rate: Option<RateSchedule>,

    /// Congestion control that clients may ask for by name (`--cc`), besides what the kernel allows any user. icdc's
    /// own algorithms are then loaded for them as eBPF
    #[arg(long, value_name = "NAME[,NAME]", value_delimiter = ',')]
    pub(crate) allow_cc: Vec<String>,

    /// Write an audit log to this file, one JSON object per line for each event; or to systemd's journal
    #[arg(long, value_name = "FILE|journal", value_hint = ValueHint::FilePath, value_parser = audit_place)]
    pub(crate) audit: Option<AuditPlace>,

    /// Rotate the audit log at this size: FILE is renamed to FILE.1
    #[arg(long, value_name = "SIZE", default_value = "100MB", value_parser = amount, requires = "audit")]
    pub(crate) audit_size: ByteCount,

    /// Number of rotated audit logs to keep
    #[arg(long, value_name = "N", default_value_t = 10, requires = "audit")]
    pub(crate) audit_keep: u32,

    /// While the audit log cannot be written: refuse new sessions, or continue without it
    #[arg(long, value_name = "refuse|continue", default_value = "refuse", value_parser = when_full, requires = "audit")]
    pub(crate) audit_full: WhenFull,

    /// Serve metrics for Prometheus at http://ADDR:PORT/metrics
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_address)]
    pub(crate) metrics: Option<SocketAddr>,

    #[command(flatten)]
    pub(crate) reporting: ReportingArguments,

    /// Take over the listening sockets of the daemon that starts this one
    #[arg(long, hide = true)]
    pub(crate) successor: bool,
}

/// Parses `--audit`: the journal of systemd, or a file, whose limits other options set.
fn audit_place(text: &str) -> Result<AuditPlace, String> {
    match text {
        "" => Err("name a file, or say journal".to_owned()),
        "journal" => Ok(AuditPlace::Journal),
        path => Ok(AuditPlace::File { path: path.into(), longest: ByteCount::MAX, kept: 0 }),
    }
}

/// Parses `--audit-full`.
fn when_full(text: &str) -> Result<WhenFull, String> {
    match text {
        "refuse" => Ok(WhenFull::Refuse),
        "continue" => Ok(WhenFull::GoOn),
        _ => Err("expected refuse or continue".to_owned()),
    }
}
