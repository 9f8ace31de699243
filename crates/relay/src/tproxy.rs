//! The rules by which packets that only pass through this host come to a transparent listener:
//! nftables marks them and hands them to the socket (TPROXY), and a routing table takes marked
//! packets for local ones.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use icdc_units::Prefix;
use thiserror::Error;

/// Rules that redirect connections passing through this host to a transparent listener: which ones,
/// and by which mark and routing table.
#[derive(Clone, Debug)]
pub struct RedirectRules {
    /// Port of the transparent listener.
    pub listener: u16,
    /// Ports of destinations; all if empty.
    pub ports: Vec<u16>,
    /// Prefixes of clients; all if empty.
    pub from: Vec<Prefix>,
    /// Device by which the clients' packets arrive; any if `None`.
    pub interface: Option<String>,
    /// Firewall mark of the packets that are led to the listener.
    pub mark: u32,
    /// Number of the routing table for packets with that mark.
    pub table: u32,
}

/// Name of the relay's nftables table.
const NAME: &str = "icdc_relay";

/// The rules of transparent listening could not be changed.
#[derive(Debug, Error)]
pub enum SteeringError {
    /// A program is missing.
    #[error(
        "{program}: {cause}; install it (nftables, iproute2), or run what `icdc relay rules print` shows by other means"
    )]
    Missing {
        /// Name of the missing program.
        program: &'static str,
        /// Error of starting the program.
        cause: io::Error,
    },
    /// A program has failed.
    #[error("`{command}` failed: {said}; changing rules needs root")]
    Refused {
        /// The command that failed.
        command: String,
        /// The command's output on standard error.
        said: String,
    },
}

impl RedirectRules {
    /// A shell script that does what [`RedirectRules::apply`] does.
    #[must_use]
    pub fn script(&self) -> String {
        let mut script = format!("nft -f - <<'END'\n{}END\n", self.nftables());
        for words in self.routing("add") {
            script += &format!("ip {}\n", words.join(" "));
        }
        script
    }

    /// Puts the rules in place of earlier ones.
    ///
    /// # Errors
    /// The program that failed; what was done before is undone.
    pub fn apply(&self) -> Result<(), SteeringError> {
        self.remove_routing();
        run("nft", &["-f", "-"], &self.nftables())?;
        for words in self.routing("add") {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            if let Err(error) = run("ip", &words, "") {
                let _ = self.remove();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Removes the rules, if they exist.
    ///
    /// # Errors
    /// [`SteeringError`] about the program that failed.
    pub fn remove(&self) -> Result<(), SteeringError> {
        self.remove_routing();
        // Naming the table first makes it exist.
        run("nft", &["-f", "-"], &format!("table inet {NAME}\ndelete table inet {NAME}\n"))
    }

    /// Removes the policy rules and routes for marked packets; errors are ignored, because there
    /// may be none.
    fn remove_routing(&self) {
        for words in self.routing("del") {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            // They may not exist.
            let _ = run("ip", &words, "");
        }
    }

    /// Input of `nft` that replaces the relay's table of rules.
    fn nftables(&self) -> String {
        let Self { listener, mark, .. } = self;
        let device = self.interface.as_ref().map(|name| format!("iifname \"{name}\" ")).unwrap_or_default();
        let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
        let ports = if ports.is_empty() { String::new() } else { format!("tcp dport {{ {} }} ", ports.join(", ")) };
        let mut rules = String::new();
        for (family, word) in [("ipv4", "ip"), ("ipv6", "ip6")] {
            let mut sources: Vec<String> = self
                .from
                .iter()
                .filter(|prefix| prefix.address().is_ipv4() == (family == "ipv4"))
                .map(|prefix| format!("{word} saddr {prefix} "))
                .collect();
            if self.from.is_empty() {
                sources.push(String::new());
            }
            for source in sources {
                rules += &format!(
                    "    {device}meta nfproto {family} meta l4proto tcp {source}{ports}tproxy {word} to :{listener} meta mark set {mark:#x} accept\n"
                );
            }
        }
        format!(
            "table inet {NAME}\n\
             delete table inet {NAME}\n\
             table inet {NAME} {{\n\
             \x20 chain prerouting {{\n\
             \x20   type filter hook prerouting priority mangle; policy accept;\n\
             \x20   meta l4proto tcp socket transparent 1 meta mark set {mark:#x} accept\n\
             \x20   fib daddr type {{ local, broadcast, multicast }} accept\n\
             {rules}\
             \x20 }}\n\
             }}\n"
        )
    }

    /// Arguments of `ip` that add (`add`) or remove (`del`) the policy rules and routes for marked
    /// packets, of both families.
    fn routing(&self, verb: &str) -> [Vec<String>; 4] {
        let (mark, table) = (format!("{:#x}", self.mark), self.table.to_string());
        let words = |text: String| text.split(' ').map(str::to_owned).collect();
        [
            words(format!("-4 rule {verb} fwmark {mark} lookup {table}")),
            words(format!("-4 route {verb} local 0.0.0.0/0 dev lo table {table}")),
            words(format!("-6 rule {verb} fwmark {mark} lookup {table}")),
            words(format!("-6 route {verb} local ::/0 dev lo table {table}")),
        ]
    }
}

/// Runs a program with this input, and waits for its end; an error if it is missing or fails.
fn run(program: &'static str, words: &[&str], input: &str) -> Result<(), SteeringError> {
    let missing = |cause| SteeringError::Missing { program, cause };
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(missing)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read it fails by its exit code.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(missing)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(SteeringError::Refused { command: format!("{program} {}", words.join(" ")), said })
}
