//! A source or destination as typed: no host is taken for an option of ssh, and what is shown means the
//! same place.

#![no_main]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use libfuzzer_sys::fuzz_target;

// The module by itself: the crate round it brings everything that connects.
#[allow(dead_code, unreachable_pub, reason = "a part of another crate")]
#[path = "../../crates/client/src/location.rs"]
mod location;

use location::Location;

fuzz_target!(|bytes: &[u8]| {
    let Ok(place) = Location::parse(OsStr::from_bytes(bytes)) else { return };
    match &place {
        Location::Local(path) => assert_eq!(path.as_os_str().as_bytes(), bytes),
        Location::Ssh { host, path } => {
            assert!(!host.is_empty() && !host.starts_with('-') && !path.is_empty());
            assert!(!host.chars().any(|character| character.is_control() || character.is_whitespace()));
        }
        Location::Daemon { host, path, .. } => assert!(!host.is_empty() && !host.starts_with('-') && path[0] == b'/'),
    }
    assert_eq!(place.is_remote(), place.host_name().is_some());
    if std::str::from_utf8(bytes).is_ok() {
        let shown = place.to_string();
        assert_eq!(Location::parse(OsStr::new(&shown)), Ok(place), "{shown:?}");
    }
});
