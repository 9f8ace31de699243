//! As much of HTTP as asking servers on loopback takes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::relay::PATIENCE;

/// The body of the answer to `GET PATH`; `accept` is the format that is asked for.
pub fn get(address: SocketAddr, path: &str, accept: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // HTTP/1.0 has no chunks.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: {accept}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{path}: {answer}"));
    assert!(head.contains(" 200 "), "{path}: {answer}");
    body.to_owned()
}

/// A query, escaped.
pub fn escaped(text: &str) -> String {
    let escape = |byte: u8| {
        if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(escape).collect()
}
