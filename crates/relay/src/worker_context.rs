//! State of one worker thread that its connections use.

use std::io;
use std::sync::Arc;

use icdc_units::Time;

use crate::context::RelayContext;
use crate::mailbox::Mailbox;
use crate::pipe::Pipes;
use crate::poller::Poller;
use crate::warm::WarmLegs;

/// Bytes that are read at a time where they have to pass through this process.
const SCRATCH: usize = 256 << 10;

/// State of a worker that is passed to every connection that it drives.
pub(crate) struct WorkerContext {
    pub(crate) relay: Arc<RelayContext>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) poller: Poller,
    pub(crate) pipes: Pipes,
    pub(crate) scratch: Vec<u8>,
    pub(crate) warm: WarmLegs,
    /// Time of the events that are being handled.
    pub(crate) now: Time,
}

impl WorkerContext {
    /// Context of a worker that takes its messages from `mailbox`.
    pub(crate) fn new(relay: Arc<RelayContext>, mailbox: Arc<Mailbox>, now: Time) -> io::Result<Self> {
        let poller = Poller::new(&mailbox.wakeup)?;
        let (pipes, warm) = (Pipes::default(), WarmLegs::default());
        Ok(Self { relay, mailbox, poller, pipes, scratch: vec![0; SCRATCH], warm, now })
    }
}
