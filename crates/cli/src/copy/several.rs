//! `icdc copy --to A --to B`: one copy to each destination, at the same time.
//!
//! ```text
//! icdc copy --to A --to B SRC ─┬► icdc copy SRC A ──┐
//!                              └► icdc copy SRC B ──┴► output, each line with its destination
//! ```
//!
//! Each copy is a process of its own, with the same command line and [`OneOfSeveral`]: it learns its path, goes on
//! after an interruption and fails for itself. It reads the sources through the page cache, so that the disk is read once
//! for all that keep up with each other. It ends with this process, which hands signals on to it.

use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, anyhow, ensure};
use icdc_client::Location;
use icdc_stop::{ChildProcess, ignore_terminal_signals};
use icdc_units::Span;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::process::{Pid, Signal, getpid, getppid, kill_process, set_parent_process_death_signal};

use crate::arguments::{CopyArguments, ProgressMode};
use crate::console::Console;
use crate::copy::summary;
use crate::exit;
use crate::plan::CopyPlan;
use crate::plan::output::{Progress, progress};
use crate::signals::HandedOn;
use crate::values::{OneOfSeveral, copy_name};

/// Most destinations: each takes a process with its buffers.
const MOST: usize = 16;
/// Time after which the end of a copy that has closed its output is looked for again.
const LONG: Span = Span::from_secs(3600);
/// Beginning of a message of a copy on its standard error; its progress has none.
const MESSAGE: &str = "icdc: ";

/// Processes of the copies whose exit status was not taken.
#[derive(Clone, Default)]
struct Running(Arc<Mutex<Vec<Pid>>>);

/// Output of one of the copies.
struct Shown<'a> {
    console: &'a Console,
    /// The destination as the user wrote it.
    destination: String,
    /// Its place, for people.
    place: String,
    /// Line of the terminal that shows the progress; `None` where there is no terminal.
    bar: Option<ProgressBar>,
}

/// Runs a copy to each destination of the arguments, which are checked by making the `plan` of each; returns the exit
/// code, the highest of theirs.
pub(super) fn run(
    arguments: &CopyArguments,
    plan: impl Fn(CopyArguments) -> anyhow::Result<CopyPlan>,
    console: &Console,
) -> u8 {
    let destinations = match destinations(arguments, plan) {
        Ok(destinations) => destinations,
        Err(error) => return console.give_up(&error, exit::USAGE),
    };
    let progress = progress(arguments);
    let running = Running::default();
    let others = running.clone();
    let handed_on = HandedOn::start(move |signal| others.signal(signal));
    let handed_on = handed_on.inspect_err(|error| console.complain(&format!("signals cannot be watched: {error}")));
    let children = match start(destinations.len(), progress != Progress::Off, &running) {
        Ok(children) => children,
        Err(error) => return console.give_up(&error, exit::FAILED),
    };
    let bars = (progress == Progress::Bar).then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr()));
    let code = std::thread::scope(|scope| {
        let copies: Vec<_> = children
            .into_iter()
            .zip(&destinations)
            .map(|(child, destination)| {
                let bar = bars.as_ref().map(|bars| bars.add(ProgressBar::new_spinner().with_style(words())));
                if let Some(bar) = &bar {
                    console.set_bar(Some(bar.clone()));
                }
                let shown =
                    Shown { console, destination: destination.to_string(), place: summary::place(destination), bar };
                let running = &running;
                scope.spawn(move || shown.until_end(child, running))
            })
            .collect();
        copies.into_iter().map(|copy| copy.join().unwrap_or(exit::FAILED)).max().unwrap_or(exit::FAILED)
    });
    console.set_bar(None);
    console.flush();
    drop(handed_on);
    if console.has_lost_results() { code.max(exit::FAILED) } else { code }
}

/// The arguments of the copy that this process is: its only one, or the one of several that they say.
///
/// # Errors
/// There is none of this number, or the process is gone that would show its output.
pub(super) fn one_of(mut arguments: CopyArguments) -> anyhow::Result<CopyArguments> {
    let Some(OneOfSeveral { number, parent, progress }) = arguments.one_of_several else {
        ensure!(
            arguments.plan.is_some() || arguments.places.len() > 1,
            "DST is missing: name what to copy, and where to"
        );
        return Ok(arguments);
    };
    set_parent_process_death_signal(Some(Signal::TERM)).context("it could outlive what has started it")?;
    ensure!(getppid().map(Pid::as_raw_pid) == Some(parent), "this option is of icdc itself: give --to");
    arguments.progress = if progress { ProgressMode::Always } else { ProgressMode::Never };
    for_destination(&arguments, number)
}

