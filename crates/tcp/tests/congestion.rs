//! Loading and unloading in this machine's kernel: what is left behind, who is in the way, what
//! sockets keep.

#![cfg(feature = "ebpf")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "the kernel needs real time")]

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use icdc_cc::Algorithm;
use icdc_tcp::congestion::{self, Availability, Holder, LoadError, PathHints, UnloadError};
use icdc_tcp::{Family, Privileges};
use icdc_units::{ByteCount, Span};
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, MapInfoIter, ProgInfoIter};
use libbpf_rs::{MapCore, MapType, ObjectBuilder, ProgramType};
use rustix::fs::{FlockOperation, flock};
use socket2::SockRef;

/// Paths below it are left to the system's algorithm.
const SHORT: Span = Span::from_millis(2);

/// One test at a time, also of other test programs; `None`, with the reason told, where nothing can
/// be loaded.
fn kernel() -> Option<(File, &'static Algorithm)> {
    let lock = File::create(std::env::temp_dir().join("icdc-test-algorithms.lock")).ok();
    let Some(lock) = lock.filter(|_| rustix::process::geteuid().is_root()) else {
        eprintln!("SKIPPED: loading eBPF needs root");
        return None;
    };
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let algorithm = congestion::find("highspeed").unwrap();
    let _ = congestion::unload(algorithm);
    match state(algorithm) {
        Availability::Unavailable(obstacle) => {
            eprintln!("SKIPPED: nothing can be loaded: {obstacle}");
            None
        }
        _ => Some((lock, algorithm)),
    }
}

fn state(algorithm: &Algorithm) -> Availability {
    congestion::list().into_iter().find(|one| one.kernel_name == algorithm.kernel_name()).unwrap().state
}

/// Whether `what` holds within a minute: the kernel frees what nobody uses only after a grace period.
fn after_a_grace_period(what: impl Fn() -> bool) -> bool {
    (0..600).any(|_| {
        what() || {
            thread::sleep(Duration::from_millis(100));
            false
        }
    })
}

fn pair() -> (TcpStream, TcpStream) {
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let listener = icdc_tcp::listen(Some(local), None, Family::Any, ByteCount::ZERO).unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = icdc_tcp::connect("127.0.0.1", port, Family::Any, Span::from_secs(20)).unwrap();
    (client, listener.accept().unwrap().0)
}

/// Everything of struct_ops in the kernel, and the read-only variables of our objects: ids by kind.
fn inventory() -> BTreeSet<(&'static str, u32)> {
    let mut found = BTreeSet::new();
    let ours = |map: &libbpf_rs::query::MapInfo| {
        let name = map.name.to_string_lossy().into_owned();
        map.ty == MapType::StructOps || name.ends_with(".rodata")
    };
    found.extend(MapInfoIter::default().filter(ours).map(|map| ("map", map.id)));
    found.extend(
        ProgInfoIter::default()
            .filter(|program| program.ty == ProgramType::StructOps)
            .map(|program| ("program", program.id)),
    );
    let links = LinkInfoIter::default().filter(|link| matches!(link.info, LinkTypeInfo::StructOps(_)));
    found.extend(links.map(|link| ("link", link.id)));
    found
}

#[test]
fn a_hundred_loads_under_traffic_leave_nothing() {
    let Some((_lock, algorithm)) = kernel() else { return };
    let before = inventory();
    let (sender, receiver) = pair();
    let (over, received) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut sender = &sender;
            while !over.load(Ordering::Relaxed) {
                sender.write_all(&[0; 65536]).unwrap();
            }
            sender.shutdown(std::net::Shutdown::Write).unwrap();
        });
        scope.spawn(|| {
            let (mut receiver, mut buffer) = (&receiver, [0; 65536]);
            while let Ok(length @ 1..) = receiver.read(&mut buffer) {
                received.fetch_add(length as u64, Ordering::Relaxed);
            }
        });
        for round in 0..100 {
            let chosen = congestion::choose(&sender, algorithm.name, &Privileges::own()).unwrap();
            assert_eq!((chosen.name, chosen.instead), (algorithm.kernel_name(), None), "round {round}");
            drop(chosen.hold.unwrap());
            assert_eq!(state(algorithm), Availability::Loadable, "round {round}");
            // The connection keeps what it has, and carries on with it.
            assert_eq!(icdc_tcp::congestion(&sender).unwrap(), algorithm.kernel_name());
            let so_far = received.load(Ordering::Relaxed);
            while received.load(Ordering::Relaxed) == so_far {
                thread::yield_now();
            }
        }
        assert!(inventory().len() > before.len(), "the connection holds the last one");
        icdc_tcp::set_congestion(&sender, "reno").unwrap();
        over.store(true, Ordering::Relaxed);
    });
    let is_free = after_a_grace_period(|| inventory().is_subset(&before));
    assert!(is_free, "left behind: {:?}", inventory().difference(&before).collect::<Vec<_>>());
}

#[test]
fn a_connection_keeps_what_was_unloaded_and_a_new_one_cannot_have_it() {
    let Some((_lock, algorithm)) = kernel() else { return };
    let (mut sender, mut receiver) = pair();
    let pinned = congestion::load(algorithm, &[]).unwrap().pin().unwrap();
    assert_eq!(state(algorithm), Availability::Loaded(Holder::Pinned(pinned.path.clone().unwrap())));
    icdc_tcp::set_congestion(&sender, &algorithm.kernel_name()).unwrap();
    congestion::unload(algorithm).unwrap();
    assert!(!pinned.path.unwrap().exists());
    assert_eq!(icdc_tcp::congestion(&sender).unwrap(), algorithm.kernel_name());
    let reader = thread::spawn(move || receiver.read_exact(&mut vec![0; 3_000_000]));
    sender.write_all(&vec![1; 3_000_000]).unwrap();
    reader.join().unwrap().unwrap();
    let (other, _peer) = pair();
    icdc_tcp::set_congestion(&other, &algorithm.kernel_name()).unwrap_err();
    assert!(matches!(congestion::unload(algorithm), Err(UnloadError::NotLoaded { .. })));
}

