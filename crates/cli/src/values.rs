//! Values of options: what may be written, and what it means.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};

use icdc_client::Location;
use icdc_client::location::DAEMON_PORT;
use icdc_hooks::{Target, TargetFileError};
use icdc_protocol::Ports;
use icdc_protocol::compression::MAX_LEVEL;
use icdc_protocol::limits::{
    BLOCK_SIZE, MAX_CONGESTION_NAME, MAX_FILE_SIZE, MAX_MEASURE_NANOS, MAX_RING_BYTES, MAX_STREAMS, MAX_WINDOW,
};
use icdc_protocol::message::{Compress, Keep, MaxDelete, Preserve};
use icdc_tcp::{Egress, Egresses};
use icdc_units::{ByteCount, Prefix, Rate, Span};

/// Value of `--rate`: limit of the sending rate; `None` (`auto`) for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ceiling(pub(crate) Option<Rate>);

/// Value of `--streams`: number of TCP connections; `None` (`auto`) for as many as the path needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Streams(pub(crate) Option<u8>);

/// Value of `--shard`: number of a shard, from 0; `None` (`auto`) leaves it to the scheduler's
/// variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard(pub(crate) Option<u32>);

/// Value of `--one-of-several`: one of the copies of `--to`, in a process of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OneOfSeveral {
    /// Number of its destination, from 1.
    pub(crate) number: usize,
    /// Id of the process that shows its output, without which it ends.
    pub(crate) parent: i32,
    /// Whether its progress is shown.
    pub(crate) progress: bool,
}

/// Value of `--cc`: name of a congestion control algorithm; `None` (`auto`) leaves the choice open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Congestion(pub(crate) Option<String>);

/// Value of `--param`: a parameter of a congestion control algorithm, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) name: String,
    pub(crate) value: i64,
}

/// Value of `--clear`: where the known paths lead that are to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathsDestination {
    /// Addresses by their prefix.
    Prefix(Prefix),
    /// A host by name, with whatever addresses it has.
    Host(String),
}

/// Host and port of a daemon, without a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DaemonAddress {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Longest name of a copy, in characters: names of files have 255, and the name of the host is there, too.
const LONGEST_NAME: usize = 64;
/// Commands of `icdc ctl`, which are not taken for names.
const CTL_COMMANDS: [&str; 6] = ["status", "rate", "pause", "resume", "stop", "help"];
/// Least size of the receiver's ring: fewer blocks would stall the pipeline of reading, hashing and
/// writing.
const LEAST_RING: ByteCount = ByteCount::from_mib(16);
/// Greatest size of the receiver's ring: more than any path holds, and the most that a far end
/// takes.
const LARGEST_RING: ByteCount = ByteCount::new(MAX_RING_BYTES);
/// Least socket buffer that can be set: the kernel makes no use of less.
const LEAST_WINDOW: ByteCount = ByteCount::from_kib(4);
/// Least round-trip time that is accepted: TCP counts in microseconds.
const LEAST_ROUND_TRIP: Span = Span::from_micros(1);
/// Greatest round-trip time that is accepted: TCP would have given up on a longer one.
const LONGEST_ROUND_TRIP: Span = Span::from_secs(60);
/// Least time between two outputs: looking more often would disturb what is looked at.
const SHORTEST_PAUSE: Span = Span::from_millis(10);
/// Greatest time between two outputs; a longer one is taken for a mistake.
const LONGEST_PAUSE: Span = Span::from_secs(86_400);

/// Name of a running copy: printable ASCII without `/`, of 1 to [`LONGEST_NAME`] characters, which is no
/// number, no command of `icdc ctl`, and has no space or `-` at its start and no space at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyName(String);

