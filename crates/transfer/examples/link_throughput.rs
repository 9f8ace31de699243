//! Throughput of an encrypted link over loopback: how fast one thread encrypts and sends blocks, how fast another
//! receives and decrypts them, and what CPU time either takes.
//!
//! ```text
//! cargo run --release -p icdc-transfer --example link_throughput [GIGABYTES]
//! ```

use std::error::Error;
use std::net::{TcpListener, TcpStream};
use std::thread;

use icdc_disk::pool::{BLOCK_SIZE, BlockPool};
use icdc_protocol::Message;
use icdc_protocol::message::BlockHeader;
use icdc_transfer::link::{Link, LinkError, Parcel, secure_client, secure_server};
use icdc_trust::{Identity, ServerPin, client_config, server_config};
use icdc_units::Span;
use rustix::time::{ClockId, clock_gettime};

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let gigabytes: f64 = std::env::args().nth(1).map_or(Ok(8.0), |text| text.parse())?;
    let blocks = (gigabytes * 1e9 / BLOCK_SIZE as f64).ceil() as u32;
    let (sender, receiver) = connect()?;
    println!("cipher {}, {gigabytes} GB in blocks of {} MiB", sender.control.cipher().unwrap_or("?"), BLOCK_SIZE >> 20);

    let receiving = thread::spawn(move || receive(receiver));
    let start = seconds(ClockId::Monotonic);
    let cpu = seconds(ClockId::ThreadCPUTime);
    let control = sender.control.clone();
    send(sender, blocks)?;
    let sender_cpu = seconds(ClockId::ThreadCPUTime) - cpu;
    let times = control.send_times();
    let (bytes, receiver_cpu) = receiving.join().map_err(|_| "the receiving thread panicked")??;
    let elapsed = seconds(ClockId::Monotonic) - start;

    let gigabytes = bytes as f64 / 1e9;
    println!("rate      {:6.2} GB/s", gigabytes / elapsed);
    println!("sender    {:6.3} CPU s/GB ({:.2} GB/s per core)", sender_cpu / gigabytes, gigabytes / sender_cpu);
    println!("receiver  {:6.3} CPU s/GB ({:.2} GB/s per core)", receiver_cpu / gigabytes, gigabytes / receiver_cpu);
    println!(
        "outlet    {:6.3} s/GB encrypting, {:.3} s/GB in the socket",
        times.encrypt.as_secs_f64() / gigabytes,
        times.socket.as_secs_f64() / gigabytes
    );
    Ok(())
}

fn connect() -> Result<(Link, Link), Failure> {
    let (alice, bob) = (Identity::generate(), Identity::generate());
    let admitted = alice.public();
    let server = server_config(&bob, move |key| *key == admitted);
    let client = client_config(&alice, ServerPin::Exact(bob.public()));
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let stream = TcpStream::connect(listener.local_addr()?)?;
    let deadline = Span::from_secs(5);
    let accepting = thread::spawn(move || Ok::<_, Failure>(secure_server(listener.accept()?.0, server, deadline)?));
    let sender = secure_client(stream, client, deadline)?;
    Ok((sender, accepting.join().map_err(|_| "the accepting thread panicked")??))
}

fn send(mut link: Link, blocks: u32) -> Result<(), Failure> {
    // A few blocks in turn, so that the data comes from memory as it does behind a disk.
    let pool = BlockPool::new(8)?;
    let mut ready: Vec<_> = (0..8).map(|_| pool.take()).collect::<Result<_, _>>()?;
    for (seed, block) in ready.iter_mut().enumerate() {
        block.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 31 + seed) as u8);
    }
    drop(ready);
    for index in 0..blocks {
        let block = pool.take()?;
        let message = Message::Block(BlockHeader { id: 0, index, value: [0; 32], ranges: Vec::new() });
        link.outlet.send(Parcel { message, payload: Some((block, BLOCK_SIZE)) })?;
    }
    drop(link.outlet);
    Ok(())
}

fn receive(mut link: Link) -> Result<(u64, f64), Failure> {
    let pool = BlockPool::new(8)?;
    let cpu = seconds(ClockId::ThreadCPUTime);
    let mut bytes = 0;
    loop {
        match link.inlet.receive(&pool) {
            Ok(parcel) => bytes += parcel.payload_length() as u64,
            Err(LinkError::Closed) => return Ok((bytes, seconds(ClockId::ThreadCPUTime) - cpu)),
            Err(error) => return Err(error.into()),
        }
    }
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
