//! The datagram, as the SciTags technical specification (scitags.org) has it: a header of syslog
//! (RFC 5424, facility local0, severity informational), and JSON by its schema
//! `firefly.schema.json`, version 1.
//!
//! ```text
//! <134>1 2021-09-22T11:12:27.808092+00:00 HOST icdc - firefly-json - {"version":1, …}
//! ```
//!
//! The source of a flow is the end that sends the data, whoever made the connection; `usage` counts
//! from there. `netlink` is free in the schema; here it has the round-trip time in milliseconds.

use std::net::{IpAddr, SocketAddr};

use icdc_tcp::TcpInfo;
use icdc_units::Span;
use jiff::Timestamp;
use serde::Serialize;

use crate::tag::Tag;

/// Priority in the datagram's syslog header: facility local0 (16), severity informational (6), 16 ×
/// 8 + 6.
const PRIORITY: u8 = 134;
/// Format of times in a firefly (for `strftime`), as the specification has it.
const TIME: &str = "%Y-%m-%dT%H:%M:%S.%6f+00:00";

/// The two ends of a connection, by the direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Address and port of the end that sends data.
    pub source: SocketAddr,
    /// Address and port of the end that receives data.
    pub destination: SocketAddr,
}

/// Stage of a flow that a firefly reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The flow begins.
    Start,
    /// The flow goes on.
    Ongoing,
    /// The flow has ended.
    End,
}

/// Traffic of a flow so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes that the source has sent.
    pub sent: u64,
    /// Bytes that the source has received.
    pub received: u64,
    /// Round-trip time of the connection; zero if unknown.
    pub rtt: Span,
}

impl Usage {
    /// Traffic by the kernel's counters of this end's socket; `sends` is true if this end sends the
    /// data.
    #[must_use]
    pub fn of(info: &TcpInfo, sends: bool) -> Self {
        let (out, back) = (info.bytes_acked.as_u64(), info.bytes_received.as_u64());
        let (sent, received) = if sends { (out, back) } else { (back, out) };
        Self { sent, received, rtt: info.rtt }
    }
}

/// Contents of a firefly, a UDP datagram that tells networks to which experiment and activity a
/// flow belongs.
#[derive(Clone, Copy, Debug)]
pub struct Firefly<'a> {
    /// Experiment and activity to which the flow belongs.
    pub tag: Tag,
    /// Addresses and ports of the connection.
    pub flow: Flow,
    /// State of the flow.
    pub state: State,
    /// Time at which the flow began.
    pub start: Timestamp,
    /// Time at which the datagram is made.
    pub now: Timestamp,
    /// Traffic of the flow so far.
    pub usage: Usage,
    /// Name and version of the program.
    pub application: &'a str,
    /// Name of this host, for the header.
    pub host: &'a str,
}

/// JSON of a firefly, with the names of the schema.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Body<'a> {
    version: u8,
    flow_lifecycle: Lifecycle,
    flow_id: FlowId,
    usage: UsageBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    netlink: Option<Netlink>,
    context: Context<'a>,
}

/// Stage of the flow and its times, in the JSON of a firefly.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Lifecycle {
    state: &'static str,
    current_time: String,
    start_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_time: Option<String>,
}

/// Address family, addresses and ports of the flow, in the JSON of a firefly.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct FlowId {
    afi: &'static str,
    src_ip: IpAddr,
    dst_ip: IpAddr,
    protocol: &'static str,
    src_port: u16,
    dst_port: u16,
}

/// Bytes that the flow's source has received and sent, in the JSON of a firefly.
#[derive(Serialize)]
struct UsageBody {
    received: u64,
    sent: u64,
}

/// Round-trip time in milliseconds, in the JSON of a firefly.
#[derive(Serialize)]
struct Netlink {
    rtt: f64,
}

/// Experiment, activity and program, in the JSON of a firefly.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Context<'a> {
    experiment_id: u16,
    activity_id: u16,
    application: &'a str,
}

