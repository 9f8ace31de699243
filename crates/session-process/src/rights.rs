//! Rights of a session.

use icdc_tcp::congestion::find;
use icdc_transfer::receiver::Allowed;
use icdc_trust::Access;
use icdc_units::Rate;
use serde::{Deserialize, Serialize};

use crate::root::Root;

/// Reason for refusing a move to a key that may only read.
pub const MAY_NOT_REMOVE: &str =
    "this key may not remove what it reads; leave --move out, or ask for rights=rw in authorized_keys there";

/// Rights of a session: access, ceiling of the rate, root directory and congestion control, as its
/// key's line and the daemon grant them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rights {
    /// Access that the key allows: reading, writing, or both.
    pub access: Access,
    /// Limit of the session's rate as it begins, its share of those of its key and of the daemon;
    /// `None` for no limit, zero if nothing may flow at that time.
    pub max_rate: Option<Rate>,
    /// The highest limit that it can get; `None` for none.
    pub highest_rate: Option<Rate>,
    /// Directory beneath which the session's paths are resolved.
    pub root: Root,
    /// Congestion control that the session may ask for.
    pub congestion: AllowedCongestion,
}

impl Rights {
    /// Limits that the session sets to its receiving end.
    pub fn allowed(&self) -> Allowed {
        let conceals = !self.access.reads();
        Allowed { drop_box: self.access.drop_box(), conceals }
    }
}

/// Algorithms of icdc that the other end may request by name. They are eBPF programs, which this
/// end loads for such a request. The default one, `icdc`, is always allowed; algorithms of the
/// kernel are not limited by this, nor is this end's choice for a request without a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AllowedCongestion {
    /// Any algorithm: the other end has a login here, and could load it by itself.
    Any,
    /// Only the algorithms with these names, of those that are icdc's own.
    Named(Vec<String>),
}

/// Name of icdc's own algorithm: the default of a session.
const OWN: &str = "icdc";

impl AllowedCongestion {
    /// The algorithm to use for a request of `wanted`, and a sentence for the user if that is
    /// another one.
    pub(crate) fn judge<'a>(&self, wanted: Option<&'a str>) -> (Option<&'a str>, Option<String>) {
        let Some(name) = wanted else { return (None, None) };
        let is_allowed = match self {
            Self::Any => true,
            Self::Named(_) => find(name).is_none_or(|ours| self.allows(ours.name)),
        };
        if is_allowed {
            return (wanted, None);
        }
        let reason = format!(
            "congestion control {name:?} is not used: the daemon's operator allows it to nobody (icdc serve --allow-cc)"
        );
        (None, Some(reason))
    }

    /// Whether a session may have the daemon set `algorithm`, one of icdc's own, for a socket.
    pub fn allows(&self, algorithm: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Named(names) => {
                let is_meant = |name: &String| find(name).is_some_and(|allowed| allowed.name == algorithm);
                algorithm == OWN || names.iter().any(is_meant)
            }
        }
    }
}
