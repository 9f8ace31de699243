//! The metrics of every part, as the running program gives them. A new part is a line in [`all`].

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::support::daemon::Daemon;
use crate::support::http;
use crate::support::network::Pair;
use crate::support::process::{Run, eventually};
use crate::support::relay::{Relay, connect, echo, exchange};
use crate::support::{Signal, Site, Start};

/// A part at work, and where its metrics are.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) place: Place,
    /// Keeps it running.
    _keeps: Box<dyn std::any::Any>,
}

/// Where metrics are to be had.
pub(crate) enum Place {
    /// `GET /metrics`
    Endpoint(SocketAddr),
    /// A file for a textfile collector.
    File(PathBuf),
}

impl Part {
    /// Its metrics in the classic text format.
    pub(crate) fn text(&self) -> String {
        match &self.place {
            Place::Endpoint(address) => http::get(*address, "/metrics", "text/plain"),
            Place::File(path) => std::fs::read_to_string(path).unwrap(),
        }
    }
}

/// Every part that can run here, after it has done something.
pub(crate) fn all(site: &Site) -> Vec<Part> {
    let parts = [Some(copy(site)), Some(relay(site)), Some(serve(site)), pace(site)];
    parts.into_iter().flatten().collect()
}

/// Where text files go.
pub(crate) fn text_files(site: &Site) -> PathBuf {
    site.directory("textfile")
}

/// A copy through a daemon that has ended.
fn copy(site: &Site) -> Part {
    let source = site.path("source.bin");
    std::fs::write(&source, vec![7; 5 << 20]).unwrap();
    let file = text_files(site).join("run7.prom");
    // By ssh, so that there is a path with a round-trip time.
    let words = ["--ssh", &site.ssh(), "--metrics", file.to_str().unwrap(), "source.bin"];
    site.copy(&words).arg(site.by_ssh("copied.bin")).run().expect_code(0);
    Part { name: "copy", place: Place::File(file), _keeps: Box::new(()) }
}

/// A relay by which a connection has come and gone.
fn relay(site: &Site) -> Part {
    let forward = format!("127.0.0.1:0={}", echo());
    let relay = Relay::start(site, &["--forward", &forward, "--metrics", "127.0.0.1:0"]);
    exchange(connect(relay.address("forward")), vec![7; 1000]).unwrap();
    assert!(eventually(|| relay.total("finished") == 1));
    let log = relay.run().stderr();
    let (_, address) = log.lines().find_map(|line| line.split_once("metrics address=")).unwrap();
    Part { name: "relay", place: Place::Endpoint(address.trim().parse().unwrap()), _keeps: Box::new(relay) }
}

/// A daemon that has received and refused.
fn serve(site: &Site) -> Part {
    let root = site.directory("served");
    let daemon = Daemon::adapted(site, &format!("root=\"{}\",rights=w", root.display()), |command| {
        command.args(["--metrics", "127.0.0.1:0", "--audit"]).arg(site.path("audit.log"));
    });
    std::fs::write(site.path("delivered"), vec![7; 5 << 20]).unwrap();
    site.copy(&["delivered"]).arg(daemon.location("delivered")).run().expect_code(0);
    site.copy(&[]).arg(daemon.location("delivered")).arg("back").run().expect_code(3);
    let log = daemon.run().stderr();
    let (_, address) = log.lines().find_map(|line| line.split_once("at /metrics address=")).unwrap();
    let place = Place::Endpoint(address.trim().parse().unwrap());
    Part { name: "serve", place, _keeps: Box::new(daemon) }
}

/// A wire pacer at work in a namespace; `None` where there cannot be one.
fn pace(site: &Site) -> Option<Part> {
    let pair = Pair::new()?;
    let classes = site.path("classes.toml");
    std::fs::write(&classes, "[[class]]\nname = \"bulk\"\nrate = \"8mbit\"\nfilter = [{ ports = 9 }]\n").unwrap();
    let file = text_files(site).join("pace.prom");
    let words = ["--dev", "eth0", "--line-rate", "1gbit", "--mode", "timer", "--interval", "100ms", "--json"];
    let mut command = site.icdc(&[&["pace", "wire"], &words[..]].concat());
    command.arg("--classes").arg(&classes).arg("--prometheus").arg(&file);
    let run = pair.near.run(&command).start();
    assert!(eventually(|| file.exists()), "{}", run.stderr());
    Some(Part { name: "pace", place: Place::File(file), _keeps: Box::new(Pacer { run: Some(run), _pair: pair }) })
}

/// Stopped before its namespaces go.
struct Pacer {
    run: Option<Run>,
    _pair: Pair,
}

impl Drop for Pacer {
    fn drop(&mut self) {
        if let Some(run) = self.run.take() {
            run.signal(Signal::TERM);
            run.finish();
        }
    }
}
