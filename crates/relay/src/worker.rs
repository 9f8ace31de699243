//! A worker: a thread that waits for events, messages and ticks, and drives the connections that
//! they concern.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use icdc_tcp::clock;
use icdc_units::{ByteCount, Span, Time};

use crate::config::Config;
use crate::connection::{Connection, Fate};
use crate::context::RelayContext;
use crate::counters::count;
use crate::mailbox::{Accepted, Mailbox, WorkerMessage};
use crate::poller::{Event, Events, Readiness, Side};
use crate::worker_context::WorkerContext;

/// Time between two periodic checks of all connections.
const TICK: Span = Span::from_millis(250);

/// State of a worker thread, which serves a part of the connections.
pub(crate) struct Worker {
    number: usize,
    config: Arc<Config>,
    context: WorkerContext,
    connections: HashMap<u64, Box<Connection>>,
    /// Connections that have more to do.
    busy: Vec<u64>,
    next_tick: Time,
    is_stopped: bool,
    is_draining: bool,
}

impl Worker {
    /// Starts a worker thread.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub(crate) fn start(
        number: usize,
        relay: Arc<RelayContext>,
        mailbox: Arc<Mailbox>,
        config: Arc<Config>,
    ) -> io::Result<JoinHandle<()>> {
        let now = clock::now();
        let worker = Self {
            number,
            config,
            context: WorkerContext::new(relay, mailbox, now)?,
            connections: HashMap::new(),
            busy: Vec::new(),
            next_tick: now,
            is_stopped: false,
            is_draining: false,
        };
        std::thread::Builder::new().name(format!("relay-{number}")).spawn(move || worker.run())
    }

    fn run(mut self) {
        let mut events = Events::new();
        while !self.is_stopped {
            let timeout = self.timeout();
            if let Err(error) = self.context.poller.wait(&mut events, timeout.map(clock::timespec).as_ref()) {
                tracing::error!("waiting for events failed: {error}; this thread's connections are reset");
                return;
            }
            self.context.now = clock::now();
            let mut busy = std::mem::take(&mut self.busy);
            // Several events may have made one busy.
            busy.sort_unstable();
            busy.dedup();
            let mut has_messages = false;
            for event in events.iter() {
                match event {
                    Event::Wakeup => has_messages = true,
                    Event::Leg { id, side, readiness } => self.on_event(id, side, readiness),
                }
            }
            for id in busy {
                self.drive(id);
            }
            if has_messages {
                for message in self.context.mailbox.take() {
                    self.on_message(message);
                }
            }
            if self.context.now >= self.next_tick {
                self.tick();
            }
        }
    }

    /// Time until something has to be done without an event; `None` if there is nothing.
    fn timeout(&self) -> Option<Span> {
        if !self.busy.is_empty() {
            return Some(Span::ZERO);
        }
        let needs_ticks = !self.connections.is_empty() || self.wants_warm_legs();
        needs_ticks.then(|| self.next_tick - clock::now())
    }

    /// Whether the configuration has warm legs and the relay is not about to stop.
    fn wants_warm_legs(&self) -> bool {
        !self.is_draining && self.config.routes.relays().any(|relay| relay.warm > 0)
    }

    fn on_event(&mut self, id: u64, side: Side, readiness: Readiness) {
        if self.context.warm.on_event(id, readiness, self.context.now) {
            return;
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let fate = connection.on_event(side, readiness, &mut self.context);
        self.settle(id, fate);
    }

    fn drive(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let fate = connection.drive(&mut self.context);
        self.settle(id, fate);
    }

    /// Acts on the state of a connection after an event: has it run again, or removes it.
    fn settle(&mut self, id: u64, fate: Fate) {
        match fate {
            Fate::Waiting => {}
            Fate::Busy => self.busy.push(id),
            Fate::Over => self.remove(id),
        }
    }

    /// Removes a connection, whose legs are closed by that.
    fn remove(&mut self, id: u64) {
        self.connections.remove(&id);
        if self.connections.is_empty() {
            // No tick updates them while there is no connection.
            self.set_levels(ByteCount::ZERO, 0);
        }
    }

    /// Adds up what the connections buffered when they were last measured.
    fn update_levels(&self) {
        let (mut buffered, mut holders) = (ByteCount::ZERO, 0);
        for connection in self.connections.values() {
            buffered += connection.buffered();
            holders += u64::from(!connection.buffered().is_zero());
        }
        self.set_levels(buffered, holders);
    }

    /// Sets this worker's levels among the relay's counters: bytes buffered, and connections that
    /// hold some.
    fn set_levels(&self, buffered: ByteCount, holders: u64) {
        self.context.relay.counters.set_levels(self.number, buffered.as_u64(), holders);
    }

    fn on_message(&mut self, message: WorkerMessage) {
        match message {
            WorkerMessage::Accepted(accepted) => self.add(*accepted),
            WorkerMessage::Resolved(query, found) => {
                let Some(connection) = self.connections.get_mut(&query.connection) else { return };
                let fate = connection.on_resolved(query.number, found, &mut self.context);
                self.settle(query.connection, fate);
            }
            WorkerMessage::Status(sender) => {
                let context = &self.context;
                let status = self.connections.values_mut().map(|connection| connection.status(context)).collect();
                self.update_levels();
                // The receiver may have given up.
                let _ = sender.send(status);
            }
            WorkerMessage::Configured(config) => {
                self.config = config;
                // They were opened, and authenticated, with keys that may not be valid any more.
                self.close_idle();
            }
            WorkerMessage::Drain => {
                self.is_draining = true;
                self.close_idle();
            }
            WorkerMessage::Stop => self.is_stopped = true,
        }
    }

    /// Closes connections that are only kept warm, by this relay or another one.
    fn close_idle(&mut self) {
        self.context.warm.clear();
        let idle = self.connections.iter().filter(|(_, connection)| connection.is_idle());
        for id in idle.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.remove(id);
        }
    }

    /// Takes over an accepted connection, and runs it.
    fn add(&mut self, accepted: Accepted) {
        let client = accepted.client;
        if self.connections.is_empty() {
            self.next_tick = self.context.now + TICK;
        }
        let id = self.context.poller.new_id();
        let connection = Connection::new(id, accepted, self.context.now).and_then(|connection| {
            self.context.poller.watch(connection.near().socket(), id, Side::Near)?;
            Ok(connection)
        });
        match connection {
            Ok(connection) => {
                self.connections.insert(id, Box::new(connection));
                self.drive(id);
            }
            Err(error) => {
                count(&self.context.relay.counters.rejected);
                tracing::info!(%client, "rejected: {error}");
            }
        }
    }

    /// Checks all connections: limits, buffers, the memory of the whole relay; opens missing warm
    /// legs.
    fn tick(&mut self) {
        self.next_tick = self.context.now + TICK;
        let counters = &self.context.relay.counters;
        let limit = self.config.limits.memory;
        let share = (counters.buffered() > limit.as_u64()).then(|| limit / counters.holders().max(1));
        let context = &mut self.context;
        let ticked = self.connections.iter_mut().map(|(id, connection)| (*id, connection.on_tick(share, context)));
        let fates: Vec<(u64, Fate)> = ticked.filter(|(_, fate)| *fate != Fate::Waiting).collect();
        self.update_levels();
        for (id, fate) in fates {
            self.settle(id, fate);
        }
        if self.wants_warm_legs() {
            let WorkerContext { warm, relay, poller, now, .. } = &mut self.context;
            warm.open_missing(&self.config, relay, poller, *now);
        }
    }
}
