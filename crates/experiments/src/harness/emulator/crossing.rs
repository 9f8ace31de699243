//! Checks of single packets: delay and drops, by the path's own counters and by the hosts' clocks.

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use icdc_lab::recording::Recording;
use icdc_lab::{Gauge, Heading, Host, Lab, Page, Settings};
use icdc_packet::clock;
use icdc_path::loss::Model;
use icdc_units::{ByteCount, Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::hosts::commands::{FAR, NEAR};
use crate::harness::hosts::paths::path;
use crate::harness::hosts::temporary_lab::TemporaryLab;
use crate::harness::traffic::cross_traffic::CrossTraffic;

const GIGABIT: Rate = Rate::from_bits_per_second(1_000_000_000);
/// Size of the bottleneck's queue.
const QUEUE: ByteCount = ByteCount::new(2_500_000);
/// Round-trip time of the path whose delay is measured.
const ROUND_TRIP: Span = Span::from_millis(300);
/// Round-trip time of the paths whose rate and loss are measured.
const SHORT: Span = Span::from_millis(20);
/// Random loss ratio of the path whose loss is measured.
const LOSS: f64 = 1e-3;
/// Number of seeds with which loss is measured, one run for each.
const SEEDS: u64 = 3;
/// Standard deviations of a normal distribution within which 99 % lie.
const NINETY_NINE: f64 = 2.576;
/// Number of datagrams that measure the delay.
const PROBES: usize = 60;
/// Interval between the datagrams that measure the delay.
const BETWEEN_PROBES: Span = Span::from_millis(200);
/// Time limit of a socket's wait for a datagram.
const ANSWERED_BY: Span = Span::from_secs(2);
/// Wait after which the wire's counters are published (which happens ten times a second).
const PUBLISHED: Span = Span::from_millis(400);

/// Measures delay, bottleneck and loss of the emulator; gives the rows of the table.
pub(super) fn rows(bench: &Bench<'_>) -> Result<Vec<Vec<String>>, ExperimentError> {
    let mut rows = vec![delay(bench)?, bottleneck(bench)?];
    for seed in 1..=bench.runs.unwrap_or(if bench.quick { 1 } else { SEEDS }) {
        rows.push(loss(bench, seed)?);
    }
    Ok(rows)
}

/// Measures round trips of datagrams on an idle path; gives a row.
fn delay(bench: &Bench<'_>) -> Result<Vec<String>, ExperimentError> {
    (bench.say)("delay");
    let lab = TemporaryLab::new(bench, &Settings::symmetric(path(GIGABIT, ROUND_TRIP, QUEUE)))?;
    let count = if bench.quick { PROBES / 10 } else { PROBES };
    let failed = |error| ExperimentError::io("exchange datagrams", error);
    let there = lab.on(Host::B, || bind(FAR).map_err(failed))?;
    let here = lab.on(Host::A, || bind(NEAR).map_err(failed))?;
    let trips = thread::scope(|scope| {
        scope.spawn(|| echo(&there, count));
        (0..count).map(|_| trip(&here, &there)).collect::<io::Result<Vec<_>>>()
    });
    let trips = Spread::of(trips.map_err(failed)?.into_iter().map(|trip| trip.as_secs_f64() * 1e3));
    Ok(vec![format!("round trip of {count} datagrams, ms"), "300".to_owned(), trips.tenths("")])
}

/// A UDP socket on this host's address, whose reads end after [`ANSWERED_BY`].
fn bind(address: &str) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((address, 0))?;
    socket.set_read_timeout(Some(ANSWERED_BY.into()))?;
    Ok(socket)
}

/// Sends `count` datagrams back to their senders; ends early if one does not come.
fn echo(socket: &UdpSocket, count: usize) {
    for _ in 0..count {
        // The sender notices the lack of an answer.
        let Ok((length, from)) = socket.recv_from(&mut [0; 64]) else { return };
        let _ = socket.send_to(&[0; 64][..length], from);
    }
}

