//! Looking at a tree, of this host or of a far end: a listing as a stream of records.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use icdc_disk::tree::Tree;
use icdc_filter::Rule;
use icdc_listing::Listing;
use icdc_protocol::message::{ListDetail, ListReach, ListRequest, Refusal};
use icdc_session::SessionError;
use icdc_session::listing::checker::Record;
use icdc_stop::StopSignal;
use icdc_transfer::EventSink;

use crate::connect::{ConnectError, Far};
use crate::failure_kind::FailureKind;
use crate::location::Location;
use crate::options::CopyOptions;
use crate::transfer_id::new_transfer;

/// Extent of a listing: which items it has, and what it tells of each.
#[derive(Clone, Debug)]
pub struct Look {
    /// Directories whose items are listed.
    pub reach: ListReach,
    /// Attributes that are reported of each item.
    pub detail: ListDetail,
    /// Rules over paths: what they exclude is not listed.
    pub rules: Vec<Rule>,
}

/// A listing in progress, of a tree here or at a far end; it ends when this is dropped.
pub struct Looking {
    listing: Listing,
    /// Dropped only after the listing: a far end that ssh has started ends with its ssh.
    _far: Option<Far>,
}

impl Looking {
    /// Begins to list what is at `location`. Of `connection`, the options for reaching the far end
    /// are used.
    ///
    /// # Errors
    /// See [`LookError`].
    pub fn begin(
        location: &Location,
        look: &Look,
        connection: &CopyOptions,
        events: &EventSink,
        stop: &StopSignal,
    ) -> Result<Self, LookError> {
        icdc_tcp::raise_descriptor_limit();
        let request = |path: &[u8]| {
            let Look { reach, detail, rules } = look.clone();
            ListRequest { path: path.to_vec(), reach, detail, rules }
        };
        if let Location::Local(path) = location {
            let tree = Tree::unconfined(Path::new(".")).map_err(|error| LookError::Failed(error.to_string()))?;
            let listing = Listing::here(&tree, request(path.as_os_str().as_bytes()), stop)?;
            return Ok(Self { listing, _far: None });
        }
        // A Ctrl-C also reaches ssh, whose error is then not the cause.
        let not_reached = |error: ConnectError| if stop.is_requested() { ConnectError::Interrupted } else { error };
        let mut far = Far::open(location, connection, events, stop).map_err(not_reached)?;
        let link = far.link().map_err(not_reached)?;
        let transfer = new_transfer().map_err(LookError::Failed)?;
        let listing = Listing::there(link, transfer, request(far.path()), stop)?;
        Ok(Self { listing, _far: Some(far) })
    }

    /// Waits for the next record; `None` once the listing is complete.
    ///
    /// # Errors
    /// See [`LookError`].
    pub fn next_record(&mut self) -> Result<Option<Record>, LookError> {
        Ok(self.listing.next_record()?)
    }
}

/// Reasons why a listing or a change is not complete.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// The other end could not be reached, or did not admit this user.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The path cannot be listed or changed, or the other end refused the request.
    #[error("{}", .0.reason)]
    Refused(Refusal),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The connection to the other end broke.
    #[error("{0}; run the same command again")]
    Lost(String),
    /// Any other failure.
    #[error("{0}")]
    Failed(String),
}

impl LookError {
    /// Kind of failure, which decides the exit code.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Connect(error) => error.into(),
            Self::Refused(refusal) => refusal.kind.into(),
            Self::Interrupted => FailureKind::Interrupted,
            Self::Lost(_) => FailureKind::NotLetIn,
            Self::Failed(_) => FailureKind::Failed,
        }
    }
}

impl From<SessionError> for LookError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Refused(refusal) => Self::Refused(refusal),
            SessionError::Interrupted => Self::Interrupted,
            SessionError::Cut(_) => Self::Lost(error.to_string()),
            SessionError::Protocol(_) | SessionError::Local(_) => Self::Failed(error.to_string()),
        }
    }
}
