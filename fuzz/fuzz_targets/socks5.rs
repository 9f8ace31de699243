//! A SOCKS client as it comes from the wire: no stage uses more than has arrived, and what it asks
//! for is a destination. And a proxy that answers the same bytes to a client, which reads no more
//! than a reply can have.

#![no_main]

use icdc_protocol::relay::Destination;
use icdc_protocol::relay::socks5::{Handshake, Login, Step};
use icdc_protocol::relay::socks5_client::{Client, Progress};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, &[u8])| {
    let (needs_login, mut rest) = input;
    answered(needs_login, rest);
    let mut handshake = Handshake::new(needs_login);
    loop {
        let used = match handshake.advance(rest) {
            Ok(Step::More) | Err(_) => return,
            Ok(Step::Answer(used, answer)) => {
                assert_eq!(answer.len(), 2);
                used
            }
            Ok(Step::Login(used, _)) => {
                let _ = handshake.login(true);
                used
            }
            Ok(Step::Request(used, destination)) => {
                assert!(used <= rest.len());
                assert_eq!(destination.to_string().parse::<Destination>(), Ok(destination));
                return;
            }
        };
        assert!(used > 0);
        rest = &rest[used..];
    }
});

fn answered(has_login: bool, mut rest: &[u8]) {
    let login = has_login.then(|| Login { user: b"user".to_vec(), password: b"password".to_vec() });
    let destination = "host.example:5000".parse().expect("a destination");
    let (mut client, _) = Client::new(destination, login).expect("the login is short");
    let mut read = 0;
    while let Some((front, behind)) = rest.split_at_checked(client.missing().min(rest.len()).max(1)) {
        read += front.len();
        assert!(read <= 2 + 2 + 4 + 1 + 255 + 2);
        match client.receive(front) {
            Ok(Progress::More | Progress::Send(_)) => rest = behind,
            Ok(Progress::Connected) | Err(_) => return,
        }
    }
}
