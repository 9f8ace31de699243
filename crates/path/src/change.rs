//! A change of the path while packets are in transit: another route, less capacity, an outage.
//!
//! A change concerns what arrives from then on. What has been accepted keeps the time at which it
//! is due, and nothing overtakes it: behind a route that became shorter, or a bottleneck that
//! became faster, packets arrive at most twice as fast as they departed until the difference is
//! made up.

use icdc_units::{Rate, Span};
use serde::{Deserialize, Serialize};

/// Properties that a path takes on at a given time during a run: a new route, rate, or an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Time of the change, since the first frame arrived.
    pub after: Span,
    /// Rate of the bottleneck, in bits on the wire.
    pub rate: Rate,
    /// New propagation delay of the path.
    pub delay: Span,
    /// Whether everything is lost (the path is cut).
    pub cut: bool,
}
