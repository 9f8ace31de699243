//! A SOCKS client as it comes from the wire: no stage uses more than has arrived, and what it asks
//! for is a destination.

#![no_main]

use icdc_protocol::relay::Destination;
use icdc_protocol::relay::socks5::{Handshake, Step};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, &[u8])| {
    let (needs_login, mut rest) = input;
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
