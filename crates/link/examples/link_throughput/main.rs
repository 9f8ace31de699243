//! What encryption costs: blocks over loopback through icdc's own record layer and through rustls',
//! in one run, pair by pair; one thread sends, one receives.
//!
//! ```text
//! cargo run --release -p icdc-link --example link_throughput -- [GIBIBYTES [RUNS]]
//! ```
//!
//! All have the same handshake, cipher suite, block size and size of a write; heads and payloads do
//! not share records.

mod buffered;
mod cipher;
mod ours;
mod unbuffered;

use std::error::Error;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use icdc_disk::pool::{BLOCK_SIZE, BlockPool};
use icdc_protocol::Message;
use icdc_protocol::message::BlockHeader;
use icdc_trust::{Identity, ServerPin, client_config, server_config};
use rustix::time::{ClockId, clock_gettime};
use rustls::{ClientConfig, ServerConfig};

type Failure = Box<dyn Error + Send + Sync>;

const GIBIBYTE: f64 = (1 << 30) as f64;
/// Plaintext of one write: 16 full records, as icdc's own.
const WRITE: usize = 16 << 14;
/// Maximum number of bytes that a receiver reads at once.
const READ: usize = 1 << 20;

/// Two sockets that are connected, and the TLS configurations of the two ends.
struct Ends {
    near: TcpStream,
    far: TcpStream,
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

/// Work of one end after the handshake.
type Half = Box<dyn FnOnce() -> Result<(), Failure> + Send>;

/// A way to send blocks: makes the handshake, and returns the work of the sender and that of the
/// receiver for this number of blocks.
type Contestant = fn(Ends, u32) -> Result<(Half, Half), Failure>;

const CONTESTANTS: [(&str, Contestant); 3] =
    [("icdc's", ours::halves), ("rustls, buffered", buffered::halves), ("rustls, unbuffered", unbuffered::halves)];

/// Cost of a run, per GiB.
#[derive(Clone, Copy)]
struct Cost {
    /// Processor time of the sending thread, in seconds.
    sender: f64,
    /// Processor time of the receiving thread, in seconds.
    receiver: f64,
    /// Time that passed, in seconds.
    elapsed: f64,
}

/// Function that computes a figure of a run.
type Column = fn(&Cost) -> f64;

impl Cost {
    const COLUMNS: [(&str, Column); 4] = [
        ("CPU s/GiB", |cost| cost.sender + cost.receiver),
        ("sender", |cost| cost.sender),
        ("receiver", |cost| cost.receiver),
        ("Gbit/s", |cost| 8.0 * GIBIBYTE / 1e9 / cost.elapsed),
    ];
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let gibibytes: f64 = arguments.next().map_or(Ok(4.0), |text| text.parse())?;
    let runs: usize = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let blocks = (gibibytes * GIBIBYTE / BLOCK_SIZE as f64).ceil() as u32;
    let offered = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_ulp").unwrap_or_default();
    let ktls = if offered.split_whitespace().any(|name| name == "tls") { "offered" } else { "not offered" };
    println!("cipher suites in the order of preference: {}", icdc_trust::suite_names().join(", "));
    println!("kernel TLS is {ktls} by this kernel, and not measured");
    println!("{runs} runs of {gibibytes} GiB in blocks of {} MiB\n", BLOCK_SIZE >> 20);

    let mut costs = vec![Vec::new(); CONTESTANTS.len()];
    for run in 0..runs {
        // Each begins as often as any other.
        for place in 0..CONTESTANTS.len() {
            let number = (run + place) % CONTESTANTS.len();
            let (name, contestant) = CONTESTANTS[number];
            let cost = measure(contestant, blocks)?;
            println!("run {run}  {name:20}{}", columns(|column| format!("{:10.3}", column(&cost))));
            costs[number].push(cost);
        }
    }

    println!("\nmedian (least to most)");
    println!("{:20}{}", "", Cost::COLUMNS.map(|(title, _)| format!("{title:>25}")).concat());
    for ((name, _), costs) in CONTESTANTS.iter().zip(&costs) {
        println!("{name:20}{}", columns(|column| summary(costs, column)));
    }
    println!();
    cipher::compare(gibibytes, runs)
}

fn columns(cell: impl Fn(Column) -> String) -> String {
    Cost::COLUMNS.map(|(_, column)| cell(column)).concat()
}

fn summary(costs: &[Cost], column: Column) -> String {
    let values: Vec<f64> = costs.iter().map(column).collect();
    let (median, least, most) = spread(values);
    format!("{:>25}", format!("{median:.3} ({least:.3} to {most:.3})"))
}

/// Median, least and greatest of the values.
fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

fn measure(contestant: Contestant, blocks: u32) -> Result<Cost, Failure> {
    let (send, receive) = contestant(connect()?, blocks)?;
    let start = seconds(ClockId::Monotonic);
    let receiving = thread::spawn(move || timed(receive));
    let sender = timed(send)?;
    let receiver = receiving.join().map_err(|_| "the receiving thread panicked")??;
    let elapsed = seconds(ClockId::Monotonic) - start;
    let gibibytes = f64::from(blocks) * BLOCK_SIZE as f64 / GIBIBYTE;
    Ok(Cost { sender: sender / gibibytes, receiver: receiver / gibibytes, elapsed: elapsed / gibibytes })
}

/// Processor time of the calling thread, in seconds.
fn timed(half: Half) -> Result<f64, Failure> {
    let start = seconds(ClockId::ThreadCPUTime);
    half()?;
    Ok(seconds(ClockId::ThreadCPUTime) - start)
}

fn connect() -> Result<Ends, Failure> {
    let (alice, bob) = (Identity::generate(), Identity::generate());
    let admitted = alice.public();
    let server = server_config(&bob, move |key| *key == admitted);
    let client = client_config(&alice, ServerPin::Exact(bob.public()));
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let far = listener.accept()?.0;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    Ok(Ends { near, far, client, server })
}

/// A few blocks in turn, so that the data comes from memory as it does behind a disk.
fn filled_pool() -> Result<BlockPool, Failure> {
    let pool = BlockPool::new(8)?;
    let mut ready: Vec<_> = (0..8).map(|_| pool.take()).collect::<Result<_, _>>()?;
    for (seed, block) in ready.iter_mut().enumerate() {
        block.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 31 + seed) as u8);
    }
    Ok(pool)
}

fn message(index: u32) -> Message {
    Message::Block(BlockHeader { id: 0, index, value: [0; 32], ranges: Vec::new() })
}

/// The head of a block's frame.
fn head(index: u32) -> Result<Vec<u8>, Failure> {
    let mut head = Vec::new();
    icdc_protocol::frame::encode(&message(index), BLOCK_SIZE, &mut head)?;
    Ok(head)
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
