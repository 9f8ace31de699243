//! Reads and writes on pipes that end by a deadline, or when the user asks to stop.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use icdc_stop::{StopDescriptor, StopSignal};
use icdc_tcp::clock;
use icdc_units::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Number of bytes that a writable pipe takes without blocking (`PIPE_BUF`).
const CHUNK: usize = 4096;

/// Whether an operation ended because the user asked to stop.
pub(super) fn is_stopped(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::CANCELED.raw_os_error())
}

/// Reader of a pipe; its reads return `TimedOut` after the deadline, and an error of
/// [`is_stopped`] after a request to stop.
pub(super) struct PatientReader<'a> {
    wait: Wait<'a>,
}

/// Writer to a pipe, with the errors of [`PatientReader`].
pub(super) struct PatientWriter<'a> {
    wait: Wait<'a>,
}

/// Waits for a pipe to be ready, by a deadline.
struct Wait<'a> {
    pipe: BorrowedFd<'a>,
    stop: StopDescriptor,
    deadline: Time,
}

impl<'a> Wait<'a> {
    /// Waits for `pipe` until `deadline`, or until `stop` is requested.
    fn new(pipe: &'a impl AsFd, stop: &StopSignal, deadline: Time) -> io::Result<Self> {
        Ok(Self { pipe: pipe.as_fd(), stop: stop.descriptor()?, deadline })
    }

    /// Waits until the pipe is ready; an error after the deadline or a request to stop.
    fn until(&self, ready: PollFlags) -> io::Result<()> {
        loop {
            let mut polled = [PollFd::new(&self.stop, PollFlags::IN), PollFd::new(&self.pipe, ready)];
            let left = self.deadline - clock::now();
            let timeout = Timespec::try_from(Duration::from_nanos(left.as_nanos())).ok();
            match poll(&mut polled, timeout.as_ref()) {
                Ok(0) => return Err(Errno::TIMEDOUT.into()),
                Ok(_) if !polled[0].revents().is_empty() => return Err(Errno::CANCELED.into()),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl<'a> PatientReader<'a> {
    /// Reader of `pipe` whose reads end at `deadline`, or when `stop` is requested.
    pub(super) fn new(pipe: &'a impl AsFd, stop: &StopSignal, deadline: Time) -> io::Result<Self> {
        Wait::new(pipe, stop, deadline).map(|wait| Self { wait })
    }
}

impl Read for PatientReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait.until(PollFlags::IN)?;
        Ok(rustix::io::read(self.wait.pipe, buffer)?)
    }
}

impl<'a> PatientWriter<'a> {
    /// Writer to `pipe` whose writes end at `deadline`, or when `stop` is requested.
    pub(super) fn new(pipe: &'a impl AsFd, stop: &StopSignal, deadline: Time) -> io::Result<Self> {
        Wait::new(pipe, stop, deadline).map(|wait| Self { wait })
    }
}

impl Write for PatientWriter<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.wait.until(PollFlags::OUT)?;
        Ok(rustix::io::write(self.wait.pipe, &buffer[..buffer.len().min(CHUNK)])?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use icdc_units::Span;

    use super::*;

    #[test]
    fn waits_end_by_the_deadline_and_by_a_request_to_stop() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let stop = StopSignal::new();
        let soon = || clock::now() + Span::from_millis(20);
        let error = PatientReader::new(&reader, &stop, soon()).unwrap().read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let full = PatientWriter::new(&writer, &stop, soon()).unwrap().write_all(&vec![0; 1 << 20]).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::TimedOut);

        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        let late = clock::now() + Span::from_secs(3600);
        let mut waiting = PatientReader::new(&reader, &stop, late).unwrap();
        let error = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| waiting.read(&mut [0]).unwrap_err());
            stop.request();
            waiter.join().unwrap()
        });
        assert!(is_stopped(&error), "{error}");
    }
}
