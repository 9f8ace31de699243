//! What the other end of a connection may do here.

use std::sync::Arc;

use icdc_protocol::message::{Transfer, TransferId};
use icdc_tcp::congestion::find;
use icdc_transfer::receiver::Allowed;
use icdc_trust::Access;
use icdc_units::Rate;
use serde::{Deserialize, Serialize};

use crate::listen::revocation::Place;
use crate::root::Root;
use crate::worker::User;

/// What the other end may do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Rights {
    /// Have files sent to it, or written.
    pub(crate) access: Access,
    /// Ceiling of the rate of a session.
    pub(crate) max_rate: Option<Rate>,
    /// Have done what heeds no limit: memory sent and received for a measurement, and a transfer that
    /// this end drives over connections of its own.
    pub(crate) unlimited: bool,
    /// Its place among the sessions of its key, where they are limited.
    #[serde(skip)]
    pub(crate) place: Option<Place>,
    /// Have owners and set-id bits given to them.
    pub(crate) owners: bool,
    /// Where its paths are resolved.
    pub(crate) root: Root,
    /// The user whose process serves it; `None` for the user of this one.
    #[serde(skip)]
    pub(crate) acting: Option<Arc<User>>,
    /// A key that was admitted for one transfer may do this and nothing else.
    pub(crate) only: Option<(TransferId, Transfer)>,
    /// It may admit another key, and have this end drive a transfer.
    pub(crate) may_admit: bool,
    /// Congestion control that it may ask for.
    pub(crate) congestion: AllowedCongestion,
    /// For logs.
    pub(crate) label: String,
}

impl Rights {
    /// What it may do at most as one that sends.
    pub(crate) fn allowed(&self) -> Allowed {
        Allowed { drop_box: self.access.drop_box(), max_rate: self.max_rate }
    }
}

/// Congestion control that the other end may ask for by name, beside what the kernel has itself: icdc's own
/// ones are eBPF, which is loaded for it. What is chosen without a name is this end's own business.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AllowedCongestion {
    /// Any: the other end has a login here, and could load it by itself.
    Any,
    /// Those of these names.
    Named(Vec<String>),
}

/// What finds the rate by itself: chosen where nothing is asked for.
const OWN: &str = "icdc";

impl AllowedCongestion {
    /// What is used when `wanted` is asked for, and a sentence if that is something else.
    pub(crate) fn judge<'a>(&self, wanted: Option<&'a str>) -> (Option<&'a str>, Option<String>) {
        let Some(name) = wanted else { return (None, None) };
        let is_allowed = match self {
            Self::Any => true,
            Self::Named(_) => find(name).is_none_or(|ours| self.lends(ours.name)),
        };
        if is_allowed {
            return (wanted, None);
        }
        let reason = format!(
            "congestion control {name:?} is not used: the daemon's operator allows it to nobody (icdc serve --allow-cc)"
        );
        (None, Some(reason))
    }

    /// Whether a session may have the daemon use `algorithm`, one of icdc's, for a socket.
    pub(crate) fn lends(&self, algorithm: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Named(names) => {
                let is_meant = |name: &String| find(name).is_some_and(|allowed| allowed.name == algorithm);
                algorithm == OWN || names.iter().any(is_meant)
            }
        }
    }
}
