//! The path: packets, round-trip time, capacity, loss, bursts.

use icdc_units::{ByteCount, Rate, Ratio, Span};

use super::finding::{Finding, Severity};
use crate::probe::{Burst, Capacity, Loss, PathFacts, RememberedRoute};
use crate::sysctl;
use crate::{Aim, HostFacts};

/// Bytes that TCP hands to the device at once, paced or not: up to 64 KiB from about 500 Mbit/s on.
const BATCH: ByteCount = ByteCount::from_kib(64);
/// Ratio of a safe pacing rate to the capacity: the rest is for other traffic and for what was not
/// measured.
const SAFE: Ratio = Ratio::new(8, 10);

/// Findings on a measured path: MTU, round-trip time, capacity, loss, bursts, values that were not
/// measured, and routes.
pub(super) fn judge(path: &PathFacts, host: &HostFacts, aim: Aim) -> Vec<Finding> {
    let measured = &path.measured;
    let known = |(capacity, round_trip): (Capacity, Span)| (capacity.rate, round_trip);
    let shape = measured.capacity.zip(measured.round_trip).map(known);
    let findings =
        [
            mtu(path, host),
            measured.round_trip.map(round_trip),
            measured.capacity.map(|measured| {
                if path.through_ssh { capacity_through_ssh(measured) } else { capacity(measured, aim) }
            }),
            measured.loss.zip(shape).map(|(measured, shape)| loss(measured, shape, path, host)),
            measured.burst.zip(shape).map(|(measured, shape)| burst(measured, shape, path, host)),
            unmeasured(path),
        ];
    findings.into_iter().flatten().chain(path.remembered.map(remembered)).chain(routes(path)).collect()
}

/// Finding that tells what copies remember.
fn remembered(RememberedRoute { name, connections, login, .. }: RememberedRoute) -> Finding {
    const WHY: &str =
        "copies do not wait for another route before they try it; icdc doctor --paths tells how old that is";
    let logins = if name == "ssh" { format!(", by {connections} logins beside the first one") } else { String::new() };
    let found =
        format!("data last went by the route {name}{logins}; icdc there answered {login} after ssh was started");
    Finding::path("path.remembered", Severity::Ok, found, WHY)
}

/// A finding for each route. Copies take the first one that works.
fn routes(path: &PathFacts) -> impl Iterator<Item = Finding> {
    const WHY: &str = "copies take the first of direct, back and ssh that works";
    const WHY_FIRST: &str = "copies go by another route, if any works: let a firewall pass a port or a few, and name them with --port LO-HI";
    path.routes.iter().enumerate().map(|(place, route)| {
        let (severity, found, why) = match &route.obstacle {
            None => (Severity::Ok, format!("data gets there by the route {}", route.name), WHY),
            Some(obstacle) if place == 0 => {
                (Severity::Warning, format!("not by the route {}: {obstacle}", route.name), WHY_FIRST)
            }
            Some(obstacle) => (Severity::Note, format!("not by the route {}: {obstacle}", route.name), WHY),
        };
        Finding::path("path.route", severity, found, why).about(route.name)
    })
}

/// Finding on the path MTU, compared with that of the first device; `None` if it is unknown.
fn mtu(path: &PathFacts, host: &HostFacts) -> Option<Finding> {
    const ID: &str = "path.mtu";
    const WHY: &str = "larger packets are cut or dropped on the way, and TCP must learn that first";
    let mtu = path.mtu?;
    let found = format!("packets of {} bytes arrive whole", mtu.as_u64());
    let device = host.devices.first().filter(|device| device.mtu.is_some_and(|own| own > mtu));
    Some(match device {
        Some(device) => {
            let own = device.mtu.unwrap_or_default().as_u64();
            let found = format!("{found}; {} sends up to {own}", device.name);
            Finding::path(ID, Severity::Note, found, WHY)
        }
        None => Finding::path(ID, Severity::Ok, found, WHY),
    })
}

/// Finding that tells the measured round-trip time.
fn round_trip(measured: Span) -> Finding {
    const WHY: &str = "times the rate, it is what must be in flight";
    Finding::path("path.rtt", Severity::Ok, format!("round-trip time {measured}"), WHY)
}

