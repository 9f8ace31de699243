//! `icdc pace wire` as typed.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use icdc_pacer::wire::Mode;
use icdc_units::{Rate, Span};

use crate::values::pause;

#[derive(Args, Debug)]
#[command(
    about = "Pace what this host sends through a device, in classes",
    long_about = "Pace what this host sends through a device, in classes. Frames are sorted by address, protocol, port and DSCP, wait in their \
        class, and leave evenly spaced at its rate. The pacer runs until Ctrl-C and needs root. However it ends, the host then sends as before.\n\n\
        Rates count what frames take on the wire: the Ethernet frame and 24 bytes. SIGHUP reads the file of classes again; no frame is lost.\n\n\
        Gap mode fills the line between frames with PAUSE frames of zero pause time, which every switch drops at its port. The line itself then \
        spaces the frames. Gap mode works on devices with a wire, and in a lab. Timer mode works everywhere; it is as exact as the \
        system's timer.\n\n\
        The pacer creates a device paceN (N is the interface index of DEV), copies the routes of DEV to it, and sends through DEV what reaches paceN. \
        Received traffic is not changed. Sockets that are bound to DEV by name are not paced.",
    after_long_help = concat!(
        "A file of classes (TOML):\n",
        "  default = \"rest\"                  # for unmatched frames; without it, they get what others leave\n",
        "  [[class]]\n",
        "  name = \"site\"\n",
        "  rate = \"500mbit\"\n",
        "  [[class]]\n",
        "  name = \"backup\"\n",
        "  rate = \"200mbit\"                  # guaranteed; without it, what others leave\n",
        "  ceiling = \"400mbit\"               # greatest rate, if others leave capacity\n",
        "  parent = \"site\"                   # the class that contains it, defined earlier in the file\n",
        "  queue = \"1MB\"                     # bytes that may wait\n",
        "  mark = \"100kB\"                    # queue length from which ECN marks are set\n",
        "                                    # or: codel = { target = \"5ms\", interval = \"100ms\" }\n",
        "  filter = [{ to = \"192.0.2.0/24\", protocol = \"tcp\", ports = \"873\" }]\n",
        "                                    # also: from, source-ports, dscp\n",
        "  [[class]]\n",
        "  name = \"rest\"\n\n",
        "Exit codes:\n",
        "  0  ended by Ctrl-C or SIGTERM\n",
        "  1  the command failed\n",
        "  2  the command line, the classes or the mode are invalid\n",
        "  3  permission denied\n\n",
        "Examples:\n",
        "  icdc pace wire --dev eth0 --classes classes.toml\n",
        "  icdc pace wire --dev veth0 --classes classes.toml --mode timer --line-rate 1gbit --json\n",
        "  icdc pace wire --dev eth0 --classes classes.toml --prometheus /var/lib/node_exporter/icdc.prom\n",
    )
)]
pub(crate) struct WireArguments {
    /// Device to pace
    #[arg(long, value_name = "DEV")]
    pub(crate) dev: String,

    /// File of classes (TOML, see below)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) classes: PathBuf,

    /// What spaces frames [default: gap if the device supports it, otherwise timer]
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<WireMode>,

    /// Rate of the line [default: the rate that the device or the lab reports]
    #[arg(long, value_name = "RATE")]
    pub(crate) line_rate: Option<Rate>,

    /// How far ahead gap mode fills the line. A stall of icdc up to this time has no effect; in
    /// return, a frame may wait for this time
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = lead)]
    pub(crate) lead: Span,

    /// Time between two tables (or objects with --json)
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = pause)]
    pub(crate) interval: Span,

    /// Print one object per interval instead of a table
    #[arg(long)]
    pub(crate) json: bool,

    /// Write metrics for the Prometheus node exporter to this file, once per interval
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) prometheus: Option<PathBuf>,
}

/// Parses `--lead`, from 200 µs to 50 ms: enough for some frames, and no more than is of use
/// against a stall.
fn lead(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error| format!("{error}"))?;
    let (least, most) = (Span::from_micros(200), Span::from_millis(50));
    if (least..=most).contains(&span) { Ok(span) } else { Err(format!("a lead is from {least} to {most}")) }
}

/// Value of `--mode`: the mechanism by which the wire pacer spaces frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WireMode {
    /// The system's timer
    Timer,
    /// Gap frames that fill the line
    Gap,
}

impl From<WireMode> for Mode {
    fn from(mode: WireMode) -> Self {
        match mode {
            WireMode::Timer => Self::Timer,
            WireMode::Gap => Self::Gap,
        }
    }
}