impl CopyName {
    /// The name as text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Reads the name of a copy; an error says what is accepted.
pub(crate) fn copy_name(text: &str) -> Result<CopyName, String> {
    let is_allowed = |byte: u8| byte == b' ' || byte.is_ascii_graphic() && byte != b'/';
    if text.is_empty() || text.len() > LONGEST_NAME || !text.bytes().all(is_allowed) {
        return Err(format!("a name has 1 to {LONGEST_NAME} printable ASCII characters, and no /"));
    }
    if text.starts_with(['-', ' ']) || text.ends_with(' ') {
        return Err("a name begins with neither - nor a space, and does not end with a space".to_owned());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("a number stands for a process; add a letter".to_owned());
    }
    if CTL_COMMANDS.contains(&text) {
        return Err(format!("{text} is a command of icdc ctl; take another name"));
    }
    Ok(CopyName(text.to_owned()))
}

/// Reads a place in a stream, as a number of bytes that ends with a block; an error says what is
/// accepted.
pub(crate) fn stream_place(text: &str) -> Result<ByteCount, String> {
    let bytes = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    let bytes = bytes.filter(|bytes| bytes.is_multiple_of(BLOCK_SIZE as u64) && *bytes <= MAX_FILE_SIZE);
    bytes.map(ByteCount::new).ok_or_else(|| {
        format!("write 0 to begin, or a number of bytes that stream_durable has told: a multiple of {BLOCK_SIZE}")
    })
}

/// Reads a rate limit, or `auto`; an error says what is accepted.
pub(crate) fn ceiling(text: &str) -> Result<Ceiling, String> {
    icdc_schedule::rate_or_auto(text).map(Ceiling)
}

/// Reads a number of connections, or `auto`; an error says what is accepted.
pub(crate) fn streams(text: &str) -> Result<Streams, String> {
    if text == "auto" {
        return Ok(Streams(None));
    }
    match text.parse() {
        Ok(number @ 1..=MAX_STREAMS) => Ok(Streams(Some(number))),
        _ => Err(format!("write a number of connections from 1 to {MAX_STREAMS}, or auto")),
    }
}

/// Reads `auto`, `never` or a level of compression; an error says what is accepted.
pub(crate) fn compress(text: &str) -> Result<Compress, String> {
    match (text, text.parse()) {
        ("auto", _) => Ok(Compress::Auto),
        ("never", _) => Ok(Compress::Never),
        (_, Ok(level @ 1..=MAX_LEVEL)) => Ok(Compress::Level(level)),
        _ => Err(format!("write auto, which is rsync's -z, never, or a level from 1 to {MAX_LEVEL}")),
    }
}

/// Reads the number of a shard, or `auto`; an error says what is accepted.
pub(crate) fn shard(text: &str) -> Result<Shard, String> {
    if text == "auto" {
        return Ok(Shard(None));
    }
    text.parse().map(|number| Shard(Some(number))).map_err(|_| "write the number of a shard, from 0, or auto".into())
}

/// Reads which of several copies a process is: number of the destination, id of the parent and 1 if progress is
/// shown; an error says what is accepted.
pub(crate) fn one_of_several(text: &str) -> Result<OneOfSeveral, String> {
    let numbers: Option<Vec<i32>> = text.split(',').map(|number| number.parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[number, parent, progress]) if number > 0 && parent > 0 => {
            Ok(OneOfSeveral { number: number as usize, parent, progress: progress == 1 })
        }
        _ => Err("this option is of icdc itself: give --to".to_owned()),
    }
}

impl fmt::Display for OneOfSeveral {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{},{},{}", self.number, self.parent, i32::from(self.progress))
    }
}

/// Reads the name of a congestion control, or `auto`; an error says what is accepted.
pub(crate) fn congestion(text: &str) -> Result<Congestion, String> {
    if text == "auto" {
        return Ok(Congestion(None));
    }
    let proper = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if text.is_empty() || text.len() > MAX_CONGESTION_NAME || !text.bytes().all(proper) {
        return Err(format!(
            "a kernel's name for congestion control has up to {MAX_CONGESTION_NAME} letters, digits, - and _, such as cubic or bbr"
        ));
    }
    Ok(Congestion(Some(text.to_owned())))
}

/// Parses `--param NAME=VALUE` of a congestion control algorithm; an error says what is accepted.
pub(crate) fn setting(text: &str) -> Result<Setting, String> {
    let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("expected NAME=VALUE")?;
    let value = value.parse().map_err(|_| format!("the value of {name} is a whole number"))?;
    Ok(Setting { name: name.to_owned(), value })
}

/// Reads the size of the receiver's ring; an error says what is accepted.
pub(crate) fn ring(text: &str) -> Result<ByteCount, String> {
    let size: ByteCount = text.parse().map_err(|error| format!("{error}"))?;
    if !(LEAST_RING..=LARGEST_RING).contains(&size) {
        return Err(format!("the ring has from {LEAST_RING} to {LARGEST_RING}"));
    }
    Ok(size)
}

/// Parses a duration of a measurement: seconds as a number, or any time with its unit.
pub(crate) fn seconds(text: &str) -> Result<Span, String> {
    let longest = Span::from_nanos(MAX_MEASURE_NANOS);
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let with_unit = if plain { format!("{text}s") } else { text.to_owned() };
    let span: Span = with_unit.parse().map_err(|error| format!("{error}"))?;
    if span.as_millis() == 0 || span > longest {
        return Err(format!("the time is from 1ms to {longest}"));
    }
    Ok(span)
}

