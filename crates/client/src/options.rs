//! Options of a copy.

use std::path::PathBuf;
use std::sync::Arc;

use icdc_protocol::Ports;
use icdc_protocol::message::{Preserve, ReceiveOptions, SendOptions};
use icdc_scitags::Marker;
use icdc_session::retry::RETRY_FOR;
use icdc_tcp::{Egresses, Family};
use icdc_transfer::receiver::Output;
use icdc_transfer::sender::selection::Selection;
use icdc_transfer::sender::{FollowOptions, Input};
use icdc_transfer::{NameList, UserCeiling};
use icdc_units::Span;

use crate::proxy::Proxy;
use crate::receipt::ReceiptFile;

/// Function that asks the user whether a server that has never been seen is to be trusted: (host,
/// fingerprint) → yes or no.
pub type ConfirmHost = Box<dyn Fn(&str, &str) -> bool + Send + Sync>;

/// Route of the data connections to a far end, as the user has chosen it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Via {
    /// The first route that works.
    #[default]
    Auto,
    /// TCP to the far end's port.
    Direct,
    /// Datagrams to the far end's port.
    Udp,
    /// TCP from the far end to a port here.
    Back,
    /// ssh connections that are opened for the data.
    Ssh,
    /// TCP to the far end's port through a proxy.
    Proxy(Proxy),
}

/// Options of a copy: everything but what is copied and where to.
pub struct CopyOptions {
    /// Options of the sending end.
    pub send: SendOptions,
    /// Options of the receiving end.
    pub receive: ReceiveOptions,
    /// Command that reaches a host, split into words as a shell does; called as
    /// `CMD HOST COMMAND...`.
    pub ssh: String,
    /// The program at the far side, one word for the far side's shell. [`Self::REMOTE_ICDC`] is
    /// also searched in `~/.local/bin` and `/usr/local/bin`.
    pub remote_icdc: String,
    /// Send this program to the far side and run it there, instead of expecting it to be installed.
    pub send_self: bool,
    /// TCP ports for data at the listening side.
    pub ports: Ports,
    /// Address family of the data connections.
    pub family: Family,
    /// Route by which data reaches a far end.
    pub via: Via,
    /// Network devices or source addresses for the data connections that this end makes; those
    /// through ssh and those that the far end makes are not affected.
    pub egresses: Egresses,
    /// File with the identity (key) for daemons; need not exist unless a daemon is involved.
    pub identity: PathBuf,
    /// File with the keys of known daemons.
    pub known_hosts: PathBuf,
    /// Asks whether to trust a daemon that `known_hosts` does not list; `None` refuses it.
    pub confirm_host: Option<ConfirmHost>,
    /// Time for which a broken connection is tried again, counted from the last progress.
    pub retry_for: Span,
    /// Part of the sources that is copied; `None` for everything. Requires local sources.
    pub selection: Option<Arc<Selection>>,
    /// Names below the only source that are copied; `None` for everything. `send.listed` is their
    /// digest.
    pub listed: Option<NameList>,
    /// Stream that is copied in place of sources; `None` for sources that have paths.
    pub input: Option<Input>,
    /// Stream that takes the only file in place of the destination; `None` where files are written.
    pub output: Option<Output>,
    /// Marks the data connections of this host for the networks (SciTags).
    pub marker: Option<Arc<Marker>>,
    /// File of the receipt; `None` if none is asked for.
    pub receipt: Option<Arc<ReceiptFile>>,
    /// Options of following the sources; `None` if what is there is copied once.
    pub follow: Option<FollowOptions>,
    /// The user's ceiling of the rate, which may change during the copy and begins as that of `send`;
    /// `None` for one that stays.
    pub ceiling: Option<Arc<UserCeiling>>,
}

impl CopyOptions {
    /// Program name expected at the far side.
    pub const REMOTE_ICDC: &'static str = "icdc";
    /// Default command that reaches a host.
    pub const SSH: &'static str = "ssh";

    /// Whether a stream is copied, or takes what is copied.
    #[must_use]
    pub fn has_stream(&self) -> bool {
        self.input.is_some() || self.output.is_some()
    }

    /// Time for which a broken connection is tried again: none with a stream, which can be read or written
    /// only once.
    pub(crate) fn patience(&self) -> Span {
        if self.has_stream() { Span::ZERO } else { self.retry_for }
    }

    /// The user's ceiling of the rate: the one that may change, or that of `send`.
    pub(crate) fn ceiling(&self) -> Arc<UserCeiling> {
        self.ceiling.clone().unwrap_or_else(|| Arc::new(UserCeiling::new(self.send.rate)))
    }

    /// These options, with a stream in place of the destination: all bytes of a file arrive, and nothing else
    /// of it.
    #[must_use]
    pub fn to_stream(mut self, output: Output) -> Self {
        // Holes are zeros in a stream.
        (self.send.preserve, self.receive.preserve) = (Preserve::NOTHING, Preserve::NOTHING);
        (self.receive.resume, self.receive.whole_files) = (false, true);
        self.output = Some(output);
        self
    }

    /// Default options, with the user's identity and known hosts in these files.
    #[must_use]
    pub fn new(identity: PathBuf, known_hosts: PathBuf) -> Self {
        Self {
            send: SendOptions::default(),
            receive: ReceiveOptions { resume: true, ..ReceiveOptions::default() },
            ssh: Self::SSH.to_owned(),
            remote_icdc: Self::REMOTE_ICDC.to_owned(),
            send_self: false,
            ports: Ports::Any,
            family: Family::Any,
            via: Via::Auto,
            egresses: Egresses::default(),
            identity,
            known_hosts,
            confirm_host: None,
            retry_for: RETRY_FOR,
            selection: None,
            listed: None,
            input: None,
            output: None,
            marker: None,
            receipt: None,
            follow: None,
            ceiling: None,
        }
    }
}

impl std::fmt::Debug for CopyOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("CopyOptions")
            .field("send", &self.send)
            .field("receive", &self.receive)
            .field("ssh", &self.ssh)
            .field("remote_icdc", &self.remote_icdc)
            .field("send_self", &self.send_self)
            .field("ports", &self.ports)
            .field("family", &self.family)
            .field("via", &self.via)
            .field("egresses", &self.egresses)
            .field("identity", &self.identity)
            .field("known_hosts", &self.known_hosts)
            .field("confirm_host", &self.confirm_host.is_some())
            .field("retry_for", &self.retry_for)
            .field("selection", &self.selection.is_some())
            .field("listed", &self.listed.is_some())
            .field("input", &self.input)
            .field("output", &self.output)
            .field("marker", &self.marker)
            .field("receipt", &self.receipt.as_ref().map(|receipt| receipt.path()))
            .field("follow", &self.follow)
            .field("ceiling", &self.ceiling)
            .finish()
    }
}
