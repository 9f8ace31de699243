//! The loop over events, in virtual time.
//!
//! A flow's packets and acknowledgements are each on their way in order, so the next event of a
//! flow is the first of two queues or of a few timers, and the next event of all is the least over
//! the flows. Nothing else is sorted. Events of one instant happen in the order of the flows and,
//! within a flow, in the order of [`Event`].

use std::collections::{BTreeMap, VecDeque};

use icdc_cc::native::Connection;
use icdc_path::{DelayLine, Direction, Fate, Frame};
use icdc_rate::bundle::{Bundle, Number};
use icdc_rate::ceilings::Ceilings;
use icdc_rate::controller::{self, Action, ConnectionInfo, Controller, Mode, Observed, Pending, Ticked};
use icdc_rate::disk_ceiling::RingState;
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::observer::{Observer, Transmission};
use crate::outcome::{FlowOutcome, Outcome};
use crate::pauses::Pauses;
use crate::receiver::{Acknowledgement, Receiver, Reports};
use crate::sender::{Sender, Setup};
use crate::simulation::{Flow, Piece, Simulation, SimulationError};

/// Length of an Ethernet header, in bytes.
const ETHERNET_HEADER: ByteCount = ByteCount::new(14);
/// Length of an acknowledgement on the wire: Ethernet, IPv4 and TCP headers, time stamps.
const ACK_FRAME: ByteCount = ByteCount::new(66);
/// Length on the wire of an acknowledgement with one block of selective acknowledgement.
const SACK_FRAME: ByteCount = ByteCount::new(78);
/// Longest queue at the host's line, as time at its rate, beyond which a simulated sender waits
/// (Linux's TCP small queues).
const BELOW_TCP: Span = Span::from_millis(1);

/// Runs `simulation` to its end, watched by `observer`; returns its totals.
///
/// # Errors
/// The reason for which the simulation cannot be run.
pub fn simulate<O: Observer>(simulation: &Simulation, observer: &mut O) -> Result<Outcome, SimulationError> {
    simulation.check()?;
    let lanes = simulation.flows.iter().map(|flow| Lane::new(simulation, flow)).collect::<Result<Vec<_>, _>>()?;
    let mut engine = Engine {
        due: lanes.iter().map(Lane::next).collect(),
        lanes,
        forward: Direction::new(&simulation.forward)?,
        backward: Direction::new(&simulation.backward)?,
        frame: Frame::data(simulation.forward.mtu + ETHERNET_HEADER),
        has_line: simulation.forward.line_rate.is_some(),
        controllers: BTreeMap::new(),
        datagrams_wanted: None,
        supplies: supplies(simulation),
        segment: simulation.segment(),
        observer,
    };
    let end = engine.run(Time::ORIGIN + simulation.duration);
    Ok(engine.outcome(simulation, end))
}

/// State of a running simulation: all flows, both directions of the path, and each flow's next
/// event.
struct Engine<'o, O> {
    lanes: Vec<Lane>,
    /// Time and kind of the next event of each lane.
    due: Vec<(Time, Event)>,
    forward: Direction,
    backward: Direction,
    frame: Frame,
    has_line: bool,
    /// Controllers of the applications that steer a bundle, by the number of the bundle.
    controllers: BTreeMap<u8, Controller>,
    /// Time at which the first of them wanted datagrams.
    datagrams_wanted: Option<Time>,
    /// Data that are still to come, by the number of the bundle that sends them: times and packets.
    supplies: BTreeMap<u8, VecDeque<(Time, u64)>>,
    /// Payload of a packet.
    segment: ByteCount,
    observer: &'o mut O,
}

/// Parameter of algorithms that can give way by themselves.
const BACKGROUND: &str = "background";
/// State of a receiver's disk ring in which nothing ever waits, for the controllers: there is no
/// disk in a simulation.
const NO_RING: RingState = RingState { waiting: 0, blocks: 0, size: ByteCount::ZERO, drained: None };

