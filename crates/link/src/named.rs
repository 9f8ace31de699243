//! A link to a host that is known by name: messages of its other end are shown with that name.

use icdc_disk::pool::BlockPool;

use crate::error::LinkError;
use crate::halves::Inlet;
use crate::link::Link;
use crate::parcel::Parcel;
use crate::secure::InletState;

impl Link {
    /// Prefixes the reasons and texts for the user that arrive over this link with the name
    /// `host`.
    #[must_use]
    pub fn to_host(self, host: &str) -> Self {
        Self { inlet: Box::new(Named { inlet: self.inlet, host: host.to_owned() }), ..self }
    }
}

/// Receiving half of a link that prefixes texts for the user with the name of its host.
struct Named {
    inlet: Box<dyn Inlet>,
    host: String,
}

impl Inlet for Named {
    fn receive(&mut self, pool: &BlockPool) -> Result<Parcel, LinkError> {
        let Parcel { message, payload } = self.inlet.receive(pool)?;
        Ok(Parcel { message: message.told_by(&self.host), payload })
    }

    fn hand_over(self: Box<Self>) -> Option<InletState> {
        self.inlet.hand_over()
    }
}
