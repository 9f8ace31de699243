//! `--via`: the route that data takes, as typed and as it is used.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context as _, ensure};
use icdc_client::{Login, Proxy, ProxyKind, Via};
use icdc_protocol::relay::Destination;

/// Environment variable with the login for a SOCKS proxy, `USER:PASSWORD`: others cannot read it,
/// as they could a command line.
const LOGIN: &str = "ICDC_PROXY_LOGIN";
/// Longest text of a login in bytes, with a line's end.
const MAX_LOGIN: u64 = 255 + 1 + 255 + 2;

/// The route that data takes, the value of `--via` as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The first route that works.
    Auto,
    /// Connections of this host to the other one.
    Direct,
    /// Datagrams to the other host.
    Udp,
    /// Connections of the other host back to this one.
    Back,
    /// Channels within ssh.
    Ssh,
    /// Connections through this relay.
    Relay(Destination),
    /// Connections through this SOCKS 5 proxy.
    Socks5(Destination),
}

impl FromStr for Route {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let place = |text: &str| text.parse::<Destination>().map_err(|error| error.to_string());
        match (text, text.strip_prefix("relay:"), text.strip_prefix("socks5://")) {
            ("auto", ..) => Ok(Self::Auto),
            ("direct", ..) => Ok(Self::Direct),
            ("udp", ..) => Ok(Self::Udp),
            ("back", ..) => Ok(Self::Back),
            ("ssh", ..) => Ok(Self::Ssh),
            (_, Some(relay), _) => place(relay).map(Self::Relay),
            (_, _, Some(proxy)) if proxy.contains('@') => Err(format!(
                "others can read a login here; write USER:PASSWORD into a file and name it with --proxy-login, or into {LOGIN}"
            )),
            (_, _, Some(proxy)) => place(proxy.strip_suffix('/').unwrap_or(proxy)).map(Self::Socks5),
            _ => Err("write auto, direct, udp, back, ssh, relay:HOST:PORT or socks5://HOST:PORT".to_owned()),
        }
    }
}

impl Route {
    /// The route for a copy, with the login for a SOCKS proxy: from this file, or else from the
    /// environment.
    pub(crate) fn with_login(self, file: Option<&Path>) -> anyhow::Result<Via> {
        ensure!(
            file.is_none() || matches!(self, Self::Socks5(_)),
            "--proxy-login is for --via socks5://HOST:PORT; leave it out"
        );
        Ok(match self {
            Self::Auto => Via::Auto,
            Self::Direct => Via::Direct,
            Self::Udp => Via::Udp,
            Self::Back => Via::Back,
            Self::Ssh => Via::Ssh,
            Self::Relay(place) => Via::Proxy(Proxy { kind: ProxyKind::Relay, place }),
            Self::Socks5(place) => Via::Proxy(Proxy { kind: ProxyKind::Socks5(login(file)?), place }),
        })
    }
}

/// Reads the login for a SOCKS proxy from the file, or else from the environment; `None` if there
/// is none.
fn login(file: Option<&Path>) -> anyhow::Result<Option<Login>> {
    match (file, std::env::var_os(LOGIN)) {
        (Some(path), _) => {
            let named = || format!("--proxy-login {}", path.display());
            let parsed = |text: Vec<u8>| parse(text.split(|&byte| byte == b'\n').next().unwrap_or_default());
            read_private(path).and_then(parsed).with_context(named).map(Some)
        }
        (None, Some(text)) if !text.is_empty() => {
            parse(OsString::as_os_str(&text).as_encoded_bytes()).context(LOGIN).map(Some)
        }
        (None, _) => Ok(None),
    }
}

/// Reads a file that only its owner can read.
fn read_private(path: &Path) -> anyhow::Result<Vec<u8>> {
    let file = File::open(path)?;
    let mode = file.metadata()?.mode();
    ensure!(
        mode & 0o077 == 0,
        "other users can read the password (mode {:04o}); run `chmod 600 {}`",
        mode & 0o7777,
        path.display()
    );
    let mut text = Vec::new();
    file.take(MAX_LOGIN + 1).read_to_end(&mut text)?;
    Ok(text)
}

/// Parses `USER:PASSWORD`.
fn parse(text: &[u8]) -> anyhow::Result<Login> {
    let colon = text.iter().position(|&byte| byte == b':').context("expected USER:PASSWORD")?;
    let (user, password) = (&text[..colon], &text[colon + 1..]);
    ensure!(
        (1..=255).contains(&user.len()) && password.len() <= 255,
        "user and password have at most 255 bytes each, the user one at least"
    );
    Ok(Login { user: user.to_vec(), password: password.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_read() {
        let place = |text: &str| text.parse().unwrap();
        assert_eq!("auto".parse(), Ok(Route::Auto));
        assert_eq!("udp".parse(), Ok(Route::Udp));
        assert_eq!("relay:r.example:2634".parse(), Ok(Route::Relay(place("r.example:2634"))));
        assert_eq!("socks5://[::1]:1080/".parse(), Ok(Route::Socks5(place("[::1]:1080"))));
        for text in ["", "relay:", "relay:host", "socks5://host", "socks5:host:1", "socks5://host:0", "http://h:1"] {
            assert!(text.parse::<Route>().is_err(), "{text}");
        }
        let refused = "socks5://anna:secret@host:1080".parse::<Route>().unwrap_err();
        assert!(refused.contains("--proxy-login") && !refused.contains("secret"), "{refused}");
    }

    #[test]
    fn a_login_has_a_user_and_may_have_colons_in_the_password() {
        let login = parse(b"anna:se:cret").unwrap();
        assert_eq!((login.user.as_slice(), login.password.as_slice()), (&b"anna"[..], &b"se:cret"[..]));
        for text in [&b""[..], b"anna", b":x", &[b'x'; 300]] {
            assert!(parse(text).is_err());
        }
    }
}
