//! Cost of relaying: bytes per second of processor time, on loopback, of icdc's relay, of HAProxy,
//! and of a loop that copies in user space, beside a direct flow.
//!
//! A sender and a receiver with ordinary sockets move zeros for some seconds; each relay has one
//! thread, and one connection. Counted is the processor time of the relaying process alone. It
//! receives and sends each byte once, as the two ends of the direct flow do together, so those
//! stand beside it. On loopback the sender's processor also does what the receiver's kernel does
//! with a packet: a relay pays that for its own sending, and its client for its own, as the direct
//! flow's sender pays for its one.
//!
//! Each contender runs once per round, in rotating order. The rate is what three busy programs
//! reach on the processors that there are.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Sender};
use std::thread;

use icdc_lab::LabError;
use icdc_packet::clock;
use icdc_report::{Report, Table};
use icdc_units::{ByteCount, Rate, Span};
use rustix::thread::{Pid, gettid};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::processes::processor_time;
use crate::harness::processes::programs::installed;
use crate::harness::processes::scratch::Scratch;
use crate::harness::processes::server::Server;
use crate::harness::scenario::Scenario;
use crate::harness::traffic::loopback::{ANY_PORT, Over, PIECE, in_turns, read_until, send};
use crate::relay::plain_flow::accept;

/// Scenario `proxy-cost` of `icdc lab run`: processor time of icdc's relay and others for a flow on
/// loopback.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "proxy-cost",
    about: "bytes per second of processor time on loopback: icdc's relay, HAProxy and a copying loop beside a direct flow",
    has_rows: false,
    is_parallel: false,
    run,
};

/// Length of each measurement in seconds.
const SECONDS: u64 = 8;
/// Number of rounds, in each of which every carrier is measured once.
const RUNS: u64 = 5;
/// Length of the start-up, which does not count.
const WARM_UP: Span = Span::from_millis(500);
/// Size of the pipe through which HAProxy splices: that of icdc's.
const PIPE: u32 = 1 << 20;
/// Time limit for a program to listen.
const TIMEOUT: Span = Span::from_secs(10);
/// Interval of the attempts to connect.
const STEP: Span = Span::from_millis(20);

/// Program that relays from the sender to the receiver: none, icdc, a copying loop in this process,
/// or HAProxy with or without splice(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carrier {
    Nobody,
    Icdc,
    Loop,
    HaProxy { splices: bool },
}

/// All carriers that are compared, one row of the table each.
const CARRIERS: [Carrier; 5] = [
    Carrier::Nobody,
    Carrier::Icdc,
    Carrier::Loop,
    Carrier::HaProxy { splices: true },
    Carrier::HaProxy { splices: false },
];

/// Result of one round of a carrier.
#[derive(Clone, Copy, Debug)]
struct RelayTurn {
    /// Rate during the counted time.
    rate: Rate,
    /// Bytes per second of processor time.
    per_core: Rate,
    /// Processors that the carrier was busy with.
    busy: f64,
}

impl Carrier {
    fn name(self) -> &'static str {
        match self {
            Self::Nobody => "direct flow, both ends",
            Self::Icdc => "icdc relay",
            Self::Loop => "loop that reads and writes 128 KiB",
            Self::HaProxy { splices: true } => "HAProxy, splice",
            Self::HaProxy { splices: false } => "HAProxy",
        }
    }
}

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let seconds = Span::from_secs(if bench.quick { 2 } else { SECONDS });
    let runs = bench.runs.unwrap_or(if bench.quick { 1 } else { RUNS });
    let haproxy = installed("haproxy");
    let is_here = |carrier: &Carrier| haproxy.is_some() || !matches!(carrier, Carrier::HaProxy { .. });
    let carriers: Vec<Carrier> = CARRIERS.into_iter().filter(is_here).collect();
    let scratch = Scratch::in_memory(ByteCount::from_mib(1))?;
    let name = |carrier: Carrier| carrier.name().to_owned();
    let turn = |carrier| measure(bench, &scratch, carrier, haproxy.as_deref(), seconds);
    let turns = in_turns(bench, &carriers, runs, name, turn)?;
    let version = haproxy.as_deref().map_or_else(|| "not installed, so not measured".to_owned(), version);
    Ok(Report {
        tables: vec![table(&carriers, &turns, seconds)],
        summary: vec![("HAProxy".to_owned(), version)],
        ..Report::default()
    })
}

