//! Paths of a command line, by the hosts that have them.

use anyhow::ensure;
use icdc_client::Location;
use icdc_protocol::limits::{MAX_ASKED_BYTES, MAX_SOURCES};

/// A host of a command line, with all paths on it that the command line names.
pub(super) struct Host {
    /// The first of the places, which tells how the host is reached.
    pub(super) place: Location,
    pub(super) paths: Vec<Vec<u8>>,
}

/// Groups the places of a command line by their hosts, in the order in which these are named.
///
/// # Errors
/// There are too many on one.
pub(super) fn by_host(places: Vec<Location>) -> anyhow::Result<Vec<Host>> {
    let mut hosts: Vec<Host> = Vec::new();
    for place in places {
        let path = place.path().to_vec();
        match hosts.iter_mut().find(|host| is_same_host(&host.place, &place)) {
            Some(host) => host.paths.push(path),
            None => hosts.push(Host { place, paths: vec![path] }),
        }
    }
    for Host { place, paths } in &hosts {
        let bytes: usize = paths.iter().map(Vec::len).sum();
        ensure!(
            !place.is_remote() || paths.len() <= MAX_SOURCES && bytes <= MAX_ASKED_BYTES,
            "more paths than can be asked of another host at once; name a directory, or write a pattern in quotes"
        );
    }
    Ok(hosts)
}

/// Whether both locations are on one host, reached in one way.
fn is_same_host(one: &Location, other: &Location) -> bool {
    match (one, other) {
        (Location::Local(_), Location::Local(_)) => true,
        (Location::Ssh { host, .. }, Location::Ssh { host: other, .. }) => host == other,
        (Location::Daemon { host, port, .. }, Location::Daemon { host: other, port: other_port, .. }) => {
            (host, port) == (other, other_port)
        }
        _ => false,
    }
}

/// Text that is put before a path of this host when it is shown; empty for this host.
pub(super) fn prefix(place: &Location) -> String {
    match place.clone() {
        Location::Local(_) => String::new(),
        Location::Ssh { host, .. } => Location::Ssh { host, path: Vec::new() }.to_string(),
        Location::Daemon { host, port, .. } => Location::Daemon { host, port, path: Vec::new() }.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_asked_of_their_host_at_once() {
        let parse = |text: &str| Location::parse(text.as_ref()).unwrap();
        let places = ["h:a", "b", "h:c", "icdc://h/d", "icdc://h:7/e", "u@h:f", "icdc://h/g"].map(parse).to_vec();
        let found = by_host(places).unwrap();
        let shown: Vec<(String, Vec<String>)> = found
            .iter()
            .map(|host| {
                let paths = host.paths.iter().map(|path| String::from_utf8_lossy(path).into_owned());
                (prefix(&host.place), paths.collect())
            })
            .collect();
        let expected: Vec<(&str, &[&str])> = vec![
            ("h:", &["a", "c"]),
            ("", &["b"]),
            ("icdc://h", &["/d", "/g"]),
            ("icdc://h:7", &["/e"]),
            ("u@h:", &["f"]),
        ];
        let expected: Vec<(String, Vec<String>)> = expected
            .into_iter()
            .map(|(prefix, paths)| (prefix.to_owned(), paths.iter().map(|path| (*path).to_owned()).collect()))
            .collect();
        assert_eq!(shown, expected);
    }
}
