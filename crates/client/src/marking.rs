//! Data connections that are announced to the networks by fireflies (SciTags).

use std::sync::Arc;

use icdc_link::Link;
use icdc_scitags::{Flows, Marker};

use crate::connect::{Connect, ConnectError, Further, Reaches};

/// A far end whose data connections are announced to the networks by fireflies (SciTags), if there
/// is a marker.
pub(crate) struct Marked<'a, C> {
    far: &'a mut C,
    flows: Option<Flows>,
}

impl<'a, C: Connect> Marked<'a, C> {
    /// Wraps `far` so that the connections made to it are announced; `sends` if this end sends the
    /// data. No marker, no announcement.
    pub(crate) fn new(far: &'a mut C, marker: Option<&Arc<Marker>>, sends: bool) -> Self {
        Self { far, flows: marker.map(|marker| marker.flows(sends)) }
    }
}

impl<C: Connect> Connect for Marked<'_, C> {
    fn link(&mut self) -> Result<Link, ConnectError> {
        // Those of a session that was cut.
        if let Some(flows) = &self.flows {
            flows.end();
        }
        let link = self.far.link()?;
        mark(self.flows.as_ref(), &link);
        Ok(link)
    }

    fn further(&mut self) -> Result<Further<'_>, ConnectError> {
        let (further, flows) = (self.far.further()?, self.flows.as_ref());
        Ok(Box::new(move |number, stop| further(number, stop).inspect(|link| mark(flows, link))))
    }

    fn datagrams(&self) -> Option<Reaches> {
        self.far.datagrams()
    }

    fn is_over_datagrams(&self) -> bool {
        self.far.is_over_datagrams()
    }

    fn take_datagrams(&mut self) {
        self.far.take_datagrams();
    }

    fn leave_datagrams(&mut self) {
        self.far.leave_datagrams();
    }

    fn most_links(&self) -> u8 {
        self.far.most_links()
    }

    fn least_links(&self) -> u8 {
        self.far.least_links()
    }
}

/// Announces the link's TCP connection. A link that another program carries has no socket here.
fn mark(flows: Option<&Flows>, link: &Link) {
    if let (Some(flows), Some(socket)) = (flows, link.control.socket()) {
        flows.add(socket);
    }
}
