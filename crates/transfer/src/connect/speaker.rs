//! A thread that sends what others give it, and a sign of life when they give it nothing: links that
//! are silent for long are given up by their ends, and forgotten by firewalls on their way.

use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use icdc_protocol::Message;

use crate::link::{DEAD_AFTER, Outlet};

/// Messages that may wait; who has more waits too.
const DEPTH: usize = 256;

/// Sends on behalf of any thread. Clones speak through the same outlet.
#[derive(Clone)]
pub(crate) struct Speaker {
    say: Sender<Word>,
}

/// Ends the speaker when it is dropped, after everything said before has been sent.
pub(crate) struct SpeakerEnd {
    say: Sender<Word>,
    thread: Option<JoinHandle<()>>,
}

/// A message, or `None` for the end: clones of the speaker may outlive it.
type Word = Option<Message>;

impl Speaker {
    pub(crate) fn start(outlet: Box<dyn Outlet>) -> std::io::Result<(Self, SpeakerEnd)> {
        let (say, words) = bounded(DEPTH);
        let thread = std::thread::Builder::new().name("speaker".into()).spawn(move || speak(outlet, &words))?;
        Ok((Self { say: say.clone() }, SpeakerEnd { say, thread: Some(thread) }))
    }

    /// Sends a message, soon. Once the link is gone it goes nowhere: who receives notices.
    pub(crate) fn say(&self, message: Message) {
        let _ = self.say.send(Some(message));
    }
}

impl Drop for SpeakerEnd {
    fn drop(&mut self) {
        let _ = self.say.send(None);
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by its own thread.
            let _ = thread.join();
        }
    }
}

fn speak(mut outlet: Box<dyn Outlet>, words: &Receiver<Word>) {
    let pause = Duration::from_nanos(DEAD_AFTER.as_nanos() / 4);
    loop {
        let message = match words.recv_timeout(pause) {
            Ok(Some(message)) => message,
            Err(RecvTimeoutError::Timeout) => Message::Ping,
            Ok(None) | Err(RecvTimeoutError::Disconnected) => return,
        };
        let sent = outlet.send(message.into());
        let flushed = if words.is_empty() { outlet.flush() } else { Ok(()) };
        if let Err(error) = sent.and(flushed) {
            tracing::debug!("nothing more can be said: {error}");
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::ssh::receive;
    use crate::link::{LinkError, memory_pair};

    #[test]
    fn everything_said_arrives_before_the_end() {
        let (near, mut far) = memory_pair();
        let (speaker, end) = Speaker::start(near.outlet).unwrap();
        for _ in 0..3 {
            speaker.say(Message::Accepted);
        }
        drop(end);
        for _ in 0..3 {
            assert_eq!(receive(far.inlet.as_mut()).unwrap(), Message::Accepted);
        }
        assert!(matches!(receive(far.inlet.as_mut()), Err(LinkError::Closed)));
        speaker.say(Message::Accepted);
    }
}
