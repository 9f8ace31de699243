//! A thread that moves data: it waits for events, letters and the clock, and drives the connections that they are about.

mod warm;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;

use icdc_tcp::clock;
use icdc_units::{ByteCount, Span, Time};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::Errno;

use crate::config::Config;
use crate::connection::{Connection, End, Fate, Watched};
use crate::house::{House, count};
use crate::mailbox::{Guest, Letter, Mailbox};
use crate::tools::{Side, Tools, of_token};

pub(crate) use warm::WarmLegs;

/// Between two looks at all connections.
const TICK: Span = Span::from_millis(250);
/// Events that are taken at a time.
const EVENTS: usize = 256;
/// The number that the bell of the mailbox has among connections.
const BELL: u64 = u64::MAX;

/// The thread.
pub(crate) struct Worker {
    number: usize,
    config: Arc<Config>,
    tools: Tools,
    connections: HashMap<u64, Box<Connection>>,
    last_id: u64,
    /// Those who have more to do.
    busy: Vec<u64>,
    next_tick: Time,
    is_going: bool,
    is_draining: bool,
}

impl Worker {
    /// Starts it.
    pub(crate) fn start(
        number: usize,
        house: Arc<House>,
        mailbox: Arc<Mailbox>,
        config: Arc<Config>,
    ) -> io::Result<JoinHandle<()>> {
        let now = clock::now();
        let tools = Tools::new(house, mailbox, now)?;
        epoll::add(&tools.epoll, &tools.mailbox.bell, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)?;
        let worker = Self {
            number,
            config,
            tools,
            connections: HashMap::new(),
            last_id: 0,
            busy: Vec::new(),
            next_tick: now,
            is_going: true,
            is_draining: false,
        };
        std::thread::Builder::new().name(format!("relay-{number}")).spawn(move || worker.run())
    }

    fn run(mut self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        while self.is_going {
            events.clear();
            let pause = self.pause();
            match epoll::wait(&self.tools.epoll, spare_capacity(&mut events), pause.map(clock::timespec).as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => {
                    tracing::error!("epoll_wait: {errno}; this thread's connections are broken off");
                    return;
                }
            }
            self.tools.now = clock::now();
            let mut busy = std::mem::take(&mut self.busy);
            // One may have been told to go on by several events.
            busy.sort_unstable();
            busy.dedup();
            let mut has_letters = false;
            for event in &events {
                match event.data.u64() {
                    BELL => has_letters = true,
                    token => self.happened(token, event.flags),
                }
            }
            for id in busy {
                self.drive(id);
            }
            if has_letters {
                for letter in self.tools.mailbox.clone().take() {
                    self.read(letter);
                }
            }
            if self.tools.now >= self.next_tick {
                self.tick();
            }
        }
    }

    /// How long nothing needs to be done; `None` for ever.
    fn pause(&self) -> Option<Span> {
        if !self.busy.is_empty() {
            return Some(Span::ZERO);
        }
        let nothing = self.connections.is_empty() && !self.wants_warm_legs();
        if nothing { None } else { Some(self.next_tick - clock::now()) }
    }

    fn wants_warm_legs(&self) -> bool {
        !self.is_draining && self.config.routes.relays().any(|relay| relay.warm > 0)
    }

    fn happened(&mut self, token: u64, flags: epoll::EventFlags) {
        let (id, side) = of_token(token);
        let failed = flags.contains(epoll::EventFlags::ERR);
        let gone = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        let readable = flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::PRI | gone);
        let writable = flags.intersects(epoll::EventFlags::OUT | epoll::EventFlags::HUP | epoll::EventFlags::ERR);
        if self.tools.warm.happened(id, readable, writable, self.tools.now) {
            return;
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let leg = match side {
            Side::Near => Some(connection.near()),
            Side::Far => connection.far(),
        };
        if let Some(leg) = leg {
            leg.readable |= readable;
            leg.writable |= writable;
            leg.has_urgent |= flags.contains(epoll::EventFlags::PRI);
        }
        if failed && let Some(error) = connection.failure_at(side) {
            let leg = if side == Side::Near { "near" } else { "far" };
            self.over(id, &End::Broken(format!("{leg} leg: {error}")));
            return;
        }
        self.drive(id);
    }

