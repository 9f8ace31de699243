//! `icdc keygen` as typed.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::values::{DaemonAddress, comment, daemon_address};

#[derive(Args, Debug)]
#[command(
    about = "Make an identity, or remember the key of a daemon",
    long_about = "Make an identity: an Ed25519 key pair in `identity` (private, mode 0600) and `identity.pub`. Users of daemons and \
        daemons each have one. An existing identity is never overwritten.\n\n\
        With --trust, remember the public key of a daemon instead, so that `icdc copy` knows it.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  done\n",
        "  1  the identity exists already, the host is known by another key, or a file could not be written\n",
        "  2  the command line is not understood\n\n",
        "Examples:\n",
        "  icdc keygen\n",
        "  icdc keygen --identity /etc/icdc/identity --comment dtn.example.org\n",
        "  icdc keygen --trust dtn.example.org 'icdc-ed25519 BASE64'\n",
        "  icdc keygen --trust '[2001:db8::1]:4000' 'icdc-ed25519 BASE64'\n",
    )
)]
pub(crate) struct KeygenArguments {
    /// Where to write the private key; the public one goes beside it [default:
    /// ~/.config/icdc/identity]
    #[arg(long, value_name = "FILE", conflicts_with = "trust", value_hint = ValueHint::FilePath)]
    pub(crate) identity: Option<PathBuf>,

    /// Words to recognise the key by.
    #[arg(help = "Words to recognise the key by [default: USER@HOST]", long, value_name = "TEXT", conflicts_with = "trust", value_parser = comment)]
    pub(crate) comment: Option<String>,

    /// Remember that this daemon has the public key KEY
    #[arg(long, value_name = "HOST[:PORT]", requires = "key", value_parser = daemon_address)]
    pub(crate) trust: Option<DaemonAddress>,

    /// Where to remember it [default: ~/.config/icdc/known_hosts]
    #[arg(long, value_name = "FILE", requires = "trust", value_hint = ValueHint::FilePath)]
    pub(crate) known_hosts: Option<PathBuf>,

    /// The daemon's public key as its owner gives it.
    #[arg(help = "The daemon's public key: 'icdc-ed25519 BASE64 [COMMENT]'", value_name = "KEY", requires = "trust")]
    pub(crate) key: Vec<String>,
}
