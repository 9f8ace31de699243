//! The first message to a far side as a word of its command line, and as the frame that comes over its
//! standard input.

use std::str::FromStr;

use icdc_units::{hexadecimal, of_hexadecimal};
use thiserror::Error;

use crate::Message;
use crate::bootstrap::Bootstrap;
use crate::frame::{self, PREFIX_LENGTH, Prefix};

/// Longest [`Bootstrap::word`] that is read, in characters: the release is a text.
const LONGEST_WORD: usize = 4096;

/// Reason why a word of the command line is no [`Bootstrap`].
#[derive(Debug, Error)]
#[error("it is not what a starting end tells")]
pub struct NoBootstrap;

impl Bootstrap {
    /// The message as a frame, which fits into any pipe.
    ///
    /// # Panics
    /// The message is not within its limits.
    #[must_use]
    pub fn frame(&self) -> Vec<u8> {
        let mut frame = Vec::new();
        frame::encode(&Message::Bootstrap(self.clone()), 0, &mut frame).expect("it is short and well-formed");
        frame
    }

    /// The message as a word of a command line: its frame in hexadecimal digits.
    ///
    /// # Panics
    /// As [`Self::frame`].
    #[must_use]
    pub fn word(&self) -> String {
        hexadecimal(&self.frame())
    }
}

impl FromStr for Bootstrap {
    type Err = NoBootstrap;

    fn from_str(word: &str) -> Result<Self, NoBootstrap> {
        let frame =
            Some(word).filter(|word| word.len() <= LONGEST_WORD).and_then(|word| of_hexadecimal(word.as_bytes()));
        let frame = frame.ok_or(NoBootstrap)?;
        let (prefix, head) = frame.split_first_chunk::<PREFIX_LENGTH>().ok_or(NoBootstrap)?;
        let Prefix { head: length, payload } = Prefix::parse(prefix).map_err(|_| NoBootstrap)?;
        match frame::decode_head(head, payload) {
            Ok(Message::Bootstrap(bootstrap)) if length == head.len() && payload == 0 => Ok(bootstrap),
            _ => Err(NoBootstrap),
        }
    }
}
