//! What the other end of a connection may do here.

use std::path::PathBuf;
use std::sync::Arc;

use icdc_disk::tree::{Tree, TreeError};
use icdc_protocol::message::{Job, TransferId};
use icdc_transfer::receiver::Allowed;
use icdc_trust::PublicKey;
use icdc_units::Rate;

use crate::listen::credentials::Credentials;
use crate::listen::revocation::Place;

/// What the other end may do.
#[derive(Clone, Debug)]
pub(crate) struct Rights {
    /// Have files sent to it.
    pub(crate) read: bool,
    /// Have files written.
    pub(crate) write: bool,
    /// Only such as are not there yet; what is unfinished is kept apart from that of others by this
    /// key.
    pub(crate) only_new: Option<PublicKey>,
    /// Ceiling of the rate of a session.
    pub(crate) max_rate: Option<Rate>,
    /// Have done what heeds no limit: memory sent and received for a measurement, and a transfer that
    /// this end drives over connections of its own.
    pub(crate) unlimited: bool,
    /// Its place among the sessions of its key, whose number is limited.
    pub(crate) place: Option<Place>,
    /// Have owners and set-id bits given to them.
    pub(crate) owners: bool,
    /// Where its paths are resolved.
    pub(crate) root: Root,
    /// As whom files are opened; `None` for the user of this process.
    pub(crate) acting: Option<Arc<Credentials>>,
    /// A key that was admitted for one transfer may do this and nothing else.
    pub(crate) only: Option<(TransferId, Job)>,
    /// It may admit another key, and have this end drive a transfer.
    pub(crate) may_admit: bool,
    /// For logs.
    pub(crate) label: String,
}

impl Rights {
    /// What it may do at most as one that sends.
    pub(crate) fn allowed(&self) -> Allowed {
        Allowed { only_new: self.only_new.map(|key| *key.as_bytes()), max_rate: self.max_rate }
    }
}

/// Where paths of the other end are resolved.
#[derive(Clone, Debug)]
pub(crate) enum Root {
    /// As in a login of this user: relative paths start at home.
    Unconfined {
        /// The home directory.
        home: PathBuf,
    },
    /// Beneath this directory and nowhere else.
    Confined(PathBuf),
}

impl Root {
    /// Opens the tree.
    pub(crate) fn tree(&self) -> Result<Tree, RootError> {
        match self {
            Self::Unconfined { home } => Ok(Tree::unconfined(home).map_err(RootError::Home)?.with_home(home)),
            Self::Confined(root) => Tree::open(root).map_err(RootError::Confined),
        }
    }
}

/// Why paths of the other end cannot be resolved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RootError {
    /// The home directory cannot be opened.
    #[error(transparent)]
    Home(TreeError),
    /// The directory that a daemon confines a key to cannot be opened.
    #[error(
        "{0}. This is the root= of this key's line: the daemon's operator must make it a directory that the key's \
         user may open, or change the line"
    )]
    Confined(TreeError),
}