/// Makes the rate controller of an application that steers the connections of a bundle as one. Its
/// actions for the number [`controller::FIRST`] alone, which count processors and retire slow
/// connections, are not requested here.
fn steered_as_one(background: bool, known: Option<Rate>) -> Controller {
    let setup = controller::Setup {
        is_local: false,
        processors: 1,
        block: ByteCount::from_mib(4),
        feedback_interval: Span::from_millis(100),
    };
    let bundle = known.map_or_else(Bundle::default, Bundle::resuming).giving_way(background);
    Controller::new(Mode::Bundle(Box::new(bundle)), setup, Ceilings::default())
}

/// Data that come in the course of the simulation, by the number of the bundle that sends them.
fn supplies(simulation: &Simulation) -> BTreeMap<u8, VecDeque<(Time, u64)>> {
    let mss = simulation.segment().as_u64();
    let steered = simulation.flows.iter().filter(|flow| !flow.supply.is_empty());
    let pieces = |flow: &Flow| {
        let piece = |piece: &Piece| (Time::ORIGIN + piece.after, piece.length.as_u64().div_ceil(mss));
        flow.supply.iter().map(piece).collect()
    };
    steered.filter_map(|flow| Some((steered_bundle(flow)?, pieces(flow)))).collect()
}

/// Number of the bundle of a flow, if the application steers it; `None` if it has none, or one that
/// steers itself.
fn steered_bundle(flow: &Flow) -> Option<u8> {
    flow.bundle.filter(|_| flow.algorithm.name != "icdc")
}

/// Number of round trips in which a connection is opened: the handshakes of TCP and of TLS.
const OPENING: u64 = 2;

/// A simulated flow: its sender and receiver, its packets in transit both ways, its times and
/// counters.
struct Lane {
    sender: Sender,
    receiver: Receiver,
    reports: Reports,
    data: DelayLine<u64>,
    acknowledgements: DelayLine<Acknowledgement>,
    extra_delay: Span,
    pauses: Pauses,
    start: Time,
    /// Time that the flow takes to be opened.
    opening: Span,
    phase: Phase,
    bundle: Option<u8>,
    background: bool,
    /// Rate that the application remembers of the path.
    known: Option<Rate>,
    /// Time of the application's next tick.
    next_tick: Time,
    /// Time at which the application ends.
    stop: Time,
    /// Time at which the line has room again; [`Time::MAX`] if the sender does not wait for it.
    line: Time,
    lost: u64,
    dropped: u64,
    arrived: u64,
    finished: Option<Time>,
    /// Time at which the application got its last packet.
    last_read: Time,
}

/// Phase of a flow: not started yet, running, or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    Running,
    Done,
}

/// Events of a flow, in the order in which they are handled at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Start,
    Stop,
    Arrival,
    ReceiverTimer,
    Acknowledgement,
    SenderTimer,
    Tick,
}

