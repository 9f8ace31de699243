//! A receipt as somebody has sent or stored it: a line that is parsed is the only text of it, no fact
//! makes another line, and a signature is one or none.

#![no_main]

use icdc_protocol::receipt::NAMESPACE;
use icdc_protocol::receipt::escape::{escaped, unescaped};
use icdc_protocol::receipt::facts;
use icdc_protocol::receipt::items::Items;
use icdc_protocol::receipt::line::Line;
use icdc_trust::{FileHash, FileSignature};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut good = 0;
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Some(parsed) = Line::parse(line) {
            let mut again = Vec::new();
            parsed.write(&mut again);
            assert_eq!(again.split_last(), Some((&b'\n', line)));
            assert!(!parsed.path.is_empty() && parsed.mtime.1 < 1_000_000_000);
            good += 1;
        }
        if let Some(path) = unescaped(line) {
            assert_eq!(escaped(&path), line);
        }
    }
    let mut items = Items::default();
    if items.add(bytes).is_ok() {
        assert!(items.counts().items <= good && items.counts().unverified <= items.counts().items);
    }
    for found in [facts::head(bytes), facts::foot(bytes)].into_iter().flatten() {
        assert!(found.iter().all(|(name, value)| !name.contains(": ") && !value.contains('\n')));
    }
    if let Ok(signature) = FileSignature::parse(bytes, NAMESPACE) {
        let _ = signature.is_of(NAMESPACE, FileHash::default());
        assert_eq!(FileSignature::parse(signature.to_text(NAMESPACE).as_bytes(), NAMESPACE), Ok(signature));
    }
});
