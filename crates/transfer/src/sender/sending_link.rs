//! The first connection of a sending session, with its socket tuned for that.

use std::sync::Arc;

use icdc_link::{Link, LinkControl, LinkError};
use icdc_tcp::CongestionError;
use icdc_tuning::Tuned;

/// A link, and how its socket is tuned; `None` for one that is not TCP.
pub struct SendingLink {
    /// The link.
    pub link: Link,
    /// How its socket is tuned.
    pub tuned: Option<Tuned>,
}

impl SendingLink {
    /// Hands what waits to the carrier while the receiver has to answer before data can flow. Where
    /// the connection gains by that, the round trip is used to let its window grow: see
    /// [`Outlet::fill`](icdc_link::Outlet::fill).
    ///
    /// # Errors
    /// As [`Outlet::send`](icdc_link::Outlet::send).
    pub fn await_answer(&mut self) -> Result<(), LinkError> {
        let gains = self.tuned.as_ref().is_some_and(Tuned::gains_by_run_up);
        if gains { self.link.outlet.fill() } else { self.link.outlet.flush() }
    }
}

/// Prepares a link for sending, with the congestion control that was asked for, or else the best
/// there is; `None` for one that is not TCP.
///
/// # Errors
/// As [`Tuned::choose`].
pub fn tune(control: &LinkControl, congestion: Option<&str>) -> Result<Option<Tuned>, CongestionError> {
    control.socket().map(|socket| Tuned::prepare(Arc::clone(socket), congestion)).transpose()
}
