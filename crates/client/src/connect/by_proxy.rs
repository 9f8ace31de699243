//! TCP connections by way of a proxy. Its answer is read to the last byte and no further, and each
//! wait has a deadline.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;

use icdc_protocol::relay::peer::{ANSWER, Header, Verdict};
use icdc_protocol::relay::socks5_client::{Client, ClientError, Progress};
use icdc_protocol::relay::{Destination, Host};
use icdc_stop::StopSignal;
use icdc_tcp::{Family, SocketSettings, clock};
use icdc_units::Span;

use super::error::ConnectError;
use super::machine::Machine;
use super::patient::{self, PatientReader};
use super::reach::reach;
use crate::proxy::{Proxy, ProxyKind};

/// Time limit from the connection to the proxy to the end of its answer, within which the proxy
/// connects to the far side.
const ANSWER_TIMEOUT: Span = Span::from_secs(20);

/// Makes a TCP connection to a port of a host through `proxy`; gives up when `stop` is requested.
/// `family` and `settings` (socket options) are those of the connection to the proxy.
pub(super) fn reach_by(
    proxy: &Proxy,
    (host, port): (&str, u16),
    family: Family,
    settings: &SocketSettings<'_>,
    stop: &StopSignal,
) -> Result<TcpStream, ConnectError> {
    let failed = |reason: String| ConnectError::Proxy { proxy: proxy.to_string(), host: host.to_owned(), port, reason };
    let destination = Host::parse(host).and_then(|host| Destination::new(host, port));
    let destination = destination.map_err(|error| failed(error.to_string()))?;
    let place = match &proxy.place.host {
        Host::Address(address) => address.to_string(),
        Host::Name(name) => name.as_str().to_owned(),
    };
    let stream = reach((&place, proxy.place.port), &Machine::default(), family, settings, stop, failed)?;
    let deadline = clock::now() + ANSWER_TIMEOUT;
    let asked =
        PatientReader::new(&stream, stop, deadline).map_err(Refusal::Broken).and_then(|answers| match &proxy.kind {
            ProxyKind::Socks5(login) => {
                let (client, hello) = Client::new(destination, login.clone())?;
                ask_socks5(client, &hello, &stream, answers)
            }
            ProxyKind::Relay => ask_relay(destination, &stream, answers),
        });
    match asked {
        Ok(()) => Ok(stream),
        Err(Refusal::Broken(error)) if patient::is_stopped(&error) => Err(ConnectError::Interrupted),
        Err(refusal) => Err(failed(refusal.words(&proxy.kind))),
    }
}

/// Reason why a proxy that was reached does not connect to the far side.
enum Refusal {
    /// The SOCKS proxy refused, or broke the protocol.
    Socks(ClientError),
    /// The relay answered with this verdict.
    Relay(Verdict),
    /// The answer is not that of a relay.
    NotARelay,
    /// The connection to the proxy failed, or was too slow.
    Broken(io::Error),
}

impl From<ClientError> for Refusal {
    fn from(error: ClientError) -> Self {
        Self::Socks(error)
    }
}

impl Refusal {
    /// Sentence for the user: the reason, and the remedy if there is one.
    fn words(self, kind: &ProxyKind) -> String {
        match self {
            Self::Socks(error @ ClientError::WantsLogin) => {
                format!(
                    "{error}: write USER:PASSWORD into a file that only you may read, and name it with --proxy-login"
                )
            }
            Self::Socks(error) => error.to_string(),
            Self::Relay(verdict) => format!("it answers: {verdict}"),
            Self::NotARelay => "what answers there is no `icdc relay --peer`".to_owned(),
            Self::Broken(error) if error.kind() == io::ErrorKind::TimedOut => {
                format!("it did not answer within {ANSWER_TIMEOUT}")
            }
            Self::Broken(error) if *kind == ProxyKind::Relay => format!(
                "it closed the connection before it answered ({error}); a relay with --peer-key expects another relay: \
                 run `icdc relay --socks5 127.0.0.1:1080` here with a route to it, and use --via socks5://127.0.0.1:1080"
            ),
            Self::Broken(error) => format!("it closed the connection before it answered ({error})"),
        }
    }
}

/// Sends `hello` and runs the SOCKS 5 exchange until the proxy has connected, or an error.
fn ask_socks5(
    mut client: Client,
    hello: &[u8],
    mut stream: &TcpStream,
    mut answers: PatientReader<'_>,
) -> Result<(), Refusal> {
    stream.write_all(hello).map_err(Refusal::Broken)?;
    // An answer has 262 bytes at most.
    let mut answer = [0; 512];
    loop {
        let expected = &mut answer[..client.missing()];
        let count = answers.read(expected).map_err(Refusal::Broken)?;
        if count == 0 {
            return Err(Refusal::Broken(io::ErrorKind::UnexpectedEof.into()));
        }
        match client.receive(&expected[..count])? {
            Progress::More => {}
            Progress::Send(message) => stream.write_all(&message).map_err(Refusal::Broken)?,
            Progress::Connected => return Ok(()),
        }
    }
}

/// Sends a relay's header that names the destination, and waits for the verdict of the relay.
fn ask_relay(destination: Destination, mut stream: &TcpStream, mut answers: PatientReader<'_>) -> Result<(), Refusal> {
    let client = stream.local_addr().map_err(Refusal::Broken)?;
    let header = Header { destination, client, public_only: false, hops: Vec::new() };
    stream.write_all(&header.encode()).map_err(Refusal::Broken)?;
    let mut answer = [0; ANSWER];
    answers.read_exact(&mut answer).map_err(Refusal::Broken)?;
    match Verdict::decode(answer) {
        Some(Verdict::Connected) => Ok(()),
        Some(verdict) => Err(Refusal::Relay(verdict)),
        None => Err(Refusal::NotARelay),
    }
}
