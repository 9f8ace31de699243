//! Versions of the other end, by line or by names of TLS: a range that is none is not believed,
//! and what is believed is said the same way.

#![no_main]

use icdc_protocol::version::{LONGEST_LINE, version_named};
use icdc_protocol::{Features, Versions};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], Vec<Vec<u8>>, u64)| {
    let (line, names, bits) = input;
    if let Some(versions) = Versions::parse_line(line) {
        check(versions);
        assert_eq!(Versions::parse_line(versions.line().as_bytes()), Some(versions));
    }
    if let Some(versions) = Versions::named(&names) {
        check(versions);
        assert_eq!(Versions::named(&versions.names()), Some(versions));
        assert!(names.iter().filter_map(|name| version_named(name)).any(|version| version == versions.highest()));
    }
    let features = Features::from_bits(bits);
    let all = features.union(Features::OURS);
    assert!(all.has(features) && all.has(Features::OURS));
});

fn check(versions: Versions) {
    assert!(versions.lowest() >= 1 && versions.lowest() <= versions.highest());
    assert!(versions.highest() - versions.lowest() < 64);
    assert!(versions.line().len() <= LONGEST_LINE);
    assert_eq!(versions.common(versions), Some(versions.highest()));
}
