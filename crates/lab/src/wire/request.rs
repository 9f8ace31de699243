//! Messages between the process that makes a lab and its wire process: the request to build it, and
//! the answer.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::process::Process;
use crate::record::LabRecord;
use crate::settings::Settings;

/// Request to build a lab.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    /// Name of the lab to build.
    pub(crate) name: String,
    /// Existing directory for the lab's state.
    pub(crate) directory: PathBuf,
    /// Settings of the lab to build.
    pub(crate) settings: Settings,
    /// Whether the lab needs a user namespace of its own, because rights are missing.
    pub(crate) user_namespace: bool,
    /// The process that owns the lab: when it ends, in whatever way, the lab is taken down. `None`:
    /// it stays until it is taken down.
    pub(crate) owner: Option<Process>,
}

/// The wire process's answer to the request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// The lab is complete.
    Ready(Box<LabRecord>),
    /// Building the lab failed with this message, and nothing of it is left.
    Failed(String),
}