/// Reads a round-trip time; an error says what is accepted.
pub(crate) fn round_trip(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error| format!("{error}"))?;
    if !(LEAST_ROUND_TRIP..=LONGEST_ROUND_TRIP).contains(&span) {
        return Err(format!("a round-trip time is from {LEAST_ROUND_TRIP} to {LONGEST_ROUND_TRIP}"));
    }
    Ok(span)
}

/// Parses a prefix of addresses, or one address, which stands for just that one.
pub(crate) fn prefix(text: &str) -> Result<Prefix, String> {
    Prefix::of_text(text).map_err(|error| error.to_string())
}

/// Parses the time between two outputs; an error says what is accepted.
pub(crate) fn pause(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error| format!("{error}"))?;
    if !(SHORTEST_PAUSE..=LONGEST_PAUSE).contains(&span) {
        return Err(format!("the time between two looks is from {SHORTEST_PAUSE} to {LONGEST_PAUSE}"));
    }
    Ok(span)
}

/// Parses a prefix, an address or the name of a host; an error says what is accepted.
pub(crate) fn paths_destination(text: &str) -> Result<PathsDestination, String> {
    if text.contains('/') {
        return text.parse().map(PathsDestination::Prefix).map_err(|error| format!("{error}"));
    }
    match text.parse::<IpAddr>() {
        Ok(address) => Ok(PathsDestination::Prefix(address.into())),
        Err(_) if text.is_empty() => Err("write a prefix, an address or the name of a host".to_owned()),
        Err(_) => Ok(PathsDestination::Host(text.to_owned())),
    }
}

/// Parses a number of bytes, from 1; an error says what is accepted.
pub(crate) fn amount(text: &str) -> Result<ByteCount, String> {
    let size: ByteCount = text.parse().map_err(|error| format!("{error}"))?;
    if size.is_zero() { Err("one byte is the least".into()) } else { Ok(size) }
}

/// Parses the size of a socket buffer; an error says what is accepted.
pub(crate) fn window(text: &str) -> Result<ByteCount, String> {
    let size: ByteCount = text.parse().map_err(|error| format!("{error}"))?;
    if !(LEAST_WINDOW..=ByteCount::new(MAX_WINDOW)).contains(&size) {
        return Err(format!("a window has from {LEAST_WINDOW} to {}", ByteCount::new(MAX_WINDOW)));
    }
    Ok(size)
}

/// Reads a range of ports: `P` or `LOW-HIGH`; an error says what is accepted.
pub(crate) fn port_range(text: &str) -> Result<Ports, String> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let port = |digits: &str| digits.parse().ok().filter(|port| *port != 0);
    match (port(low), port(high)) {
        (Some(low), Some(high)) if low <= high => Ok(Ports::Range { low, high }),
        (Some(low), Some(high)) => Err(format!("the range is empty; write {high}-{low}")),
        _ => Err("ports are numbers from 1 to 65535; write 5000 or 5000-5010".into()),
    }
}

/// Parses network devices, or addresses of this host, between commas. Whether this host has them is
/// not checked: a command may be written on one host and run on another.
pub(crate) fn egresses(text: &str) -> Result<Egresses, String> {
    let read = |word: &str| word.parse::<Egress>().map_err(|error| format!("{word:?}: {error}"));
    let egresses = text.split(',').map(read).collect::<Result<Egresses, _>>()?;
    match egresses.iter().count() <= usize::from(MAX_STREAMS) {
        true => Ok(egresses),
        false => Err(format!("name at most {MAX_STREAMS}, one for each connection that there can be")),
    }
}

/// Reads a list of what to preserve; an error says what is accepted.
pub(crate) fn preserve(text: &str) -> Result<Preserve, String> {
    let nothing = Preserve::NOTHING;
    match text {
        "none" => return Ok(nothing),
        "all" => {
            // Labels mean something on hosts of one policy only.
            return Ok(Preserve {
                mode: true,
                times: true,
                links: true,
                owner: true,
                xattr: true,
                sparse: true,
                acl: true,
                specials: true,
                security: false,
            });
        }
        _ => {}
    }
    let mut preserve = nothing;
    for word in text.split(',') {
        let kinds = preserve.kinds();
        let known = kinds.each_ref().map(|(known, _)| *known);
        match kinds.into_iter().find(|(known, _)| *known == word) {
            Some((_, is_carried)) => *is_carried = true,
            None => return Err(format!("{word:?} is none of {} (or all, or none, alone)", known.join(", "))),
        }
    }
    if preserve.security && !preserve.owner {
        return Err("security is preserved together with the owner only: add owner to the list".into());
    }
    // A list without its mode gives other permissions than at the source.
    preserve.mode |= preserve.acl;
    Ok(preserve)
}

