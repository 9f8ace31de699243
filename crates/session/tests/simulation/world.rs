//! A world: a user who copies a source until it is there, and what befalls meanwhile.

mod checks;
mod incidents;
mod moving;

use icdc_protocol::message::{Delete, Keep, ReceiveOptions, Refusal, RefusalKind, Snapshot, SnapshotTime, SourceKind};
use icdc_session::SessionError;
use icdc_units::{Span, Time};

use crate::audit::Path;
use crate::client::{Command, Next, Step};
use crate::connections::{Connections, Latency};
use crate::disk::{Contents, Disk, Inode};
use crate::environment::{DiskFaults, Environment, Event, SessionId, Side};
use crate::older;
use crate::plan::{Mode, Plan, When};
use crate::random::Random;
use crate::receiver::ReceiverEnd;
use crate::receiver::names::DESTINATION;
use crate::sender::{Runs, SenderEnd};
use crate::source::{Node, Root, Source};
use crate::wire::End;

/// After so many commands the disk does what it should, and nothing befalls any more.
const TROUBLED: u32 = 8;
/// So many commands more must be enough.
const CALM: u32 = 4;
/// How long a world may take.
const LONGEST: Span = Span::from_secs(4 * 3600);
/// Events that one world may have.
const MOST_EVENTS: u64 = 400_000;
/// How long a newer connection waits for the session that it replaces.
const HANDOVER: Span = Span::from_secs(10);

/// The two ends of a session and what is between them; an end that is gone is `None`.
pub(crate) struct Session {
    transfer: [u8; 16],
    pub(crate) connections: Connections,
    pub(crate) sender: SenderEnd,
    pub(crate) receiver: Option<ReceiverEnd>,
    /// The receiver's process gets no processor before.
    frozen_until: Time,
    /// The sender's end has come, and what it knew is kept.
    sender_ended: bool,
    /// Where the sources have landed, known when the receiver has ended.
    landed: Option<Vec<Path>>,
    /// Payload has arrived.
    progressed: bool,
    /// Something has befallen it.
    disturbed: bool,
    /// Messages of it were forged.
    forged: bool,
    /// The user has lost patience with it.
    is_given_up: bool,
    /// It only tells what would be done.
    is_dry: bool,
}

/// See the module's description.
pub(crate) struct World {
    pub(crate) env: Environment,
    plan: Plan,
    source: Source,
    /// The older copy, as it must stay.
    older: Vec<(Vec<u8>, Inode, Contents)>,
    latency: Latency,
    pub(crate) sessions: Vec<Session>,
    command: Option<Command>,
    commands: u32,
    /// Commands since the last copy that succeeded.
    tries: u32,
    copies_left: u32,
    /// The session that has completed the last copy.
    copied_by: Option<SessionId>,
    events: u64,
    /// Most items that a sender has kept.
    most_announced: usize,
    /// Incidents that wait for frames to arrive.
    waiting: Vec<usize>,
    /// A connection waits for the end of the session that it replaces, since then.
    replacing: Option<Time>,
}

impl Session {
    fn still_sends(&self) -> bool {
        !self.sender_ended
    }
}

/// What a run of a world came to.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) violation: Option<String>,
    pub(crate) trace: Vec<String>,
    /// Frames that arrived in the first session, sessions, and events.
    pub(crate) frames: u64,
    pub(crate) sessions: usize,
    pub(crate) events: u64,
    /// Most items that a sender has kept.
    pub(crate) most_announced: usize,
}

/// Makes items of another kind where some of a source will arrive.
fn make_obstacles(root: &Root, destination: Inode, disk: &mut Disk, random: &mut Random) {
    let itself = [(root.name.clone(), &root.node)];
    let names: Vec<(Vec<u8>, &Node)> = match &root.node {
        Node::Directory { children, .. } if root.kind == SourceKind::Contents => {
            children.iter().map(|(name, node)| (name.clone(), node)).collect()
        }
        _ => itself.into(),
    };
    for (name, node) in names {
        if random.once_in(2) {
            let made = match node {
                Node::Directory { .. } => disk.make_symlink(destination, &name, b"elsewhere").map(drop),
                _ => disk.make_directory(destination, &name).and_then(|made| disk.create(made, b"stray")).map(drop),
            };
            debug_assert!(made.is_ok(), "the name is free");
        }
    }
}

