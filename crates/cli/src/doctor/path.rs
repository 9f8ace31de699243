//! The runs over the path, one measurement each.

use std::collections::BTreeSet;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use icdc_client::{CopyOptions, FailureKind, Location, MeasureError, Via, known_routes};
use icdc_doctor::probe::{Outcome, Run, Step};
use icdc_doctor::{PathFacts, Probe, RememberedRoute, RouteFact, facts};
use icdc_measure::{MeasureEvent, MeasureOptions, MeasureSink, Measurement};
use icdc_stop::StopSignal;
use icdc_tcp::Family;
use icdc_units::{ByteCount, Span};

use super::examination::{INTERRUPTED, Troubles};
use crate::clock::{self, timed};
use crate::console::Console;
use crate::exit;

/// Measures the path to `target` by short runs until the probe knows enough; an error ends that,
/// and is added to `troubles`.
pub(super) fn measure(
    target: &Location,
    connection: &CopyOptions,
    stop: &StopSignal,
    console: &Console,
    troubles: &mut Troubles,
) -> PathFacts {
    // Before the runs, which remember their own route.
    let remembered = remembered(target, connection);
    let routes = match routes(target, connection, stop, console) {
        Ok(routes) => routes,
        Err(error) => {
            troubles.add(error.to_string(), code(&error));
            let trouble = Some(error.to_string());
            return facts_of(target, connection.family, PathFacts { remembered, trouble, ..PathFacts::default() });
        }
    };
    let mut probe = Probe::new();
    let mut noticed = BTreeSet::new();
    let through_ssh = goes_through_ssh(&routes, connection);
    let mut trouble = None;
    while let Some(run) = probe.next() {
        if through_ssh && !matches!(run.step, Step::RoundTrip | Step::Capacity) {
            // What a path loses and buffers, ssh hides.
            break;
        }
        console.complain(&format!("measuring the {}", run.step));
        let (result, took) = timed(|| icdc_client::measure(target, &options(&run), connection, &events(console), stop));
        match result {
            Ok(measurement) => {
                let notices = measurement.received.notices.iter().chain(&measurement.sent.notices);
                notices.filter(|text| noticed.insert((*text).clone())).for_each(|text| console.complain(text));
                if let Some((text, code)) = failure(&measurement) {
                    trouble = Some(text.clone());
                    troubles.add(text, code);
                    break;
                }
                probe.tell(&run, &outcome(measurement), took);
            }
            Err(error) => {
                trouble = Some(error.to_string());
                troubles.add(error.to_string(), code(&error));
                break;
            }
        }
    }
    let measured = probe.measured();
    let facts = PathFacts { routes, remembered, through_ssh, measured, trouble, ..PathFacts::default() };
    facts_of(target, connection.family, facts)
}

/// Completes the measured facts of a path with its target, and with the address and MTU that the
/// kernel has for it.
fn facts_of(target: &Location, family: Family, facts: PathFacts) -> PathFacts {
    let address = address(target, family);
    PathFacts {
        target: target.host_name().unwrap_or_default().to_owned(),
        destination: target.to_string(),
        address,
        // By now the kernel has met what limits it on the way.
        mtu: address.and_then(facts::path_mtu),
        ..facts
    }
}

/// Whether the measurements' data goes through ssh, since that was chosen or no other route works.
fn goes_through_ssh(routes: &[RouteFact], connection: &CopyOptions) -> bool {
    match connection.via {
        Via::Ssh => true,
        Via::Auto => {
            let mut others = routes.iter().filter(|route| route.name != "ssh").peekable();
            others.peek().is_some() && others.all(|route| route.obstacle.is_some())
        }
        Via::Direct | Via::Udp | Via::Back | Via::Proxy(_) => false,
    }
}

/// The route that copies remember to a host that ssh reaches.
fn remembered(target: &Location, connection: &CopyOptions) -> Option<RememberedRoute> {
    let Location::Ssh { host, .. } = target else { return None };
    let known = known_routes::recall(host, &connection.ssh)?;
    Some(RememberedRoute {
        name: known.via.name(),
        connections: known.connections,
        login: Span::from_millis(known.login_ms),
        age: Span::from_secs(clock::seconds_since_1970().saturating_sub(known.seen)),
    })
}

/// Tries the routes by which data could get to a host that ssh reaches, and returns each with its
/// obstacle, if any; none for a daemon.
fn routes(
    target: &Location,
    connection: &CopyOptions,
    stop: &StopSignal,
    console: &Console,
) -> Result<Vec<RouteFact>, MeasureError> {
    if !matches!(target, Location::Ssh { .. }) {
        return Ok(Vec::new());
    }
    console.complain("trying the routes");
    let tried = icdc_client::try_routes(target, connection, &events(console), stop)?;
    Ok(tried.into_iter().map(|(route, obstacle)| RouteFact { name: route.name(), obstacle }).collect())
}

