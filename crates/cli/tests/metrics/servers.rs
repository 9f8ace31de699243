//! Prometheus's own programs, each on a free port of loopback with a directory of its own.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use crate::support::process::Run;
use crate::support::{Site, Start};

/// A server that is gone when dropped.
pub struct Server {
    run: Run,
    pub address: SocketAddr,
}

impl Server {
    /// Starts it; its log tells the port that it has found.
    pub fn start(command: &mut Command) -> Self {
        let run = command.arg("--web.listen-address=127.0.0.1:0").start();
        assert!(run.wait_for_words("msg=\"Listening on\""), "{}", run.stderr());
        assert!(run.wait_for_words("msg=\"TLS is disabled.\""), "{}", run.stderr());
        let log = run.stderr();
        let line = log.lines().find(|line| line.contains("msg=\"Listening on\"")).unwrap();
        let address = line.rsplit("address=").next().unwrap().trim().parse().unwrap();
        Self { run, address }
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        self.run.stderr()
    }
}

/// A node exporter that shows the text files of a site and nothing else.
pub fn node_exporter(site: &Site) -> Server {
    let directory = crate::outputs::text_files(site);
    let mut command = Command::new("prometheus-node-exporter");
    command.args(["--collector.disable-defaults", "--collector.textfile"]);
    command.arg(format!("--collector.textfile.directory={}", directory.display()));
    Server::start(&mut command)
}

/// A Prometheus that scrapes these targets four times a second, each as a job of its name.
pub fn prometheus(site: &Site, targets: &[(&str, SocketAddr)]) -> Server {
    let mut text = "global:\n  scrape_interval: 250ms\n  scrape_timeout: 250ms\nscrape_configs:\n".to_owned();
    for (name, address) in targets {
        text += &format!("- job_name: {name}\n  static_configs:\n  - targets: ['{address}']\n");
    }
    let config = site.path("prometheus.yml");
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", config.display()));
    command.arg(format!("--storage.tsdb.path={}", site.path("tsdb").display()));
    Server::start(&mut command)
}

/// What `promtool check metrics` has to say against a text; nothing if it is well formed and keeps to
/// the conventions.
pub fn complaints(text: &str) -> String {
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    if output.status.success() { said } else { format!("{} {said}", output.status) }
}
