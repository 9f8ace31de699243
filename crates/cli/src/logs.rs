//! Log lines on standard error, chosen by `RUST_LOG`.

use std::io;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::console::Console;

/// Starts logging; `usual` applies where `RUST_LOG` is not set. A filter that cannot be read is
/// named and not used.
pub(crate) fn start(console: &Console, usual: &str) {
    let filter = match std::env::var("RUST_LOG").ok().filter(|text| !text.is_empty()) {
        None => EnvFilter::new(usual),
        Some(text) => EnvFilter::try_new(&text).unwrap_or_else(|error| {
            console.complain(&format!("RUST_LOG={text}: {error}; write for example RUST_LOG=icdc=debug"));
            EnvFilter::new(usual)
        }),
    };
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(Writer(console.clone())).init();
}

/// Writes log lines above the progress bar.
struct Writer(Console);

impl MakeWriter<'_> for Writer {
    type Writer = Line;

    fn make_writer(&self) -> Line {
        Line(self.0.clone())
    }
}

struct Line(Console);

impl io::Write for Line {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.print(&String::from_utf8_lossy(text));
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