impl World {
    pub(crate) fn new(plan: Plan, mut random: Random, traced: bool) -> Self {
        let mut env = Environment::new(random.fork(), traced);
        env.faults = plan.faults;
        env.mutate(plan.mutation);
        env.may_resend = plan.faults.any() || plan.resends;
        env.pace = random.span(Span::from_micros(2), Span::from_millis(3));
        let root = env.disk.root();
        if plan.destination_exists {
            let made = env.disk.make_directory(root, DESTINATION);
            debug_assert!(made.is_ok(), "the disk is empty");
            if let (Ok(made), true) = (made, plan.deletes) {
                env.disk.make_strays(made);
                if let ([root], true) = (plan.source.roots.as_slice(), random.once_in(2)) {
                    make_obstacles(root, made, &mut env.disk, &mut random);
                }
            }
            env.disk.sync_filesystem();
        }
        let source = plan.source.clone();
        if plan.references {
            older::make(&mut env.disk, &source, &mut random);
        }
        let older = older::state(&env.disk);
        env.audit.learn(&source);
        let copies_left = plan.copies;
        let latency = Latency::any(&mut random);
        Self {
            env,
            plan,
            source,
            older,
            latency,
            sessions: Vec::new(),
            command: None,
            commands: 0,
            tries: 0,
            copies_left,
            copied_by: None,
            events: 0,
            most_announced: 0,
            waiting: Vec::new(),
            replacing: None,
        }
    }

