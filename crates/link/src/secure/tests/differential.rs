//! rustls' own connection and [`icdc_record`] are given the same stream of records under the same
//! keys, with rustls in either role: they make the same of it, but for the differences that are
//! listed here. What rustls answers, this end opens.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use icdc_record::format::{CLOSE_NOTIFY, HEADER, Kind, MAX_CONTENT, MAX_RECORD, OVERHEAD, message};
use icdc_record::{NextKey, Opened, Opener, RecordError, RecordKey, Role};
use proptest::collection::vec;
use proptest::prelude::*;
use rustls::{AlertDescription, ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

use super::{DEADLINE, carrier, configs, sockets};
use crate::secure::handshake::{self as raw, Established};
use crate::secure::key_schedule::Direction;
use crate::tests::{noise, spawn};

const ROLES: [Role; 2] = [Role::Client, Role::Server];

/// End of a stream at its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It waits for more.
    Open,
    /// The peer ended it in order.
    Closed,
    /// It broke a rule, or an alert said so.
    Refused,
}

/// Data that a receiver reads from a stream, and the stream's end.
type Verdict = (Vec<u8>, End);

/// A stream of records, and the two that receive it.
struct Duel {
    rustls: Connection,
    twin: Opener,
    key: RecordKey,
    next_keys: NextKey,
    next_twin_keys: NextKey,
    /// Keys that the twin takes at key updates.
    twin_keys: Arc<Mutex<VecDeque<RecordKey>>>,
    /// Opens what rustls sends.
    back: Opener,
    wire: Vec<u8>,
    /// Offsets in bytes at which its records begin.
    starts: Vec<usize>,
}

impl Duel {
    /// rustls has this role, and makes its records of so many bytes at most.
    fn new(role: Role, max_fragment_size: Option<usize>) -> Self {
        let (near, far) = sockets();
        let (client, server) = configs();
        let (rustls, established) = match role {
            Role::Client => {
                let mut client = ClientConfig::clone(&client);
                client.max_fragment_size = max_fragment_size;
                let connection = ClientConnection::new(client.into(), icdc_trust::server_name()).unwrap();
                let shaking = spawn(move || shake(connection.into(), far));
                let established = raw::server(&carrier(&near), "peer", server, DEADLINE).unwrap();
                (shaking.join().unwrap(), established)
            }
            Role::Server => {
                let mut server = ServerConfig::clone(&server);
                server.max_fragment_size = max_fragment_size;
                let shaking = spawn(move || shake(ServerConnection::new(server.into()).unwrap().into(), far));
                let established = raw::client(&carrier(&near), "peer", client, DEADLINE).unwrap();
                (shaking.join().unwrap(), established)
            }
        };
        let Established { transmit, receive, role: ours, early, .. } = established;
        assert!(early.is_empty());
        let twin_keys = Arc::new(Mutex::new(VecDeque::new()));
        let twin_key: NextKey = {
            let keys = Arc::clone(&twin_keys);
            Box::new(move || keys.lock().unwrap().pop_front().ok_or_else(|| RecordError::NextKey("none".to_owned())))
        };
        Self {
            rustls,
            twin: Opener::new(transmit.record_key().unwrap(), twin_key, role, 1 << 20),
            key: transmit.record_key().unwrap(),
            next_keys: transmit.next_keys(),
            next_twin_keys: Direction::new(transmit.secret(), 0).next_keys(),
            twin_keys,
            back: Opener::new(receive.record_key().unwrap(), receive.next_keys(), ours, 1 << 20),
            wire: Vec::new(),
            starts: Vec::new(),
        }
    }

    fn record(&mut self, kind: Kind, content: &[u8], padding: usize) {
        let mut record = vec![0; content.len() + padding + OVERHEAD];
        self.key.seal(kind, content, padding, &mut record).unwrap();
        self.bytes(&record);
    }

    fn bytes(&mut self, record: &[u8]) {
        self.starts.push(self.wire.len());
        self.wire.extend_from_slice(record);
    }

    fn key_update(&mut self, requested: bool) {
        self.record(Kind::Handshake, &[message::KEY_UPDATE, 0, 0, 1, u8::from(requested)], 0);
        self.key = (self.next_keys)().unwrap();
        self.twin_keys.lock().unwrap().push_back((self.next_twin_keys)().unwrap());
    }

    /// Record number `index`, if there are so many.
    fn span(&self, index: usize) -> Option<std::ops::Range<usize>> {
        let end = self.starts.get(index + 1).copied().unwrap_or(self.wire.len());
        Some(*self.starts.get(index)?..end)
    }

