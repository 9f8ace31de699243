//! The first connection of a sending session, with its socket tuned for that.

use std::net::TcpStream;
use std::sync::Arc;

use icdc_link::{Link, LinkControl, LinkError};
use icdc_protocol::Features;
use icdc_rate::connection_count::{KERNEL_BUFFERS, needed};
use icdc_rate::controller::Controller;
use icdc_tcp::congestion::BundleNumber;
use icdc_tcp::{CongestionError, Privileges};
use icdc_tuning::{SendingManner, Tuned};

/// First connection of a sending session, ready to send, with the tuning of its socket.
pub struct SendingLink {
    /// The connection.
    pub link: Link,
    /// Tuning of the connection's socket; `None` for a link that is not TCP.
    pub tuned: Option<Tuned>,
    /// The receiver's features, as far as they are known before it answers.
    pub peer: Features,
    /// Privileges with which the sockets of further links are tuned.
    pub privileges: Privileges,
}

/// A [`SendingLink`] without its two directions, which threads of their own have.
pub(super) struct FirstConnection {
    /// Rate controller of all connections.
    pub(super) controller: Controller,
    pub(super) control: LinkControl,
    pub(super) tuned: Option<Tuned>,
    pub(super) peer: Features,
    pub(super) privileges: Privileges,
}

impl SendingLink {
    /// Flushes what waits to the carrier, as the receiver has to answer before data can flow.
    /// Where the connection gains by that, the round trip is used to let its window grow: see
    /// [`Outlet::fill`](icdc_link::Outlet::fill).
    ///
    /// # Errors
    /// As [`Outlet::send`](icdc_link::Outlet::send).
    pub fn await_answer(&mut self) -> Result<(), LinkError> {
        let gains = self.tuned.as_ref().is_some_and(Tuned::gains_by_run_up);
        if gains { self.link.outlet.fill() } else { self.link.outlet.flush() }
    }
}

/// Prepares a link for sending in this manner; `None` for a link that is not TCP.
///
/// Where the receiver offers so little that the path needs several connections, the system's own is
/// the best: all of them are steered as one ([`icdc_rate::bundle`]).
///
/// # Errors
/// As [`Tuned::choose`].
pub fn tune(
    control: &LinkControl,
    manner: SendingManner<'_>,
    privileges: &Privileges,
) -> Result<Option<Tuned>, CongestionError> {
    let prepare = |socket: &Arc<TcpStream>| match manner.congestion {
        None if is_bound_by_receiver(control) => Tuned::prepare_plain(Arc::clone(socket), privileges),
        _ => Tuned::prepare(Arc::clone(socket), manner, privileges),
    };
    control.socket().map(prepare).transpose()
}

/// Whether the receiver's window is so small that the path needs several connections.
fn is_bound_by_receiver(control: &LinkControl) -> bool {
    control.tcp_info().is_some_and(|info| needed(KERNEL_BUFFERS.or(info.send_window), info.min_rtt, None) > 1)
}

/// Prepares a link beside others for sending, as [`tune`], in their bundle if there is one.
pub(super) fn tune_beside(
    control: &LinkControl,
    manner: SendingManner<'_>,
    bundle: Option<BundleNumber>,
    privileges: &Privileges,
) -> Result<Option<Tuned>, CongestionError> {
    let Some(bundle) = bundle else { return tune(control, manner, privileges) };
    let prepare = |socket: &Arc<TcpStream>| Tuned::prepare_beside(Arc::clone(socket), manner, bundle, privileges);
    control.socket().map(prepare).transpose()
}