/// Sink of a measurement's events that prints notices and drops samples.
fn events(console: &Console) -> MeasureSink {
    let console = console.clone();
    Arc::new(move |event| match event {
        MeasureEvent::Notice(text) => console.complain(&text),
        MeasureEvent::Samples(_) => {}
    })
}

/// Reason why a run does not count, with the exit code; `None` if it counts.
fn failure(measurement: &Measurement) -> Option<(String, u8)> {
    if measurement.interrupted {
        return Some((INTERRUPTED.to_owned(), exit::INTERRUPTED));
    }
    let error = measurement.received.errors.iter().chain(&measurement.sent.errors).next()?;
    Some((error.clone(), exit::FAILED))
}

/// Exit code for a failed measurement; an unusable request is a failure here, for the doctor made
/// it.
fn code(error: &MeasureError) -> u8 {
    match error.kind() {
        FailureKind::Unusable => exit::FAILED,
        kind => exit::after(kind),
    }
}

/// Options of the measurement for one run of the probe.
fn options(run: &Run) -> MeasureOptions {
    MeasureOptions {
        reverse: false,
        time: run.time,
        bytes: run.bytes,
        streams: 1,
        rate: run.rate,
        congestion: run.congestion.map(str::to_owned),
        window: run.window,
    }
}

/// Result of a measurement in the form that the probe takes.
fn outcome(measurement: Measurement) -> Outcome {
    let Measurement { received, arrivals, sent, .. } = measurement;
    let waited = sent.receive_window_nanos.saturating_add(sent.send_buffer_nanos);
    Outcome {
        round_trip: Some(Span::from_nanos(sent.min_rtt_nanos)).filter(|least| !least.is_zero()),
        received: ByteCount::new(received.bytes),
        lasted: Span::from_nanos(received.nanos),
        arrivals,
        retransmitted: sent.retransmitted_segments,
        segment: ByteCount::new(sent.mss),
        window: ByteCount::new(sent.window.min(received.window)),
        window_share: waited as f64 / sent.open_nanos.max(1) as f64,
    }
}

/// The first address of the target that the resolver gives, of this family; `None` for a name that
/// only ssh knows.
fn address(target: &Location, family: Family) -> Option<IpAddr> {
    let addresses = (target.host_name()?, 0).to_socket_addrs().ok()?;
    addresses.map(|address| address.ip()).find(|address| family.admits(*address))
}

#[cfg(test)]
mod tests {
    use icdc_protocol::measure::{Received, Sent};

    use super::*;

    #[test]
    fn a_measurement_becomes_what_the_probe_asks() {
        let received = Received { bytes: 3000, nanos: 2_000_000, window: 80, ..Received::default() };
        let sent = Sent {
            mss: 1448,
            window: 90,
            retransmitted_segments: 3,
            open_nanos: 100,
            receive_window_nanos: 20,
            send_buffer_nanos: 30,
            ..Sent::default()
        };
        let outcome = outcome(Measurement { received, arrivals: vec![1, 2], sent, interrupted: false });
        let expected = Outcome {
            round_trip: None,
            received: ByteCount::new(3000),
            lasted: Span::from_millis(2),
            arrivals: vec![1, 2],
            retransmitted: 3,
            segment: ByteCount::new(1448),
            window: ByteCount::new(80),
            window_share: 0.5,
        };
        assert_eq!(outcome, expected);
    }

    #[test]
    fn a_run_that_failed_does_not_count() {
        let sent = Sent { errors: vec!["broken".to_owned()], ..Sent::default() };
        let run = |interrupted, sent: &Sent| {
            let received = Received::default();
            failure(&Measurement { received, arrivals: Vec::new(), sent: sent.clone(), interrupted })
        };
        assert_eq!(run(false, &Sent::default()), None);
        assert_eq!(run(false, &sent), Some(("broken".to_owned(), 1)));
        assert_eq!(run(true, &sent).unwrap().1, 4);
    }

    #[test]
    fn addresses_are_those_of_the_family() {
        let target = Location::Daemon { host: "127.0.0.1".to_owned(), port: 1, path: b"/".to_vec() };
        assert_eq!(address(&target, Family::Any), "127.0.0.1".parse().ok());
        assert_eq!(address(&target, Family::V6), None);
    }
}
