//! A link to a host that is known by name: what its other end says is told with that name.

use icdc_disk::pool::BlockPool;

use crate::error::LinkError;
use crate::halves::Inlet;
use crate::link::Link;
use crate::parcel::Parcel;
use crate::secure::InletState;

impl Link {
    /// This link to an end on `host`: the reasons and sentences that arrive over it begin with that name.
    #[must_use]
    pub fn to_host(self, host: &str) -> Self {
        Self { inlet: Box::new(Named { inlet: self.inlet, host: host.to_owned() }), ..self }
    }
}

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
