//! `icdc measure` as typed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use icdc_protocol::limits::MAX_STREAMS;
use icdc_units::{ByteCount, Span};

use super::ConnectionArguments;
use crate::values::{Ceiling, Congestion, amount, ceiling, congestion, seconds, window};

#[derive(Args, Debug)]
#[command(
    about = "Measure what TCP carries between two hosts, from memory to memory",
    long_about = "Measure what TCP carries between this host and another one, from memory to memory: no disk, no encryption, \
        only zeros that the receiver counts.\n\n\
        TARGET is [USER@]HOST, where ssh starts icdc, or icdc://HOST[:PORT], a daemon that knows this user's key. Control \
        goes over the same authenticated connection as a copy; the zeros go over plain TCP connections of their own, which \
        the listening end takes from the holder of a secret only.\n\n\
        The time runs from the first byte that arrives. Every 10 ms the sender's kernel is asked for the state of each \
        connection, and what arrives is counted by the millisecond: from packets at the device where the receiver may see \
        them (CAP_NET_RAW), else from the times of reading from the sockets; the output says which.",
    after_long_help = concat!(
        "Output:\n",
        "  Standard output gets a few lines for people, or with --json one object per line: those of type\n",
        "  sample are states of a sending connection, the last one, of type summary, is the result.\n\n",
        "Ports:\n",
        "  With --port, name two ports or more when ssh starts the far end: one is for control, one for data.\n\n",
        "Exit codes:\n",
        "  0  measured to the end\n",
        "  1  something went wrong on the way; what was measured is told\n",
        "  2  the command line is not understood or makes no sense\n",
        "  3  could not connect, or was not let in\n",
        "  4  interrupted; what was measured until then is told\n\n",
        "Examples:\n",
        "  icdc measure far.example.org\n",
        "  icdc measure --reverse --seconds 30 --cc bbr --report way.html user@far.example.org\n",
        "  icdc measure --bytes 10GB --window 256MB --rate 5gbit icdc://dtn.example.org\n",
        "  icdc measure --json --streams 4 far.example.org | tail -n 1\n",
    )
)]
pub(crate) struct MeasureArguments {
    /// The other host
    #[arg(required = true, value_name = "TARGET", value_hint = ValueHint::Hostname)]
    pub(crate) target: OsString,

    /// End so long after the first byte, in seconds or as a time such as 2min [default: 10, or none
    /// with --bytes]
    #[arg(long, value_name = "N", value_parser = seconds, help_heading = "What to measure")]
    pub(crate) seconds: Option<Span>,

    /// End after so many bytes, whichever comes first
    #[arg(long, value_name = "SIZE", value_parser = amount, help_heading = "What to measure")]
    pub(crate) bytes: Option<ByteCount>,

    /// The far end sends and this one receives
    #[arg(long, help_heading = "What to measure")]
    pub(crate) reverse: bool,

    /// Ceiling of the sending rate of all connections together, such as 900mbit or 1.2GB/s
    #[arg(long, value_name = "RATE|auto", default_value = "auto", value_parser = ceiling, help_heading = "What to measure")]
    pub(crate) rate: Ceiling,

    /// TCP congestion control of the sender: one of the kernel, or one that icdc loads (icdc cc
    /// list)
    #[arg(long, value_name = "NAME|auto", default_value = "auto", value_parser = congestion, help_heading = "What to measure")]
    pub(crate) cc: Congestion,

    /// Number of TCP connections
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=i64::from(MAX_STREAMS)), help_heading = "What to measure")]
    pub(crate) streams: u8,

    /// Socket buffers: the sender's send buffer and the receiver's receive buffer [default: the
    /// kernel tunes them]
    #[arg(long, value_name = "SIZE", value_parser = window, help_heading = "What to measure")]
    pub(crate) window: Option<ByteCount>,

    #[command(flatten)]
    pub(crate) connection: ConnectionArguments,

    /// One JSON object per line on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    /// Put the bytes of each millisecond into the summary too, as series_ms
    #[arg(long, requires = "json", help_heading = "Output")]
    pub(crate) json_series: bool,

    /// Write the bytes that arrived in each millisecond, as time_ms,received_bytes
    #[arg(long, value_name = "FILE.csv", help_heading = "Output", value_hint = ValueHint::FilePath)]
    pub(crate) series: Option<PathBuf>,

    /// Write a report with plots when the run ends
    #[arg(long, value_name = "FILE.html", help_heading = "Output", value_hint = ValueHint::FilePath)]
    pub(crate) report: Option<PathBuf>,
}
