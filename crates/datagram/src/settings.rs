//! What is asked of QUIC, and of the sockets beneath it.

use std::fmt;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use icdc_cc::native::Connection;
use icdc_cc::{ParameterError, find};
use quinn_proto::{AckFrequencyConfig, MtuDiscoveryConfig, TransportConfig, VarInt};

use crate::congestion::SharedFlow;
use crate::error::DatagramError;

/// Length in bytes of the packets with which a connection begins: every path carries them (RFC 9000, section 14).
pub(crate) const FIRST_MTU: u16 = 1200;
/// Length in bytes of packets that are tried: what Ethernet carries, with IPv6.
const LARGEST_MTU: u16 = 1452;
/// Time without a packet after which a connection has ended.
const IDLE: Duration = Duration::from_secs(60);
/// Time between the packets that keep an idle connection open, also in firewalls.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Bytes that may arrive on a stream before they are read, and be sent before they are acknowledged: no limit, as the
/// connection has one.
const STREAM_WINDOW: u32 = 1 << 30;
/// Number of streams of one connection that the other end may have open: more than a session has links.
pub(crate) const STREAMS: u32 = 256;
/// The same of an end that is not authenticated.
pub(crate) const UNAUTHENTICATED_STREAMS: u32 = 2;
/// Bytes that may arrive before they are read, of an end of which nothing is known but its address.
pub(crate) const UNAUTHENTICATED_WINDOW: u64 = 256 << 10;
/// Number of packets that are acknowledged by one.
const PACKETS_PER_ACK: u32 = 10;
/// Time after which an acknowledgement is sent at the latest.
const ACK_DELAY: Duration = Duration::from_millis(2);
/// Number of later packets whose arrival shows that one was lost.
const REORDERING: u32 = 3;

/// Congestion control of a connection: an algorithm of [`icdc_cc`] with its parameters.
#[derive(Clone)]
pub struct Algorithm(Arc<dyn Fn() -> Connection + Send + Sync>);

impl Algorithm {
    /// The algorithm of this name with these parameters; `None` if there is no such algorithm.
    ///
    /// # Errors
    /// Unknown parameters and values out of range.
    pub fn named(name: &str, settings: &[(&str, i64)]) -> Result<Option<Self>, ParameterError> {
        let Some(algorithm) = find(name) else { return Ok(None) };
        Connection::new(algorithm, settings)?;
        let settings: Vec<(String, i64)> = settings.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Ok(Some(Self(Arc::new(move || {
            let settings: Vec<(&str, i64)> = settings.iter().map(|(name, value)| (name.as_str(), *value)).collect();
            Connection::new(algorithm, &settings).expect("they were accepted before")
        }))))
    }

    /// Congestion control of a connection that begins now.
    pub(crate) fn begin(&self, now: Instant) -> SharedFlow {
        SharedFlow::new((self.0)(), now, FIRST_MTU)
    }
}

impl Default for Algorithm {
    /// icdc, with its usual parameters.
    fn default() -> Self {
        Self::named("icdc", &[]).ok().flatten().expect("it is built in")
    }
}

impl fmt::Debug for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Algorithm")
    }
}

/// QUIC's settings for a connection with this congestion control, whose other end may open so many streams.
pub(crate) fn transport(flow: &SharedFlow, streams: u32) -> TransportConfig {
    let window = VarInt::from_u32(STREAM_WINDOW);
    let mut acknowledging = AckFrequencyConfig::default();
    acknowledging
        .ack_eliciting_threshold(VarInt::from_u32(PACKETS_PER_ACK))
        .max_ack_delay(Some(ACK_DELAY))
        .reordering_threshold(VarInt::from_u32(REORDERING));
    let mut mtu = MtuDiscoveryConfig::default();
    mtu.upper_bound(LARGEST_MTU);
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(streams))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .max_idle_timeout(Some(IDLE.try_into().expect("it is less than the largest")))
        .keep_alive_interval(Some(KEEP_ALIVE))
        .stream_receive_window(window)
        .receive_window(VarInt::from_u32(UNAUTHENTICATED_WINDOW as u32))
        .send_window(u64::from(STREAM_WINDOW))
        .initial_mtu(FIRST_MTU)
        .mtu_discovery_config(Some(mtu))
        .ack_frequency_config(Some(acknowledging))
        .packet_threshold(REORDERING)
        .datagram_receive_buffer_size(None)
        .congestion_controller_factory(Arc::new(flow.clone()));
    transport
}

/// Opens a UDP socket at an address and a port; `[::]` serves IPv4 as well.
///
/// # Errors
/// The kernel refuses a system call.
pub fn listen(address: SocketAddr) -> Result<UdpSocket, DatagramError> {
    UdpSocket::bind(address).map_err(DatagramError::kernel("bind"))
}

/// The unspecified address of the family of `remote`.
pub(crate) fn any(remote: SocketAddr) -> SocketAddr {
    let ip: IpAddr = if remote.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    SocketAddr::new(ip, 0)
}
