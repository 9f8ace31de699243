//! What everybody in a simulated world shares: the clock, the disk of the receiving host, chance, and what is
//! remembered for the invariants.

use std::collections::VecDeque;
use std::fmt;

use icdc_units::Span;

use crate::agenda::Agenda;
use crate::audit::Audit;
use crate::disk::Disk;
use crate::mutations::Mutation;
use crate::random::Random;

/// Events that are kept for whoever looks at a seed that failed.
const KEPT: usize = 600;

/// Number of a session in its world.
pub(crate) type SessionId = usize;

/// One of the two ends of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Sender,
    Receiver,
}

/// What happens at its time.
#[derive(Debug)]
pub(crate) enum Event {
    /// Something may have arrived on a connection, on its way to this side.
    Arrives { session: SessionId, connection: usize, side: Side },
    /// A side that has learnt nothing for long takes the connection for broken.
    Noticed { session: SessionId, connection: usize, side: Side },
    /// A thread of the receiver has time for its next job.
    Receiver { session: SessionId, task: crate::receiver::Task },
    /// A thread of the sender has time for its next job.
    Sender { session: SessionId, task: crate::sender::Task },
    /// A planned fault.
    Incident(usize),
    /// The user, or the client program, does what is next.
    Client(crate::client::Step),
}

/// How often things go wrong with the disk, in a thousand cases.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DiskFaults {
    pub(crate) write: u64,
    pub(crate) sync: u64,
    pub(crate) names: u64,
    pub(crate) read: u64,
    /// Something takes seconds.
    pub(crate) stall: u64,
}

impl DiskFaults {
    /// Whether anything goes wrong, other than slowly.
    pub(crate) fn any(&self) -> bool {
        [self.write, self.sync, self.names, self.read].iter().any(|rate| *rate > 0)
    }
}

/// See the module's description.
pub(crate) struct Environment {
    pub(crate) agenda: Agenda<Event>,
    pub(crate) disk: Disk,
    pub(crate) random: Random,
    pub(crate) faults: DiskFaults,
    /// What is durable may travel again: the disk may have failed, or two sources make the same names.
    pub(crate) may_resend: bool,
    /// Messages were forged: an end may have been told what is not true.
    pub(crate) forged: bool,
    pub(crate) audit: Audit,
    /// Longest time that a thread takes for a step.
    pub(crate) pace: Span,
    mutation: Option<Mutation>,
    trace: Option<VecDeque<String>>,
    violation: Option<String>,
}

impl Environment {
    pub(crate) fn new(random: Random, traced: bool) -> Self {
        Self {
            agenda: Agenda::default(),
            disk: Disk::new(),
            random,
            faults: DiskFaults::default(),
            may_resend: false,
            forged: false,
            audit: Audit::default(),
            pace: Span::from_micros(200),
            mutation: None,
            trace: traced.then(VecDeque::new),
            violation: None,
        }
    }

    /// Puts a bug in.
    pub(crate) fn mutate(&mut self, mutation: Option<Mutation>) {
        self.mutation = mutation;
        self.disk.ignore_locks(mutation == Some(Mutation::LocksDoNothing));
    }

    /// Whether this bug is in.
    pub(crate) fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// Whether a bug has it that what has a final name is not compared with what had it before.
    pub(crate) fn takes_any_for_found(&self) -> bool {
        self.has(Mutation::FoundIsNotCompared) || self.has(Mutation::OldSessionWakes)
    }

    /// Keeps a line for whoever looks at a seed that failed.
    pub(crate) fn note(&mut self, line: fmt::Arguments<'_>) {
        let now = self.agenda.now();
        if let Some(trace) = &mut self.trace {
            if trace.len() == KEPT {
                trace.pop_front();
            }
            let seconds = now.as_nanos() as f64 / 1e9;
            trace.push_back(format!("{seconds:>13.6} {}", without_long_lists(&line.to_string())));
        }
    }

    /// Something is not as it must be; the first such thing counts.
    pub(crate) fn violate(&mut self, what: String) {
        self.note(format_args!("VIOLATION {what}"));
        self.violation.get_or_insert(what);
    }

    pub(crate) fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    /// What was noted, the last line last.
    pub(crate) fn into_trace(self) -> Vec<String> {
        self.trace.unwrap_or_default().into()
    }

    /// How long a thread takes until its next step.
    pub(crate) fn step_time(&mut self) -> Span {
        self.random.span(Span::from_micros(1), self.pace)
    }

    /// How long the disk takes for something.
    pub(crate) fn disk_time(&mut self) -> Span {
        if self.random.permille(self.faults.stall) {
            return self.random.span(Span::from_millis(200), Span::from_secs(40));
        }
        self.random.span(Span::from_micros(20), Span::from_millis(5))
    }
}

/// The text without the numbers of digests and the like.
fn without_long_lists(text: &str) -> String {
    const LONGEST: usize = 12;
    let mut short = String::new();
    for (number, piece) in text.split('[').enumerate() {
        if number > 0 {
            short.push('[');
        }
        let (list, rest) = piece.split_at(piece.find(']').unwrap_or(0));
        let is_numbers = list.bytes().all(|byte| byte.is_ascii_digit() || byte == b',' || byte == b' ');
        if is_numbers && list.len() > LONGEST {
            let end = list.match_indices(',').nth(1).map_or(list.len(), |(end, _)| end);
            short.push_str(&list[..end]);
            short.push('…');
        } else {
            short.push_str(list);
        }
        short.push_str(rest);
    }
    short
}