#[test]
fn one_hold_serves_all_sockets_of_a_process() {
    let Some((_lock, algorithm)) = kernel() else { return };
    let ((one, _one), (other, _other)) = (pair(), pair());
    let first = congestion::choose(&one, algorithm.name, &Privileges::own()).unwrap();
    let Holder::Process { id, .. } = (match state(algorithm) {
        Availability::Loaded(holder) => holder,
        state => panic!("{state:?}"),
    }) else {
        panic!("this process holds it")
    };
    assert_eq!(id, std::process::id());
    let second = congestion::choose(&other, &algorithm.kernel_name(), &Privileges::own()).unwrap();
    drop(first);
    assert!(matches!(state(algorithm), Availability::Loaded(_)), "the second socket's hold keeps it");
    drop(second);
    assert_eq!(state(algorithm), Availability::Loadable);
}

#[test]
fn a_name_that_somebody_else_took_is_used_and_not_taken_away() {
    let Some((_lock, algorithm)) = kernel() else { return };
    const PIN: &str = "/sys/fs/bpf/icdc-test-other";
    // Makes sure that the file system is there.
    congestion::load(algorithm, &[]).unwrap().pin().unwrap();
    congestion::unload(algorithm).unwrap();
    let _ = std::fs::remove_file(PIN);
    let mut open = ObjectBuilder::default().open_memory(&algorithm.object().unwrap()).unwrap();
    for mut map in open.maps_mut().filter(|map| map.map_type() == MapType::StructOps) {
        map.set_map_flags(map.map_flags() | libbpf_sys::BPF_F_LINK).unwrap();
    }
    let mut object = open.load().unwrap();
    let mut link =
        object.maps_mut().find(|map| map.map_type() == MapType::StructOps).unwrap().attach_struct_ops().unwrap();
    link.pin(PIN).unwrap();
    drop(link);

    let refused = congestion::load(algorithm, &[]).unwrap_err();
    assert!(matches!(refused, LoadError::Taken { holder: Holder::Elsewhere, .. }), "{refused}");
    assert!(matches!(congestion::unload(algorithm), Err(UnloadError::Held { .. })));
    let (socket, _peer) = pair();
    let chosen = congestion::choose(&socket, algorithm.name, &Privileges::own()).unwrap();
    assert_eq!((chosen.name, chosen.instead, chosen.hold.is_none()), (algorithm.kernel_name(), None, true));
    std::fs::remove_file(PIN).unwrap();
    let is_free = after_a_grace_period(|| state(algorithm) == Availability::Loadable);
    assert!(is_free, "still {:?}", state(algorithm));
}

#[test]
fn a_short_path_keeps_the_systems_algorithm_though_acknowledgements_were_held_back() {
    let Some(_kernel) = kernel() else { return };
    // The first round trips of a busy machine may be long ones.
    let found = (0..10).find_map(|_| {
        let (mut sender, receiver) = pair();
        for _ in 0..20 {
            SockRef::from(&receiver).set_tcp_quickack(false).unwrap();
            sender.write_all(&[0]).unwrap();
            let info = || icdc_tcp::info(&sender).unwrap();
            while info().unacked > 0 {
                thread::sleep(Duration::from_millis(1));
            }
            if info().rtt > SHORT && info().min_rtt < SHORT {
                return Some((sender, receiver));
            }
        }
        None
    });
    let (sender, _receiver) = found.unwrap();
    let before = icdc_tcp::congestion(&sender).unwrap();
    let chosen = congestion::choose_best(&sender, PathHints::default(), &Privileges::own()).unwrap();
    assert_eq!((chosen.name, chosen.instead, chosen.hold.is_none()), (before, None, true));
}

#[test]
fn a_name_that_nobody_knows_is_an_error_and_changes_nothing() {
    let (socket, _peer) = pair();
    let before = icdc_tcp::congestion(&socket).unwrap();
    congestion::choose(&socket, "no_such", &Privileges::own()).unwrap_err();
    assert_eq!(icdc_tcp::congestion(&socket).unwrap(), before);
    let chosen = congestion::choose(&socket, "reno", &Privileges::own()).unwrap();
    assert_eq!((chosen.name.as_str(), chosen.instead, chosen.hold.is_none()), ("reno", None, true));
}

#[test]
fn the_tracing_build_tells_each_operation() {
    let Some((_lock, algorithm)) = kernel() else { return };
    let traced = congestion::load_traced(algorithm, &[]).unwrap();
    let (mut sender, mut receiver) = pair();
    icdc_tcp::set_congestion(&sender, traced.kernel_name()).unwrap();
    let reader = thread::spawn(move || receiver.read_exact(&mut vec![0; 3_000_000]));
    sender.write_all(&vec![1; 3_000_000]).unwrap();
    reader.join().unwrap().unwrap();
    let records = traced.records().unwrap();
    // The first operation is init, of one connection, and what one leaves the next of its kind
    // finds.
    assert!(records.len() > 1 && records[0].operation == 0, "{} records", records.len());
    assert_eq!(records.iter().map(|record| record.socket).collect::<BTreeSet<_>>().len(), 1);
    for two in records.windows(2) {
        assert_eq!(two[0].after.private, two[1].before.private);
    }
    assert_eq!(traced.records().unwrap(), [], "each record comes once");
}