/// Table of bytes per second of processor time of each carrier, beside the direct flow.
fn table(carriers: &[Carrier], turns: &[Vec<RelayTurn>], seconds: Span) -> Table {
    let gigabytes = |rate: Rate| rate.as_bytes_per_second() as f64 / 1e9;
    // Round by round, so that the machine's state is the same for all.
    let direct = &turns[0];
    let ratio =
        |own: &[RelayTurn]| Spread::of(own.iter().zip(direct).map(|(own, direct)| own.per_core.ratio(direct.per_core)));
    let row = |(carrier, own): (&Carrier, &Vec<RelayTurn>)| {
        vec![
            carrier.name().to_owned(),
            Spread::of(own.iter().map(|turn| gigabytes(turn.per_core))).thousandths(),
            ratio(own).percent(),
            if *carrier == Carrier::Icdc { "≥ 80, and most of all that relay".to_owned() } else { String::new() },
            Spread::of(own.iter().map(|turn| gigabytes(turn.rate))).thousandths(),
            Spread::of(own.iter().map(|turn| turn.busy)).percent(),
        ]
    };
    Table {
        caption: format!(
            "One connection on loopback, {seconds}, one relaying thread: median of the rounds (least to greatest)"
        ),
        header: [
            "",
            "GB per second of processor time",
            "of the direct flow's, %",
            "required",
            "GB/s",
            "of a processor, %",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: carriers.iter().zip(turns).map(row).collect(),
    }
}

/// Measures one connection through a carrier for `seconds` after start-up.
fn measure(
    bench: &Bench<'_>,
    scratch: &Scratch,
    carrier: Carrier,
    haproxy: Option<&Path>,
    seconds: Span,
) -> Result<RelayTurn, ExperimentError> {
    let failed = |error| ExperimentError::io(format!("measure {} on loopback", carrier.name()), error);
    let over = AtomicBool::new(false);
    let listener = TcpListener::bind(ANY_PORT).map_err(failed)?;
    let to = listener.local_addr().map_err(failed)?;
    let door = TcpListener::bind(ANY_PORT).map_err(failed)?;
    let front = if carrier == Carrier::Nobody { to } else { door.local_addr().map_err(failed)? };
    // A relay program opens its own listening socket.
    let door = Some(door).filter(|_| carrier == Carrier::Loop);
    let server = match carrier {
        Carrier::Nobody | Carrier::Loop => None,
        Carrier::Icdc => Some(start_icdc(bench, scratch, front, to)?),
        Carrier::HaProxy { splices } => {
            let program = haproxy.ok_or(LabError::Missing { program: "haproxy", package: "haproxy" })?;
            Some(start_haproxy(scratch, program, splices, front, to)?)
        }
    };
    thread::scope(|scope| {
        let _over = Over(&over);
        let (tell, ids) = mpsc::channel();
        let over = &over;
        if let Some(door) = &door {
            let tell = tell.clone();
            scope.spawn(move || copy(door, to, &tell, over));
        }
        let client = connect(front).map_err(failed)?;
        let mut stream = accept(&listener, TIMEOUT, over).map_err(failed)?;
        if carrier == Carrier::Nobody {
            let tell = tell.clone();
            // Each end has a part.
            tell.send(gettid()).map_err(|_| failed(io::ErrorKind::BrokenPipe.into()))?;
            scope.spawn(move || send(client, &tell, over));
        } else {
            let (unheard, _) = mpsc::channel();
            scope.spawn(move || send(client, &unheard, over));
        }
        drop(tell);
        let mut buffer = vec![0; PIECE];
        read_until(&mut stream, &mut buffer, clock::now() + WARM_UP).map_err(failed)?;
        let threads: Vec<Pid> = ids.try_iter().collect();
        let spent = || match &server {
            Some(server) => processor_time::of_process(server.id()),
            None => threads.iter().map(|thread| processor_time::of_thread(*thread)).sum::<Span>(),
        };
        let (begun, before) = (clock::now(), spent());
        let bytes = read_until(&mut stream, &mut buffer, begun + seconds).map_err(failed)?;
        let (took, spent) = (clock::now() - begun, spent() - before);
        Ok(RelayTurn { rate: bytes / took, per_core: bytes / spent, busy: spent.ratio(took) })
    })
}

/// Starts icdc's relay, which listens on `front` and forwards to `to`.
fn start_icdc(
    bench: &Bench<'_>,
    scratch: &Scratch,
    front: SocketAddr,
    to: SocketAddr,
) -> Result<Server, ExperimentError> {
    let mut command = Command::new(bench.program);
    command.args(["relay", "--threads", "1", "--forward", &format!("{front}={to}"), "--status-socket"]);
    command.arg(scratch.path("relay.sock"));
    Server::start(&mut command, &scratch.path("relay.log"))
}

/// Starts HAProxy, which listens on `front` and forwards to `to`; `splices`: without copies in user
/// space.
fn start_haproxy(
    scratch: &Scratch,
    program: &Path,
    splices: bool,
    front: SocketAddr,
    to: SocketAddr,
) -> Result<Server, ExperimentError> {
    let (option, pipe) =
        if splices { ("option splice-auto", format!("tune.pipesize {PIPE}")) } else { ("", String::new()) };
    let text = format!(
        "global\n  nbthread 1\n  maxconn 64\n  {pipe}\ndefaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1m\n  \
         timeout server 1m\n  {option}\nlisten relay\n  bind {front}\n  server far {to}\n"
    );
    let file = scratch.text("haproxy.cfg", &text)?;
    let mut command = Command::new(program);
    command.arg("-db").arg("-f").arg(file);
    Server::start(&mut command, &scratch.path("haproxy.log"))
}

/// Connects to a program, as soon as it listens.
fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let until = clock::now() + TIMEOUT;
    loop {
        match TcpStream::connect(to) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && clock::now() < until => {
                clock::sleep_until(clock::now() + STEP);
            }
            result => return result,
        }
    }
}

/// Body of a thread that is the plainest relay: copies one connection in one direction through user
/// space. Reports its thread by `tell`.
fn copy(door: &TcpListener, to: SocketAddr, tell: &Sender<Pid>, over: &AtomicBool) {
    let _ = tell.send(gettid());
    let Ok(mut near) = accept(door, TIMEOUT, over) else { return };
    let Ok(mut far) = TcpStream::connect(to) else { return };
    let mut buffer = vec![0; PIECE];
    while let Ok(count @ 1..) = near.read(&mut buffer) {
        if far.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
}

/// Version of a program: the first line of its `-v`; empty if it cannot be run.
fn version(program: &Path) -> String {
    let output = Command::new(program).arg("-v").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}
