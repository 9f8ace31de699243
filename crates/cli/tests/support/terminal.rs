//! A command at a terminal of its own, as a user has it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use icdc_stop::ChildProcess;
use rustix::process::{Signal, kill_process};

use super::process::started_by;

const PATIENCE: Duration = Duration::from_secs(60);

/// A running command whose standard streams are one terminal. Killed when dropped.
pub struct Terminal {
    child: ChildProcess,
    keyboard: File,
    screen: Arc<(Mutex<String>, Condvar)>,
}

impl Terminal {
    pub fn start(command: &mut Command) -> Self {
        let (master, slave) = pair();
        let stream = || Stdio::from(slave.try_clone().unwrap());
        let child = command.stdin(stream()).stdout(stream()).stderr(stream()).env("TERM", "xterm").spawn().unwrap();
        // The command's own descriptors of it are the last ones but for the process's.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        drop(slave);
        let keyboard = File::from(master);
        let screen = Arc::<(Mutex<String>, Condvar)>::default();
        let (mut reader, shown) = (keyboard.try_clone().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Reading ends with an error when nobody holds the other end any more.
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                *shown.0.lock().unwrap() += &String::from_utf8_lossy(&buffer[..length]);
                shown.1.notify_all();
            }
        });
        Self { child: ChildProcess::new(child), keyboard, screen }
    }

    /// Starts the command as the foreground of the terminal, which controls it: what is typed may interrupt.
    pub fn start_in_foreground(command: &Command) -> Self {
        let mut alone = Command::new("setsid");
        alone.arg("--ctty");
        Self::start(&mut started_by(alone, command))
    }

    /// All that was written to the terminal so far, escape sequences included.
    pub fn screen(&self) -> String {
        self.screen.0.lock().unwrap().clone()
    }

    /// Waits until `words` were written.
    #[track_caller]
    pub fn wait_for(&self, words: &str) {
        let deadline = Instant::now() + PATIENCE;
        let mut screen = self.screen.0.lock().unwrap();
        while !screen.contains(words) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{words:?} is not shown: {screen:?}");
            (screen, _) = self.screen.1.wait_timeout(screen, left).unwrap();
        }
    }

    pub fn write(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.child.pid(), signal).unwrap();
    }

    /// Waits for its end.
    pub fn finish(mut self) -> ExitStatus {
        let ended = self.child.wait_for(PATIENCE.into()).unwrap();
        ended.unwrap_or_else(|| panic!("it does not end: {:?}", self.screen()))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Both ends of a terminal of 100 columns.
fn pair() -> (OwnedFd, OwnedFd) {
    let (mut master, mut slave) = (-1, -1);
    let size = libc::winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the descriptors are written to two variables that live, the size is read, the rest
    // may be null.
    let made = unsafe { libc::openpty(&mut master, &mut slave, std::ptr::null_mut(), std::ptr::null(), &size) };
    assert_eq!(made, 0, "openpty: {}", std::io::Error::last_os_error());
    // SAFETY: both were just opened and belong to nobody else.
    unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) }
}
