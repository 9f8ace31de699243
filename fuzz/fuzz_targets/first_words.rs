//! What a far side prints before a link begins: however it comes, the far end's greeting is found or not, nothing behind it
//! is read, and what messages show of the rest is bounded and printable.

#![no_main]

use std::io::Read;

use libfuzzer_sys::fuzz_target;

/// The product's own files; it has no public name for them.
#[path = "../../crates/client/src/connect"]
#[allow(dead_code, unreachable_pub)]
mod connect {
    mod foreign_text;
    mod preamble;

    /// What is read of `output`: whether a greeting was found, the notice of what came before it, and its last line.
    pub fn read(output: &mut impl std::io::Read) -> (bool, Option<String>, String) {
        let mut preamble = preamble::Preamble::default();
        let found = preamble::find_marker(output, &mut preamble, || {}).is_ok();
        (found, preamble.notice("far"), preamble.last)
    }
}

/// Gives so many bytes at a time, as a pipe may.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = self.1.min(buffer.len());
        self.0.read(&mut buffer[..most])
    }
}

fuzz_target!(|output: &[u8]| {
    let mut whole = output;
    let read = connect::read(&mut whole);
    let (found, notice, last) = &read;
    let before = &output[..output.len() - whole.len()];
    if *found {
        let line = before.strip_suffix(b"\n").expect("it ends a line").rsplit(|&byte| byte == b'\n').next();
        assert!(line.is_some_and(|line| line.starts_with(b"ICDC-FAR-END ")), "{line:?}");
    } else {
        assert!(whole.is_empty(), "it gave up before the output's end");
    }
    for text in notice.iter().chain([last]) {
        assert!(text.len() < 2200 && !text.contains(char::is_control), "{text:?}");
    }
    let mut pieces = Pieces(output, 3);
    assert_eq!(connect::read(&mut pieces), read);
    assert_eq!(pieces.0, whole);
});
