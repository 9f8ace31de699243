//! `icdc serve` as typed.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::values::listen_address;

#[derive(Args, Debug)]
#[command(
    about = "Run a daemon that gives and takes files by key",
    long_about = "Run a daemon. Clients come with icdc://HOST[:PORT]/PATH; who may do what beneath which directory stands in the \
        file of authorized keys, one line per key:\n\n\
        \x20   root=/srv/data,rights=rw,user=data icdc-ed25519 BASE64 someone@example.org\n\n\
        root= is all that the key can see, rights= are r, w or rw (r if absent), user= is the system user to act as (a daemon run \
        by root wants one where the key may write), and owner=keep lets the client set owners and set-id bits. The file is watched: \
        a key whose line is removed or changed loses its running transfers within a second.\n\n\
        Give the daemon's own public key to its users; they remember it with `icdc keygen --trust`. SIGHUP reads \
        identity and authorized keys again; running transfers go on. The daemon stops cleanly at SIGTERM or SIGINT.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  stopped by a signal\n",
        "  1  could not listen, or could not read its keys\n",
        "  2  the command line is not understood\n\n",
        "Examples:\n",
        "  icdc serve                 # with ~/.config/icdc/identity (icdc keygen) and authorized_keys\n",
        "  icdc serve --listen 192.0.2.7:2633 --root /srv/data --identity /etc/icdc/identity\n",
    )
)]
pub(crate) struct ServeArguments {
    /// Where to listen
    #[arg(long, value_name = "ADDR:PORT", default_value = "[::]:2633", value_parser = listen_address)]
    pub(crate) listen: SocketAddr,

    /// Directory beneath which all roots of keys must lie [default: each key's own root alone]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) root: Option<PathBuf>,

    /// Who may do what [default: ~/.config/icdc/authorized_keys]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) authorized_keys: Option<PathBuf>,

    /// Identity of the daemon [default: ~/.config/icdc/identity]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) identity: Option<PathBuf>,
}
