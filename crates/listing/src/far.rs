//! The end that lists for another.

use icdc_disk::tree::Tree;
use icdc_filter::Rules;
use icdc_link::{Answering, Link};
use icdc_protocol::message::{ListMessage, ListRequest, Listed, Refusal, RefusalKind};
use icdc_protocol::validate::clip;
use icdc_protocol::{Features, Message};
use icdc_session::SessionError;
use icdc_session::listing::window::{Sent, weight};
use icdc_stop::StopSignal;

use crate::produce::produce;
use crate::root::Root;

/// Lists a part of `tree` for the other end, as requested, and sends it the records; ends early
/// when `stop` is requested or the other end leaves.
///
/// # Errors
/// The error by which the session ended; the other end has been told.
pub fn answer(link: Link, tree: &Tree, request: &ListRequest, stop: &StopSignal) -> Result<(), SessionError> {
    let over = stop.child();
    let answering = Answering::begin(link, &over, used).map_err(|error| SessionError::Local(error.to_string()))?;
    let outcome = list(tree, request, &over, &answering);
    match &outcome {
        Ok(()) => answering.send(Message::List(ListMessage::End)),
        Err(SessionError::Refused(refusal)) => answering.send(Message::Refused(refusal.clone())),
        Err(error) => error.refusal().into_iter().for_each(|refusal| answering.send(Message::Abort(refusal))),
    }
    answering.close();
    // An end that has seen enough leaves.
    if outcome == Err(SessionError::Interrupted) && !stop.is_requested() { Ok(()) } else { outcome }
}

/// Finds the requested item, accepts the request, and sends its records as fast as the requesting
/// end uses them. The caller tells that end of an error.
fn list(tree: &Tree, request: &ListRequest, over: &StopSignal, answering: &Answering<u32>) -> Result<(), SessionError> {
    let refused = |reason: String| SessionError::Refused(Refusal::new(RefusalKind::Path, clip(reason)));
    let root = Root::find(tree, &request.path).map_err(|error| refused(error.to_string()))?;
    let rules = Rules::compile(&request.rules).map_err(|error| refused(error.to_string()))?;
    answering.send(Message::Accepted(Features::OURS));
    let mut sent = Sent::default();
    let mut broken = None;
    let mut pass = |records: Vec<Listed>| match await_room(answering, &mut sent, weight(&records)) {
        Ok(true) => {
            answering.send(Message::List(ListMessage::Listed(records)));
            true
        }
        Ok(false) => false,
        Err(rule) => {
            broken = Some(SessionError::Protocol(rule.to_owned()));
            false
        }
    };
    let produced = produce(root, (request, &rules), over, &mut pass);
    broken.map_or(produced, Err)
}

/// Weight of records that the requesting end says it has used; `None` for any other message, which
/// ends the session.
fn used(message: &Message) -> Option<u32> {
    match message {
        Message::List(ListMessage::Used { weight }) => Some(*weight),
        _ => None,
    }
}

/// Waits until records of this weight may be sent, which depends on what the requesting end has
/// used; false if it has left.
///
/// # Errors
/// The rule that the other end breaks.
fn await_room(answering: &Answering<u32>, sent: &mut Sent, weight: usize) -> Result<bool, &'static str> {
    answering.heard().try_for_each(|used| sent.used(used))?;
    while !sent.send(weight) {
        match answering.hear() {
            Some(used) => sent.used(used)?,
            None => return Ok(false),
        }
    }
    Ok(true)
}
