//! `icdc keygen` as typed.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::values::{DaemonAddress, comment, daemon_address};

#[derive(Args, Debug)]
#[command(
    about = "Create an identity (a key pair), or trust the public key of a daemon",
    long_about = "Create an identity: an Ed25519 key pair in the files `identity` (private, mode 0600) and `identity.pub`. Each daemon \
        has one, and so does each of its users. An existing identity is never overwritten.\n\n\
        With --trust, add the public key of a daemon to the known hosts instead. icdc then connects to this daemon without \
        asking.\n\n\
        With --show, print the public key of a file in icdc's and OpenSSH's form, and both fingerprints: the first as the daemon \
        logs it, the second as `ssh-keygen -l` shows it. The file may hold a private key of icdc or OpenSSH, or a public one.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  done\n",
        "  1  the identity already exists, another key is known for this host, or a file could not be written\n",
        "  2  the command line is invalid\n\n",
        "Examples:\n",
        "  icdc keygen\n",
        "  icdc keygen --identity /etc/icdc/identity --comment dtn.example.org\n",
        "  icdc keygen --trust dtn.example.org 'icdc-ed25519 BASE64'\n",
        "  icdc keygen --trust '[2001:db8::1]:4000' 'icdc-ed25519 BASE64'\n",
        "  icdc keygen --show ~/.ssh/id_ed25519.pub\n",
    )
)]
pub(crate) struct KeygenArguments {
    /// File for the private key; the public key gets the same name with .pub [default:
    /// ~/.config/icdc/identity]
    #[arg(long, value_name = "FILE", conflicts_with = "trust", value_hint = ValueHint::FilePath)]
    pub(crate) identity: Option<PathBuf>,

    /// Text that identifies the key to people.
    #[arg(help = "Text that identifies the key to people [default: USER@HOST]", long, value_name = "TEXT", conflicts_with = "trust", value_parser = comment)]
    pub(crate) comment: Option<String>,

    /// Trust KEY as the public key of this daemon
    #[arg(long, value_name = "HOST[:PORT]", requires = "key", value_parser = daemon_address)]
    pub(crate) trust: Option<DaemonAddress>,

    /// Print the public key of FILE in both forms, and both fingerprints
    #[arg(long, value_name = "FILE", conflicts_with_all = ["trust", "identity", "comment"], value_hint = ValueHint::FilePath)]
    pub(crate) show: Option<PathBuf>,

    /// File to add the key to [default: ~/.config/icdc/known_hosts]
    #[arg(long, value_name = "FILE", requires = "trust", value_hint = ValueHint::FilePath)]
    pub(crate) known_hosts: Option<PathBuf>,

    /// The daemon's public key as its owner gives it.
    #[arg(
        help = "The daemon's public key: 'icdc-ed25519 BASE64 [COMMENT]', or OpenSSH's form",
        value_name = "KEY",
        requires = "trust"
    )]
    pub(crate) key: Vec<String>,
}