/// Parses a limit on deleted items: a number, or hundredths of all items with `%`.
pub(crate) fn max_delete(text: &str) -> Result<MaxDelete, String> {
    let limit = match text.strip_suffix('%') {
        Some(percent) => percent.parse().ok().filter(|percent| *percent <= 100).map(MaxDelete::Percent),
        None => text.parse().ok().map(MaxDelete::Items),
    };
    limit.ok_or_else(|| "write a number of items, such as 1000, or a part of all, from 0% to 100%".into())
}

/// Parses which snapshots are kept: numbers of days, weeks, months and years, such as `7d,4w,12m`.
pub(crate) fn keep(text: &str) -> Result<Keep, String> {
    let mut keep = Keep::default();
    for part in text.split(',') {
        let unit = part.chars().next_back();
        let kept = match unit {
            Some('d') => &mut keep.days,
            Some('w') => &mut keep.weeks,
            Some('m') => &mut keep.months,
            Some('y') => &mut keep.years,
            _ => return Err(format!("{part:?}: {KEEP}")),
        };
        let number = part[..part.len() - 1].parse().ok().filter(|number| *number > 0 && *kept == 0);
        *kept = number.ok_or_else(|| format!("{part:?}: {KEEP}"))?;
    }
    Ok(keep)
}

/// Error for a malformed value of `--keep`.
const KEEP: &str =
    "write numbers of days, weeks, months and years, each at most once and from 1 to 65535, such as 7d,4w,12m,5y";

/// Parses a time limit, which must not be zero.
pub(crate) fn limit(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error| format!("{error}"))?;
    if span == Span::ZERO { Err("it needs some time".into()) } else { Ok(span) }
}

/// Parses `--webhook`: the URL of a web server that is told of the end, or `@FILE` for a file with
/// the URL, which is read.
pub(crate) fn webhook(text: &str) -> Result<Target, TargetFileError> {
    match text.strip_prefix('@') {
        Some(path) => Target::read(path.as_ref()),
        None => Ok(text.parse()?),
    }
}

/// Parses, and resolves if it is a name, the address of a collector of fireflies; the port may be
/// left out.
pub(crate) fn collector(text: &str) -> Result<SocketAddr, String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, icdc_scitags::marker::PORT));
    }
    let with_port = if text.contains(':') { text.to_owned() } else { format!("{text}:{}", icdc_scitags::marker::PORT) };
    let mut found = with_port.to_socket_addrs().map_err(|error| format!("{error}"))?;
    found.next().ok_or_else(|| "it has no address".to_owned())
}

/// Reads the address to listen on; an error says what is accepted.
pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address);
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, DAEMON_PORT));
    }
    if let Some(port) = text.strip_prefix(':').and_then(|port| port.parse().ok()) {
        return Ok(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port));
    }
    Err("expected an address of this host and a port, such as 192.0.2.7:2633, [::1]:2633, or :2633 for all addresses"
        .into())
}

/// Reads the address of a daemon; an error says what is accepted.
pub(crate) fn daemon_address(text: &str) -> Result<DaemonAddress, String> {
    let expected = || "expected HOST, HOST:PORT or [IPV6-ADDRESS]:PORT".to_owned();
    // The same rules as in a URL, so that what is remembered is what `copy` looks up.
    match Location::parse(format!("icdc://{text}").as_ref()) {
        Ok(Location::Daemon { host, port, .. }) if !text.contains('/') => Ok(DaemonAddress { host, port }),
        _ => Err(expected()),
    }
}

