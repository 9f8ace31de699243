//! A peer sends anything, in any pieces: what is opened is exactly what it sent up to the first
//! record that must not be believed, and the error that follows is final.

use icdc_record::format::{MAX_CONTENT, MAX_RECORD};
use icdc_record::{Opened, Opener, RecordError, Role};

use super::peer::Peer;
use super::{Keys, Script, content};

const CAPACITY: usize = 2 * MAX_RECORD;
/// Bounds the work for one script.
const MAX_STREAM: usize = 1 << 20;

/// What must come of a stream.
#[derive(Debug, PartialEq)]
enum Outcome {
    Opened(Opened, Vec<u8>),
    Error(RecordError),
}

/// A stream and what must come of it.
struct Stream {
    wire: Vec<u8>,
    expected: Vec<Outcome>,
    end: End,
    idle: u32,
    peer: Peer,
    keys: Keys,
    role: Role,
    generation: u8,
    /// Where the last record begins.
    last: usize,
    /// A record was left out.
    gap: bool,
}

/// What the opener does once it has been given everything that has arrived.
#[derive(PartialEq)]
enum Drained {
    Waiting,
    /// Nothing more is opened.
    Over,
}

/// The key of what follows a key update.
enum GoesOn {
    UnderTheNext,
    UnderTheOldKey,
}

/// How the reading of a stream ends.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// It waits for more.
    Waiting,
    /// An alert was the last.
    Alert,
    /// The last outcome is an error.
    Error,
    /// What follows was not sealed for its place: it waits for the rest of it, or fails.
    Spoiled,
}

/// Runs one script.
///
/// # Panics
/// If the crate makes something else of the stream.
pub(crate) fn run(script: &[u8]) {
    let mut script = Script::new(script);
    let stream = Stream::write(&mut script);
    stream.check(&mut script);
}

impl Stream {
    fn write(script: &mut Script<'_>) -> Self {
        let keys = Keys::choose(script);
        let role = if script.byte() & 1 == 0 { Role::Server } else { Role::Client };
        let mut stream = Self {
            wire: Vec::new(),
            expected: Vec::new(),
            end: End::Waiting,
            idle: 0,
            peer: Peer::new(keys),
            keys,
            role,
            generation: 0,
            last: 0,
            gap: false,
        };
        for number in 0..usize::from(script.byte()) {
            if stream.wire.len() > MAX_STREAM {
                break;
            }
            stream.step(number, script);
        }
        stream
    }

    fn step(&mut self, number: usize, script: &mut Script<'_>) {
        match script.byte() % 16 {
            0..=4 => {
                let length = script.length(MAX_CONTENT);
                let padding = if script.byte() & 1 == 0 { 0 } else { script.length(MAX_CONTENT - length) };
                let content = content(number, length);
                self.record(&content, 23, padding, Ok(Opened::Data(length)));
            }
            5 | 6 => self.key_update(script),
            7 => self.handshake(script),
            8 => {
                let alert = [script.byte(), script.byte()];
                self.record(&alert, 21, 0, Ok(Opened::Alert(alert[1])));
            }
            9 => {
                let length = [0, 1, 3, 100][script.below(4)];
                self.record(&content(number, length), 21, 0, Err(RecordError::AlertLength));
            }
            10 => {
                let kind = script.byte();
                if !matches!(kind, 0 | 21..=23) {
                    self.record(&content(number, 5), kind, 1, Err(RecordError::Kind(kind)));
                }
            }
            11 => {
                let zeros = vec![0; script.length(MAX_CONTENT)];
                self.record(&zeros, 0, 0, Err(RecordError::NoKind));
            }
            12 => self.spoil(script),
            13 => {
                let repeated = self.wire[self.last..].to_vec();
                self.spoiled(&repeated);
            }
            14 => {
                let garbage: Vec<u8> = (0..script.below(300)).map(|_| script.byte()).collect();
                self.spoiled(&garbage);
            }
            _ => {
                self.peer.seal(&[1, 23]);
                self.gap = true;
            }
        }
    }

    /// A record that is right in its place, and what must come of it.
    fn record(&mut self, content: &[u8], kind: u8, padding: usize, outcome: Result<Opened, RecordError>) {
        let inner = [content, &[kind], &vec![0; padding]].concat();
        let record = self.peer.seal(&inner);
        self.last = self.wire.len();
        if self.gap {
            self.spoiled(&record);
            return;
        }
        self.wire.extend_from_slice(&record);
        if self.end != End::Waiting {
            return;
        }
        let is_data = matches!(outcome, Ok(Opened::Data(1..)));
        // What is no record at all is found out before it is counted.
        let counts = !matches!(outcome, Err(RecordError::Kind(_) | RecordError::NoKind));
        self.idle = if is_data { 0 } else { self.idle + u32::from(counts) };
        let outcome = if self.idle > 32 { Err(RecordError::Idle) } else { outcome };
        match outcome {
            Ok(opened) => {
                let content = if let Opened::Data(_) = opened { content.to_vec() } else { Vec::new() };
                if let Opened::Alert(_) = opened {
                    self.end = End::Alert;
                }
                self.expected.push(Outcome::Opened(opened, content));
            }
            Err(error) => {
                self.end = End::Error;
                self.expected.push(Outcome::Error(error));
            }
        }
    }

    fn key_update(&mut self, script: &mut Script<'_>) {
        let choice = script.byte();
        let requested = choice & 1;
        let outcome = Ok(Opened::KeyUpdate { requested: requested == 1 });
        let goes_on = if choice & 0xf0 == 0xf0 { GoesOn::UnderTheOldKey } else { GoesOn::UnderTheNext };
        self.handshake_record(&[24, 0, 0, 1, requested], 0, outcome, goes_on);
    }

