//! `icdc cc` as typed.

use std::ffi::OsString;

use clap::{Args, Subcommand};

use crate::values::{Setting, setting};

#[derive(Args, Debug)]
#[command(
    about = "Load, list and unload congestion control",
    long_about = "Congestion control of our own: loaded into the running kernel as eBPF, for any program's TCP sockets on this host. \
        Nothing is installed and nothing restarts.\n\n\
        `icdc copy --cc NAME`, `icdc measure --cc NAME` and the far ends that they start load what they need by themselves and take it \
        back when they end. Load by hand to give parameters, or for other programs.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  done\n",
        "  1  it could not be done\n",
        "  2  the command line is not understood, or a parameter makes no sense\n",
        "  3  this user may not\n\n",
        "Examples:\n",
        "  icdc cc list                                       # what this kernel has, and what could be loaded\n",
        "  icdc cc show highspeed                             # what it does, and its parameters\n",
        "  icdc cc load highspeed --pin                       # until `icdc cc unload highspeed`, or a reboot\n",
        "  icdc cc load highspeed -- iperf3 -c far -C icdc_highspeed    # while iperf3 runs\n",
    )
)]
pub(crate) struct CcArguments {
    #[command(subcommand)]
    pub(crate) command: CcCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CcCommand {
    List(ListArguments),
    Show(ShowArguments),
    Load(LoadArguments),
    Unload(UnloadArguments),
}

#[derive(Args, Debug)]
#[command(
    about = "Tell which congestion control can be chosen, and why others cannot",
    long_about = "One line for each congestion control of the kernel and of icdc: its name, its state, and who may choose it.\n\n\
        States: `built in` (the kernel has it), `loaded` (ours, and by whom), `loadable` (ours, loaded when asked for), \
        `unavailable` (ours, and what is in the way).\n\n\
        Who: `anyone` where net.ipv4.tcp_allowed_congestion_control has it, else `root` (CAP_NET_ADMIN).",
    after_long_help = concat!("Examples:\n", "  icdc cc list\n", "  icdc cc list --json | jq -r '.[] | select(.state == \"loaded\").name'\n")
)]
pub(crate) struct ListArguments {
    /// An array of objects on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(
    about = "Tell what an algorithm does, and its parameters",
    after_long_help = "Examples:\n  icdc cc show highspeed\n"
)]
pub(crate) struct ShowArguments {
    /// The algorithm
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// An object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(
    about = "Load an algorithm into the kernel",
    long_about = "Load an algorithm into the kernel, with --pin until it is unloaded, or with -- CMD while that command runs. \
        Programs choose it by the kernel's name, icdc_NAME; `sysctl net.ipv4.tcp_congestion_control=icdc_NAME` makes it \
        the default. An algorithm is there once, in all network namespaces.\n\n\
        A pin is a file below /sys/fs/bpf/icdc. Without one, the algorithm goes with its process, also with one that is killed \
        (on kernels before 6.4 a killed process leaves it loaded; `icdc cc unload` removes it).",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  loaded and pinned; with -- CMD: the exit code of CMD, or 128 and the signal that ended it\n",
        "  1  it could not be loaded\n",
        "  2  the command line is not understood, or a parameter makes no sense\n",
        "  3  this user may not\n\n",
        "Examples:\n",
        "  icdc cc load highspeed --pin\n",
        "  icdc cc load highspeed --param low_window=31 --pin\n",
        "  icdc cc load highspeed -- iperf3 -c far.example.org -C icdc_highspeed\n",
    )
)]
pub(crate) struct LoadArguments {
    /// The algorithm
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Set a parameter; may be given several times. `icdc cc show NAME` lists them
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = setting)]
    pub(crate) parameters: Vec<Setting>,

    /// Keep it loaded when this command ends
    #[arg(long, conflicts_with = "command")]
    pub(crate) pin: bool,

    /// Keep it loaded while this command runs
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
#[command(
    about = "Unload an algorithm that was pinned",
    long_about = "Unload an algorithm that was pinned. Connections that use it keep it until they are closed; new ones cannot choose it \
        any more. Where it is the default of a network namespace, new connections there keep getting it until the default is changed.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  unloaded\n",
        "  1  it is not loaded, or a process holds it\n",
        "  2  the command line is not understood\n",
        "  3  this user may not\n\n",
        "Examples:\n",
        "  icdc cc unload highspeed\n",
    )
)]
pub(crate) struct UnloadArguments {
    /// The algorithm
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}
