//! Messages between the process that makes a lab and its wire process: what to build, and how that
//! went.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::process::Process;
use crate::record::LabRecord;
use crate::settings::Settings;

/// What to build.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// Name of the lab.
    pub(crate) name: String,
    /// Where its state is kept; exists.
    pub(crate) directory: PathBuf,
    /// What it is like.
    pub(crate) settings: Settings,
    /// Whether to make a user namespace for it, for want of rights.
    pub(crate) user_namespace: bool,
    /// The process for which it is: when that ends, however it does, the lab goes. `None`: it stays
    /// until it is taken down.
    pub(crate) owner: Option<Process>,
}

/// How that went.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// The lab stands.
    Ready(Box<LabRecord>),
    /// It does not, and nothing is left of it.
    Failed(String),
}