    /// Lets everything happen until the user is content and all is quiet.
    pub(crate) fn run(mut self) -> Report {
        self.env.agenda.after(Span::ZERO, Event::Client(Step::Run));
        for (number, (when, _)) in self.plan.incidents.iter().enumerate() {
            match when {
                When::After(span) => self.env.agenda.after(*span, Event::Incident(number)),
                When::Frames { .. } => self.waiting.push(number),
                When::Events(_) => {}
            }
        }
        while self.env.violation().is_none() {
            let Some(event) = self.env.agenda.next() else {
                if self.loses_patience() {
                    continue;
                }
                break;
            };
            self.events += 1;
            if self.events > MOST_EVENTS || self.env.agenda.now() > Time::ORIGIN + LONGEST {
                let what = if self.copies_left > 0 { "there is no end to it" } else { "there is no rest" };
                self.env.violate(format!("{what}: {event:?}"));
                break;
            }
            self.happen(event);
            self.look_for_counted();
        }
        if self.env.violation().is_none() {
            self.check_end();
        }
        let Self { env, sessions, events, most_announced, .. } = self;
        let frames = sessions.first().map_or(0, |session| session.connections.arrived());
        let violation = env.violation().map(str::to_owned);
        Report { violation, trace: env.into_trace(), frames, sessions: sessions.len(), events, most_announced }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrives { session, connection, side } => {
                let found = &mut self.sessions[session];
                found.connections.deliver(connection, side, &self.env);
                self.wake(session, side);
                self.look_for_incidents(session);
            }
            Event::Noticed { session, connection, side } => {
                self.sessions[session].connections.notice(connection, side);
                self.wake(session, side);
            }
            Event::Receiver { session, task } => {
                let found = &mut self.sessions[session];
                if found.frozen_until > self.env.agenda.now() {
                    return self.env.agenda.at(found.frozen_until, Event::Receiver { session, task });
                }
                if let Some(receiver) = &mut found.receiver {
                    let put_away_before = receiver.names.has_put_away();
                    receiver.step(task, &mut self.env, &mut found.connections);
                    if !put_away_before && receiver.names.has_put_away() {
                        self.check_put_away(session);
                    }
                    if self.sessions[session].receiver.as_mut().is_some_and(|receiver| receiver.names.take_snapshot()) {
                        self.check_snapshot(session);
                    }
                }
                self.check_memory(session);
                self.look_after(session);
            }
            Event::Sender { session, task } => {
                let found = &mut self.sessions[session];
                if found.still_sends() {
                    found.sender.step(task, &mut self.env, &mut found.connections, &self.source);
                }
                self.remove_moved(session);
                self.check_memory(session);
                self.look_after(session);
            }
            Event::Incident(number) => self.befall(number),
            Event::Client(step) => self.client(step),
        }
    }

    fn wake(&mut self, session: SessionId, side: Side) {
        let found = &mut self.sessions[session];
        match side {
            Side::Receiver => {
                if let Some(receiver) = &mut found.receiver {
                    receiver.settle(&mut self.env, &mut found.connections);
                }
            }
            Side::Sender => {
                if found.still_sends() {
                    found.sender.settle(&mut self.env, &mut found.connections);
                }
            }
        }
    }

    fn client_side(&self) -> Side {
        match self.plan.mode {
            Mode::Push => Side::Sender,
            Mode::Pull => Side::Receiver,
        }
    }

    // The client.

    fn client(&mut self, step: Step) {
        match step {
            Step::Run => {
                self.commands += 1;
                self.tries += 1;
                if self.tries > TROUBLED {
                    self.env.faults = DiskFaults::default();
                }
                if self.tries > TROUBLED + CALM {
                    return self.env.violate("the copy does not succeed, though nothing befalls any more".into());
                }
                let is_dry = self.plan.dry_runs && self.tries <= TROUBLED && self.env.random.once_in(3);
                let command = Command::new(u64::from(self.commands), is_dry);
                let transfer = command.transfer;
                self.command = Some(command);
                self.client(Step::Connect { transfer });
            }
            Step::Connect { transfer } => self.connect(transfer),
            Step::Join { session } => {
                let Session { connections, sender, sender_ended, receiver, .. } = &mut self.sessions[session];
                let Some(receiver) = receiver else { return };
                if !*sender_ended && sender.outcome().is_none() && receiver.outcome().is_none() && !receiver.has_ended()
                {
                    let connection = connections.open(&mut self.env.random);
                    for (side, is_used) in
                        [(Side::Sender, sender.join(connection)), (Side::Receiver, receiver.join(connection))]
                    {
                        if !is_used {
                            connections.close(connection, side, End::Closed, &mut self.env);
                        }
                    }
                    sender.settle(&mut self.env, connections);
                    receiver.settle(&mut self.env, connections);
                }
            }
        }
    }

    fn connect(&mut self, transfer: [u8; 16]) {
        let now = self.env.agenda.now();
        if self.command.as_ref().is_none_or(|command| command.transfer != transfer) {
            return;
        }
        if self.plan.has_registry && self.plan.mode == Mode::Push && self.replaces(transfer) {
            let since = *self.replacing.get_or_insert(now);
            if now < since + HANDOVER {
                return self.env.agenda.after(Span::from_millis(50), Event::Client(Step::Connect { transfer }));
            }
            self.replacing = None;
            let busy = Refusal { kind: RefusalKind::Busy, reason: "the earlier session is not through".into() };
            return self.after(&SessionError::Refused(busy), false);
        }
        self.replacing = None;
        let Some(command) = self.command.as_mut() else { return };
        let session = self.sessions.len();
        command.session = Some(session);
        command.sessions += 1;
        let is_dry = command.is_dry;
        self.env.note(format_args!("{session} begins: session {} of command {}", command.sessions, self.commands));
        let mut connections = Connections::new(session, self.latency);
        connections.open(&mut self.env.random);
        let Plan { verify, existing, window, .. } = self.plan;
        let keep = Some(Keep { days: 1, ..Keep::default() });
        let snapshot = SnapshotTime::new(1_795_744_800).filter(|_| self.plan.snapshots);
        let snapshot = snapshot.map(|time| Snapshot { time, keep });
        let deletes = self.plan.deletes && !(is_dry && self.plan.snapshots);
        let delete = deletes.then(|| Delete { allow_empty_source: true, ..Delete::default() });
        let options = ReceiveOptions {
            verify,
            existing,
            dry_run: is_dry,
            resume: true,
            delete,
            snapshot,
            receipt: self.plan.receipts && !is_dry,
            delta: self.plan.delta,
            ..ReceiveOptions::default()
        };
        let runs = Runs {
            is_dry,
            deletes: self.plan.deletes,
            moves: self.plan.moves,
            receipts: self.plan.receipts && !is_dry,
        };
        let mut sender = SenderEnd::new(session, &self.source, [7; 32], window, self.plan.ring, runs);
        let receiver = ReceiverEnd::new(session, transfer, options, self.plan.ring);
        sender.settle(&mut self.env, &mut connections);
        self.sessions.push(Session {
            transfer,
            connections,
            sender,
            receiver: Some(receiver),
            frozen_until: Time::ORIGIN,
            sender_ended: false,
            landed: None,
            progressed: false,
            disturbed: false,
            forged: false,
            is_given_up: false,
            is_dry,
        });
        for _ in 1..self.plan.streams {
            let after = self.env.random.span(Span::from_millis(1), Span::from_millis(500));
            self.env.agenda.after(after, Event::Client(Step::Join { session }));
        }
    }

    /// Whether an earlier session of the run is still there; it is ended.
    fn replaces(&mut self, transfer: [u8; 16]) -> bool {
        let mut found = false;
        for session in self.sessions.iter_mut().filter(|session| session.transfer == transfer) {
            let Some(receiver) = &mut session.receiver else { continue };
            found = true;
            session.disturbed = true;
            if self.replacing.is_none() {
                session.connections.abandon(Side::Receiver, &mut self.env);
                receiver.settle(&mut self.env, &mut session.connections);
            }
        }
        found
    }

    /// Looks whether the ends of a session have come to their ends.
    fn look_after(&mut self, session: SessionId) {
        let found = &mut self.sessions[session];
        if let Some(receiver) = &found.receiver
            && let Some(outcome) = receiver.outcome().cloned()
        {
            let failed = receiver.names.failed();
            self.env.note(format_args!("{session} receiver has ended: {outcome:?}"));
            if let Some(problem) = checks::left_in_mind(found, &outcome) {
                self.env.violate(format!("{session}: {problem}"));
            }
            self.env.disk.unlock_all(session as u64);
            found.landed = receiver.names.landed();
            found.receiver = None;
            self.ended(session, Side::Receiver, outcome, failed);
        }
        let found = &mut self.sessions[session];
        if let Some(problem) = found.sender.misstated.take().filter(|_| !found.forged) {
            self.env.violate(format!("{session}: {problem}"));
        }
        if let (Some(outcome), false) = (found.sender.outcome().cloned(), found.sender_ended) {
            let failed = found.sender.machine().counts().failed;
            self.env.note(format_args!("{session} sender has ended: {outcome:?}"));
            found.sender_ended = true;
            self.ended(session, Side::Sender, outcome, failed);
        }
    }

    /// An end of a session has ended; `failed` items are not copied.
    fn ended(&mut self, session: SessionId, side: Side, outcome: Result<(), SessionError>, failed: u64) {
        self.check_reason(session, &outcome);
        let is_current = self.command.as_ref().is_some_and(|command| command.session == Some(session));
        if side != self.client_side() || !is_current {
            return;
        }
        match outcome {
            Err(error) => self.after(&error, self.sessions[session].progressed),
            Ok(()) => {
                self.command = None;
                let Session { forged, is_dry, .. } = self.sessions[session];
                if failed > 0 || forged {
                    return self.again();
                }
                if is_dry {
                    self.tries -= 1;
                    return self.again();
                }
                self.check_copied(session);
                self.copied_by = Some(session);
                self.copies_left -= 1;
                self.tries = 0;
                if self.copies_left > 0 {
                    self.source.change(&mut self.env.random);
                    if self.plan.renames {
                        self.source.rename(&mut self.env.random);
                        self.env.audit.on_renamed(&self.source);
                    }
                    self.env.audit.learn(&self.source);
                    self.again();
                }
            }
        }
    }

    fn after(&mut self, error: &SessionError, progressed: bool) {
        let now = self.env.agenda.now();
        let Some(command) = &mut self.command else { return };
        match command.after(now, error, progressed) {
            Next::Retry(pause) => {
                let transfer = command.transfer;
                self.env.agenda.after(pause, Event::Client(Step::Connect { transfer }));
            }
            Next::Over => {
                self.command = None;
                self.again();
            }
        }
    }

    /// The user runs the command again, soon or late.
    fn again(&mut self) {
        let after = self.env.random.span(Span::from_millis(5), Span::from_secs(30));
        self.env.agenda.after(after, Event::Client(Step::Run));
    }
}