/// The arguments of the copy to the destination of this number, from 1.
fn for_destination(arguments: &CopyArguments, number: usize) -> anyhow::Result<CopyArguments> {
    let destination = arguments.to.get(number.wrapping_sub(1)).context("there is no destination of this number")?;
    let mut one = arguments.clone();
    one.places.push(destination.clone());
    for file in [&mut one.report, &mut one.receipt, &mut one.metrics].into_iter().flatten() {
        *file = numbered(file, number);
    }
    let name = one.name.take().map(|name| copy_name(&format!("{}-{number}", name.as_str())));
    one.name = name.transpose().map_err(|reason| anyhow!("--name: with the number of a destination: {reason}"))?;
    if let Some(gateway) = &one.metrics_push {
        anyhow::bail!(
            "--metrics-push {gateway}: each copy of --to would replace the metrics of the others there; give --metrics FILE"
        );
    }
    Ok(one)
}

/// Path of a file for results with the number of a destination, in front of the extension.
fn numbered(file: &Path, number: usize) -> PathBuf {
    let mut name = file.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number}"));
    if let Some(extension) = file.extension() {
        name.push(".");
        name.push(extension);
    }
    file.with_file_name(name)
}

/// The destinations, once the arguments make sense for each of them.
fn destinations(
    arguments: &CopyArguments,
    plan: impl Fn(CopyArguments) -> anyhow::Result<CopyPlan>,
) -> anyhow::Result<Vec<Location>> {
    let number = arguments.to.len();
    ensure!(number <= MOST, "--to: {number} destinations are too many; name at most {MOST}");
    let is_input = |path: &OsStr| path == "-";
    let lists = [&arguments.files_from, &arguments.files_from0];
    let reads_input = arguments.places.iter().any(|place| is_input(place))
        || lists.into_iter().flatten().any(|path| is_input(path.as_os_str()))
        || arguments.choosing.rules.reads_stdin();
    ensure!(
        !reads_input,
        "--to makes several copies, and standard input is there once: put it into a file, or use tee(1)"
    );
    ensure!(
        !arguments.to.iter().any(|to| is_input(to)),
        "--to -: standard output has the results of all copies; name a place"
    );
    let mut places = BTreeSet::new();
    let plan = |number| plan(for_destination(arguments, number)?.without_results());
    let make = |number: usize| {
        let named = arguments.to.get(number - 1).map(|place| place.to_string_lossy()).unwrap_or_default();
        let CopyPlan { sources, destination, .. } = plan(number).map_err(|error| {
            // Where another one makes sense, it is about this destination.
            let is_of_it = number > 1 || (2..=arguments.to.len()).any(|other| plan(other).is_ok());
            if is_of_it { anyhow!("--to {named}: {error:#}") } else { error }
        })?;
        let is_local = |source: &Location| matches!(source, Location::Local(_));
        ensure!(
            sources.iter().all(is_local) || !sources.iter().any(is_local),
            "--to {named}: with --to everything else that is named is a source, and these are not all on one host; put --to in front of \
             what is a destination"
        );
        ensure!(places.insert(place(&destination)), "--to {named}: this destination is named twice");
        Ok(destination)
    };
    (1..=number).map(make).collect()
}

/// Place of a destination, however it is spelled, as far as that is known on this host.
fn place(destination: &Location) -> OsString {
    match destination {
        Location::Local(path) => {
            let found = icdc_client::place(path).or_else(|| std::path::absolute(path).ok());
            found.unwrap_or_else(|| path.clone()).components().collect::<PathBuf>().into()
        }
        Location::Ssh { .. } | Location::Daemon { .. } => {
            let text = destination.to_string();
            text.strip_suffix('/').filter(|above| !above.ends_with([':', '/'])).unwrap_or(&text).into()
        }
    }
}

