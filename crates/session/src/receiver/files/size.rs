//! The size of a file whose blocks arrive: known from the start, or only from the end of a stream.

use icdc_protocol::block_map::{block_count, block_length};
use icdc_protocol::limits::{BLOCK_SIZE, MAX_FILE_SIZE};
use icdc_protocol::message::Streamed;
use icdc_units::ByteCount;

use super::expected::Length;

/// Size of a large file whose blocks arrive; that of a stream is known only at its end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Size {
    /// The size is known from the announcement.
    Known(ByteCount),
    /// A stream has not ended. `last`: number and length of a block that is not whole; `None` if none has
    /// arrived.
    Open { last: Option<(u32, ByteCount)> },
    /// A stream has ended, of which blocks may still arrive.
    Ended { streamed: Streamed, last: Option<(u32, ByteCount)> },
}

/// Error: a stream's blocks are not those of its length, or a file ended as a stream, or the reverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mismatch;

impl Size {
    /// The size of a file of this length.
    pub(super) fn new(length: Length) -> Self {
        match length {
            Length::Known(size) => Self::Known(size),
            Length::Stream => Self::Open { last: None },
        }
    }

    /// Number of bytes in the file; of a stream that has not ended, the most that it may have.
    pub(super) fn bytes(self) -> ByteCount {
        match self {
            Self::Known(size) => size,
            Self::Open { .. } => ByteCount::new(MAX_FILE_SIZE),
            Self::Ended { streamed, .. } => ByteCount::new(streamed.size),
        }
    }

    /// Length of a block that has arrived.
    pub(super) fn length_of(self, index: u32) -> ByteCount {
        match self {
            Self::Open { last: Some((last, length)) } if last == index => length,
            _ => ByteCount::from(block_length(self.bytes().as_u64(), index)),
        }
    }

    /// The size of a stream of which a block has arrived that is not whole; it must be the only one.
    pub(super) fn with_last(self, index: u32, length: ByteCount) -> Result<Self, Mismatch> {
        let short = Some((index, length));
        match self {
            Self::Open { last } if last.is_none() || last == short => Ok(Self::Open { last: short }),
            Self::Ended { streamed, .. } if short == short_block(streamed.size) => {
                Ok(Self::Ended { streamed, last: short })
            }
            Self::Known(_) | Self::Open { .. } | Self::Ended { .. } => Err(Mismatch),
        }
    }

    /// The size of a stream that has ended so. A block that is not whole must be its last.
    pub(super) fn ended(self, streamed: Streamed) -> Result<Self, Mismatch> {
        match self {
            Self::Open { last } if last.is_none() || last == short_block(streamed.size) => {
                Ok(Self::Ended { streamed, last })
            }
            Self::Known(_) | Self::Open { .. } | Self::Ended { .. } => Err(Mismatch),
        }
    }

    /// Whether the blocks, all of which have arrived, have the lengths that the size gives them.
    pub(super) fn is_filled(self) -> bool {
        match self {
            Self::Known(_) => true,
            Self::Open { .. } => false,
            Self::Ended { streamed, last } => last == short_block(streamed.size),
        }
    }

    /// Number of bytes in the first `count` blocks.
    pub(super) fn leading(self, count: u32) -> ByteCount {
        let whole = ByteCount::from(BLOCK_SIZE) * u64::from(count);
        match self {
            Self::Open { last: Some((last, length)) } if count == last + 1 => {
                ByteCount::from(BLOCK_SIZE) * u64::from(last) + length
            }
            Self::Known(_) | Self::Open { .. } | Self::Ended { .. } => whole.min(self.bytes()),
        }
    }

    /// Properties that the stream has told at its end; `None` if it has not ended, and of a file.
    pub(super) fn streamed(self) -> Option<Streamed> {
        match self {
            Self::Ended { streamed, .. } => Some(streamed),
            Self::Known(_) | Self::Open { .. } => None,
        }
    }
}

/// Number and length of the block of a file of `size` bytes that is not whole; `None` if all are.
fn short_block(size: u64) -> Option<(u32, ByteCount)> {
    let last = block_count(size).checked_sub(1)?;
    let length = block_length(size, last);
    (length < BLOCK_SIZE).then(|| (last, ByteCount::from(length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: u64 = BLOCK_SIZE as u64;

    fn streamed(size: u64) -> Streamed {
        Streamed { size, mtime_seconds: 7, mtime_nanos: 1 }
    }

    /// A stream of `size` bytes whose only short block, if any, comes before its end or behind it.
    fn filled(size: u64, short: Option<(u32, u64)>, comes_first: bool) -> bool {
        let take = |stream: Result<Size, Mismatch>| match short {
            Some((index, length)) => stream.and_then(|stream| stream.with_last(index, ByteCount::new(length))),
            None => stream,
        };
        let end = |stream: Result<Size, Mismatch>| stream.and_then(|stream| stream.ended(streamed(size)));
        let open = Ok(Size::new(Length::Stream));
        let stream = if comes_first { end(take(open)) } else { take(end(open)) };
        stream.is_ok_and(Size::is_filled)
    }

    #[test]
    fn only_the_last_block_of_a_stream_may_be_short_and_by_as_much_as_its_size_says() {
        let shorts = [None, Some((0, 5)), Some((1, 5)), Some((1, 6)), Some((2, WHOLE - 1))];
        let sizes = [(0, None), (WHOLE, None), (9 * WHOLE, None), (5, Some((0, 5))), (WHOLE + 5, Some((1, 5)))];
        for (size, right) in sizes.into_iter().chain([(3 * WHOLE - 1, Some((2, WHOLE - 1)))]) {
            for (short, comes_first) in shorts.into_iter().flat_map(|short| [(short, true), (short, false)]) {
                assert_eq!(filled(size, short, comes_first), short == right, "{short:?} in {size}, {comes_first}");
            }
        }
        let one = Size::new(Length::Stream).with_last(1, ByteCount::new(5)).expect("it is the first one");
        assert!(one.with_last(2, ByteCount::new(5)).is_err(), "a second short block");
        assert!(one.with_last(1, ByteCount::new(5)).is_ok(), "a retransmitted one");
        assert_eq!(one.length_of(1), ByteCount::new(5));
        assert_eq!([0, 1, 2].map(|count| one.leading(count).as_u64()), [0, WHOLE, WHOLE + 5]);
        assert!(!one.is_filled() && one.streamed().is_none(), "it has not ended");
    }

    #[test]
    fn a_file_is_no_stream() {
        let known = Size::new(Length::Known(ByteCount::new(5)));
        assert!(known.with_last(0, ByteCount::new(5)).is_err() && known.ended(streamed(5)).is_err());
    }
}
