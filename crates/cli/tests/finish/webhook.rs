//! `--webhook`: what a web server gets, and what happens when it does not want it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::hmac;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

use crate::server::{Server, status};
use crate::support::process::eventually;
use crate::support::{Site, Start};
use crate::{SIZE, daemon, local, push, site};

const SECRET: &str = "correct horse battery staple";

fn secret(site: &Site, mode: u32) -> String {
    file(site, "secret", SECRET, mode)
}

fn file(site: &Site, name: &str, line: &str, mode: u32) -> String {
    let path = site.path(name);
    fs::write(&path, format!("{line}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_server_gets_the_json_signed_with_the_secret() {
    let (site, server) = (site(), Server::start(|_, stream| status(stream, "204 No Content")));
    let ended = local(&site, &["--webhook", &server.url(), "--webhook-secret", &secret(&site, 0o600)]).run();
    let ended = ended.expect_code(0);
    let posted = server.posted();
    assert!(posted.len() == 1 && posted[0].line == "POST /hook?token=SECRET HTTP/1.1", "{posted:?}");
    assert_eq!(posted[0].headers["content-type"], "application/json");
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let tag = hmac::sign(&key, posted[0].body.as_bytes());
    let hex = icdc_units::hexadecimal(tag.as_ref());
    assert_eq!(posted[0].headers["x-icdc-signature"], format!("sha256={hex}"));
    let told: Value = serde_json::from_str(&posted[0].body).unwrap();
    assert_eq!((&told["result"], &told["bytes"]), (&"complete".into(), &SIZE.into()));
    assert!(!ended.stderr.contains("SECRET") && !ended.stderr.contains(SECRET), "{ended}");
}

#[test]
fn a_url_with_a_token_is_read_from_a_file_of_the_user_s_own() {
    let (site, server) = (site(), Server::start(|_, stream| status(stream, "204 No Content")));
    let url = file(&site, "url", &server.url(), 0o600);
    local(&site, &["--webhook", &format!("@{url}")]).run().expect_code(0);
    assert_eq!(server.posted()[0].line, "POST /hook?token=SECRET HTTP/1.1");
    for (name, line, mode, words) in [
        ("open", server.url().as_str(), 0o640, "other users can read it"),
        ("empty", "", 0o600, "expected 1 to"),
        ("none", "ftp://127.0.0.1/", 0o600, "expected a URL"),
    ] {
        let refused = local(&site, &["--webhook", &format!("@{}", file(&site, name, line, mode))]).run().expect_code(2);
        assert!(refused.stderr.contains(words) && !refused.stderr.contains("SECRET"), "{name}: {refused}");
    }
    assert_eq!(server.posted().len(), 1);
}

#[test]
fn a_server_that_cannot_just_now_is_asked_again() {
    let answer = |number, stream: &mut dyn std::io::Write| match number {
        1 => status(stream, "503 Service Unavailable"),
        _ => status(stream, "200 OK"),
    };
    let (site, server) = (site(), Server::start(answer));
    let ended = local(&site, &["--webhook", &server.url()]).run().expect_code(0);
    assert!(server.posted().len() == 2 && ended.stderr.is_empty(), "{ended}");
}

#[test]
fn a_redirect_is_not_followed_and_a_refusal_is_told() {
    let answer = |_, stream: &mut dyn std::io::Write| {
        let _ = write!(stream, "HTTP/1.1 307 Temporary Redirect\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n");
    };
    let (site, server) = (site(), Server::start(answer));
    let ended = local(&site, &["--webhook", &server.url()]).run().expect_code(0);
    assert!(ended.stderr.contains("307") && ended.stderr.contains("redirects are not followed"), "{ended}");
    assert_eq!(server.posted().len(), 1);
    let server = Server::start(|_, stream| status(stream, "403 Forbidden"));
    let ended = local(&site, &["--webhook", &server.url()]).run().expect_code(0);
    assert!(ended.stderr.contains("403") && !ended.stderr.contains("SECRET"), "{ended}");
    assert_eq!(server.posted().len(), 1, "a refusal is final");
}

#[test]
fn a_server_that_does_not_answer_is_given_up_after_three_tries() {
    // It reads, and says nothing until the other end is gone.
    let (site, server) = (site(), Server::start(|_, _| ()));
    let held = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}/", held.local_addr().unwrap());
    let ended = local(&site, &["--webhook", &url, "--webhook-timeout", "200ms"]).run().expect_code(0);
    assert!(ended.stderr.contains("timeout") && ended.stderr.contains("after 3 tries"), "{ended}");
    let ended = local(&site, &["--webhook", &server.url()]).run().expect_code(0);
    assert!(server.posted().len() == 3 && ended.stderr.contains("after 3 tries"), "{ended}");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_copied() {
    let site = site();
    let exposed = secret(&site, 0o644);
    let cases: [(&[&str], &str); 4] = [
        (&["--webhook", "http://127.0.0.1:9/", "--webhook-secret", &exposed], "other users can read it"),
        (&["--webhook", "http://127.0.0.1:9/", "--webhook-secret", "missing"], "missing"),
        (&["--webhook", "127.0.0.1:9"], "expected a URL"),
        (&["--webhook", "https://user:word@127.0.0.1:9/"], "a user or a password"),
    ];
    for (options, reason) in cases {
        let ended = local(&site, options).run().expect_code(2);
        assert!(ended.stderr.contains(reason), "{ended}");
    }
    assert!(!site.path("copied").exists());
}

/// A server for https, by a certificate that an authority of the test has signed.
fn encrypted() -> Server {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/finish/certificates");
    let chain = vec![CertificateDer::from_pem_file(directory.join("server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(directory.join("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap());
    Server::wrapped(
        |_, stream| status(stream, "200 OK"),
        move |stream| Some(StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream)),
    )
}

#[test]
fn https_needs_a_certificate_that_this_host_trusts() {
    let (site, server) = (site(), encrypted());
    let url = format!("https://localhost:{}/", server.address.port());
    let authority = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/finish/certificates/authority.pem");
    let trusting =
        |file: &Path| local(&site, &["--webhook", &url]).env("SSL_CERT_FILE", file).env_remove("SSL_CERT_DIR").run();
    let ended = trusting(&authority).expect_code(0);
    assert!(server.posted().len() == 1 && ended.stderr.is_empty(), "{ended}");
    // The server's own certificate is no authority.
    let other = authority.with_file_name("server.pem");
    let ended = trusting(&other).expect_code(0);
    assert!(ended.stderr.contains("certificate") && server.posted().len() == 1, "{ended}");
    let none = site.path("none.pem");
    fs::write(&none, "").unwrap();
    let ended = trusting(&none).expect_code(2);
    assert!(ended.stderr.contains("ca-certificates"), "{ended}");
}

#[test]
fn a_daemon_tells_a_server_of_its_sessions() {
    let (site, server) = (site(), Server::start(|_, stream| status(stream, "200 OK")));
    let daemon = daemon(&site, &["--webhook", &server.url()]);
    push(&site, &daemon, &[]).run().expect_code(0);
    assert!(eventually(|| server.posted().len() == 1));
    let told: Value = serde_json::from_str(&server.posted()[0].body).unwrap();
    assert_eq!((&told["event"], &told["result"]), (&"session_end".into(), &"complete".into()));
    assert!(!daemon.run().stderr().contains("SECRET"), "{}", daemon.run().stderr());
}
