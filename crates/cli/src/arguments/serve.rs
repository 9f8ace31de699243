//! `icdc serve` as typed.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::values::listen_address;

#[derive(Args, Debug)]
#[command(
    about = "Run a daemon that sends and receives files for authorized keys",
    long_about = "Run a daemon. Clients connect with icdc://HOST[:PORT]/PATH. The file of authorized keys has one line per key; it \
        says which directory the key can access and what it may do there:\n\n\
        \x20   root=/srv/data,rights=rw,user=data icdc-ed25519 BASE64 someone@example.org\n\n\
        The key may also have OpenSSH's form (ssh-ed25519 BASE64). root= is the only directory that it can access. rights= is r, w, \
        rw (r if absent) or drop-box (make what is not there yet, and nothing else). user= is the system user that \
        the daemon acts as; if the daemon runs as root and the key may write, it is required. owner=keep lets the client set owners \
        and set-id bits. expires=2027-01-31 and from=\"10.0.0.0/8\" say until when and from where the key is accepted; \
        max-rate=1gbit, max-sessions=4, bytes-per-day=1TB and quota=10TB limit what it may use. The daemon watches the file: if a \
        line is removed, changed, has expired or is used up, the running transfers of its key end within a second.\n\n\
        Give the daemon's public key to its users. They add it with `icdc keygen --trust`. At SIGHUP, the daemon reads its \
        identity and the authorized keys again; running transfers continue. The daemon stops cleanly at SIGTERM or SIGINT.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  stopped by a signal\n",
        "  1  could not listen, or could not read its keys\n",
        "  2  the command line is invalid\n\n",
        "Examples:\n",
        "  icdc serve                 # with ~/.config/icdc/identity (icdc keygen) and authorized_keys\n",
        "  icdc serve --listen 192.0.2.7:2633 --root /srv/data --identity /etc/icdc/identity\n",
    )
)]
pub(crate) struct ServeArguments {
    /// Address and port to listen on
    #[arg(long, value_name = "ADDR:PORT", default_value = "[::]:2633", value_parser = listen_address)]
    pub(crate) listen: SocketAddr,

    /// Refuse keys whose root= is not beneath this directory [default: allow any root=]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) root: Option<PathBuf>,

    /// File of authorized keys [default: ~/.config/icdc/authorized_keys]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) authorized_keys: Option<PathBuf>,

    /// Private key of the daemon [default: ~/.config/icdc/identity]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) identity: Option<PathBuf>,
}
