//! What a world is like and what befalls it, all of it by its seed.

use icdc_protocol::message::{Equality, Existing, SourceKind};
use icdc_session::sender::Window;
use icdc_units::{ByteCount, Span};

use crate::environment::{DiskFaults, Side};
use crate::mutations::Mutation;
use crate::random::Random;
use crate::source::{Root, Source};

/// Who asks for the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The sender's program is run by the user; the receiver is a server.
    Push,
    /// The other way round.
    Pull,
}

/// When something befalls.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// After so many frames have arrived in the session with this number.
    Frames {
        session: usize,
        count: u64,
    },
    After(Span),
    /// After so many events of the world.
    Events(u64),
}

/// What befalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Incident {
    Kill(Side),
    PowerCut,
    /// A connection of the newest session is cut; `number` counts from 0 and wraps.
    Cut {
        number: usize,
    },
    /// The newest session's connections are cut, and the sender learns of it at once; the receiver, which waits for
    /// what never comes, only so long after.
    CutUnseen {
        span: Span,
    },
    /// The user asks to stop.
    Interrupt,
    /// The receivers' processes get no processor for so long.
    Freeze {
        span: Span,
    },
    /// Something that an unfinished file has on the medium is not any more what was written.
    Rot,
    /// Files at the source become other ones.
    Change,
    /// The end at the other side from this one says something that it may not say, or that is not
    /// true.
    Forge(Side),
}

/// See the module's description.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) source: Source,
    pub(crate) mode: Mode,
    pub(crate) streams: usize,
    pub(crate) ring: usize,
    pub(crate) verify: bool,
    /// Files of equal size and time are left alone.
    pub(crate) existing: Existing,
    /// Some commands only tell what they would do.
    pub(crate) dry_runs: bool,
    /// How far the sender's announcements run ahead.
    pub(crate) window: Window,
    /// What is durable may travel again, because two sources make the same names.
    pub(crate) resends: bool,
    pub(crate) destination_exists: bool,
    /// The receiver deletes what the source does not have; a destination that exists has some of that.
    pub(crate) deletes: bool,
    /// Files and directories have other names in the next version of the source.
    pub(crate) renames: bool,
    /// What is copied becomes a snapshot, if the receiver deletes; the destination is the unfinished one.
    pub(crate) snapshots: bool,
    /// There is an older copy of some files, from which they are made.
    pub(crate) references: bool,
    /// Content that has moved is looked for.
    pub(crate) delta: bool,
    /// The receiver gives a receipt.
    pub(crate) receipts: bool,
    /// The sender removes what it has moved; nobody else writes to the same names.
    pub(crate) moves: bool,
    /// The server knows which sessions run; otherwise each is a process of its own.
    pub(crate) has_registry: bool,
    pub(crate) faults: DiskFaults,
    pub(crate) incidents: Vec<(When, Incident)>,
    /// How often the source is copied, another version of it each time.
    pub(crate) copies: u32,
    /// The bug that is put in.
    pub(crate) mutation: Option<Mutation>,
}

impl Plan {
    /// Any world.
    pub(crate) fn any(random: &mut Random) -> Self {
        if random.once_in(16) {
            return Self::sleeper(random);
        }
        let source = Source::any(random);
        let mode = if random.once_in(3) { Mode::Pull } else { Mode::Push };
        let copies = random.within(1, 3) as u32;
        let count = random.below(7);
        let mut incidents: Vec<(When, Incident)> = (0..count).map(|_| incident(random)).collect();
        if random.once_in(6) {
            incidents.clear();
        }
        if random.once_in(5) {
            for _ in 0..random.within(1, 6) {
                let (when, _) = incident(random);
                let towards = if random.once_in(2) { Side::Receiver } else { Side::Sender };
                incidents.push((when, Incident::Forge(towards)));
            }
        }
        let deletes = random.once_in(3);
        // Of two sources that go into one directory, one may have the name that the other has no longer.
        let renames = deletes && source.roots.len() == 1 && random.once_in(2);
        // That of a single file has a journal, which single files do not have here.
        let is_tree = !matches!(source.roots.as_slice(), [Root { kind: SourceKind::Item, .. }]);
        Self {
            resends: source.roots.len() > 1,
            moves: !deletes && source.roots.len() == 1 && random.once_in(2),
            source,
            mode,
            streams: if random.once_in(2) { 1 } else { random.within(2, 4) as usize },
            ring: random.within(4, 16) as usize,
            verify: random.once_in(3),
            existing: existing(random),
            dry_runs: random.once_in(6),
            window: window(random),
            destination_exists: random.once_in(3),
            deletes,
            renames,
            snapshots: deletes && is_tree && random.once_in(2),
            references: random.once_in(4),
            delta: count.is_multiple_of(3),
            receipts: count.is_multiple_of(2),
            has_registry: random.once_in(2),
            faults: faults(random),
            incidents,
            copies,
            mutation: None,
        }
    }

