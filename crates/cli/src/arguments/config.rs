//! `icdc config` as typed.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::{Args, ValueHint};

use crate::config::settings;

#[derive(Args, Debug)]
#[command(
    about = "Show the settings in effect, and where each comes from",
    long_about = "Show the settings in effect, and where each comes from: a file and its line, an environment variable, or built in. \
        A setting is the value of an option that is not on the command line.\n\n\
        With --explain HOST, show the settings for copies to and from that host. Without it, show those for hosts without a section \
        of their own, and those of the daemon (icdc serve). If a file has a mistake, the message names its line.",
    after_long_help = page()
)]
pub(crate) struct ConfigArguments {
    /// Show the settings for this host: HOST or USER@HOST for ssh, icdc://HOST for a daemon
    #[arg(long, value_name = "HOST", value_hint = ValueHint::Hostname)]
    pub(crate) explain: Option<OsString>,

    /// Print an example of a file with every setting, all commented out
    #[arg(long, conflicts_with_all = ["explain", "json"])]
    pub(crate) example: bool,

    /// Print one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Text of the help of `icdc config` after the options, with the table of settings.
fn page() -> String {
    let mut text = String::from(
        "Precedence:\n\
        \x20 The value of an option comes from the first of these places that sets it:\n\n\
        \x20 1  the command line; --no-KEY sets an option that is true or false to false\n\
        \x20 2  the environment variable; an empty one counts as not set\n\
        \x20 3  sections [host.\"PATTERN\"] whose pattern matches the host's name as typed; the user's file\n\
        \x20    goes before the system's. Within a file, the most specific pattern goes first (one without\n\
        \x20    wildcards, then the one with the most other characters); of two alike, the first\n\
        \x20 4  the top of the user's file, or its section [default]\n\
        \x20 5  the top of the system's file, or its section [default]\n\
        \x20 6  the built-in value\n\n\
        \x20 Between two remote hosts, the destination's sections go before the source's. How ssh reaches\n\
        \x20 a host, and identities for daemons, are taken from the sections of that host only. Settings\n\
        \x20 that a command cannot use are ignored, such as via for a copy within this host.\n\n\
        \x20 icdc serve has variables ICDC_SERVE_KEY and the sections [serve] instead of 2 to 5. What ssh\n\
        \x20 starts on the other host (icdc far-end) reads neither files nor variables.\n\n\
        Files:\n\
        \x20 ~/.config/icdc/config.toml   of a user ($XDG_CONFIG_HOME/icdc/config.toml)\n\
        \x20 /etc/icdc/config.toml        of the system\n\n\
        \x20 Patterns may have *, ?, [abc] and {a,b}. A file that other users can write to is refused,\n\
        \x20 because it can name commands to run.\n\n\
        Environment:\n\
        \x20 ICDC_CONFIG         another file than the user's; empty: no such file; none: neither files\n\
        \x20                     nor variables are used\n\
        \x20 ICDC_SYSTEM_CONFIG  another file than the system's; empty: no such file\n\n\
        Settings:\n\
        \x20 The key in files, the environment variable, and the commands that have the option --KEY:\n\n",
    );
    for setting in settings::all() {
        let commands = in_lines(setting.commands);
        let _ = writeln!(text, "  {:<16} {:<27} {commands}", setting.key, setting.variable);
    }
    text.push_str(
        "\nExit codes:\n\
        \x20 0  the settings were shown\n\
        \x20 2  the command line, a file or a variable is invalid\n\n\
        Examples:\n\
        \x20 icdc config --explain dtn1.example.org\n\
        \x20 icdc config --explain dtn1.example.org --json | jq -r '.settings[] | [.key, .value] | @tsv'\n\
        \x20 icdc config --example\n",
    );
    text
}

/// Names of commands, in as many lines of the third column as they need.
fn in_lines(commands: &[&str]) -> String {
    const WIDTH: usize = 50;
    const INDENT: usize = 2 + 16 + 1 + 27 + 1;
    let (mut text, mut width) = (String::new(), 0);
    for (number, command) in commands.iter().enumerate() {
        let word = if number + 1 < commands.len() { format!("{command},") } else { (*command).to_owned() };
        if number > 0 && width + 1 + word.len() > WIDTH {
            text += &format!("\n{:INDENT$}", "");
            width = 0;
        } else if number > 0 {
            text.push(' ');
            width += 1;
        }
        width += word.len();
        text += &word;
    }
    text
}
