//! Results of an examination as one JSON object.

use icdc_doctor::facts::{Ability, Device, Disk};
use icdc_doctor::remedy::{Set, Undone};
use icdc_doctor::{Finding, Group, HostFacts, PathFacts, Reading};
use icdc_units::{ByteCount, Rate, Span};
use serde_json::{Map, Value, json};

use super::examination::Examination;
use super::show;

/// JSON object of all results of an examination.
pub(super) fn examination(examination: &Examination) -> Value {
    let aim = examination.aim;
    json!({
        "aim": {
            "rate_bps": aim.rate.as_bits_per_second(),
            "rtt_seconds": aim.round_trip.as_secs_f64(),
            "in_flight_bytes": aim.in_flight().as_u64(),
            "buffer_bytes": aim.buffer().as_u64(),
        },
        "host": host(&examination.host),
        "path": examination.path.as_ref().map(path),
        "findings": examination.findings.iter().map(|one| finding(one, examination)).collect::<Value>(),
        "errors": examination.troubles.texts,
    })
}

/// JSON object of a finding.
fn finding(finding: &Finding, examination: &Examination) -> Value {
    json!({
        "id": finding.id,
        "group": match finding.group {
            Group::Host => "host",
            Group::Path => "path",
        },
        "subject": finding.subject,
        "severity": show::name(finding.severity),
        "found": finding.found,
        "why": finding.why,
        "fix": (!finding.fix.is_empty()).then(|| finding.fix.join(" && ")),
        "by_apply": finding.change.is_some(),
        "applied": show::is_applied(finding, examination),
    })
}

/// JSON object of what was found out about this host.
fn host(host: &HostFacts) -> Value {
    let HostFacts { sysctls, devices, processors, memory, clock, abilities, disk } = host;
    let settings = sysctls.iter().map(|(name, reading)| {
        let value = match reading {
            Reading::Value(text) => json!(text),
            Reading::Missing | Reading::Unreadable(_) => Value::Null,
        };
        (name.to_owned(), value)
    });
    json!({
        "sysctls": settings.collect::<Map<_, _>>(),
        "devices": devices.iter().map(device).collect::<Value>(),
        "processors": processors.len(),
        "memory_bytes": memory.map(ByteCount::as_u64),
        "clock": { "source": clock.source, "sources": clock.sources, "synchronized": clock.synchronized },
        "io_uring": abilities.as_ref().map(|abilities| ability(&abilities.io_uring)),
        "ebpf": abilities.as_ref().map(|abilities| ability(&abilities.ebpf)),
        "disk": disk.as_ref().map(self::disk),
    })
}

/// JSON object of a network device.
fn device(device: &Device) -> Value {
    json!({
        "name": device.name,
        "driver": device.driver,
        "mtu_bytes": device.mtu.map(ByteCount::as_u64),
        "speed_bps": device.speed.map(Rate::as_bits_per_second),
        "qdiscs": device.qdiscs,
        "offloads": device.offloads.map(|offloads| json!({
            "tso": offloads.tcp_segmentation,
            "gso": offloads.generic_segmentation,
            "gro": offloads.generic_receive,
        })),
        "pause": device.pause.map(|pause| json!({
            "autonegotiated": pause.negotiated,
            "rx": pause.receive,
            "tx": pause.transmit,
        })),
        "rings": device.rings.map(|rings| json!({
            "rx": rings.receive,
            "rx_max": rings.receive_most,
            "tx": rings.transmit,
            "tx_max": rings.transmit_most,
        })),
        "gso_max_segs": device.batch_segments,
        "rx_queues": device.receive_queues,
        "rps": device.is_spread,
        "numa_node": device.node.as_ref().map(|node| node.number),
        "interrupts": device.interrupts.iter().map(|interrupt| json!({
            "number": interrupt.number,
            "processors": interrupt.processors,
        })).collect::<Value>(),
    })
}

/// JSON object that tells whether this process can use a feature of the kernel, and if not, why.
fn ability(ability: &Ability) -> Value {
    json!({ "available": ability.obstacle.is_none(), "reason": ability.obstacle })
}

/// JSON object of the measured disk.
fn disk(disk: &Disk) -> Value {
    json!({
        "directory": disk.directory.to_string_lossy(),
        "engine": disk.engine,
        "direct": disk.is_direct,
        "bytes": disk.bytes.as_u64(),
        "write_bps": disk.write.as_bits_per_second(),
        "read_bps": disk.read.as_bits_per_second(),
    })
}

/// JSON object of what was found out about the path.
fn path(path: &PathFacts) -> Value {
    let measured = path.measured;
    json!({
        "target": path.target,
        "address": path.address.map(|address| address.to_string()),
        "mtu_bytes": path.mtu.map(ByteCount::as_u64),
        "routes": path.routes.iter().map(|route| json!({ "via": route.name, "obstacle": route.obstacle })).collect::<Value>(),
        "remembered_route": path.remembered.map(|route| json!({
            "via": route.name,
            "connections": route.connections,
            "login_seconds": route.login.as_secs_f64(),
            "age_seconds": route.age.as_secs(),
        })),
        "rtt_seconds": measured.round_trip.map(Span::as_secs_f64),
        "capacity_bps": measured.capacity.map(|capacity| capacity.rate.as_bits_per_second()),
        "limited_by_windows": measured.capacity.map(|capacity| capacity.by_windows),
        "loss": measured.loss.map(|loss| json!({
            "segments": loss.segments,
            "retransmitted_segments": loss.retransmitted,
            "ratio": loss.ratio(),
        })),
        "burst_tolerated_bytes": measured.burst.and_then(|burst| burst.tolerated).map(ByteCount::as_u64),
        "burst_exceeded_bytes": measured.burst.and_then(|burst| burst.exceeded).map(ByteCount::as_u64),
    })
}

/// JSON object of the settings that `--undo` restored, and of those that it left.
pub(super) fn undone(undone: &Undone) -> Value {
    let set = |set: &Set| json!({ "name": set.name, "value": set.now });
    json!({
        "restored": undone.restored.iter().map(set).collect::<Value>(),
        "left": undone.left.iter().map(set).collect::<Value>(),
    })
}
