//! `icdc pace wire` as typed.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use icdc_pacer::wire::Mode;
use icdc_units::{Rate, Span};

use crate::values::pause;

#[derive(Args, Debug)]
#[command(
    about = "Pace what this host sends through a device, in classes",
    long_about = "Pace what this host sends through a device, in classes: frames are sorted by address, protocol, port and DSCP, wait in their \
        class, and leave evenly spaced at its rate. It runs until Ctrl-C, and needs root. However it ends, the host then sends as before.\n\n\
        Rates count what frames take on the wire: the Ethernet frame and 24 bytes. SIGHUP reads the file of classes anew; no frame is lost by that.\n\n\
        Gap mode fills the line between frames with PAUSE frames of no time, which every switch drops at its port: frames are then kept apart by \
        the line itself. It works on devices with a wire, and in a lab. Timer mode works everywhere, and is as exact as the system's \
        timer wakes icdc.\n\n\
        It makes a device paceN (N the number of DEV) to which it copies the routes of DEV, and sends through DEV what comes there. What arrives is \
        untouched. Sockets bound to DEV by name pass it by.",
    after_long_help = concat!(
        "A file of classes (TOML):\n",
        "  default = \"rest\"                  # for what no filter fits; without it, a class that gets what others leave\n",
        "  [[class]]\n",
        "  name = \"backup\"\n",
        "  rate = \"200mbit\"                  # whenever it has something to send; without it, what others leave\n",
        "  ceiling = \"400mbit\"               # what it may have at most, if that is more\n",
        "  parent = \"site\"                   # a class before it, of which it is a part\n",
        "  queue = \"1MB\"                     # what may wait\n",
        "  mark = \"100kB\"                    # ECN marks from that length on; or: codel = { target = \"5ms\", interval = \"100ms\" }\n",
        "  filter = [{ to = \"192.0.2.0/24\", protocol = \"tcp\", ports = \"873\" }]   # also: from, source-ports, dscp\n",
        "  [[class]]\n",
        "  name = \"rest\"\n\n",
        "Exit codes:\n",
        "  0  ended by Ctrl-C or SIGTERM\n",
        "  1  it could not be done\n",
        "  2  the command line is not understood, or the classes or the mode cannot be\n",
        "  3  this user may not\n\n",
        "Examples:\n",
        "  icdc pace wire --dev eth0 --classes classes.toml\n",
        "  icdc pace wire --dev veth0 --classes classes.toml --mode timer --line-rate 1gbit --json\n",
        "  icdc pace wire --dev eth0 --classes classes.toml --prometheus /var/lib/node_exporter/icdc.prom\n",
    )
)]
pub(crate) struct WireArguments {
    /// The device
    #[arg(long, value_name = "DEV")]
    pub(crate) dev: String,

    /// The classes
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) classes: PathBuf,

    /// What keeps frames apart [default: gap where that works, else timer]
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<WireMode>,

    /// Rate of the line [default: what the device or the lab says]
    #[arg(long, value_name = "RATE")]
    pub(crate) line_rate: Option<Rate>,

    /// How far gap mode fills the line ahead of time: it bears so long a stall, and frames may wait
    /// so much longer
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = lead)]
    pub(crate) lead: Span,

    /// Time between two tables
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = pause)]
    pub(crate) interval: Span,

    /// One object per interval on standard output in place of a table
    #[arg(long)]
    pub(crate) json: bool,

    /// A file for Prometheus' node exporter, rewritten once per interval
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) prometheus: Option<PathBuf>,
}

/// A lead that a line can be filled by: some frames, and less than what anybody holds against a
/// stall.
fn lead(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error| format!("{error}"))?;
    let (least, most) = (Span::from_micros(200), Span::from_millis(50));
    if (least..=most).contains(&span) { Ok(span) } else { Err(format!("a lead is from {least} to {most}")) }
}

/// What keeps frames apart.
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