/// Time from sending a datagram to its answer. Returns [`BETWEEN_PROBES`] after sending at the
/// earliest.
fn trip(here: &UdpSocket, there: &UdpSocket) -> io::Result<Span> {
    let begun = clock::now();
    here.send_to(&[0; 16], there.local_addr()?)?;
    here.recv_from(&mut [0; 64])?;
    let took = clock::now() - begun;
    clock::sleep_until(begun + BETWEEN_PROBES.max(took));
    Ok(took)
}

/// Sends datagrams at 120 % of the bottleneck's rate; gives a row with its rate, and the count of
/// packets that arrived or were dropped.
fn bottleneck(bench: &Bench<'_>) -> Result<Vec<String>, ExperimentError> {
    (bench.say)("bottleneck");
    let lab = TemporaryLab::new(bench, &Settings::symmetric(path(GIGABIT, SHORT, QUEUE)))?;
    let length = Span::from_secs(if bench.quick { 4 } else { 12 });
    let page = flood(&lab, GIGABIT * 6 / 5, length)?;
    let recording = Recording::of(&page, Heading::Forward, Span::MAX);
    // Without the beginning and the queue's end.
    let rate = recording.mean_rate_between(1000, recording.bins.len().saturating_sub(1000));
    let [offered, delivered, dropped] =
        [Gauge::Offered, Gauge::Delivered, Gauge::QueueDrops].map(|gauge| page.gauge(Heading::Forward, gauge));
    let lost_track = offered - delivered - dropped;
    Ok(vec![
        format!("datagrams at 120 % of the bottleneck for {length}"),
        "1,000 Mbit/s on the wire, every packet accounted for".to_owned(),
        format!(
            "{:.4} Mbit/s in the best second, {:.1} on average; {offered} offered, {delivered} delivered, {dropped} dropped by the queue, {lost_track} unaccounted for",
            recording.peak_rate().as_bits_per_second() as f64 / 1e6,
            rate.as_bits_per_second() as f64 / 1e6
        ),
    ])
}

/// Sends a million datagrams over a path with random loss; gives a row with the number lost and its
/// 99 % interval.
fn loss(bench: &Bench<'_>, seed: u64) -> Result<Vec<String>, ExperimentError> {
    (bench.say)(&format!("loss, seed {seed}"));
    let direction = icdc_path::Settings { loss: Model::Random(LOSS), seed, ..path(GIGABIT * 2, SHORT, QUEUE * 2) };
    let lab = TemporaryLab::new(bench, &Settings::symmetric(direction))?;
    let page = flood(&lab, GIGABIT, Span::from_millis(if bench.quick { 1_500 } else { 12_400 }))?;
    let [offered, lost] = [Gauge::Offered, Gauge::Lost].map(|gauge| page.gauge(Heading::Forward, gauge));
    let mean = offered as f64 * LOSS;
    let half = NINETY_NINE * (mean * (1.0 - LOSS)).sqrt();
    Ok(vec![
        format!("loss of {LOSS:e} over {offered} packets, seed {seed}"),
        format!("{:.0} to {:.0} lost (99 % interval)", mean - half, mean + half),
        lost.to_string(),
    ])
}

/// Sends datagrams from host a to host b for `length`; returns the path's counters once all of them
/// have crossed.
fn flood(lab: &Lab, rate: Rate, length: Span) -> Result<Page, ExperimentError> {
    let over = AtomicBool::new(false);
    let traffic = CrossTraffic { rate, quiet: Span::ZERO, half_period: length };
    thread::scope(|scope| {
        let sending = scope.spawn(|| traffic.send(lab, &over));
        clock::sleep_until(clock::now() + length);
        over.store(true, Ordering::Relaxed);
        sending.join().expect("sending does not panic").map(drop)
    })?;
    clock::sleep_until(clock::now() + lab.record.settings.round_trip() + PUBLISHED);
    Ok(lab.page()?)
}
