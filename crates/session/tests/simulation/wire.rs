//! The connections between the two ends: messages arrive late, in order, and not at all once the wire is cut.

use std::collections::VecDeque;

use icdc_path::{Delay, DelayLine};
use icdc_protocol::frame::{self, FrameError, PREFIX_LENGTH, Prefix};
use icdc_protocol::{BLOCK_SIZE, Message};
use icdc_units::{Span, Time};

use crate::disk::Number;
use crate::random::Random;

/// Data of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    Block(Number),
    Small(Vec<u8>),
}

/// A message with what it carries.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) message: Message,
    pub(crate) payload: Option<Payload>,
}

impl Frame {
    /// What the other end takes it for: encoded, decoded and checked as the product does it.
    ///
    /// # Errors
    /// Why it cannot be sent, or would not be believed.
    pub(crate) fn transmitted(self) -> Result<Self, FrameError> {
        let payload_length = match &self.payload {
            None => 0,
            // A number stands for the contents of a block, of which a part has its range.
            Some(Payload::Block(_)) => match &self.message {
                Message::Part(part) => part.range().len(),
                _ => BLOCK_SIZE,
            },
            Some(Payload::Small(bytes)) => bytes.len(),
        };
        let mut bytes = Vec::new();
        frame::encode(&self.message, payload_length, &mut bytes)?;
        let (prefix, head) = bytes.split_first_chunk::<PREFIX_LENGTH>().ok_or(FrameError::NoHead)?;
        let prefix = Prefix::parse(prefix)?;
        Ok(Self { message: frame::decode_head(&head[..prefix.head], prefix.payload)?, payload: self.payload })
    }
}

impl From<Message> for Frame {
    fn from(message: Message) -> Self {
        Self { message, payload: None }
    }
}

/// How a direction of a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The other end has closed it behind its last message.
    Closed,
    /// The connection is gone.
    Broken,
}

/// What comes out of a direction.
#[derive(Clone, Debug)]
pub(crate) enum Arrival {
    Frame(Box<Frame>),
    End(End),
}

/// One direction of a connection, with what its receiving end has not read yet.
#[derive(Debug)]
pub(crate) struct Direction {
    delay: Delay,
    line: DelayLine<Arrival>,
    unread: VecDeque<Arrival>,
    /// Frames that may be on their way or unread.
    window: usize,
    /// Nothing more can be sent.
    ended: bool,
    /// The wire is cut: what is sent is lost.
    is_cut: bool,
    /// Frames that were sent since.
    lost: usize,
    /// The end has arrived, read or not.
    hung_up: bool,
}

impl Direction {
    pub(crate) fn new(delay: Span, jitter: Span, window: usize, random: &mut Random) -> Self {
        let delay = Delay::new(delay, jitter, random.below(u64::MAX));
        Self {
            delay,
            line: DelayLine::default(),
            unread: VecDeque::new(),
            window,
            ended: false,
            is_cut: false,
            lost: 0,
            hung_up: false,
        }
    }

    /// Whether another frame can be sent now without waiting.
    pub(crate) fn has_room(&self) -> bool {
        self.line.held() + self.unread.len() + self.lost < self.window
    }

    /// Sends something; tells when it arrives. `None` if nothing can be sent any more.
    pub(crate) fn send(&mut self, now: Time, arrival: Arrival) -> Option<Time> {
        if self.ended {
            return None;
        }
        self.ended = matches!(arrival, Arrival::End(_));
        if self.is_cut {
            self.lost += 1;
            return Some(now);
        }
        let due = self.delay.deliver(now);
        self.line.push(due, arrival);
        Some(due)
    }

    /// Moves what has arrived by now to where it is read; gives the number of frames.
    pub(crate) fn deliver(&mut self, now: Time) -> usize {
        let mut frames = 0;
        while let Some((_, arrival)) = self.line.pop_due(now) {
            frames += usize::from(matches!(arrival, Arrival::Frame(_)));
            self.hung_up |= matches!(arrival, Arrival::End(_));
            self.unread.push_back(arrival);
        }
        frames
    }

    /// The next thing to read.
    pub(crate) fn peek(&self) -> Option<&Arrival> {
        self.unread.front()
    }

    pub(crate) fn read(&mut self) -> Option<Arrival> {
        self.unread.pop_front()
    }

    /// Nothing of what is on its way arrives any more, nor what is sent from now on.
    pub(crate) fn cut(&mut self) {
        self.is_cut = true;
        self.line = DelayLine::default();
    }

    /// The sending end learns that the connection is gone.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// The receiving end learns that the connection is gone.
    pub(crate) fn notice(&mut self) {
        if !self.hung_up {
            self.hung_up = true;
            self.unread.push_back(Arrival::End(End::Broken));
        }
    }

    /// Whether the end has arrived, read or not.
    pub(crate) fn is_hung_up(&self) -> bool {
        self.hung_up
    }
}