    fn drive(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match connection.drive(&mut self.tools) {
            Fate::Lives => {}
            Fate::Busy => self.busy.push(id),
            Fate::Over => self.remove(id),
        }
    }

    /// Ends a connection for a reason that it has not found itself.
    fn over(&mut self, id: u64, end: &End) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match connection.end(end, &self.tools) {
            Fate::Over => self.remove(id),
            _ => self.busy.push(id),
        }
    }

    fn remove(&mut self, id: u64) {
        if let Some(connection) = self.connections.remove(&id) {
            connection.settle_waits(&self.tools);
            let finished = connection.is_finished();
            connection.close(finished);
        }
        if self.connections.is_empty() {
            // The clock stands still while nobody is there.
            self.note_levels(ByteCount::ZERO, 0);
        }
    }

    /// Sums up what the connections held when they were last looked at.
    fn weigh_all(&self) {
        let (mut held, mut holders) = (ByteCount::ZERO, 0);
        for connection in self.connections.values() {
            held += connection.held();
            holders += u64::from(!connection.held().is_zero());
        }
        self.note_levels(held, holders);
    }

    fn note_levels(&self, held: ByteCount, holders: u64) {
        let counters = &self.tools.house.counters;
        counters.held[self.number].store(held.as_u64(), Relaxed);
        counters.holders[self.number].store(holders, Relaxed);
    }

    fn read(&mut self, letter: Letter) {
        match letter {
            Letter::Guest(guest) => self.welcome(*guest),
            Letter::Resolved((id, number), found) => {
                let Some(connection) = self.connections.get_mut(&id) else { return };
                match connection.resolved(number, found, &mut self.tools) {
                    Ok(_) => self.drive(id),
                    Err(end) => self.over(id, &end),
                }
            }
            Letter::Tell(asker) => {
                let tools = &self.tools;
                let told = self.connections.values_mut().map(|connection| connection.status(tools)).collect();
                self.weigh_all();
                // Whoever asked may have gone.
                let _ = asker.send(told);
            }
            Letter::Configured(config) => {
                self.config = config;
                // They were opened, and let in, with keys that may not be right any more.
                self.close_unused();
            }
            Letter::Drain => {
                self.is_draining = true;
                self.close_unused();
            }
            Letter::End => self.is_going = false,
        }
    }

    /// Closes what is only kept warm, by this relay or for another one.
    fn close_unused(&mut self) {
        self.tools.warm.clear();
        let unused = self.connections.iter().filter(|(_, connection)| connection.is_unused());
        for id in unused.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.remove(id);
        }
    }

    fn welcome(&mut self, guest: Guest) {
        let client = guest.client;
        if self.connections.is_empty() {
            self.next_tick = self.tools.now + TICK;
        }
        let id = self.new_id();
        let begun = Connection::new(id, guest, self.tools.now).and_then(|mut connection| {
            self.tools.watch(connection.near(), id, Side::Near)?;
            Ok(connection)
        });
        match begun {
            Ok(connection) => {
                self.connections.insert(id, Box::new(connection));
                self.drive(id);
            }
            Err(error) => {
                count(&self.tools.house.counters.turned_away);
                tracing::info!(%client, "turned away: {error}");
            }
        }
    }

    fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn tick(&mut self) {
        self.next_tick = self.tools.now + TICK;
        let counters = &self.tools.house.counters;
        let budget = self.config.limits.memory;
        let share = (counters.held() > budget.as_u64()).then(|| budget / counters.holders().max(1));
        let mut to_drive = Vec::new();
        let mut ended = Vec::new();
        for (id, connection) in &mut self.connections {
            match connection.watch(share, &mut self.tools) {
                Watched::Quiet => {}
                Watched::Drive => to_drive.push(*id),
                Watched::Over(end) => ended.push((*id, end)),
            }
        }
        self.weigh_all();
        for (id, end) in ended {
            if self.connections.get(&id).is_some_and(|connection| connection.is_in_farewell()) {
                self.remove(id);
            } else {
                self.over(id, &end);
            }
        }
        for id in to_drive {
            self.drive(id);
        }
        if self.wants_warm_legs() {
            self.keep_warm();
        }
    }
}
