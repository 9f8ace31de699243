//! One direction of a relayed connection: bytes from one leg (the source) to the other (the sink).
//!
//! At most one pipe, or one buffer in user space, lies between the two, and nothing more is read
//! before that is written. A slow sink therefore stops the source by TCP's own window.

use std::io;

use icdc_units::{Span, Time};

use crate::leg::{Leg, Received};
use crate::pipe::{PIPE_SIZE, Pipe, Pipes};

/// Bytes that one connection may move before others are served.
const TURN: usize = 4 << 20;

/// One direction of a relayed connection, from one leg (the source) to the other (the sink), with
/// the bytes that are between them.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Read and not yet written, in user space.
    buffer: Vec<u8>,
    /// Pipe for bytes that stay in the kernel; `None` while there are none.
    pipe: Option<Pipe>,
    in_pipe: usize,
    source_ended: bool,
    pub(crate) finished: bool,
    /// Bytes written to the sink.
    pub(crate) moved: u64,
    /// Bytes that [`Flow::take_uncounted`] has already reported.
    counted: u64,
    waits: Waits,
}

/// Time for which one direction has waited for its source to give bytes and for its sink to take
/// them. All time counts as either.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub(crate) source: Span,
    pub(crate) sink: Span,
    since: Time,
    now_for_sink: bool,
}

/// Reason why a flow stopped moving bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// A leg has to become readable or writable.
    Blocked,
    /// The flow's turn is over, and there is more to move.
    More,
    /// Everything has been relayed, the end of the stream included.
    Finished,
}

/// An error of one leg, which ends both directions.
#[derive(Debug)]
pub(crate) struct FlowError {
    /// Whether it was the source's leg that failed; otherwise it was the sink's.
    pub(crate) at_source: bool,
    pub(crate) cause: io::Error,
}

impl Flow {
    /// A direction in which nothing has been relayed. `now` is the time from which its waits for
    /// source and sink count: when the connection was accepted.
    pub(crate) fn new(now: Time) -> Self {
        let waits = Waits { source: Span::ZERO, sink: Span::ZERO, since: now, now_for_sink: false };
        Self {
            buffer: Vec::new(),
            pipe: None,
            in_pipe: 0,
            source_ended: false,
            finished: false,
            moved: 0,
            counted: 0,
            waits,
        }
    }

    /// Takes bytes that were read behind the client's request, to be relayed before all others.
    pub(crate) fn begin_with(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Bytes moved since the last call, for the relay's counters.
    pub(crate) fn take_uncounted(&mut self) -> u64 {
        self.moved - std::mem::replace(&mut self.counted, self.moved)
    }

    /// Times waited for either leg until `now`, the present wait included, or until the flow
    /// finished.
    pub(crate) fn waits(&self, now: Time) -> Waits {
        let mut waits = self.waits;
        if !self.finished {
            waits.note(now, waits.now_for_sink);
        }
        waits
    }

    /// Bytes read from the source and not yet written to the sink.
    pub(crate) fn buffered(&self) -> usize {
        self.buffer.len() + self.in_pipe
    }

    /// Moves what can be moved. Without `may_read`, only what has been read already.
    ///
    /// # Errors
    /// See [`FlowError`].
    pub(crate) fn advance(
        &mut self,
        (source, sink): (&mut Leg, &mut Leg),
        (pipes, scratch): (&mut Pipes, &mut [u8]),
        now: Time,
        may_read: bool,
    ) -> Result<Progress, FlowError> {
        if self.finished {
            return Ok(Progress::Finished);
        }
        let turn = self.turn((source, sink), (&mut *pipes, scratch), may_read);
        if self.in_pipe == 0
            && let Some(pipe) = self.pipe.take()
        {
            pipes.give_back(pipe);
        }
        // What may not be read is not read because too much waits for the sink.
        let for_sink = self.buffered() > 0 || self.source_ended || !may_read;
        self.waits.note(now, for_sink);
        self.finished = matches!(turn, Ok(Progress::Finished));
        turn
    }

    /// Moves bytes until a leg would block, [`TURN`] bytes are moved, or the stream has ended.
    fn turn(
        &mut self,
        (source, sink): (&mut Leg, &mut Leg),
        (pipes, scratch): (&mut Pipes, &mut [u8]),
        may_read: bool,
    ) -> Result<Progress, FlowError> {
        let at_sink = |cause| FlowError { at_source: false, cause };
        let at_source = |cause| FlowError { at_source: true, cause };
        let mut moved = 0;
        loop {
            if !self.write_buffered(sink).map_err(at_sink)? {
                return Ok(Progress::Blocked);
            }
            if self.source_ended {
                let is_shut = sink.shut_down_writing().map_err(at_sink)?;
                return Ok(if is_shut { Progress::Finished } else { Progress::Blocked });
            }
            if !may_read {
                return Ok(Progress::Blocked);
            }
            if moved >= TURN {
                return Ok(Progress::More);
            }
            if self.pipe.is_none() && source.can_be_spliced() && sink.is_clear() && source.readable {
                // Without a free descriptor, bytes are copied through this process.
                self.pipe = pipes.take().ok();
            }
            let spliced = match self.pipe.as_ref().filter(|_| source.can_be_spliced()) {
                Some(pipe) => source.splice_in(pipe, PIPE_SIZE).map_err(at_source)?,
                None => Received::End,
            };
            let received = match spliced {
                Received::Bytes(count) => {
                    self.in_pipe = count;
                    spliced
                }
                Received::WouldBlock => spliced,
                // splice takes urgent data for the end of the stream; a read distinguishes them.
                Received::End => {
                    let received = source.read(scratch).map_err(at_source)?;
                    if let Received::Bytes(count) = received {
                        let written = sink.write(&scratch[..count]);
                        let taken = *written.as_ref().unwrap_or(&0);
                        // Also after an error: it may go to another far leg.
                        self.buffer.extend_from_slice(&scratch[taken..count]);
                        self.moved += written.map_err(at_sink)? as u64;
                    }
                    received
                }
            };
            match received {
                Received::Bytes(count) => moved += count,
                Received::End => self.source_ended = true,
                Received::WouldBlock => return Ok(Progress::Blocked),
            }
        }
    }

    /// Writes what has been read; false if the sink did not take all of it.
    fn write_buffered(&mut self, sink: &mut Leg) -> io::Result<bool> {
        if !sink.flush()? {
            return Ok(false);
        }
        if !self.buffer.is_empty() {
            let written = sink.write(&self.buffer)?;
            self.moved += written as u64;
            if written < self.buffer.len() {
                self.buffer.drain(..written);
                return Ok(false);
            }
            self.buffer = Vec::new();
            // TLS may hold what it has taken.
            return self.write_buffered(sink);
        }
        while let Some(pipe) = self.pipe.as_ref().filter(|_| self.in_pipe > 0) {
            match sink.splice_out(pipe, self.in_pipe)? {
                0 => return Ok(false),
                count => {
                    self.in_pipe -= count;
                    self.moved += count as u64;
                }
            }
        }
        Ok(true)
    }
}

impl Waits {
    /// Counts the time since the last call, for the leg that was waited for; from `now` on the flow
    /// waits for the sink, or for the source.
    fn note(&mut self, now: Time, for_sink: bool) {
        let since = now - self.since;
        *(if self.now_for_sink { &mut self.sink } else { &mut self.source }) += since;
        (self.since, self.now_for_sink) = (now, for_sink);
    }
}
