//! One direction of a relayed connection: what arrives at one leg leaves by the other.
//!
//! At most one pipe, or one piece in user space, lies between the two: nothing more is read before that is written.
//! So a sink that is slow stops the source by TCP's own window, and nothing else has to.

use std::io;

use icdc_units::{Span, Time};

use crate::leg::{Arrived, Leg};
use crate::pipe::{PIPE_SIZE, Pipe, Pipes};

/// What one turn may move before others have theirs.
const TURN: usize = 4 << 20;

/// One direction.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Read and not yet written, in user space.
    piece: Vec<u8>,
    /// The same in the kernel.
    pipe: Option<Pipe>,
    in_pipe: usize,
    source_ended: bool,
    pub(crate) finished: bool,
    /// Bytes that have left.
    pub(crate) moved: u64,
    pub(crate) waits: Waits,
}

/// Which leg a direction has waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub(crate) source: Span,
    pub(crate) sink: Span,
    since: Time,
    now_for_sink: bool,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// An event will tell when there is more to do.
    Waiting,
    /// There is more to do.
    More,
    /// Everything has been passed on, the end included.
    Finished,
}

/// What ends both directions.
#[derive(Debug)]
pub(crate) struct Broken {
    /// At the source, or at the sink.
    pub(crate) at_source: bool,
    pub(crate) cause: io::Error,
}

impl Flow {
    pub(crate) fn new(now: Time) -> Self {
        let waits = Waits { source: Span::ZERO, sink: Span::ZERO, since: now, now_for_sink: false };
        Self { piece: Vec::new(), pipe: None, in_pipe: 0, source_ended: false, finished: false, moved: 0, waits }
    }

    /// Bytes that have been read ahead of the data's turn.
    pub(crate) fn begin_with(&mut self, bytes: &[u8]) {
        self.piece.extend_from_slice(bytes);
    }

    /// Bytes between the two legs.
    pub(crate) fn held(&self) -> usize {
        self.piece.len() + self.in_pipe
    }

    /// Moves what can be moved. Without `may_read`, only what has been read already.
    pub(crate) fn advance(
        &mut self,
        (source, sink): (&mut Leg, &mut Leg),
        (pipes, scratch): (&mut Pipes, &mut [u8]),
        now: Time,
        may_read: bool,
    ) -> Result<Turn, Broken> {
        if self.finished {
            return Ok(Turn::Finished);
        }
        let turn = self.turn((source, sink), (&mut *pipes, scratch), may_read);
        if self.in_pipe == 0
            && let Some(pipe) = self.pipe.take()
        {
            pipes.give_back(pipe);
        }
        let for_sink = self.held() > 0 || self.source_ended;
        self.waits.note(now, for_sink);
        self.finished = matches!(turn, Ok(Turn::Finished));
        turn
    }

    fn turn(
        &mut self,
        (source, sink): (&mut Leg, &mut Leg),
        (pipes, scratch): (&mut Pipes, &mut [u8]),
        may_read: bool,
    ) -> Result<Turn, Broken> {
        let at_sink = |cause| Broken { at_source: false, cause };
        let at_source = |cause| Broken { at_source: true, cause };
        let mut moved = 0;
        loop {
            if !self.write_held(sink).map_err(at_sink)? {
                return Ok(Turn::Waiting);
            }
            if self.source_ended {
                let ended = sink.end_writing().map_err(at_sink)?;
                return Ok(if ended { Turn::Finished } else { Turn::Waiting });
            }
            if !may_read {
                return Ok(Turn::Waiting);
            }
            if moved >= TURN {
                return Ok(Turn::More);
            }
            if self.pipe.is_none() && source.can_be_spliced() && sink.is_clear() && source.readable {
                // Where descriptors have run out, bytes take the way through this process.
                self.pipe = pipes.take().ok();
            }
            let spliced = match self.pipe.as_ref().filter(|_| source.can_be_spliced()) {
                Some(pipe) => source.splice_in(pipe, PIPE_SIZE).map_err(at_source)?,
                None => Arrived::End,
            };
            let arrived = match spliced {
                Arrived::Bytes(count) => {
                    self.in_pipe = count;
                    spliced
                }
                Arrived::Later => spliced,
                // Urgent data, which splice cannot pass, looks like an end to it: a read knows.
                Arrived::End => {
                    let arrived = source.read(scratch).map_err(at_source)?;
                    if let Arrived::Bytes(count) = arrived {
                        let written = sink.write(&scratch[..count]);
                        let taken = *written.as_ref().unwrap_or(&0);
                        // Also after an error: another leg may take it.
                        self.piece.extend_from_slice(&scratch[taken..count]);
                        self.moved += written.map_err(at_sink)? as u64;
                    }
                    arrived
                }
            };
            match arrived {
                Arrived::Bytes(count) => moved += count,
                Arrived::End => self.source_ended = true,
                Arrived::Later => return Ok(Turn::Waiting),
            }
        }
    }

    /// Writes what has been read; false if some of it still waits.
    fn write_held(&mut self, sink: &mut Leg) -> io::Result<bool> {
        if !sink.flush()? {
            return Ok(false);
        }
        if !self.piece.is_empty() {
            let written = sink.write(&self.piece)?;
            self.moved += written as u64;
            if written < self.piece.len() {
                self.piece.drain(..written);
                return Ok(false);
            }
            self.piece = Vec::new();
            // What TLS has taken may still be in its hands.
            return self.write_held(sink);
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
    fn note(&mut self, now: Time, for_sink: bool) {
        let since = now - self.since;
        *(if self.now_for_sink { &mut self.sink } else { &mut self.source }) += since;
        (self.since, self.now_for_sink) = (now, for_sink);
    }
}
