//! `icdc measure` as typed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use icdc_protocol::limits::MAX_STREAMS;
use icdc_schedule::{RateSchedule, rate_schedule};
use icdc_units::{ByteCount, Span};

use super::ConnectionArguments;
use crate::values::{Congestion, amount, congestion, seconds, window};

#[derive(Args, Debug)]
#[command(
    about = "Measure TCP between two hosts, or a copy without its disks, from memory to memory",
    long_about = "Measure TCP between this host and another one, from memory to memory. No disk and no encryption is involved: \
        the sender sends zeros, and the receiver counts them.\n\n\
        With --secure, measure a copy without its disks instead: what a copy could reach if they took no time.\n\n\
        TARGET is [USER@]HOST, where ssh starts icdc, or icdc://HOST[:PORT], a daemon that admits this user's key. The two \
        ends exchange control messages over an authenticated connection, as for a copy. The zeros are sent over separate \
        plain TCP connections. The listening end accepts these only with a secret token.\n\n\
        The measurement starts with the first byte that arrives. Every 10 ms, icdc reads the state of each connection from \
        the sender's kernel. Arrivals are counted per millisecond. If the receiver has CAP_NET_RAW, it counts packets at \
        the network device; otherwise, it counts what it reads from the sockets. The output says which.",
    after_long_help = concat!(
        "Output:\n",
        "  Standard output has a short summary, or with --json one object per line. An object of type\n",
        "  sample is the state of one sending connection. The last object has the type summary; it is\n",
        "  the result.\n\n",
        "Ports:\n",
        "  If ssh starts the far end, --port needs two ports or more: one is for control, one for data.\n\n",
        "Exit codes:\n",
        "  0  the measurement is complete\n",
        "  1  an error occurred; the results up to then are printed\n",
        "  2  the command line is invalid\n",
        "  3  could not connect, or access was refused\n",
        "  4  interrupted; the results up to then are printed\n\n",
        "Examples:\n",
        "  icdc measure far.example.org\n",
        "  icdc measure --reverse --seconds 30 --cc bbr --report path.html user@far.example.org\n",
        "  icdc measure --bytes 10GB --window 256MB --rate 5gbit icdc://dtn.example.org\n",
        "  icdc measure --json --streams 4 far.example.org | tail -n 1\n",
        "  icdc measure --secure --hash --streams 16 icdc://dtn.example.org\n",
    )
)]
pub(crate) struct MeasureArguments {
    /// The other host
    #[arg(required = true, value_name = "TARGET", value_hint = ValueHint::Hostname)]
    pub(crate) target: OsString,

    /// End this long after the first byte; seconds, or a time such as 2min [default: 10; none with
    /// --bytes]
    #[arg(long, value_name = "N", value_parser = seconds, help_heading = "What to measure")]
    pub(crate) seconds: Option<Span>,

    /// End after this many bytes, or after --seconds, whichever comes first
    #[arg(long, value_name = "SIZE", value_parser = amount, help_heading = "What to measure")]
    pub(crate) bytes: Option<ByteCount>,

    /// Measure everything in a copy but its disks: the sender sends zeros that it has not read,
    /// encrypted and over the connections of a copy, and the receiver writes nothing; 8 TiB at most
    #[arg(long, conflicts_with_all = ["window", "json_series", "series", "report"], help_heading = "What to measure")]
    pub(crate) secure: bool,

    /// With --secure: compute and compare the digests of all blocks, as a copy does
    #[arg(long, requires = "secure", help_heading = "What to measure")]
    pub(crate) hash: bool,

    /// The far end sends, and this end receives
    #[arg(long, help_heading = "What to measure")]
    pub(crate) reverse: bool,

    /// Limit of the sending rate of all connections together, such as 900mbit or 1.2GB/s; of rates over time, the present
    /// one
    #[arg(long, value_name = "RATE|auto", default_value = "auto", value_parser = rate_schedule, help_heading = "What to measure")]
    pub(crate) rate: RateSchedule,

    /// TCP congestion control of the sender: one that the kernel has, or one that icdc loads
    /// (icdc cc list)
    #[arg(long, value_name = "NAME|auto", default_value = "auto", value_parser = congestion, help_heading = "What to measure")]
    pub(crate) cc: Congestion,

    /// Number of TCP connections [default: 1, or one for each of --bind; with --secure, as many as a copy would make]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=i64::from(MAX_STREAMS)), help_heading = "What to measure")]
    pub(crate) streams: Option<u8>,

    /// Socket buffers: the sender's send buffer and the receiver's receive buffer [default: the
    /// kernel tunes them]
    #[arg(long, value_name = "SIZE", value_parser = window, help_heading = "What to measure")]
    pub(crate) window: Option<ByteCount>,

    #[command(flatten)]
    pub(crate) connection: ConnectionArguments,

    /// Print one JSON object per line on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    /// Add the bytes of each millisecond to the summary, as series_ms
    #[arg(long, requires = "json", help_heading = "Output")]
    pub(crate) json_series: bool,

    /// Write the bytes that arrived in each millisecond, as time_ms,received_bytes
    #[arg(long, value_name = "FILE.csv", help_heading = "Output", value_hint = ValueHint::FilePath)]
    pub(crate) series: Option<PathBuf>,

    /// Write a report with plots when the run ends
    #[arg(long, value_name = "FILE.html", help_heading = "Output", value_hint = ValueHint::FilePath)]
    pub(crate) report: Option<PathBuf>,
}
