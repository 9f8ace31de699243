//! A file of known hosts: each line is read, or refused with its number.

#![no_main]

use std::path::Path;

use icdc_trust::{HostKey, KnownHosts, PublicKey};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match KnownHosts::parse(text, Path::new("/etc/hosts")) {
        Ok(hosts) => {
            // No line that was read gives a host without a key away as known.
            let stranger = PublicKey::parse_line("icdc-ed25519 AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
            if let Ok((stranger, _)) = stranger {
                let mentions = text.contains("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
                assert!(mentions || !matches!(hosts.check("host.example", 2633, &stranger), HostKey::Known));
            }
        }
        Err(error) => {
            let told = error.to_string();
            let number = told.strip_prefix("/etc/hosts:").and_then(|rest| rest.split(':').next());
            let number: usize = number.and_then(|number| number.parse().ok()).expect("a line is named");
            assert!((1..=text.lines().count()).contains(&number), "{told}");
        }
    }
});
