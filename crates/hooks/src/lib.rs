//! Tells others that a copy or a session has ended: by a command, and by a webhook.
//!
//! | module | what |
//! |---|---|
//! | [`told`] | what is told: JSON, and variables for a command's environment |
//! | [`command`] | a shell command with a time limit |
//! | [`webhook`] | an HTTP request with the JSON, perhaps signed |
//! | [`hooks`] | both of them |
//! | [`queue`] | the hooks of a daemon, beside its sessions |
//!
//! Below is nothing that copies; above, the binary says what has ended. Nothing that comes from another
//! host stands in a command line.

#![forbid(unsafe_code)]

pub mod command;
pub mod hooks;
pub mod queue;
pub mod told;
pub mod webhook;

pub use command::{Command, CommandError, Lines};
pub use hooks::Hooks;
pub use queue::{HookQueue, HookSender};
pub use told::Told;
pub use webhook::{Secret, SecretError, Target, TargetError, TargetFileError, Webhook, WebhookError};
