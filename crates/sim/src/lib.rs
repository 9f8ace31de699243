//! TCP flows over a long fat path in virtual time.
#![forbid(unsafe_code)]

mod engine;
mod held;
mod observer;
mod outcome;
mod receiver;
mod scenario;
mod sender;

pub use engine::simulate;
pub use observer::Observer;
pub use outcome::{FlowOutcome, Outcome};
pub use scenario::{Acknowledgements, Flow, ReceiveWindow, Scenario, ScenarioError};
pub use sender::{SenderCounters, SenderState};