    /// A world in which a session gets no processor while its client is killed, or cut off unseen, and newer commands come
    /// to their end.
    fn sleeper(random: &mut Random) -> Self {
        let count = random.within(1, 12);
        let span = random.span(Span::from_secs(5), Span::from_secs(60));
        let gone = random.span(Span::from_millis(100), Span::from_secs(2));
        let goes = match random.once_in(2) {
            true => Incident::Kill(Side::Sender),
            false => cut_unseen(random),
        };
        Self {
            streams: random.within(1, 2) as usize,
            has_registry: random.once_in(2),
            copies: random.within(1, 3) as u32,
            existing: existing(random),
            incidents: vec![
                (When::Frames { session: 0, count }, Incident::Freeze { span }),
                (When::After(gone), goes),
                incident(random),
            ],
            ..Self::calm(if random.once_in(2) { Source::single_file() } else { Source::any(random) })
        }
    }

    /// A small world to which nothing happens.
    pub(crate) fn calm(source: Source) -> Self {
        Self {
            resends: source.roots.len() > 1,
            source,
            mode: Mode::Push,
            streams: 1,
            ring: 8,
            verify: false,
            existing: Existing::Replace,
            dry_runs: false,
            window: Window::default(),
            destination_exists: false,
            deletes: false,
            renames: false,
            snapshots: false,
            references: false,
            delta: false,
            receipts: false,
            moves: false,
            has_registry: true,
            faults: DiskFaults::default(),
            incidents: Vec::new(),
            copies: 1,
            mutation: None,
        }
    }
}

fn incident(random: &mut Random) -> (When, Incident) {
    let when = if random.once_in(3) {
        When::After(random.span(Span::from_millis(1), Span::from_secs(20)))
    } else {
        When::Frames { session: random.below(4) as usize, count: random.within(1, 60) }
    };
    let incident = match random.below(14) {
        0..=2 => Incident::Kill(Side::Sender),
        3 | 4 => Incident::Kill(Side::Receiver),
        5 => Incident::PowerCut,
        6 | 7 => Incident::Cut { number: random.below(4) as usize },
        8 => Incident::Interrupt,
        9 | 10 => Incident::Freeze { span: random.span(Span::from_millis(50), Span::from_secs(60)) },
        11 => Incident::Rot,
        12 => cut_unseen(random),
        _ => Incident::Change,
    };
    (when, incident)
}

fn cut_unseen(random: &mut Random) -> Incident {
    Incident::CutUnseen { span: random.span(Span::from_millis(200), Span::from_secs(120)) }
}

/// Mostly as small as the source, so that it bounds something.
fn window(random: &mut Random) -> Window {
    if random.once_in(3) {
        return Window::default();
    }
    Window { items: random.within(1, 8) as usize, bytes: ByteCount::new(random.within(1, 40)), ..Window::default() }
}

fn faults(random: &mut Random) -> DiskFaults {
    let rate = |random: &mut Random| if random.once_in(3) { random.within(2, 80) } else { 0 };
    let mut faults = DiskFaults::default();
    if random.once_in(3) {
        faults.write = rate(random);
        faults.sync = rate(random);
        faults.names = rate(random);
        faults.read = rate(random);
    }
    if random.once_in(4) {
        faults.stall = random.within(1, 30);
    }
    faults
}

/// Treatment of what exists: the contents decide in some copies, and size and time in others.
fn existing(random: &mut Random) -> Existing {
    match random.within(0, 7) {
        0 => Existing::SkipEqual(Equality::SizeAndTime),
        1 => Existing::SkipEqual(Equality::Contents),
        _ => Existing::Replace,
    }
}