impl Lane {
    /// Makes a flow that has not started, with its algorithm, receive window and times.
    fn new(simulation: &Simulation, flow: &Flow) -> Result<Self, SimulationError> {
        let mut parameters: Vec<(&str, i64)> =
            flow.parameters.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        if flow.background && flow.algorithm.parameters().iter().any(|parameter| parameter.name == BACKGROUND) {
            parameters.push((BACKGROUND, 1));
        }
        let mut algorithm = Connection::new(flow.algorithm, &parameters)?;
        let bundle = steered_bundle(flow);
        // Those that steer their bundles themselves know 0 as none.
        algorithm.socket.bundle = flow.bundle.filter(|_| bundle.is_none()).map_or(0, |bundle| u32::from(bundle) + 1);
        let is_supplied = |other: &Flow| !other.supply.is_empty() && steered_bundle(other) == bundle;
        let is_supplied = bundle.is_some() && simulation.flows.iter().any(is_supplied);
        let bytes = if is_supplied { Some(ByteCount::ZERO) } else { flow.bytes };
        let mss = simulation.segment().as_u64();
        let round_trip = simulation.round_trip(flow);
        let receiver = Receiver::new(flow.window, simulation.acknowledgements, mss, round_trip);
        let setup = Setup {
            packets: bytes.map_or(u64::MAX, |bytes| bytes.as_u64().div_ceil(mss)),
            rate: flow.rate,
            segmentation: simulation.segmentation,
            window: receiver.edge(),
            handshake: round_trip,
        };
        Ok(Self {
            sender: Sender::new(algorithm, mss as u32, &setup),
            receiver,
            reports: Reports::default(),
            data: DelayLine::default(),
            acknowledgements: DelayLine::default(),
            extra_delay: flow.extra_delay,
            pauses: Pauses::new(&flow.pauses),
            start: if flow.is_spare { Time::MAX } else { Time::ORIGIN + flow.start },
            opening: round_trip * OPENING,
            phase: Phase::Waiting,
            bundle,
            background: flow.background,
            known: flow.known,
            next_tick: if bundle.is_some() && !flow.is_spare { Time::ORIGIN + flow.start } else { Time::MAX },
            stop: flow.stop.map_or(Time::MAX, |stop| Time::ORIGIN + stop),
            line: Time::MAX,
            lost: 0,
            dropped: 0,
            arrived: 0,
            finished: None,
            last_read: Time::ORIGIN + flow.start,
        })
    }

    /// Time and kind of the flow's next event; the time is [`Time::MAX`] if there is none.
    fn next(&self) -> (Time, Event) {
        use Event::{Acknowledgement, Arrival, ReceiverTimer, SenderTimer, Start, Stop, Tick};
        let mut next = match self.phase {
            Phase::Waiting => return (self.start, Start),
            Phase::Running => (self.stop, Stop),
            Phase::Done => (Time::MAX, Stop),
        };
        let mut consider = |at: Time, what| {
            if at < next.0 {
                next = (at, what);
            }
        };
        let pauses = &self.pauses;
        consider(pauses.receiver(self.data.next_due().unwrap_or(Time::MAX)), Arrival);
        consider(pauses.receiver(self.receiver.deadline()), ReceiverTimer);
        consider(pauses.acknowledgement(self.acknowledgements.next_due().unwrap_or(Time::MAX)), Acknowledgement);
        if self.phase == Phase::Running {
            consider(pauses.sender(self.sender.wake().min(self.line)), SenderTimer);
            consider(pauses.sender(self.next_tick), Tick);
        }
        next
    }
}

