//! The terminal: what goes to standard output, what to standard error, and the progress bar
//! between.

use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use icdc_client::ConfirmHost;
use icdc_stop::StopSignal;
use indicatif::ProgressBar;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

/// Writer to standard output and standard error, which keeps messages and the progress bar apart.
/// Clones write to the same.
#[derive(Clone)]
pub(crate) struct Console {
    shared: Arc<Output>,
}

/// State that the clones of a [`Console`] share.
struct Output {
    /// `None` once the reader of standard output is gone.
    output: Mutex<Option<BufWriter<Stdout>>>,
    /// Results could not be written, for another reason than a closed pipe.
    lost: AtomicBool,
    /// Cleared while something else is printed to standard error.
    bar: Mutex<Option<ProgressBar>>,
}

impl Console {
    /// Console of this process.
    pub(crate) fn new() -> Self {
        let output = Mutex::new(Some(BufWriter::new(io::stdout())));
        Self { shared: Arc::new(Output { output, lost: AtomicBool::new(false), bar: Mutex::new(None) }) }
    }

    /// Prints a message to the user on standard error, behind `icdc: `.
    pub(crate) fn complain(&self, text: &str) {
        self.print(&format!("icdc: {text}\n"));
    }

    /// Prints the error that ends the command, with its causes; returns `code`.
    pub(crate) fn give_up(&self, error: &anyhow::Error, code: u8) -> u8 {
        self.complain(&format!("{error:#}"));
        code
    }

    /// Prints text on standard error, above the progress bar, without characters that could steer
    /// the terminal.
    pub(crate) fn print(&self, text: &str) {
        let text = printable(text);
        // Nobody is left to be told if standard error is closed.
        let write = || drop(io::stderr().lock().write_all(text.as_bytes()));
        match &*held(&self.shared.bar) {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Prints a line of results on standard output; it stays in memory until [`Console::flush`]. A
    /// closed standard output (`icdc … | head`) ends the output, not the work.
    pub(crate) fn result(&self, line: &str) {
        self.output(|output| writeln!(output, "{}", printable(line)));
    }

    /// Prints a line of JSON, escaped.
    pub(crate) fn json(&self, line: &str) {
        self.output(|output| writeln!(output, "{}", printable_json(line)));
    }

    /// Bytes of results for standard output as they are, for other programs.
    pub(crate) fn raw(&self, bytes: &[u8]) {
        self.output(|output| output.write_all(bytes));
    }

    /// Whether somebody reads standard output, as far as writing to it has shown.
    pub(crate) fn has_reader(&self) -> bool {
        held(&self.shared.output).is_some()
    }

    /// Writes all results that are still in memory to standard output.
    pub(crate) fn flush(&self) {
        self.output(BufWriter::flush);
    }

    /// Whether results could not be written to standard output, though somebody reads it.
    pub(crate) fn has_lost_results(&self) -> bool {
        self.shared.lost.load(Ordering::Relaxed)
    }

    /// Writes to standard output by `action`, unless that has failed before; an error ends all
    /// further output there.
    fn output(&self, action: impl FnOnce(&mut BufWriter<Stdout>) -> io::Result<()>) {
        let mut output = held(&self.shared.output);
        let Some(Err(error)) = output.as_mut().map(action) else {
            return;
        };
        // What is still buffered must not be tried again when the writer is dropped.
        output.take().map(BufWriter::into_parts);
        drop(output);
        if error.kind() != io::ErrorKind::BrokenPipe {
            self.shared.lost.store(true, Ordering::Relaxed);
            self.complain(&format!("standard output: write: {error}"));
        }
    }

    /// Sets the progress bar above which messages are printed from now on; `None` for no bar.
    pub(crate) fn set_bar(&self, bar: Option<ProgressBar>) {
        *held(&self.shared.bar) = bar;
    }

    /// Asks a question that wants `yes`, with no progress bar on the line. `None` if there is no
    /// terminal to ask at, or if the user asks to stop instead.
    pub(crate) fn confirm(&self, question: &str, stop: &StopSignal) -> Option<bool> {
        if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return None;
        }
        let bar = held(&self.shared.bar).take();
        bar.iter().for_each(ProgressBar::finish_and_clear);
        self.print(&format!("icdc: {question} [yes/no] "));
        let answer = answer(stop);
        if let Some(bar) = bar {
            bar.reset();
            self.set_bar(Some(bar));
        }
        Some(matches!(answer?.trim(), "y" | "yes"))
    }

    /// Function that asks the user at the terminal whether to trust a daemon that `known_hosts`
    /// does not list; no without a terminal.
    pub(crate) fn confirm_host(&self, stop: &StopSignal) -> ConfirmHost {
        let (console, stop) = (self.clone(), stop.clone());
        Box::new(move |host, fingerprint| {
            let question = format!(
                "the daemon at {host} has not been met before; its key has the fingerprint\n  {fingerprint}\nIs that what its operator told you? It will be remembered."
            );
            console.confirm(&question, &stop).unwrap_or(false)
        })
    }
}

/// Reads a line that the user types at the terminal; `None` if the user asks to stop.
fn answer(stop: &StopSignal) -> Option<String> {
    let (stopped, ender) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).ok()?;
    stop.on_request(move || drop(ender));
    let input = io::stdin();
    let mut either = [PollFd::new(&input, PollFlags::IN), PollFd::new(&stopped, PollFlags::IN)];
    // A signal that is for another thread interrupts the wait, too.
    while poll(&mut either, None) == Err(Errno::INTR) {}
    if stop.is_requested() {
        return None;
    }
    let mut answer = String::new();
    input.read_line(&mut answer).ok()?;
    Some(answer)
}

/// Locks a mutex, also after a panic in another thread.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Text without the characters with which a file name, or the far side, could steer the terminal:
/// everything that this program prints comes by here.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| letter.escape_default().to_string())
}

/// Escapes control characters in JSON, where they are parts of strings and keep their meaning.
fn printable_json(line: &str) -> Cow<'_, str> {
    escaped(line, |letter| format!("\\u{:04x}", u32::from(letter)))
}

/// Replaces each character that could steer the terminal by what `escape` makes of it.
fn escaped(text: &str, escape: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        if steers(letter) { shown += &escape(letter) } else { shown.push(letter) }
    }
    Cow::Owned(shown)
}

/// Whether a character could steer the terminal: control characters, and those that change the
/// order in which others are shown.
fn steers(letter: char) -> bool {
    let reorders = matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (letter.is_control() && !matches!(letter, '\n' | '\t')) || reorders
}

#[cfg(test)]
mod tests {
    use super::{printable, printable_json};

    #[test]
    fn names_cannot_steer_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\r\u{9b}c é\u{202e}d"), "a\\u{1b}[2Jb\\r\\u{9b}c é\\u{202e}d");
    }

    #[test]
    fn json_stays_what_it_means() {
        let told = serde_json::json!({ "path": "a\u{1b}\u{7f}\u{9b}\u{202e}b" });
        let line = told.to_string();
        let shown = printable_json(&line);
        assert!(shown.is_ascii(), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), told);
    }
}
