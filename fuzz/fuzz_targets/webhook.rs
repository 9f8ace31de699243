//! The answer of a web server to a request of `--webhook`: accepted, refused or given up, within its time, whatever the
//! server says. Both are connected over loopback.

#![no_main]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use icdc_hooks::{Target, Webhook};
use icdc_stop::StopSignal;
use icdc_units::Span;
use libfuzzer_sys::fuzz_target;

/// Length of the request's body, by which the server knows the end of a request.
const BODY: &str = "{\"type\":\"copy\"}";

fuzz_target!(|answer: &[u8]| {
    let (address, answers) = server();
    answers.send(answer.to_vec()).expect("the server runs as long as this process");
    let target: Target = format!("http://{address}/hook").parse().expect("a URL");
    let hook = Webhook::new(target, None, Span::from_secs(5)).expect("no certificates are needed");
    // What is told to stop does not try again.
    let stop = StopSignal::new();
    stop.request();
    if hook.post(BODY, &stop).is_ok() {
        let text = String::from_utf8_lossy(answer);
        assert!(text.contains(" 2"), "accepted without a status that says so: {text}");
    }
});

/// The server, which gives each connection the next answer and closes it.
fn server() -> &'static (SocketAddr, SyncSender<Vec<u8>>) {
    static SERVER: OnceLock<(SocketAddr, SyncSender<Vec<u8>>)> = OnceLock::new();
    SERVER.get_or_init(|| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let (sender, answers) = sync_channel::<Vec<u8>>(1);
        thread::spawn(move || {
            for answer in answers {
                let Ok((mut client, _)) = listener.accept() else { return };
                let _ = client.set_read_timeout(Some(Duration::from_secs(5)));
                let mut request = Vec::new();
                let mut buffer = [0; 4096];
                while !request.ends_with(BODY.as_bytes()) {
                    match client.read(&mut buffer) {
                        Ok(read @ 1..) => request.extend_from_slice(&buffer[..read]),
                        _ => break,
                    }
                }
                let _ = client.write_all(&answer);
            }
        });
        (address, sender)
    })
}