    /// Bytes that the last record lacks.
    fn missing(&self) -> usize {
        let mut rest = &self.wire[..];
        while let &[_, _, _, high, low, ref behind @ ..] = rest {
            let body = usize::from(u16::from_be_bytes([high, low]));
            let Some(behind) = behind.get(body..) else { return body - behind.len() };
            rest = behind;
        }
        0
    }

    /// Hands the stream to both in pieces of this length, and sees what rustls says to it.
    fn verdicts(mut self, piece: usize) -> (Verdict, Verdict) {
        let (mut rustls, mut alert) = rustls_reads(&mut self.rustls, &self.wire, piece);
        let ours = opener_reads(&mut self.twin, &self.wire, piece);
        if (rustls.1, ours.1) == (End::Open, End::Refused) {
            // The opener refuses a header at once, rustls some of them when the body has come.
            let rest = vec![0; self.missing()];
            let ((data, end), error) = rustls_reads(&mut self.rustls, &rest, piece);
            assert!(data.is_empty());
            (rustls.1, alert) = (end, error);
        }
        if rustls.1 == End::Open {
            self.rustls.writer().write_all(b"answer").unwrap();
        }
        if rustls.1 != End::Closed {
            let mut answer = Vec::new();
            while self.rustls.wants_write() {
                self.rustls.write_tls(&mut answer).unwrap();
            }
            let (data, end) = opener_reads(&mut self.back, &answer, piece);
            match alert {
                // For some rules it sends no alert.
                Some(_) => {
                    assert!(data.is_empty() && (answer.is_empty() || end == End::Refused), "its alert is understood");
                }
                None => assert_eq!((&data[..], end), (&b"answer"[..], End::Open), "its answer is understood"),
            }
        }
        (rustls, ours)
    }
}

fn shake(mut connection: Connection, mut socket: TcpStream) -> Connection {
    while connection.is_handshaking() {
        connection.complete_io(&mut socket).unwrap();
    }
    while connection.wants_write() {
        connection.write_tls(&mut socket).unwrap();
    }
    connection
}

fn rustls_reads(connection: &mut Connection, wire: &[u8], piece: usize) -> (Verdict, Option<rustls::Error>) {
    let mut data = Vec::new();
    for mut piece in wire.chunks(piece) {
        while !piece.is_empty() {
            if connection.read_tls(&mut piece).unwrap() == 0 {
                return ((data, End::Closed), None);
            }
            let processed = connection.process_new_packets();
            match connection.reader().read_to_end(&mut data) {
                Ok(_) => return ((data, End::Closed), None),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            if let Err(error) = processed {
                return ((data, End::Refused), Some(error));
            }
        }
    }
    ((data, End::Open), None)
}

fn opener_reads(opener: &mut Opener, wire: &[u8], piece: usize) -> Verdict {
    let mut data = Vec::new();
    for piece in wire.chunks(piece) {
        opener.room()[..piece.len()].copy_from_slice(piece);
        opener.arrived(piece.len());
        let mut out = [0; MAX_CONTENT + 1];
        loop {
            match opener.open(&mut out) {
                Ok(Some(Opened::Data(length))) => data.extend_from_slice(&out[..length]),
                Ok(Some(Opened::KeyUpdate { .. } | Opened::Tickets)) => {}
                Ok(Some(Opened::Alert(0))) => return (data, End::Closed),
                Ok(Some(Opened::Alert(_))) | Err(_) => return (data, End::Refused),
                Ok(None) => break,
            }
        }
    }
    (data, End::Open)
}

/// Step of the sending end.
#[derive(Clone, Debug)]
enum Step {
    Data { length: usize, padding: usize },
    KeyUpdate { requested: bool },
    Alert { level: u8, description: u8 },
    Handshake { kind: u8 },
    LongAlert,
    Clear(&'static [u8]),
}

/// Change of the stream on its way.
#[derive(Clone, Debug)]
enum Accident {
    Nothing,
    Bit { record: usize, bit: usize },
    Repeated(usize),
    LeftOut(usize),
    Swapped(usize),
    Cut(usize),
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![
        proptest::sample::select(vec![0, 1, 2, 15, 16, 17, 255, 4096, MAX_CONTENT - 1, MAX_CONTENT]),
        0..=MAX_CONTENT,
    ]
}

fn honest() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (length(), length()).prop_map(|(length, padding)| Step::Data {
            length,
            padding: if padding % 2 == 0 { 0 } else { padding.min(MAX_CONTENT - length) },
        }),
        2 => any::<bool>().prop_map(|requested| Step::KeyUpdate { requested }),
    ]
}

