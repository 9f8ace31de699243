//! One data connection that sends, as its socket is tuned.

use std::fmt;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use icdc_rate::known_paths::Resumption;
use icdc_rate::path_ceiling::State;
use icdc_tcp::congestion::{self, BundleNumber, Chosen, PathHints};
use icdc_tcp::{CongestionError, Privileges, TcpInfo};
use icdc_units::Time;

use crate::stand_in::{StandIn, gains_by_run_up};
use crate::{buffers, known_paths};

/// Manner in which a connection sends: its congestion control, and whether it gives way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendingManner<'a> {
    /// Name of the congestion control; `None` for the best that is available.
    pub congestion: Option<&'a str>,
    /// Whether it gives way to other traffic on its path, if the best congestion control can.
    pub background: bool,
}

/// A TCP connection for sending, whose congestion control has been chosen. What was loaded for it
/// stays loaded as long as this exists.
pub struct Tuned {
    socket: Arc<TcpStream>,
    chosen: Chosen,
    known: Option<Resumption>,
    bundle: Option<BundleNumber>,
    stand_in: Mutex<StandIn>,
    privileges: Privileges,
}

impl Tuned {
    /// Prepares a connection for sending: sets its buffers for the data in flight, and the
    /// congestion control of [`choose`](Self::choose).
    ///
    /// # Errors
    /// As [`choose`](Self::choose).
    pub fn prepare(
        socket: Arc<TcpStream>,
        manner: SendingManner<'_>,
        privileges: &Privileges,
    ) -> Result<Self, CongestionError> {
        buffers::prepare_to_send(&socket, privileges);
        Self::choose(socket, manner, privileges)
    }

    /// Prepares a connection as [`prepare`](Self::prepare), beside others: where the best
    /// congestion control can treat all of them as one flow, it joins their `bundle`.
    ///
    /// # Errors
    /// As [`choose`](Self::choose).
    pub fn prepare_beside(
        socket: Arc<TcpStream>,
        manner: SendingManner<'_>,
        bundle: BundleNumber,
        privileges: &Privileges,
    ) -> Result<Self, CongestionError> {
        buffers::prepare_to_send(&socket, privileges);
        Self::choose_beside(socket, manner, bundle, privileges)
    }

    /// Chooses the congestion control of a connection by its name; it is loaded if necessary.
    /// Without a name it is the best that is available here, and begins from what earlier
    /// connections found of the path.
    ///
    /// # Errors
    /// Neither the kernel nor icdc has it; the text says what there is.
    pub fn choose(
        socket: Arc<TcpStream>,
        manner: SendingManner<'_>,
        privileges: &Privileges,
    ) -> Result<Self, CongestionError> {
        Self::choose_beside(socket, manner, BundleNumber::random(), privileges)
    }

    /// Chooses as [`choose`](Self::choose), with the bundle of connections that the best congestion
    /// control may count this one to.
    fn choose_beside(
        socket: Arc<TcpStream>,
        manner: SendingManner<'_>,
        bundle: BundleNumber,
        privileges: &Privileges,
    ) -> Result<Self, CongestionError> {
        let SendingManner { congestion, background } = manner;
        let (chosen, known) = match congestion {
            Some(name) => (congestion::choose(&*socket, name, privileges)?, None),
            None => {
                let known = known_paths::resume(&socket, privileges);
                let hints = PathHints { known, bundle: Some(bundle), background };
                (congestion::choose_best(&*socket, hints, privileges)?, known)
            }
        };
        let bundle = Some(bundle).filter(|_| chosen.has_hints);
        Ok(Self { socket, chosen, known, bundle, stand_in: Mutex::default(), privileges: privileges.clone() })
    }

    /// Prepares a connection for sending, and leaves it the system's default congestion control.
    ///
    /// # Errors
    /// The socket is none of TCP.
    pub fn prepare_plain(socket: Arc<TcpStream>, privileges: &Privileges) -> Result<Self, CongestionError> {
        buffers::prepare_to_send(&socket, privileges);
        let known = known_paths::resume(&socket, privileges);
        let chosen = congestion::keep(&*socket)?;
        Ok(Self { socket, chosen, known, bundle: None, stand_in: Mutex::default(), privileges: privileges.clone() })
    }

    /// Bundle of connections that the congestion control counts this one to; `None` if it treats
    /// it as a flow of its own.
    #[must_use]
    pub fn bundle(&self) -> Option<BundleNumber> {
        self.bundle
    }

    /// Socket of the connection, for other options.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Notice for the user if the congestion control is not what was requested: the reason, and
    /// what it is instead; `None` otherwise.
    #[must_use]
    pub fn instead(&self) -> Option<&str> {
        self.chosen.instead.as_deref()
    }

    /// Rate and round-trip time of the path that were known when the connection was prepared;
    /// `None` if nothing was, or if the user named the congestion control.
    #[must_use]
    pub fn known_path(&self) -> Option<Resumption> {
        self.known
    }

    /// Kernel name of the connection's own congestion control, also while
    /// [`update_algorithm`](Self::update_algorithm) has replaced it; empty if it cannot be read.
    #[must_use]
    pub fn congestion(&self) -> String {
        let own = self.stand_in().own().map(str::to_owned);
        own.or_else(|| icdc_tcp::congestion(&*self.socket).ok()).unwrap_or_default()
    }

    /// Whether the connection gains by a congestion window that has grown before data flows: its
    /// path is known and long, and its congestion control does not begin from what is known.
    #[must_use]
    pub fn gains_by_run_up(&self) -> bool {
        gains_by_run_up(self.known, &self.congestion())
    }

    /// Records that data may flow from now on. Where the window has grown before
    /// ([`gains_by_run_up`](Self::gains_by_run_up)), a plain congestion control replaces one that
    /// paces, so that the window goes on doubling.
    pub fn begin_data(&self) {
        if self.gains_by_run_up() {
            self.stand_in().take_over(&self.socket);
        }
    }

    /// Replaces a congestion control that paces by a plain one while a ceiling holds the rate
    /// without loss, or restores it. To be called with each sample `info` of the connection;
    /// `state` is that of the ceiling on its rate.
    pub fn update_algorithm(&self, now: Time, info: &TcpInfo, state: State) {
        self.stand_in().update_algorithm(&self.socket, now, info, state);
    }

    /// Remembers for later connections what this one found of its path.
    pub fn remember_path(&self, found: Resumption) {
        known_paths::remember(&self.socket, found, &self.privileges);
    }

    /// Directory that [`remember_path`](Self::remember_path) writes to; `None` if it writes
    /// nothing.
    #[must_use]
    pub fn remembers_in(&self) -> Option<PathBuf> {
        known_paths::directory(&self.socket, &self.privileges)
    }

    fn stand_in(&self) -> MutexGuard<'_, StandIn> {
        self.stand_in.lock().expect("no panic while an algorithm is changed")
    }
}

impl fmt::Debug for Tuned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tuned").field("congestion", &self.chosen.name).finish_non_exhaustive()
    }
}
