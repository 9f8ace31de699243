//! The first messages of a sender: its sources, in as many messages as their names need.

use std::collections::VecDeque;

use icdc_protocol::limits::{MAX_HEAD, MAX_NAME};
use icdc_protocol::message::{Begin, Message, Source};

/// Most sources in one message, whatever their names: each takes the bytes of its name and at most
/// 32 besides.
const MOST: usize = MAX_HEAD / (MAX_NAME + 32);

/// Messages that begin a session with `begin`.
pub(super) fn messages(begin: Begin) -> VecDeque<Message> {
    let Begin { job, sources } = begin;
    let mut messages: Vec<Vec<Source>> = sources.chunks(MOST).map(<[Source]>::to_vec).collect();
    let last = messages.pop().unwrap_or_default();
    let ahead = messages.into_iter().map(Message::Sources);
    ahead.chain([Message::Begin(Begin { job, sources: last })]).collect()
}

#[cfg(test)]
mod tests {
    use icdc_protocol::frame;
    use icdc_protocol::limits::MAX_SOURCES;
    use icdc_protocol::message::SourceKind;

    use super::*;

    #[test]
    fn as_many_sources_as_there_may_be_fit_into_messages_in_order() {
        let source = |number: usize| Source {
            name: format!("{number:0255}").into_bytes(),
            kind: SourceKind::Item,
            identity: Some([7; 16]),
        };
        let sources: Vec<Source> = (0..MAX_SOURCES).map(source).collect();
        let mut arrived = Vec::new();
        for message in messages(Begin { job: [1; 32], sources: sources.clone() }) {
            frame::encode(&message, 0, &mut Vec::new()).expect("it keeps to the limits");
            match message {
                Message::Sources(more) => arrived.extend(more),
                Message::Begin(begin) => arrived.extend(begin.sources),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(arrived, sources);
    }
}