/// Reads a comment of a key; an error says what is accepted.
pub(crate) fn comment(text: &str) -> Result<String, String> {
    if text.contains(char::is_control) {
        return Err("a comment is one line of text".into());
    }
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_streams_are_whole_blocks() {
        assert_eq!(stream_place("0"), Ok(ByteCount::ZERO));
        assert_eq!(stream_place("8388608"), Ok(ByteCount::from_mib(8)));
        for wrong in ["", "5", "8MiB", "-4194304", "4194305", "18446744073709551616"] {
            assert!(stream_place(wrong).unwrap_err().contains("stream_durable"), "{wrong}");
        }
    }

    #[test]
    fn names_of_copies_are_printable_and_no_numbers_or_commands() {
        for name in ["nightly", "a", "run 7 @b:x=1", "4711a", "Status", &"x".repeat(64)] {
            assert_eq!(copy_name(name).as_ref().map(CopyName::as_str), Ok(name));
        }
        for name in ["", "a/b", "4711", "status", "help", "-a", " a", "a ", "a\nb", "ä", "a\u{7f}", &"x".repeat(65)] {
            assert!(copy_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn rates_have_a_floor_and_auto_has_none() {
        assert_eq!(compress("auto"), Ok(Compress::Auto));
        assert_eq!(compress("never"), Ok(Compress::Never));
        assert_eq!(compress("19"), Ok(Compress::Level(19)));
        for wrong in ["0", "20", "-1", "", "zstd", "3.5", "300"] {
            assert!(compress(wrong).is_err_and(|error| error.contains("from 1 to 19")), "{wrong}");
        }
        assert_eq!(ceiling("auto"), Ok(Ceiling(None)));
        assert_eq!(ceiling("900mbit"), Ok(Ceiling(Some(Rate::from_bits_per_second(900_000_000)))));
        for text in ["0bit", "7kbit", "900", "fast", ""] {
            assert!(ceiling(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_seconds_unless_said_otherwise() {
        assert_eq!(seconds("10"), Ok(Span::from_secs(10)));
        assert_eq!(seconds("0.5"), Ok(Span::from_millis(500)));
        assert_eq!(seconds("2min"), Ok(Span::from_secs(120)));
        for text in ["", "0", "-1", "2d", "86401", "ten"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        assert_eq!(round_trip("150ms"), Ok(Span::from_millis(150)));
        assert!(round_trip("150").is_err() && round_trip("1ns").is_err() && round_trip("2min").is_err());
        assert_eq!(window("1MiB"), Ok(ByteCount::from_mib(1)));
        assert!(window("1").is_err() && window("2GiB").is_err() && amount("0").is_err());
    }

    #[test]
    fn ports_are_one_or_a_range() {
        assert_eq!(port_range("5000"), Ok(Ports::Range { low: 5000, high: 5000 }));
        assert_eq!(port_range("5000-5010"), Ok(Ports::Range { low: 5000, high: 5010 }));
        assert_eq!(port_range("5010-5000"), Err("the range is empty; write 5000-5010".into()));
        for text in ["", "0", "0-5", "65536", "5000-", "-5000", "a-b", "1-2-3"] {
            assert!(port_range(text).is_err(), "{text}");
        }
    }

    #[test]
    fn connections_leave_by_devices_and_addresses() {
        assert_eq!(egresses("eth0").unwrap().connections(), 1);
        let three = egresses("eth0,192.0.2.7,2001:db8::7").unwrap();
        assert_eq!(three.iter().map(Egress::to_string).collect::<Vec<_>>(), ["eth0", "192.0.2.7", "2001:db8::7"]);
        for text in ["", "eth0,", ",", "eth0, eth1", "a/b", "fe80::1", &["lo"; 65].join(",")] {
            assert!(egresses(text).is_err(), "{text}");
        }
    }

    #[test]
    fn preserve_is_exactly_what_is_listed() {
        let listed = preserve("xattr,owner").unwrap();
        assert!(listed.xattr && listed.owner && !listed.mode && !listed.sparse);
        for text in ["", "mode,", "mode,all", "acls"] {
            assert!(preserve(text).is_err(), "{text}");
        }
    }

    #[test]
    fn congestion_names_are_names() {
        assert_eq!(congestion("icdc_highspeed"), Ok(Congestion(Some("icdc_highspeed".into()))));
        for text in ["", "a b", "sixteen_letters_", "../cubic"] {
            assert!(congestion(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_get_the_daemon_port() {
        assert_eq!(listen_address("127.0.0.1").unwrap().to_string(), "127.0.0.1:2633");
        assert_eq!(listen_address("[::1]").unwrap().to_string(), "[::1]:2633");
        assert_eq!(listen_address(":7").unwrap().to_string(), "[::]:7");
        assert!(listen_address("localhost:7").is_err());
        let address = |host: &str, port| Ok(DaemonAddress { host: host.into(), port });
        assert_eq!(daemon_address("h"), address("h", 2633));
        assert_eq!(daemon_address("[::1]:7"), address("::1", 7));
        for text in ["", "h/p", "u@h", "h:0", "::1", "-h"] {
            assert!(daemon_address(text).is_err(), "{text}");
        }
    }
}