impl<O: Observer> Engine<'_, O> {
    /// Runs until `end` or until nothing happens any more; returns the time of that.
    fn run(&mut self, end: Time) -> Time {
        let interval = self.observer.interval().max(Span::from_nanos(1));
        let mut sample = Time::ORIGIN;
        let mut now = Time::ORIGIN;
        loop {
            let index = self.first();
            let (at, what) = self.due[index];
            while sample <= at.min(end) && sample < Time::MAX && at < Time::MAX {
                self.sample(sample);
                sample += interval;
            }
            if at > end {
                return if at == Time::MAX { now } else { end };
            }
            now = at;
            self.step(index, now, what);
            self.due[index] = self.lanes[index].next();
        }
    }

    /// Index of the lane whose event is next.
    fn first(&self) -> usize {
        let mut first = 0;
        for index in 1..self.due.len() {
            if self.due[index].0 < self.due[first].0 {
                first = index;
            }
        }
        first
    }

    /// Tells the observer the queue at the bottleneck and, where it wants them, the senders'
    /// states.
    fn sample(&mut self, at: Time) {
        // Time at which the last packet that the line has taken will have arrived: the queue
        // includes it already.
        self.observer.queue(at, self.forward.queued(at + self.forward.line_backlog(at)));
        if self.observer.wants_states(at) {
            for (index, lane) in self.lanes.iter().enumerate().filter(|(_, lane)| lane.phase != Phase::Waiting) {
                self.observer.state(at, index, &lane.sender.state());
            }
        }
    }

    /// Handles an event of a lane.
    fn step(&mut self, index: usize, now: Time, what: Event) {
        let lane = &mut self.lanes[index];
        match what {
            Event::Start => {
                lane.phase = Phase::Running;
                lane.sender.start(now);
                self.send(index, now);
            }
            Event::Stop => {
                lane.stop = Time::MAX;
                lane.sender.stop();
                self.finish(index, now);
            }
            Event::Arrival => self.arrive(index, now),
            Event::ReceiverTimer => self.acknowledge(index, now),
            Event::Acknowledgement => {
                if let Some((_, ack)) = lane.acknowledgements.pop_due(now) {
                    lane.sender.acknowledge(now, &ack, &mut lane.reports);
                    self.finish(index, now);
                    self.send(index, now);
                }
            }
            Event::SenderTimer => {
                lane.sender.expire(now);
                self.send(index, now);
            }
            Event::Tick => {
                let next = match lane.bundle {
                    Some(number) => {
                        self.supply(number, now);
                        self.steer(number, now)
                    }
                    None => Time::MAX,
                };
                self.lanes[index].next_tick = next;
            }
        }
    }

    /// Handles a tick of the application that steers a bundle; returns the time of the next tick.
    fn steer(&mut self, number: u8, now: Time) -> Time {
        let of_bundle = |lane: &Lane| lane.bundle == Some(number) && lane.phase == Phase::Running;
        let connections: Vec<_> = (self.lanes.iter().enumerate())
            .filter(|(_, lane)| of_bundle(lane))
            .map(|(index, lane)| ConnectionInfo {
                number: index as Number,
                lead: controller::FIRST,
                tcp: Some(lane.sender.observe(now)),
            })
            .collect();
        let members = || self.lanes.iter().filter(|lane| lane.bundle == Some(number));
        let (background, known) =
            (members().any(|lane| lane.background), members().filter_map(|lane| lane.known).min());
        let controller = self.controllers.entry(number).or_insert_with(|| steered_as_one(background, known));
        let pending = Pending::default();
        let observed = Observed { connections: &connections, ring: &NO_RING, pending: &pending, user: None };
        let Ticked { actions, next } = controller.on_tick(now, observed);
        for action in actions {
            match action {
                Action::SetCeiling(index, ceiling) => self.lanes[usize::from(index)].sender.set_ceiling(ceiling),
                Action::WantConnections(wanted) => self.open(number, wanted as usize - connections.len(), now),
                Action::WantDatagrams => self.datagrams_wanted = self.datagrams_wanted.or(Some(now)),
                Action::Open(_) | Action::Retire(_) | Action::Paced(_) => {}
            }
        }
        next
    }

    /// Has members of a bundle that have sent all they had send what has come since, as the controller has
    /// them take it.
    fn supply(&mut self, number: u8, now: Time) {
        let Some(pieces) = self.supplies.get_mut(&number) else { return };
        let controller = self.controllers.get(&number);
        let mut taken = Vec::new();
        let is_ready =
            |lane: &Lane| lane.bundle == Some(number) && lane.phase == Phase::Running && lane.sender.has_sent_all();
        for (index, lane) in self.lanes.iter_mut().enumerate().filter(|(_, lane)| is_ready(lane)) {
            let Some((_, packets)) = pieces.front().copied().filter(|(at, _)| *at <= now) else { break };
            // As long as data come, nobody knows how many there will be.
            let takes = |controller: &Controller| controller.takes(index as Number, self.segment * packets, None);
            if !controller.is_none_or(takes) {
                continue;
            }
            pieces.pop_front();
            lane.sender.add(packets);
            taken.push(index);
        }
        for index in taken {
            self.send(index, now);
            self.due[index] = self.lanes[index].next();
        }
    }

    /// Opens up to `missing` of the bundle's spare flows, one after the other.
    fn open(&mut self, number: u8, missing: usize, now: Time) {
        let is_spare = |lane: &Lane| lane.bundle == Some(number) && lane.start == Time::MAX;
        let spares = self.lanes.iter_mut().zip(&mut self.due).filter(|(lane, _)| is_spare(lane)).take(missing);
        for (turn, (lane, due)) in (0..).zip(spares) {
            lane.start = now + lane.opening + lane.opening * turn / missing as u64;
            lane.last_read = lane.start;
            *due = lane.next();
        }
    }

    /// Sends the packets that the sender releases and the line accepts.
    fn send(&mut self, index: usize, now: Time) {
        let lane = &mut self.lanes[index];
        lane.line = Time::MAX;
        while lane.phase == Phase::Running {
            if self.has_line {
                let waiting = self.forward.line_backlog(now);
                if waiting > BELOW_TCP {
                    lane.line = now + (waiting - BELOW_TCP / 2);
                    lane.sender.hold(now);
                    return;
                }
            }
            let Some(segment) = lane.sender.poll(now) else { return };
            let fate = self.forward.offer(now, self.frame);
            match fate {
                Fate::Delivered(due) | Fate::Marked(due) => lane.data.push(due + lane.extra_delay, segment.number),
                Fate::Dropped => lane.dropped += 1,
                Fate::Lost | Fate::Overrun | Fate::Gap => lane.lost += 1,
            }
            let transmission = Transmission { flow: index, number: segment.number, again: segment.again };
            self.observer.sent(now, transmission, fate);
        }
    }

    /// Handles the arrival of a data packet at the receiver.
    fn arrive(&mut self, index: usize, now: Time) {
        let lane = &mut self.lanes[index];
        let Some((_, number)) = lane.data.pop_due(now) else { return };
        let arrival = lane.receiver.arrive(now, number, &mut lane.reports);
        lane.arrived += u64::from(arrival.is_new);
        if arrival.read > 0 {
            lane.last_read = now;
        }
        self.observer.arrived(now, index, arrival.is_new, arrival.read);
        self.acknowledge(index, now);
    }

    /// Sends the receiver's acknowledgement, if one is due.
    fn acknowledge(&mut self, index: usize, now: Time) {
        let lane = &mut self.lanes[index];
        if let Some(ack) = lane.receiver.acknowledge(now, &mut lane.reports) {
            let length = if lane.arrived > ack.next { SACK_FRAME } else { ACK_FRAME };
            if let Some(due) = self.backward.offer(now, Frame::data(length)).due() {
                lane.acknowledgements.push(due, ack);
            }
        }
    }

    /// Ends the flow if its sender is done.
    fn finish(&mut self, index: usize, now: Time) {
        let lane = &mut self.lanes[index];
        let is_supplied = lane.bundle.is_some_and(|number| self.supplies.contains_key(&number));
        if !is_supplied && lane.sender.is_done() && lane.phase == Phase::Running {
            lane.phase = Phase::Done;
            lane.sender.close();
            lane.finished = Some(now);
        }
    }

    /// The totals of the simulation at its end.
    fn outcome(&self, simulation: &Simulation, end: Time) -> Outcome {
        let mss = simulation.segment();
        let flow = |lane: &Lane| {
            let bytes = mss * lane.receiver.next();
            let until = if lane.finished.is_some() { lane.last_read } else { end };
            FlowOutcome {
                sender: lane.sender.counters(),
                lost: lane.lost,
                dropped: lane.dropped,
                arrived: lane.arrived,
                duplicates: lane.receiver.duplicates(),
                on_the_way: lane.data.held() as u64,
                delivered: lane.receiver.next(),
                bytes,
                start: lane.start,
                finished: lane.finished,
                goodput: if until > lane.start { bytes / (until - lane.start) } else { Rate::ZERO },
                least_rtt: lane.sender.least_rtt(),
            }
        };
        Outcome {
            simulated: end - Time::ORIGIN,
            forward: self.forward.counters(),
            backward: self.backward.counters(),
            flows: self.lanes.iter().map(flow).collect(),
            datagrams_wanted: self.datagrams_wanted,
        }
    }
}
