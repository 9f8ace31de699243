//! A far end that ssh starts or that runs as a daemon; it can be connected, and connected again
//! after a cut.

use std::sync::Arc;

use icdc_link::Link;
use icdc_protocol::limits::MAX_STREAMS;
use icdc_stop::StopSignal;
use icdc_transfer::{EventSink, Via as Route};

use super::ahead::Need;
use super::error::ConnectError;
use super::reach::connecting;
use super::{Dial, Further, Reaches};
use super::{daemon, ssh};
use crate::location::Location;
use crate::options::CopyOptions;

/// A far end, started by ssh or running as a daemon, that can be connected and reconnected.
pub struct Far {
    path: Vec<u8>,
    name: String,
    kind: Kind,
    events: EventSink,
}

/// Kind of far end, with what makes links to it.
enum Kind {
    /// A far end that this end starts by ssh.
    Ssh(Box<ssh::SshFar>),
    /// A far end that runs as a daemon.
    Daemon(Box<daemon::DaemonFar>),
}

impl Far {
    /// Reaches the far end: starts it by ssh, or verifies the daemon's key. Gives up when `stop` is
    /// requested, now and in [`Far::link`].
    ///
    /// # Errors
    /// See [`ConnectError`].
    ///
    /// # Panics
    /// If `location` is local.
    pub fn open(
        location: &Location,
        options: &CopyOptions,
        events: &EventSink,
        stop: &StopSignal,
    ) -> Result<Self, ConnectError> {
        Self::open_for(Need::ONE, location, options, events, stop)
    }

    /// Reaches the far end as [`Far::open`], for sessions that need several connections.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub(crate) fn open_for(
        need: Need,
        location: &Location,
        options: &CopyOptions,
        events: &EventSink,
        stop: &StopSignal,
    ) -> Result<Self, ConnectError> {
        let kind = match location {
            Location::Ssh { host, .. } => Kind::Ssh(Box::new(ssh::SshFar::open(host, need, options, events, stop)?)),
            Location::Daemon { host, port, .. } => {
                events(connecting(host, *port));
                Kind::Daemon(Box::new(daemon::DaemonFar::open(host, *port, need, options, stop)?))
            }
            Location::Local(path) => {
                unreachable!("{} is local: nothing to connect to", path.display())
            }
        };
        let name = location.host_name().unwrap_or_default().to_owned();
        Ok(Self { path: location.path().to_vec(), name, kind, events: Arc::clone(events) })
    }

    /// Makes the first link of a session, now and again after a cut. Starts the far side anew by
    /// ssh when its listener is gone.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn link(&mut self) -> Result<Link, ConnectError> {
        let link = match &mut self.kind {
            Kind::Ssh(far) => far.link(),
            Kind::Daemon(far) => far.link(&self.events),
        };
        Ok(link?.to_host(&self.name))
    }

    /// Returns a function that makes one further link, from any thread, to the far end that
    /// [`Far::link`] has reached.
    pub(crate) fn further(&mut self) -> Further<'static> {
        let further = match &mut self.kind {
            Kind::Ssh(far) => far.further(),
            Kind::Daemon(far) => far.further(),
        };
        let name = self.name.clone();
        Box::new(move |number, stop| Ok(further(number, stop)?.to_host(&name)))
    }

    /// See [`Connect::datagrams`](super::Connect::datagrams).
    pub(crate) fn datagrams(&self) -> Option<Reaches> {
        match &self.kind {
            Kind::Ssh(far) => far.datagrams(),
            Kind::Daemon(far) => far.datagrams(),
        }
    }

    /// See [`Connect::is_over_datagrams`](super::Connect::is_over_datagrams).
    pub(crate) fn is_over_datagrams(&self) -> bool {
        match &self.kind {
            Kind::Ssh(far) => far.is_over_datagrams(),
            Kind::Daemon(far) => far.is_over_datagrams(),
        }
    }

    /// Has later sessions go over datagrams.
    pub(crate) fn take_datagrams(&mut self) {
        match &mut self.kind {
            Kind::Ssh(far) => far.choice().take(),
            Kind::Daemon(far) => far.choice().take(),
        }
    }

    /// Has later sessions go over TCP again.
    pub(crate) fn leave_datagrams(&mut self) {
        match &mut self.kind {
            Kind::Ssh(far) => far.choice().leave(),
            Kind::Daemon(far) => far.choice().leave(),
        }
    }

    /// Returns the route by which [`Far::link`] has reached the far end, and a function that
    /// makes one further connection to the far end's port by this route with each call.
    ///
    /// # Panics
    /// If ssh starts the far end, and the last [`Far::link`] has not succeeded.
    pub(crate) fn dial(&self) -> (Route, Dial) {
        match &self.kind {
            Kind::Ssh(far) => far.dial(),
            Kind::Daemon(far) => far.dial(),
        }
    }

    /// Maximum number of links, the first included, that can be made without a question to the
    /// user.
    pub(crate) fn most_links(&self) -> u8 {
        match &self.kind {
            Kind::Ssh(far) => far.most_connections(),
            Kind::Daemon(_) => MAX_STREAMS,
        }
    }

    /// Minimum number of links, the first included, that use every egress that the user has named.
    pub(crate) fn least_links(&self) -> u8 {
        match &self.kind {
            Kind::Ssh(far) => far.least_connections(),
            Kind::Daemon(far) => far.least_connections(),
        }
    }

    /// Path at the far end, as the user wrote it.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// Name of the host, for messages.
    #[must_use]
    pub fn name(&self) -> String {
        self.name.clone()
    }
}
