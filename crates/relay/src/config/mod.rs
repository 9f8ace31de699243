//! The configuration of a relay, ready to use: every value of a [`Draft`] parsed, checked and
//! loaded.

mod draft;
mod limits;
mod listener;
mod plan;
mod private;
mod routes;
mod rules;
mod users;

pub use draft::{Draft, ExitDraft, LegDraft, LimitsDraft, ListenDraft, RouteDraft, RuleDraft};
pub use limits::Limits;
pub use listener::{Listener, ListenerKind};
pub use plan::{Config, ConfigError, Exit};
pub use private::is_private;
pub use routes::{Hop, LegSettings, NextRelay, Route, Routes};
pub use rules::{Decision, Rule, Rules};
pub use users::Users;
