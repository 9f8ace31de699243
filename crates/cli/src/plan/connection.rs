//! Options of reaching hosts, from a command's connection arguments.

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use icdc_client::CopyOptions;
use icdc_tcp::{Egresses, Family};
use icdc_trust::Paths;

use crate::applies::{Hosts, Mismatch};
use crate::arguments::{AddressFamily, ConnectionArguments};
use crate::config::settings::concern;
use crate::keygen::file_or_default;
use crate::route::Route;

/// Options of reaching these hosts, from a command's connection arguments; `streams` is the number
/// of connections, if given.
pub(crate) fn connection(
    arguments: ConnectionArguments,
    streams: Option<u8>,
    hosts: Hosts,
) -> anyhow::Result<CopyOptions> {
    refuse_on_reaching(&arguments, hosts)?;
    // Without a daemon nobody looks into these files, and there need not be a home.
    let file = |given, option, default: fn(Paths) -> PathBuf| match file_or_default(given, option, default) {
        Err(_) if !hosts.by_daemon => Ok(PathBuf::new()),
        result => result,
    };
    let mut options = CopyOptions::new(
        file(arguments.identity, "--identity", |paths| paths.identity)?,
        file(arguments.known_hosts, "--known-hosts", |paths| paths.known_hosts)?,
    );
    options.via = arguments.via.with_login(arguments.proxy_login.as_deref())?;
    options.ssh = arguments.ssh;
    options.remote_icdc = arguments.remote_icdc;
    options.send_self = arguments.send_self;
    options.ports = arguments.port.unwrap_or_default();
    options.family = match (arguments.ipv4, arguments.ipv6, arguments.family) {
        (true, ..) => Family::V4,
        (_, true, _) => Family::V6,
        (.., AddressFamily::Any) => Family::Any,
        (.., AddressFamily::Ipv4) => Family::V4,
        (.., AddressFamily::Ipv6) => Family::V6,
    };
    options.egresses = checked(arguments.bind.unwrap_or_default(), options.family, streams)?;
    Ok(options)
}

/// Refuses options on reaching hosts that these hosts, or the route to them, have no use for.
fn refuse_on_reaching(arguments: &ConnectionArguments, hosts: Hosts) -> anyhow::Result<()> {
    let given =
        [("send-self", arguments.send_self), ("via", arguments.via != Route::Auto), ("bind", arguments.bind.is_some())];
    for (key, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
        let Some(mismatch) = concern(key).mismatch(hosts, &arguments.via) else { continue };
        bail!(match (key, mismatch) {
            ("send-self", _) => {
                "--send-self is for hosts that ssh reaches, and none is named; write [USER@]HOST, or leave it out"
            }
            ("via", Mismatch::RouteForSsh) => {
                "--via back and --via ssh are for hosts that ssh reaches; write [USER@]HOST, or leave it out for a daemon"
            }
            ("via", Mismatch::RouteToOneHost) => {
                "--via: between two remote hosts data goes from one to the other, direct or back; for other routes, copy to this \
                 host first"
            }
            ("via", _) => "--via chooses the route to a remote host; leave it out for a copy within this host",
            (_, Mismatch::RouteConnects) => {
                "--bind is for TCP connections that icdc makes on this host, and by --via udp, back or ssh it makes none: leave one \
                 of the two out"
            }
            _ => {
                "--bind chooses by what data connections of this host leave, and it makes none in this copy: leave it out"
            }
        });
    }
    Ok(())
}

/// Checks that connections of this address family, `streams` of them if given, can leave this host
/// by every given egress (`--bind`), and returns the egresses.
fn checked(egresses: Egresses, family: Family, streams: Option<u8>) -> anyhow::Result<Egresses> {
    let least = egresses.connections();
    ensure!(
        streams.is_none_or(|streams| streams >= least),
        "--streams: --bind names {least}, and each takes a connection; give {least} or more, or leave --streams out"
    );
    for egress in egresses.iter() {
        let fits = family.and(egress.family()).is_some();
        ensure!(fits, "--bind {egress}: it is no {family} address; name another, or leave -4, -6 and --family out");
        egress.check().with_context(|| format!("--bind {egress}"))?;
    }
    Ok(egresses)
}
