//! Result of a copy, as a message from the driving end to the client.

use icdc_protocol::message::{Refusal, RefusalKind};
use icdc_protocol::validate::clip;

use crate::connect::ConnectError;
use crate::error::CopyError;

/// Message by which the driving end reports to the client that the copy failed.
pub fn refusal(error: &CopyError) -> Refusal {
    let kind = match error {
        CopyError::Usage(_) => RefusalKind::Path,
        CopyError::Connect(_) => RefusalKind::Busy,
        CopyError::Refused(refusal) => refusal.kind,
        CopyError::Interrupted
        | CopyError::StreamBroken(_)
        | CopyError::StreamKept { .. }
        | CopyError::DeviceUnfinished(_)
        | CopyError::FilesUnfinished { .. }
        | CopyError::Lost(_) => RefusalKind::Interrupted,
        CopyError::Failed(_) => RefusalKind::Internal,
    };
    Refusal { kind, reason: clip(error.to_string()) }
}

/// The client's error from the driving end's failure message. `from` and `to` are the names of the
/// sending and the receiving far end; `stopped` if the user asked to stop.
pub(super) fn error(refusal: Refusal, from: &str, to: &str, stopped: bool) -> CopyError {
    match refusal.kind {
        RefusalKind::Busy => {
            let (from, to) = (from.to_owned(), to.to_owned());
            ConnectError::Between { from, to, reason: refusal.reason }.into()
        }
        RefusalKind::Interrupted if stopped => CopyError::Interrupted,
        RefusalKind::Interrupted => CopyError::Lost(format!("between {from} and {to}: {}", refusal.reason)),
        RefusalKind::NotAllowed
        | RefusalKind::Path
        | RefusalKind::Protocol
        | RefusalKind::Internal
        | RefusalKind::Running => {
            CopyError::Refused(Refusal { reason: attributed(&refusal.reason, from, to), ..refusal })
        }
    }
}

/// Text of the driving end `from`, prefixed with its name, unless it already begins with the name
/// of the end `to`.
pub(super) fn attributed(text: &str, from: &str, to: &str) -> String {
    let is_named = text.strip_prefix(to).is_some_and(|rest| rest.starts_with(": "));
    if is_named { text.to_owned() } else { format!("{from}: {text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_failure_survives_the_way() {
        let unreachable = ConnectError::BadHost { host: "b".into() };
        let refused = Refusal { kind: RefusalKind::NotAllowed, reason: "no".into() };
        for (stopped, failure) in [
            (false, CopyError::Connect(unreachable)),
            (false, CopyError::Refused(refused)),
            (true, CopyError::Interrupted),
            (false, CopyError::Lost("cut".into())),
            (false, CopyError::Failed("disk".into())),
        ] {
            let arrived = error(refusal(&failure), "a", "b", stopped);
            assert_eq!(arrived.kind(), failure.kind(), "{failure}");
            assert!(stopped || arrived.to_string().contains(failure.to_string().trim()), "{arrived}");
        }
    }

    #[test]
    fn a_sentence_has_the_host_that_it_is_about_once() {
        assert_eq!(attributed("b: x: permission denied", "a", "b"), "b: x: permission denied");
        assert_eq!(attributed("x: permission denied", "a", "b"), "a: x: permission denied");
        assert_eq!(attributed("b/x: permission denied", "a", "b"), "a: b/x: permission denied");
    }
}