fn last() -> impl Strategy<Value = Step> {
    // Application data, a farewell and a change of cipher, none of them encrypted.
    const CLEAR: [&[u8]; 3] = [&[23, 3, 3, 0, 1, 7], &[21, 3, 3, 0, 2, 1, 0], &[20, 3, 3, 0, 1, 1]];
    prop_oneof![
        Just(Step::Alert { level: 1, description: 0 }),
        (1..=2_u8, any::<u8>()).prop_map(|(level, description)| Step::Alert {
            level,
            // rustls ignores `user_canceled`.
            description: if description == 90 { 91 } else { description },
        }),
        proptest::sample::select(vec![0, 1, 2, 8, 11, 13, 15, 20, 77]).prop_map(|kind| Step::Handshake { kind }),
        Just(Step::LongAlert),
        proptest::sample::select(CLEAR.to_vec()).prop_map(Step::Clear),
    ]
}

fn accident() -> impl Strategy<Value = Accident> {
    prop_oneof![
        3 => Just(Accident::Nothing),
        // Not of type or version: rustls believes others too.
        3 => (0..12_usize, any::<usize>()).prop_map(|(record, bit)| Accident::Bit { record, bit }),
        1 => (0..12_usize).prop_map(Accident::Repeated),
        1 => (0..12_usize).prop_map(Accident::LeftOut),
        1 => (0..12_usize).prop_map(Accident::Swapped),
        1 => any::<usize>().prop_map(Accident::Cut),
    ]
}

fn happen(duel: &mut Duel, accident: &Accident) {
    match *accident {
        Accident::Nothing => {}
        Accident::Bit { record, bit } => {
            let Some(span) = duel.span(record) else { return };
            let bit = bit % (8 * (span.len() - HEADER + 2)) + 8 * (HEADER - 2);
            duel.wire[span.start + bit / 8] ^= 1 << (bit % 8);
        }
        Accident::Repeated(record) => {
            let Some(span) = duel.span(record) else { return };
            let repeated = duel.wire[span.clone()].to_vec();
            duel.wire.splice(span.end..span.end, repeated);
        }
        Accident::LeftOut(record) => {
            if let Some(span) = duel.span(record) {
                duel.wire.drain(span);
            }
        }
        Accident::Swapped(record) => {
            let (Some(first), Some(second)) = (duel.span(record), duel.span(record + 1)) else { return };
            let middle = first.len();
            duel.wire[first.start..second.end].rotate_left(middle);
        }
        Accident::Cut(at) => {
            let length = at % (duel.wire.len() + 1);
            duel.wire.truncate(length);
        }
    }
}