/// Finding on the measured rate of the path, compared with the aim's; a warning also if windows
/// limited it.
fn capacity(measured: Capacity, aim: Aim) -> Finding {
    const ID: &str = "path.capacity";
    const WHY: &str = "no transfer is faster than this";
    const WHY_WINDOWS: &str =
        "the sender waited for window or buffer: raise the limits of both hosts, then measure again";
    let Capacity { rate, by_windows } = measured;
    if by_windows {
        let found = format!("at least {rate}, as far as the windows let see");
        return Finding::path(ID, Severity::Warning, found, WHY_WINDOWS).with_fix(format!(
            "icdc doctor --apply --rate {} --rtt {}",
            aim.rate.to_argument(),
            aim.round_trip
        ));
    }
    if rate < aim.rate * SAFE {
        let found = format!("the path carried {rate}; {} is aimed at", aim.rate);
        return Finding::path(ID, Severity::Warning, found, WHY);
    }
    Finding::path(ID, Severity::Ok, format!("the path carried {rate}"), WHY)
}

/// Finding on the rate that was measured through ssh: a lower bound only.
fn capacity_through_ssh(Capacity { rate, .. }: Capacity) -> Finding {
    const WHY: &str = "one ssh connection carries at most its channel's window in a round trip, whatever the limits of both hosts; copies use as many as the path needs";
    let found = format!("at least {rate}, over one connection through ssh");
    Finding::path("path.capacity", Severity::Note, found, WHY)
}

/// Reno's mean rate at this loss (Mathis et al., "The macroscopic behavior of the TCP congestion
/// avoidance algorithm").
fn mathis(segment: ByteCount, round_trip: Span, loss: f64) -> Rate {
    let per_round_trip = segment.as_u64() as f64 * 8.0 * 1.22 / loss.sqrt();
    // The cast saturates.
    Rate::from_bits_per_second((per_round_trip / round_trip.as_secs_f64().max(1e-9)) as u64)
}

/// Finding on the path's own loss: a warning if it would keep Reno below a safe rate. `shape`:
/// capacity and round-trip time of the path.
fn loss(measured: Loss, shape: (Rate, Span), path: &PathFacts, host: &HostFacts) -> Finding {
    const ID: &str = "path.loss";
    const WHY: &str = "what is lost well below the capacity is not of the sender's making, and TCP slows down for it";
    let (capacity, round_trip) = shape;
    let paced = capacity * SAFE;
    let Loss { segments, retransmitted } = measured;
    if retransmitted == 0 {
        let found = format!("nothing of {segments} segments was lost at {paced}");
        return Finding::path(ID, Severity::Ok, found, WHY);
    }
    let found =
        format!("{retransmitted} of {segments} segments were retransmitted at {paced} ({:.1e})", measured.ratio());
    // Headers of IP and TCP, with time stamps.
    let segment = path.mtu.unwrap_or(ByteCount::new(1500)) - ByteCount::new(52);
    if mathis(segment, round_trip, measured.ratio()) >= paced {
        return Finding::path(ID, Severity::Note, found, WHY);
    }
    let finding = Finding::path(ID, Severity::Warning, found, WHY);
    match host.sysctls.words(sysctl::AVAILABLE).contains(&"bbr") {
        true => finding.with_fix(format!("icdc copy --cc bbr SRC {}", path.destination)),
        false => finding,
    }
}

/// Finding on the bursts that the path buffers: whether those of TCP's batches and of an unpaced
/// start pass. `shape`: capacity and round-trip time of the path.
fn burst(measured: Burst, shape: (Rate, Span), path: &PathFacts, host: &HostFacts) -> Finding {
    const ID: &str = "path.burst";
    const WHY: &str = "what comes faster than the bottleneck must wait there, and what finds no room is lost";
    const WHY_BATCH: &str = "TCP hands up to 64 KiB to the device at once, also when it is paced";
    let (capacity, round_trip) = shape;
    let in_flight = capacity * round_trip;
    let found = match (measured.tolerated, measured.exceeded) {
        (Some(tolerated), Some(exceeded)) => format!("bursts of {tolerated} pass, of {exceeded} do not"),
        (Some(tolerated), None) => format!("bursts of {tolerated} pass"),
        (None, Some(exceeded)) => format!("bursts of {exceeded} do not pass"),
        (None, None) => "bursts were not measured".to_owned(),
    };
    let Some(exceeded) = measured.exceeded else {
        return Finding::path(ID, Severity::Ok, found, WHY);
    };
    if exceeded <= BATCH {
        let finding = Finding::path(ID, Severity::Warning, found, WHY_BATCH);
        let packet = path.mtu.unwrap_or(ByteCount::new(1500)).as_u64().max(1);
        // A single packet at a time would cost too much, and two are what pacing has at least.
        let segments = (measured.tolerated.unwrap_or(exceeded / 2).as_u64() / packet).max(2);
        return match host.devices.first() {
            Some(device) => finding.with_fix(format!("ip link set dev {} gso_max_segs {segments}", device.name)),
            None => finding,
        };
    }
    if exceeded > in_flight {
        return Finding::path(ID, Severity::Ok, found, WHY);
    }
    let found = format!("{found}; {in_flight} are in flight when the path is full, so an unpaced start loses some");
    let rate = (capacity * SAFE).to_argument();
    Finding::path(ID, Severity::Note, found, WHY).with_fix(format!("icdc copy --rate {rate} SRC {}", path.destination))
}

