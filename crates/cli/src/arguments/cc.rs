//! `icdc cc` as typed.

use std::ffi::OsString;

use clap::{Args, Subcommand};

use crate::values::{Setting, setting};

#[derive(Args, Debug)]
#[command(
    about = "Load, list and unload congestion control",
    long_about = "Load icdc's congestion control algorithms as eBPF into the running kernel, for the TCP sockets of any program on this \
        host. Nothing is installed and nothing restarts.\n\n\
        `icdc copy --cc NAME`, `icdc measure --cc NAME` and the far ends that they start load the algorithm themselves, and unload it \
        when they end. Load an algorithm by hand to set its parameters, or for other programs.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  done\n",
        "  1  the command failed\n",
        "  2  the command line or a parameter is invalid\n",
        "  3  permission denied\n\n",
        "Examples:\n",
        "  icdc cc list                                   # algorithms in the kernel, and loadable ones\n",
        "  icdc cc show highspeed                         # what it does, and its parameters\n",
        "  icdc cc load highspeed --pin                   # until `icdc cc unload highspeed` or a reboot\n",
        "  icdc cc load highspeed -- iperf3 -c far -C icdc_highspeed      # while iperf3 runs\n",
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
    about = "List congestion control algorithms, and why some are unavailable",
    long_about = "List the congestion control algorithms of the kernel and of icdc, one per line: name, state, and who may choose it.\n\n\
        States: `built in` (part of the kernel, or a module), `loaded` (icdc's, with what keeps it loaded), `loadable` (icdc's, \
        loaded when needed), `unavailable` (icdc's, with the reason).\n\n\
        Who may choose it: `anyone` if net.ipv4.tcp_allowed_congestion_control lists it, `root` (CAP_NET_ADMIN) if not, and `nobody` \
        if it is unavailable.",
    after_long_help = concat!("Examples:\n", "  icdc cc list\n", "  icdc cc list --json | jq -r '.[] | select(.state == \"loaded\").name'\n")
)]
pub(crate) struct ListArguments {
    /// Print an array of objects
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(
    about = "Describe an algorithm and its parameters",
    after_long_help = "Examples:\n  icdc cc show highspeed\n"
)]
pub(crate) struct ShowArguments {
    /// The algorithm
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Print an object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(
    about = "Load an algorithm into the kernel",
    long_about = "Load an algorithm into the kernel: with --pin until it is unloaded, with -- CMD while that command runs. \
        Programs choose it by its kernel name, icdc_NAME. `sysctl net.ipv4.tcp_congestion_control=icdc_NAME` makes it \
        the default. A loaded algorithm exists once, in all network namespaces.\n\n\
        A pin is a file below /sys/fs/bpf/icdc. Without a pin, the algorithm is unloaded when the process that loaded it ends, even \
        if it is killed. On kernels before 6.4 a killed process leaves the algorithm loaded; `icdc cc unload` removes it.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  loaded and pinned; with -- CMD: the exit code of CMD, or 128 plus the number of the signal that ended it\n",
        "  1  loading failed\n",
        "  2  the command line or a parameter is invalid\n",
        "  3  permission denied\n\n",
        "Examples:\n",
        "  icdc cc load highspeed --pin\n",
        "  icdc cc load bic --param max_increment=32 --pin\n",
        "  icdc cc load highspeed -- iperf3 -c far.example.org -C icdc_highspeed\n",
    )
)]
pub(crate) struct LoadArguments {
    /// The algorithm
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Set a parameter; may be given several times. `icdc cc show NAME` lists the parameters
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = setting)]
    pub(crate) parameters: Vec<Setting>,

    /// Keep the algorithm loaded after this command ends
    #[arg(long, conflicts_with = "command")]
    pub(crate) pin: bool,

    /// Run this command, and keep the algorithm loaded while it runs
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
#[command(
    about = "Unload a pinned algorithm",
    long_about = "Unload a pinned algorithm. Connections that use it keep it until they are closed; new connections can no longer choose \
        it. If it is the default of a network namespace, new connections there still get it until the default is changed.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  unloaded\n",
        "  1  the algorithm is not loaded, or a process keeps it loaded\n",
        "  2  the command line is invalid\n",
        "  3  permission denied\n\n",
        "Examples:\n",
        "  icdc cc unload highspeed\n",
    )
)]
pub(crate) struct UnloadArguments {
    /// The algorithm
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}