fn take(duel: &mut Duel, number: usize, step: &Step) {
    match *step {
        Step::Data { length, padding } => duel.record(Kind::Data, &noise(number as u32)[..length], padding),
        Step::KeyUpdate { requested } => duel.key_update(requested),
        Step::Alert { level, description } => duel.record(Kind::Alert, &[level, description], 0),
        Step::Handshake { kind } => duel.record(Kind::Handshake, &[kind, 0, 0, 1, 0], 0),
        Step::LongAlert => duel.record(Kind::Alert, &[1, 0, 1, 0], 0),
        Step::Clear(record) => duel.bytes(record),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_sealed_rustls_takes_as_the_opener_does(
        is_client in any::<bool>(),
        steps in vec(honest(), 0..12),
        last in proptest::option::of(last()),
        accident in accident(),
        piece in prop_oneof![1..40_usize, 1..3 * MAX_RECORD],
    ) {
        let mut duel = Duel::new(if is_client { Role::Client } else { Role::Server }, None);
        for (number, step) in steps.iter().chain(&last).enumerate() {
            take(&mut duel, number, step);
        }
        happen(&mut duel, &accident);
        let (rustls, ours) = duel.verdicts(piece);
        prop_assert_eq!(rustls.1, ours.1);
        prop_assert!(rustls.0 == ours.0, "{} bytes are not {}", rustls.0.len(), ours.0.len());
    }

    #[test]
    fn what_rustls_seals_the_opener_takes_up_to_the_first_change(
        is_client in any::<bool>(),
        fragment in proptest::sample::select(vec![None, Some(32), Some(64), Some(1000)]),
        writes in vec((0..50_000_usize, any::<bool>()), 0..6),
        closes in any::<bool>(),
        change in proptest::option::of(any::<usize>()),
        piece in prop_oneof![1..40_usize, 1..3 * MAX_RECORD],
    ) {
        let mut duel = Duel::new(if is_client { Role::Client } else { Role::Server }, fragment);
        let mut data = Vec::new();
        let mut wire = Vec::new();
        for (number, (length, refreshes)) in writes.into_iter().enumerate() {
            let written = &noise(number as u32)[..length];
            duel.rustls.set_buffer_limit(None);
            duel.rustls.writer().write_all(written).unwrap();
            data.extend_from_slice(written);
            if refreshes {
                duel.rustls.refresh_traffic_keys().unwrap();
            }
        }
        if closes {
            duel.rustls.send_close_notify();
        }
        while duel.rustls.wants_write() {
            duel.rustls.write_tls(&mut wire).unwrap();
        }
        let changed = change.filter(|_| !wire.is_empty()).map(|bit| bit % (8 * wire.len()));
        if let Some(bit) = changed {
            wire[bit / 8] ^= 1 << (bit % 8);
        }
        let (opened, end) = opener_reads(&mut duel.back, &wire, piece);
        match changed {
            None => {
                prop_assert!(opened == data, "{} bytes of {}", opened.len(), data.len());
                prop_assert_eq!(end, if closes { End::Closed } else { End::Open });
            }
            // A length that has grown may leave it waiting for the rest.
            Some(_) => prop_assert!(data.starts_with(&opened) && end != End::Closed),
        }
    }
}

/// Kind and content of records.
type Sent<'a> = &'a [(Kind, &'a [u8])];

fn both(role: Role, records: Sent<'_>) -> (End, End) {
    let mut duel = Duel::new(role, None);
    for (kind, content) in records {
        duel.record(*kind, content, 0);
    }
    let (rustls, ours) = duel.verdicts(MAX_RECORD);
    assert_eq!(rustls.0, ours.0);
    (rustls.1, ours.1)
}

#[test]
fn both_allow_the_same_number_of_records_that_carry_nothing() {
    for role in ROLES {
        let empty = (Kind::Data, &[][..]);
        assert_eq!(both(role, &[empty; 32]), (End::Open, End::Open));
        assert_eq!(both(role, &[empty; 33]), (End::Refused, End::Refused));
        for (updates, end) in [(32, End::Open), (33, End::Refused)] {
            let mut duel = Duel::new(role, None);
            for _ in 0..updates {
                duel.key_update(true);
            }
            let (rustls, ours) = duel.verdicts(MAX_RECORD);
            assert_eq!((rustls.1, ours.1), (end, end), "{updates} key updates");
        }
    }
}

#[test]
fn records_of_any_length_that_none_may_have_are_refused_by_both() {
    for role in ROLES {
        for length in [0, 1, 15, 16, MAX_CONTENT + 18, MAX_CONTENT + 256, MAX_CONTENT + 257, 0xffff] {
            let mut duel = Duel::new(role, None);
            let header = [23, 3, 3, (length >> 8) as u8, length as u8];
            duel.bytes(&[&header[..], &vec![7; length]].concat());
            let (rustls, ours) = duel.verdicts(MAX_RECORD);
            assert_eq!((rustls.1, ours.1), (End::Refused, End::Refused), "{length} bytes");
        }
    }
}

#[test]
fn an_ended_stream_is_not_read_on_by_either() {
    for role in ROLES {
        let records = [(Kind::Data, &b"data"[..]), (Kind::Alert, &CLOSE_NOTIFY), (Kind::Data, b"more")];
        assert_eq!(both(role, &records), (End::Closed, End::Closed));
    }
}

#[test]
fn the_opener_refuses_more_than_rustls_in_these_cases_only() {
    let user_canceled = [1, u8::from(AlertDescription::UserCanceled)];
    let update = [message::KEY_UPDATE, 0, 0, 1, 0];
    for role in ROLES {
        assert_eq!(both(role, &[(Kind::Alert, &user_canceled)]), (End::Open, End::Refused));
        assert_eq!(both(role, &[(Kind::Handshake, b"")]), (End::Open, End::Refused), "RFC 8446 section 5.1");
        let pieces = [(Kind::Handshake, &update[..2]), (Kind::Handshake, &update[2..])];
        assert_eq!(both(role, &pieces[..1]), (End::Open, End::Refused), "a handshake message in two records");
        let between = [pieces[0], (Kind::Data, b"between")];
        assert_eq!(both(role, &between), (End::Refused, End::Refused), "data between the two");
    }
}

#[test]
fn the_opener_believes_no_other_type_or_version_of_a_record_and_rustls_does() {
    for role in ROLES {
        for (at, byte) in [(0, 21), (0, 22), (0, 24), (2, 1), (2, 4)] {
            let mut duel = Duel::new(role, None);
            duel.record(Kind::Data, b"data", 0);
            duel.wire[at] = byte;
            let (rustls, ours) = duel.verdicts(MAX_RECORD);
            assert_eq!(rustls, (b"data".to_vec(), End::Open), "byte {at}: {byte}");
            assert_eq!(ours, (Vec::new(), End::Refused), "byte {at}: {byte}");
        }
    }
}

#[test]
fn the_opener_refuses_less_than_rustls_in_this_case_only() {
    for role in ROLES {
        // RFC 8446 section 6: the severity is implicit in the type of alert.
        assert_eq!(both(role, &[(Kind::Alert, &[3, 0])]), (End::Refused, End::Closed));
    }
}