/// Finding that names the values which no run has measured, and why; `None` if all were.
fn unmeasured(path: &PathFacts) -> Option<Finding> {
    const WHY: &str = "the runs are few and short, and a step begins only when there is time for it";
    const WHY_SSH: &str = "what goes through ssh does not show what the path loses and buffers";
    const WHY_TROUBLE: &str = "that ended the runs; correct it, and run the command again";
    let measured = &path.measured;
    let steps = [
        ("round-trip time", measured.round_trip.is_none()),
        ("capacity", measured.capacity.is_none()),
        ("loss", measured.loss.is_none()),
        ("bursts", measured.burst.is_none()),
    ];
    let missing: Vec<&str> = steps.iter().filter(|(_, missing)| *missing).map(|(name, _)| *name).collect();
    if missing.is_empty() {
        return None;
    }
    let found = format!("not measured: {}", missing.join(", "));
    let (found, why) = match &path.trouble {
        Some(trouble) => (format!("{found}: {trouble}"), WHY_TROUBLE),
        None if path.through_ssh => (found, WHY_SSH),
        None => (found, WHY),
    };
    Some(Finding::path("path.unmeasured", Severity::Note, found, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sysctls;
    use crate::aim::USUAL_RATE;
    use crate::facts::Device;
    use crate::probe::{Measured, RouteFact};

    /// 100 Mbit/s and 40 ms: 500 kB in flight.
    fn path() -> PathFacts {
        let measured = Measured {
            round_trip: Some(Span::from_millis(40)),
            capacity: Some(Capacity { rate: Rate::from_bits_per_second(100_000_000), by_windows: false }),
            loss: Some(Loss { segments: 10_000, retransmitted: 0 }),
            burst: Some(Burst { tolerated: Some(ByteCount::from_mib(1)), exceeded: None }),
        };
        PathFacts {
            target: "icdc://far".to_owned(),
            destination: "icdc://far/".to_owned(),
            address: None,
            mtu: Some(ByteCount::new(1500)),
            routes: Vec::new(),
            remembered: None,
            through_ssh: false,
            measured,
            trouble: None,
        }
    }

    #[test]
    fn each_route_has_a_line() {
        let route = |name, obstacle: Option<&str>| RouteFact { name, obstacle: obstacle.map(str::to_owned) };
        let routes = vec![route("direct", Some("refused")), route("back", Some("no answer")), route("ssh", None)];
        let path = PathFacts { routes, ..path() };
        let findings = super::routes(&path).map(|finding| (finding.severity, finding.found)).collect::<Vec<_>>();
        assert_eq!(
            findings,
            [
                (Severity::Warning, "not by the route direct: refused".to_owned()),
                (Severity::Note, "not by the route back: no answer".to_owned()),
                (Severity::Ok, "data gets there by the route ssh".to_owned()),
            ]
        );
    }

    fn host() -> HostFacts {
        let device = Device { name: "eth0".to_owned(), mtu: Some(ByteCount::new(1500)), ..Device::default() };
        let sysctls = Sysctls::of(&[("net.ipv4.tcp_available_congestion_control", "reno cubic bbr")]);
        HostFacts { devices: vec![device], sysctls, ..HostFacts::default() }
    }

    /// Severity and fix of a finding on a path.
    fn one(path: &PathFacts, host: &HostFacts, id: &str) -> (Severity, String) {
        let findings = judge(path, host, Aim::new(None, None, host, Some(path)));
        let finding = findings.into_iter().find(|finding| finding.id == id).unwrap_or_else(|| panic!("no {id}"));
        (finding.severity, finding.fix.join("; "))
    }

    #[test]
    fn a_good_path_is_good() {
        let findings = judge(&path(), &host(), Aim::new(None, None, &host(), Some(&path())));
        assert_eq!(findings.len(), 5);
        assert!(
            findings.iter().all(|finding| finding.severity == Severity::Ok && finding.fix.is_empty()),
            "{findings:?}"
        );
    }

    #[test]
    fn a_path_with_smaller_packets_is_told() {
        let path = PathFacts { mtu: Some(ByteCount::new(1400)), ..path() };
        assert_eq!(one(&path, &host(), "path.mtu").0, Severity::Note);
    }

    #[test]
    fn a_capacity_that_windows_hide_asks_for_larger_ones() {
        let mut path = path();
        path.measured.capacity = Some(Capacity { rate: Rate::from_bits_per_second(5_000_000), by_windows: true });
        let expected = (Severity::Warning, "icdc doctor --apply --rate 1gbit --rtt 40ms".to_owned());
        assert_eq!(one(&path, &host(), "path.capacity"), expected);
    }

    #[test]
    fn a_path_that_falls_short_of_the_aim_is_told() {
        let rate = |rate: &str| Aim { rate: rate.parse().unwrap(), round_trip: Span::from_millis(40) };
        let severity = |rate| judge(&path(), &host(), rate)[2].severity;
        assert_eq!((severity(rate("1gbit")), severity(rate("120mbit"))), (Severity::Warning, Severity::Ok));
    }

    #[test]
    fn loss_matters_by_what_reno_would_make_of_it() {
        let lossy = |retransmitted, round_trip| {
            let mut path = path();
            path.measured.loss = Some(Loss { segments: 1_000_000, retransmitted });
            path.measured.round_trip = Some(round_trip);
            path
        };
        // 1448 B x 8 x 1.22 / (40 ms x sqrt(loss)): 35 Mbit/s at 1e-4, 353 Mbit/s at 1e-6.
        let long = Span::from_millis(40);
        let fix = "icdc copy --cc bbr SRC icdc://far/".to_owned();
        assert_eq!(one(&lossy(100, long), &host(), "path.loss"), (Severity::Warning, fix));
        assert_eq!(one(&lossy(1, long), &host(), "path.loss"), (Severity::Note, String::new()));
        assert_eq!(one(&lossy(100, Span::from_millis(1)), &host(), "path.loss").0, Severity::Note);
        let mut without = host();
        without.sysctls = Sysctls::default();
        assert_eq!(one(&lossy(100, long), &without, "path.loss"), (Severity::Warning, String::new()));
    }

    #[test]
    fn bursts_that_do_not_pass_ask_for_pacing() {
        let burst = |tolerated: Option<u64>, exceeded: Option<u64>| {
            let mut path = path();
            let size = |kib: Option<u64>| kib.map(ByteCount::from_kib);
            path.measured.burst = Some(Burst { tolerated: size(tolerated), exceeded: size(exceeded) });
            one(&path, &host(), "path.burst")
        };
        assert_eq!(burst(Some(1024), Some(2048)).0, Severity::Ok);
        assert_eq!(burst(Some(100), Some(200)), (Severity::Note, "icdc copy --rate 80mbit SRC icdc://far/".to_owned()));
        let small = "ip link set dev eth0 gso_max_segs 21".to_owned();
        assert_eq!(burst(Some(32), Some(64)), (Severity::Warning, small));
        assert_eq!(burst(None, Some(4)).1, "ip link set dev eth0 gso_max_segs 2");
    }

    #[test]
    fn what_was_not_measured_is_told() {
        let mut path = path();
        path.measured.loss = None;
        path.measured.burst = None;
        let findings = judge(&path, &host(), Aim::new(None, None, &host(), Some(&path)));
        assert_eq!(findings.last().unwrap().found, "not measured: loss, bursts");
    }

    #[test]
    fn what_goes_through_ssh_is_not_judged_as_a_path_of_tcp() {
        let mut path = PathFacts { through_ssh: true, ..path() };
        for by_windows in [true, false] {
            path.measured = Measured {
                capacity: Some(Capacity { rate: Rate::from_bits_per_second(5_000_000), by_windows }),
                round_trip: Some(Span::from_millis(40)),
                ..Measured::default()
            };
            assert_eq!(one(&path, &host(), "path.capacity"), (Severity::Note, String::new()));
            let aim = Aim::new(None, None, &host(), Some(&path));
            assert_eq!(aim.rate, USUAL_RATE, "the path carries more than one connection through ssh");
            let unmeasured = judge(&path, &host(), aim).pop().unwrap();
            assert!(unmeasured.why.contains("ssh"), "{unmeasured:?}");
        }
    }

    #[test]
    fn what_ended_the_runs_is_told() {
        let path = PathFacts { measured: Measured::default(), trouble: Some("far has no `icdc`".to_owned()), ..path() };
        let unmeasured = judge(&path, &host(), Aim::new(None, None, &host(), Some(&path))).pop().unwrap();
        assert!(unmeasured.found.ends_with("bursts: far has no `icdc`"), "{unmeasured:?}");
        assert!(unmeasured.why.contains("correct it"), "{unmeasured:?}");
    }
}
