//! Data in both directions, and the next relay's answer before what comes back.

use std::sync::atomic::Ordering::Relaxed;

use icdc_protocol::relay::peer::{ANSWER, Verdict};
use icdc_units::{ByteCount, Time};

use super::{Connection, End, Next};
use crate::flow::{Broken, Turn};
use crate::leg::{Arrived, Leg};
use crate::tools::Tools;

impl Connection {
    pub(super) fn pass(&mut self, tools: &mut Tools) -> Result<Next, End> {
        match self.pass_on(tools) {
            Err(broken) if broken.at_far && self.was_stale() => self.try_next(tools),
            Err(broken) if broken.at_far && self.answer.is_some() => {
                Err(End::NotReached(Verdict::Unreachable, format!("the next relay is gone: {}", broken.cause)))
            }
            Err(broken) => {
                let leg = if broken.at_far { "far" } else { "near" };
                Err(End::Broken(format!("{leg} leg: {}", broken.cause)))
            }
            Ok(Passed::Refused(verdict)) => Err(End::NotReached(verdict, format!("the next relay says: {verdict}"))),
            Ok(Passed::On(next)) => {
                if self.is_finished() {
                    Err(End::Finished)
                } else {
                    Ok(next)
                }
            }
        }
    }

    fn pass_on(&mut self, tools: &mut Tools) -> Result<Passed, Cut> {
        let Some(far) = &mut self.far else { return Ok(Passed::On(Next::Wait)) };
        let of_up = |broken: Broken| Cut { at_far: !broken.at_source, cause: broken.cause };
        let of_down = |broken: Broken| Cut { at_far: broken.at_source, cause: broken.cause };
        let (now, paused) = (tools.now, self.paused);
        let means = (&mut tools.pipes, tools.scratch.as_mut_slice());
        let up = self.up.advance((&mut self.near, &mut *far), means, now, !paused.up).map_err(of_up)?;
        if let Some(answer) = &mut self.answer {
            let gone = |cause| Cut { at_far: true, cause };
            let whole = loop {
                let mut bytes = [0; ANSWER];
                let missing = ANSWER - answer.len();
                match far.read(&mut bytes[..missing]).map_err(gone)? {
                    Arrived::Bytes(count) => answer.extend_from_slice(&bytes[..count]),
                    Arrived::Later => return Ok(Passed::On(if up == Turn::More { Next::More } else { Next::Wait })),
                    Arrived::End => return Err(gone(std::io::ErrorKind::UnexpectedEof.into())),
                }
                if let Ok(whole) = <[u8; ANSWER]>::try_from(answer.as_slice()) {
                    break whole;
                }
            };
            match Verdict::decode(whole) {
                Some(Verdict::Connected) => {}
                Some(verdict) => return Ok(Passed::Refused(verdict)),
                None => return Err(gone(std::io::Error::other("it does not answer as a relay does"))),
            }
            self.answer = None;
            self.deadline = Time::MAX;
            self.answer_near(Verdict::Connected);
        }
        let Some(far) = &mut self.far else { return Ok(Passed::On(Next::Wait)) };
        let means = (&mut tools.pipes, tools.scratch.as_mut_slice());
        let down = self.down.advance((far, &mut self.near), means, now, !paused.down).map_err(of_down)?;
        Ok(Passed::On(if up == Turn::More || down == Turn::More { Next::More } else { Next::Wait }))
    }

    /// Brings the counters up to date.
    pub(super) fn settle_counts(&mut self, tools: &Tools) {
        let counters = &tools.house.counters;
        counters.bytes_up.fetch_add(self.up.moved - self.counted.0, Relaxed);
        counters.bytes_down.fetch_add(self.down.moved - self.counted.1, Relaxed);
        self.counted = (self.up.moved, self.down.moved);
    }

    /// Bytes of it that wait in this relay, the sockets included.
    pub(super) fn weigh(&self) -> ByteCount {
        let unread = self.near.unread() + self.far.as_ref().map_or(ByteCount::ZERO, Leg::unread);
        self.on_the_way_up() + self.on_the_way_down() + unread
    }

    /// Of these, what has been read from the near leg: it leaves whether more is read or not.
    pub(super) fn on_the_way_up(&self) -> ByteCount {
        ByteCount::from(self.up.held()) + self.far.as_ref().map_or(ByteCount::ZERO, Leg::queue)
    }

    /// The same from the far leg.
    pub(super) fn on_the_way_down(&self) -> ByteCount {
        ByteCount::from(self.down.held()) + self.near.queue()
    }
}

enum Passed {
    On(Next),
    Refused(Verdict),
}

/// A leg that broke.
struct Cut {
    at_far: bool,
    cause: std::io::Error,
}
