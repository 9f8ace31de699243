//! Log lines on standard error, chosen by `RUST_LOG`.

use std::io;

pub(crate) use tracing::level_filters::LevelFilter as Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::prelude::*;

use crate::console::Console;

/// Starts logging; `usual` applies where `RUST_LOG` is not set. A filter that cannot be read is
/// named and not used.
pub(crate) fn start(console: &Console, usual: Level) {
    let usual = Targets::new().with_default(usual);
    let filter = match std::env::var("RUST_LOG").ok().filter(|text| !text.is_empty()) {
        None => usual,
        Some(text) => text.parse().unwrap_or_else(|error| {
            console.complain(&format!("RUST_LOG={text}: {error}; write for example RUST_LOG=icdc=debug"));
            usual
        }),
    };
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(Writer(console.clone()));
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
}

/// Makes writers that print log lines above the progress bar.
struct Writer(Console);

impl MakeWriter<'_> for Writer {
    type Writer = Line;

    fn make_writer(&self) -> Line {
        Line(self.0.clone())
    }
}

/// Writer of one log line to the console.
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