    /// Handshake messages, the last of them whole or cut.
    fn handshake(&mut self, script: &mut Script<'_>) {
        let mut content = Vec::new();
        let mut outcome = Err(RecordError::EmptyHandshake);
        for _ in 0..script.below(4) {
            if let Ok(Opened::KeyUpdate { .. }) = outcome {
                outcome = Err(RecordError::Handshake(24));
            }
            let choice = script.byte();
            let (kind, body) = match script.below(8) {
                0..=2 => (4, vec![script.byte(); script.below(200)]),
                // A key update of a length that none has.
                3 => (24, vec![0; 2]),
                7 => (24, vec![script.byte() & 1]),
                other => ([1, 0, choice][other - 4], vec![script.byte(); script.below(200)]),
            };
            let message = [&[kind, 0, 0, body.len() as u8], &body[..]].concat();
            let whole = if script.byte() < 200 { message.len() } else { 1 + script.below(message.len()) };
            content.extend_from_slice(&message[..whole]);
            if outcome == Err(RecordError::Handshake(24)) {
                break;
            }
            outcome = match (kind, &body[..]) {
                _ if whole < message.len() => Err(RecordError::HandshakeInPieces),
                (4, _) if self.role == Role::Client => Ok(Opened::Tickets),
                (24, &[requested @ 0..=1]) => Ok(Opened::KeyUpdate { requested: requested == 1 }),
                _ => Err(RecordError::Handshake(kind)),
            };
            if outcome.is_err() {
                break;
            }
        }
        self.handshake_record(&content, script.below(3), outcome, GoesOn::UnderTheNext);
    }

    /// A record of handshake messages, and how the peer goes on if they end in a key update.
    fn handshake_record(
        &mut self,
        content: &[u8],
        padding: usize,
        outcome: Result<Opened, RecordError>,
        goes_on: GoesOn,
    ) {
        let updates = matches!(outcome, Ok(Opened::KeyUpdate { .. }));
        if updates && self.generation == self.keys.generations {
            self.record(content, 22, padding, Err(Keys::no_more()));
            return;
        }
        self.record(content, 22, padding, outcome);
        if updates {
            self.generation += 1;
            match goes_on {
                GoesOn::UnderTheNext => self.peer.next_generation(),
                GoesOn::UnderTheOldKey => self.gap = true,
            }
        }
    }

    /// A record of which one bit is changed, or that is too long for any.
    fn spoil(&mut self, script: &mut Script<'_>) {
        let length = 1 + script.below(300);
        let record = if script.byte() & 1 == 0 {
            let mut record = self.peer.seal(&content(1, length));
            let bit = script.below(record.len() * 8);
            record[bit / 8] ^= 1 << (bit % 8);
            record
        } else {
            self.peer.seal(&vec![23; MAX_CONTENT + 1 + length])
        };
        self.spoiled(&record);
    }

    fn spoiled(&mut self, bytes: &[u8]) {
        self.wire.extend_from_slice(bytes);
        if !bytes.is_empty() && self.end == End::Waiting {
            self.end = End::Spoiled;
        }
    }

    fn check(&self, script: &mut Script<'_>) {
        let mut opener = Opener::new(self.keys.first(), self.keys.next(), self.role, CAPACITY);
        let mut expected = self.expected.iter();
        let mut rest = &self.wire[..];
        while !rest.is_empty() {
            let room = opener.room();
            assert!(room.len() <= CAPACITY);
            let piece = if script.is_empty() { MAX_RECORD } else { 1 + script.length(MAX_RECORD) };
            let count = piece.min(room.len()).min(rest.len());
            room[..count].copy_from_slice(&rest[..count]);
            opener.arrived(count);
            rest = &rest[count..];
            let is_full = opener.room().is_empty();
            if rest.is_empty() || is_full || script.byte() & 1 == 0 {
                if self.drain(&mut opener, &mut expected) == Drained::Over {
                    break;
                }
                assert!(opener.room().len() >= CAPACITY / 2, "there is room for a record");
            }
        }
        assert_eq!(expected.next(), None, "it has been opened");
    }

    /// Opens what has arrived.
    fn drain<'a>(&self, opener: &mut Opener, expected: &mut impl ExactSizeIterator<Item = &'a Outcome>) -> Drained {
        loop {
            let length = match opener.next_plaintext() {
                Ok(None) if self.end == End::Alert && expected.len() == 0 => return Drained::Over,
                Ok(None) => return Drained::Waiting,
                Ok(Some(length)) => length,
                Err(error) => return self.failed(opener, &error, expected),
            };
            let mut out = vec![0xaa; length];
            match opener.open(&mut out) {
                Ok(opened) => {
                    let opened = opened.expect("a record was there");
                    out.truncate(if let Opened::Data(length) = opened { length } else { 0 });
                    assert_eq!(Some(&Outcome::Opened(opened, out)), expected.next());
                }
                Err(error) => return self.failed(opener, &error, expected),
            }
        }
    }

    fn failed<'a>(
        &self,
        opener: &mut Opener,
        error: &RecordError,
        expected: &mut impl Iterator<Item = &'a Outcome>,
    ) -> Drained {
        match expected.next() {
            Some(outcome) => assert_eq!(*outcome, Outcome::Error(error.clone())),
            None => {
                assert!(self.end == End::Spoiled, "{error}");
                let unopened =
                    matches!(error, RecordError::Forged | RecordError::Header { .. } | RecordError::Length { .. });
                assert!(unopened, "{error} is about what must not be looked at");
            }
        }
        assert_eq!(opener.next_plaintext().as_ref(), Err(error), "an error is final");
        assert_eq!(opener.open(&mut []).as_ref(), Err(error), "an error is final");
        Drained::Over
    }
}
