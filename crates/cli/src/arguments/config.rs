//! `icdc config` as typed.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::{Args, ValueHint};

use crate::config::settings;

#[derive(Args, Debug)]
#[command(
    about = "Show the settings of files and variables, and where they are from",
    long_about = "Show which settings count, and where each is from: a file and its line, a variable, or built in. A setting is the \
        value of an option where the command line does not have the option.\n\n\
        With --explain HOST, show the settings for copying to or from that host; without it, those for any other host, and those of \
        the daemon (icdc serve). A file that has a mistake is refused, with the line that has it.",
    after_long_help = page()
)]
pub(crate) struct ConfigArguments {
    /// Show what counts for this host: HOST or USER@HOST, which ssh reaches, or icdc://HOST, a daemon
    #[arg(long, value_name = "HOST", value_hint = ValueHint::Hostname)]
    pub(crate) explain: Option<OsString>,

    /// Print a file that has every setting, all commented out
    #[arg(long, conflicts_with_all = ["explain", "json"])]
    pub(crate) example: bool,

    /// Print one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// What follows the options, with the table of settings.
fn page() -> String {
    let mut text = String::from(
        "Precedence:\n\
        \x20 The first of these that has a setting decides:\n\n\
        \x20 1  the option on the command line; --no-KEY undoes what is true or false\n\
        \x20 2  the variable ICDC_KEY; an empty one counts as not set\n\
        \x20 3  sections [host.\"PATTERN\"] whose pattern matches the host's name as typed: those of the user's\n\
        \x20    file before those of the system's; in a file the most specific pattern first (one without\n\
        \x20    wildcards, then by the number of other characters), of two alike the first\n\
        \x20 4  the top of the user's file, or its section [default]\n\
        \x20 5  the top of the system's file, or its section [default]\n\
        \x20 6  built in\n\n\
        \x20 Between two remote hosts, the destination's sections go before the source's. How ssh reaches a\n\
        \x20 host, and identities for daemons, are those of the host in question. A setting that a command has no\n\
        \x20 use for does not count, such as via for a copy within this host.\n\n\
        \x20 icdc serve has variables ICDC_SERVE_KEY and the section [serve] in place of 2 to 5. What ssh starts on\n\
        \x20 the other host (icdc far-end) reads neither files nor variables.\n\n\
        Files:\n\
        \x20 ~/.config/icdc/config.toml   of a user ($XDG_CONFIG_HOME/icdc/config.toml)\n\
        \x20 /etc/icdc/config.toml        of the system\n\n\
        \x20 Patterns have *, ?, [abc] and {a,b}. A file that others can write to is refused, as ssh does: it says\n\
        \x20 which commands run.\n\n\
        Environment:\n\
        \x20 ICDC_CONFIG         file in place of the user's; empty for none; the word none: neither files nor\n\
        \x20                     variables count\n\
        \x20 ICDC_SYSTEM_CONFIG  file in place of the system's; empty for none\n\n\
        Settings:\n\
        \x20 The key in files, the variable, and the commands with the option --KEY:\n\n",
    );
    for setting in settings::all() {
        let commands = setting.commands.join(", ");
        let _ = writeln!(text, "  {:<16} {:<27} {commands}", setting.key, setting.variable);
    }
    text.push_str(
        "\nExit codes:\n\
        \x20 0  the settings were shown\n\
        \x20 2  the command line, a file or a variable is invalid\n\n\
        Examples:\n\
        \x20 icdc config --explain dtn1.example.org\n\
        \x20 icdc config --explain icdc://dtn1.example.org --json | jq -r '.settings[] | [.key, .value, .source.kind] | @tsv'\n\
        \x20 icdc config --example\n",
    );
    text
}