/// Starts the copies, each with the words of this process's command line.
fn start(number: usize, progress: bool, running: &Running) -> anyhow::Result<Vec<Child>> {
    let program = env::current_exe().context("the path of this program cannot be found out")?;
    let mut words = env::args_os().skip(1);
    let command = words.next().context("there is no command line")?;
    let rest: Vec<OsString> = words.collect();
    let mut held = running.lock();
    let start = |number| {
        let one = OneOfSeveral { number, parent: getpid().as_raw_pid(), progress };
        let mut start = Command::new(&program);
        start.arg(&command).arg(format!("--one-of-several={one}")).args(&rest);
        start.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        ignore_terminal_signals(&mut start).spawn()
    };
    let mut children = Vec::new();
    for number in 1..=number {
        match start(number) {
            Ok(child) => {
                held.push(Pid::from_child(&child));
                children.push(child);
            }
            Err(error) => {
                for mut child in children {
                    let _ = child.kill().and_then(|()| child.wait());
                }
                held.clear();
                return Err(error).context("a copy cannot be started");
            }
        }
    }
    drop(held);
    Ok(children)
}

/// Hands the lines of a copy's output to `show`, until it is closed.
fn lines(output: Option<impl Read>, mut show: impl FnMut(&str)) {
    let Some(output) = output else { return };
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        show(String::from_utf8_lossy(&line).trim_end_matches('\n'));
        line.clear();
    }
}

/// A line of the terminal that has words only.
fn words() -> ProgressStyle {
    ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner())
}

impl Running {
    /// Sends a signal to all copies that have not ended.
    fn signal(&self, signal: Signal) {
        for pid in &*self.lock() {
            let _ = kill_process(*pid, signal);
        }
    }

    /// Takes the exit status of a copy that has closed its output; the exit code that it stands for.
    fn ended(&self, child: &mut ChildProcess) -> u8 {
        while !child.ends_within(LONG) {}
        // Its number may be another process's from then on.
        let mut running = self.lock();
        running.retain(|pid| *pid != child.pid());
        let status = child.wait();
        drop(running);
        match status.map(|status| (status.code(), status.signal())) {
            Ok((Some(code), _)) => u8::try_from(code).unwrap_or(exit::FAILED),
            // It was asked to stop before it was able to tell.
            Ok((None, Some(signal))) if signal == Signal::TERM.as_raw() => exit::INTERRUPTED,
            _ => exit::FAILED,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Pid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shown<'_> {
    /// Shows the output of a copy until it has ended; returns its exit code.
    fn until_end(&self, mut child: Child, running: &Running) -> u8 {
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let mut child = ChildProcess::new(child);
        std::thread::scope(|scope| {
            scope.spawn(|| lines(output, |line| self.result(line)));
            lines(errors, |line| self.message(line));
        });
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        running.ended(&mut child)
    }

    /// Shows a line of the copy's standard output: an event, to which the destination is added, or text.
    fn result(&self, line: &str) {
        let show = || {
            match line.strip_suffix('}').filter(|_| line.starts_with('{')) {
                // The first event has it.
                Some(_) if line.contains("\"type\":\"started\"") => self.console.json(line),
                Some(event) => {
                    let destination = serde_json::Value::from(self.destination.as_str());
                    self.console.json(&format!("{event},\"destination\":{destination}}}"));
                }
                None => self.console.result(&format!("{}: {line}", self.place)),
            }
            self.console.flush();
        };
        match &self.bar {
            Some(bar) => bar.suspend(show),
            None => show(),
        }
    }

    /// Shows a line of the copy's standard error: a message, or its progress.
    fn message(&self, line: &str) {
        match (line.strip_prefix(MESSAGE), &self.bar) {
            (Some(message), _) => self.console.complain(&format!("{}: {message}", self.place)),
            (None, Some(bar)) => bar.set_message(format!("{}: {line}", self.place)),
            (None, None) => self.console.print(&format!("{}: {line}\n", self.place)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_for_results_have_the_number_in_front_of_the_extension() {
        let named = |file: &str| numbered(Path::new(file), 2).into_os_string().into_string().unwrap();
        assert_eq!(
            ["run7.html", "a/b.c/receipt", "x.tar.json", ".prom"].map(named),
            ["run7-2.html", "a/b.c/receipt-2", "x.tar-2.json", ".prom-2"]
        );
    }
}
