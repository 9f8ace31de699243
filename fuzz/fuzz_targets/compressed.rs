//! A compressed payload as it comes from the wire: expanded to exactly the length that its message
//! states, in which another trip finds nothing changed, or refused.
//!
//! ```text
//! input: length: u32 LE; frame
//! ```

#![no_main]

use icdc_protocol::compression::{Compressor, Expander};
use libfuzzer_sys::fuzz_target;

/// Bytes of a block, of which those beyond the stated length stay as they are.
const BLOCK: usize = 1 << 16;

fuzz_target!(|bytes: &[u8]| {
    let Some((length, frame)) = bytes.split_first_chunk() else {
        return;
    };
    let length = u32::from_le_bytes(*length) as usize;
    if frame.len() > BLOCK {
        return;
    }
    let mut block = vec![0xa5; BLOCK];
    block[..frame.len()].copy_from_slice(frame);
    let mut expander = Expander::default();
    let expanded = expander.expand(&mut block, frame.len(), length);
    let written = length.max(frame.len()).min(BLOCK);
    assert!(block[written..].iter().all(|byte| *byte == 0xa5));
    if expanded.is_err() {
        return;
    }
    assert!(frame.len() < length && length <= BLOCK);
    let plain = block[..length].to_vec();
    if let Some(again) = Compressor::default().compress(&plain, 1) {
        block[..again.len()].copy_from_slice(again);
        let again = again.len();
        expander.expand(&mut block, again, length).expect("what was compressed here is sound");
        assert!(block[..length] == plain);
    }
});
