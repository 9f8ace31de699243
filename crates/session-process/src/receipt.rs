//! The daemon as the notary of a session's process: the key stays with the daemon, which states itself
//! who delivers what to whom, and digests and signs what it has stated. And the receipt that the end
//! which drives a copy between two passes on.

use std::sync::{Arc, Mutex, PoisonError};

use icdc_link::MessageWriter;
use icdc_protocol::Message;
use icdc_protocol::message::{PassedReceipt, SnapshotTime};
use icdc_protocol::receipt::MAX_PASSED_LINES;
use icdc_session::sender::ReceiptText;
use icdc_transfer::{Notary, ReceiptSink, SignedReceipt};

use crate::messages::{ReceiptAnswer, ReceiptRequest};
use crate::privileged_helper::DaemonHelper;

/// Notary of a session's process: has the daemon begin, extend and sign the receipt, because the
/// key stays with the daemon.
pub(crate) struct DaemonNotary {
    daemon: Arc<DaemonHelper>,
    /// Reason for which lines could not be added.
    failed: Mutex<Option<String>>,
}

impl DaemonNotary {
    /// Notary that asks the daemon for each step.
    pub(crate) fn new(daemon: &Arc<DaemonHelper>) -> Self {
        Self { daemon: Arc::clone(daemon), failed: Mutex::default() }
    }

    fn ask(&self, request: ReceiptRequest) -> Result<ReceiptAnswer, String> {
        self.daemon.receipt(request)
    }
}

impl Notary for DaemonNotary {
    fn begin(&self, directory: &str) -> Result<Vec<u8>, String> {
        match self.ask(ReceiptRequest::Begin { directory: directory.to_owned() })? {
            ReceiptAnswer::Begun(facts) => Ok(facts),
            ReceiptAnswer::Added | ReceiptAnswer::Signed(_) => Err(WRONG.to_owned()),
        }
    }

    fn add(&self, lines: Vec<u8>) {
        let added = parts(&lines, MOST_LINES).try_for_each(|part| match part.len() {
            0..=MOST_LINES => self.ask(ReceiptRequest::Add(part.to_vec())).map(drop),
            _ => Err("a path is too long for a receipt".to_owned()),
        });
        if let Err(reason) = added {
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        }
    }

    fn sign(&self, snapshot: Option<SnapshotTime>) -> Result<SignedReceipt, String> {
        if let Some(reason) = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(reason);
        }
        match self.ask(ReceiptRequest::Sign { snapshot })? {
            ReceiptAnswer::Signed(signed) => Ok(signed),
            ReceiptAnswer::Begun(_) | ReceiptAnswer::Added => Err(WRONG.to_owned()),
        }
    }
}

/// Most bytes of lines in one request, unless a line is longer: half of the longest message.
const MOST_LINES: usize = 1 << 20;

/// Passes the receipt of a copy between two far ends on to the client, from the end that drives.
pub(crate) struct ToClient(pub(crate) MessageWriter);

impl ReceiptSink for ToClient {
    fn take(&self, part: ReceiptText) {
        let pass = |part| self.0.send(Message::PassedReceipt(part));
        match part {
            ReceiptText::Begun(facts) => pass(PassedReceipt::Begun(facts)),
            ReceiptText::Items(lines) => {
                parts(&lines, MAX_PASSED_LINES).for_each(|part| pass(PassedReceipt::Items(part.to_vec())));
            }
            ReceiptText::Signed { facts, key, signature } => pass(PassedReceipt::Signed { facts, key, signature }),
            ReceiptText::Refused(reason) => pass(PassedReceipt::Refused(reason)),
        }
    }
}

/// Whole lines, in parts of at most `most` bytes; a longer line is a part of its own.
fn parts(mut lines: &[u8], most: usize) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let end = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte == b'\n');
        let first = || lines.iter().position(|byte| *byte == b'\n').unwrap_or(lines.len() - 1);
        let last = match lines.len() {
            0 => return None,
            length => end(&lines[..length.min(most)]).unwrap_or_else(first),
        };
        let (part, rest) = lines.split_at(last + 1);
        lines = rest;
        Some(part)
    })
}

/// Sentence for an answer of another kind than that of the request.
const WRONG: &str = "the daemon has answered something else";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_divided_between_requests_and_never_within() {
        let line = [b"x".repeat(300_000), b"\n".to_vec()].concat();
        let long = [b"y".repeat(2 * MOST_LINES), b"\n".to_vec()].concat();
        let all = [line.repeat(7), long.clone(), line.clone()].concat();
        let found: Vec<&[u8]> = parts(&all, MOST_LINES).collect();
        assert_eq!(found.concat(), all);
        assert!(found.iter().all(|part| part.ends_with(b"\n") && (part.len() <= MOST_LINES || **part == long)));
        assert_eq!(found.len(), 5);
        assert_eq!(parts(b"", MOST_LINES).count(), 0);
    }
}