impl Firefly<'_> {
    /// The datagram as bytes: a syslog header and the JSON.
    #[must_use]
    pub fn datagram(&self) -> Vec<u8> {
        let now = time(self.now);
        let header = format!("<{PRIORITY}>1 {now} {} icdc - firefly-json - ", header_name(self.host));
        let (source, destination) = (plain(self.flow.source), plain(self.flow.destination));
        let body = Body {
            version: 1,
            flow_lifecycle: Lifecycle {
                state: match self.state {
                    State::Start => "start",
                    State::Ongoing => "ongoing",
                    State::End => "end",
                },
                start_time: time(self.start),
                end_time: (self.state == State::End).then(|| now.clone()),
                current_time: now,
            },
            flow_id: FlowId {
                afi: if source.ip().is_ipv4() { "ipv4" } else { "ipv6" },
                src_ip: source.ip(),
                dst_ip: destination.ip(),
                protocol: "tcp",
                src_port: source.port(),
                dst_port: destination.port(),
            },
            usage: UsageBody { received: self.usage.received, sent: self.usage.sent },
            netlink: (self.usage.rtt > Span::ZERO).then(|| Netlink { rtt: self.usage.rtt.as_micros() as f64 / 1000.0 }),
            context: Context {
                experiment_id: self.tag.experiment(),
                activity_id: self.tag.activity(),
                application: self.application,
            },
        };
        let mut datagram = header.into_bytes();
        datagram.extend(serde_json::to_vec(&body).expect("plain data with text as keys"));
        datagram
    }
}

/// The address as both ends write it: an IPv4-mapped IPv6 address, as sockets for both families
/// have it, becomes IPv4.
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}

/// Text of a time in the form of the specification.
fn time(at: Timestamp) -> String {
    at.strftime(TIME).to_string()
}

/// Name of a host for the syslog header; `-`, for unknown, if RFC 5424 does not allow it there.
fn header_name(host: &str) -> &str {
    let fits = !host.is_empty() && host.len() <= 255 && host.bytes().all(|byte| byte.is_ascii_graphic());
    if fits { host } else { "-" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_is_a_line_of_syslog_and_json() {
        let flow = Flow {
            source: "[::ffff:192.0.2.7]:2633".parse().unwrap(),
            destination: "198.51.100.1:40000".parse().unwrap(),
        };
        let start: Timestamp = "2021-09-22T11:12:27.808092Z".parse().unwrap();
        let now: Timestamp = "2021-09-22T11:12:28Z".parse().unwrap();
        let usage = Usage { sent: 7, received: 8, rtt: Span::from_micros(1500) };
        let tag = Tag::new(2, 14).unwrap();
        let mut firefly =
            Firefly { tag, flow, state: State::End, start, now, usage, application: "icdc v1", host: "dtn1" };
        let expected = concat!(
            "<134>1 2021-09-22T11:12:28.000000+00:00 dtn1 icdc - firefly-json - ",
            r#"{"version":1,"flow-lifecycle":{"state":"end","current-time":"2021-09-22T11:12:28.000000+00:00","#,
            r#""start-time":"2021-09-22T11:12:27.808092+00:00","end-time":"2021-09-22T11:12:28.000000+00:00"},"#,
            r#""flow-id":{"afi":"ipv4","src-ip":"192.0.2.7","dst-ip":"198.51.100.1","protocol":"tcp","src-port":2633,"#,
            r#""dst-port":40000},"usage":{"received":8,"sent":7},"netlink":{"rtt":1.5},"#,
            r#""context":{"experiment-id":2,"activity-id":14,"application":"icdc v1"}}"#,
        );
        assert_eq!(String::from_utf8(firefly.datagram()).unwrap(), expected);
        (firefly.state, firefly.host) = (State::Start, "two words");
        let begun = String::from_utf8(firefly.datagram()).unwrap();
        assert!(
            begun.contains("+00:00 - icdc - ") && begun.contains("\"start\"") && !begun.contains("end-time"),
            "{begun}"
        );
    }
}
