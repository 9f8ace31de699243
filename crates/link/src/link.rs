//! A link: two halves and their control.

use std::fmt;
use std::sync::Arc;

use icdc_disk::pool::BlockPool;

use crate::control::{Control, LinkControl};
use crate::error::LinkError;
use crate::halves::{Inlet, Outlet};
use crate::parcel::Parcel;
use crate::secure::{InletState, OutletState};

/// A link: a bidirectional stream of frames, as a sending half, a receiving half and a control.
pub struct Link {
    /// Sending half.
    pub outlet: Box<dyn Outlet>,
    /// Receiving half.
    pub inlet: Box<dyn Inlet>,
    /// Control that monitors the link and can end it.
    pub control: LinkControl,
}

impl Link {
    /// Link of these parts.
    pub(crate) fn new(outlet: impl Outlet + 'static, inlet: impl Inlet + 'static, control: Arc<dyn Control>) -> Self {
        Self {
            outlet: Box::new(Fuse { half: outlet, blown: false }),
            inlet: Box::new(Fuse { half: inlet, blown: false }),
            control: LinkControl(control),
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("peer", &self.control.peer()).finish_non_exhaustive()
    }
}

/// Wrapper of a half of a link that is not called again after its first error.
struct Fuse<T> {
    half: T,
    blown: bool,
}

impl<T> Fuse<T> {
    fn call<R>(&mut self, call: impl FnOnce(&mut T) -> Result<R, LinkError>) -> Result<R, LinkError> {
        if self.blown {
            return Err(LinkError::Broken);
        }
        let result = call(&mut self.half);
        self.blown = result.is_err();
        result
    }
}

impl<T: Outlet> Outlet for Fuse<T> {
    fn send(&mut self, parcel: Parcel) -> Result<(), LinkError> {
        self.call(|outlet| outlet.send(parcel))
    }

    fn flush(&mut self) -> Result<(), LinkError> {
        self.call(Outlet::flush)
    }

    fn fill(&mut self) -> Result<(), LinkError> {
        self.call(Outlet::fill)
    }

    fn hand_over(self: Box<Self>) -> Option<OutletState> {
        if self.blown { None } else { Box::new(self.half).hand_over() }
    }
}

impl<T: Inlet> Inlet for Fuse<T> {
    fn receive(&mut self, pool: &BlockPool) -> Result<Parcel, LinkError> {
        self.call(|inlet| inlet.receive(pool))
    }

    fn hand_over(self: Box<Self>) -> Option<InletState> {
        if self.blown { None } else { Box::new(self.half).hand_over() }
    }
}
