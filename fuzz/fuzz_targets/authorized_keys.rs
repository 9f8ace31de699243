//! A file of authorized keys: whatever stands there, each line is read or refused with its number,
//! and what was read keeps to what its options say.

#![no_main]

use std::net::IpAddr;
use std::path::Path;
use std::time::SystemTime;

use icdc_trust::{AuthorizedKeys, PublicKey};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match AuthorizedKeys::parse(text, Path::new("/etc/keys")) {
        Ok(keys) => read(&keys),
        Err(error) => {
            let told = error.to_string();
            let number = told.strip_prefix("/etc/keys:").and_then(|rest| rest.split(':').next());
            let number: usize = number.and_then(|number| number.parse().ok()).expect("a line is named");
            assert!((1..=text.lines().count()).contains(&number), "{told}");
        }
    }
    // Both forms of a key mean the same one.
    if let Ok((key, _)) = PublicKey::parse_line(text) {
        assert_eq!(key.ssh_line().parse::<PublicKey>().expect("its own form"), key);
        assert_eq!(key.to_string().parse::<PublicKey>().expect("its own form"), key);
    }
});

fn read(keys: &AuthorizedKeys) {
    let epoch = SystemTime::UNIX_EPOCH;
    for grant in keys.grants() {
        assert!(grant.root.is_absolute());
        assert!(grant.allows_the_same(grant));
        assert_eq!(grant.has_expired(epoch), grant.expires.is_some_and(|expires| expires <= epoch));
        assert_eq!(grant.admits(None), grant.from.is_none());
        for address in ["192.0.2.7", "::ffff:192.0.2.7", "2001:db8::7"] {
            let address: IpAddr = address.parse().expect("an address");
            assert_eq!(grant.admits(Some(address)), grant.admits(Some(address.to_canonical())));
        }
    }
}
