//! Hooks that run when a copy or a session has ended: a command, and a webhook.
//!
//! | module | what |
//! |---|---|
//! | [`report`] | the report: JSON, and variables for a command's environment |
//! | [`command`] | a shell command with a time limit |
//! | [`webhook`] | an HTTP request with the JSON, signed if there is a secret |
//! | [`hooks`] | both of them |
//! | [`queue`] | the hooks of a daemon, which run beside its sessions |
//!
//! This crate knows nothing of copies; the binary passes it the report. Values that come from
//! another host are never part of a command line.

#![forbid(unsafe_code)]

pub mod command;
pub mod hooks;
pub mod queue;
pub mod report;
pub mod webhook;

pub use command::{Command, CommandError, Lines};
pub use hooks::Hooks;
pub use queue::{HookQueue, HookSender};
pub use report::Report;
pub use webhook::{Secret, SecretError, Target, TargetError, TargetFileError, Webhook, WebhookError};
