//! `icdc --version`: how this program was built, and what this host allows it.

use icdc_doctor::facts::{Abilities, Ability};
use icdc_doctor::{Reading, System};
use icdc_tcp::congestion::{self, Availability, Listed};
use rustix::thread::CapabilitySet;
use serde_json::{Value, json};

use crate::arguments::VersionArguments;
use crate::console::Console;
use crate::exit;

/// Release of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Commit that the program was built from, by `build.rs`; the variable ICDC_COMMIT overrides it.
const COMMIT: Option<&str> = match option_env!("ICDC_COMMIT") {
    Some(text) if !text.is_empty() => Some(text),
    _ => None,
};
/// Path of the kernel's type information (BTF).
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Facts of a report about the program and the host that made it, as (name, value).
pub(crate) fn made_by() -> [(String, String); 2] {
    let built = COMMIT.map_or_else(|| VERSION.to_owned(), |commit| format!("{VERSION}, commit {commit}"));
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    [("Report made on".to_owned(), host), ("icdc".to_owned(), built)]
}

/// Runs `icdc --version`: prints the version, and with `--verbose` how the program was built and
/// what this host allows it. Returns the exit code.
pub(crate) fn run(arguments: &VersionArguments, console: &Console) -> u8 {
    match (arguments.verbose, arguments.json) {
        (false, false) => console.result(&format!("icdc {VERSION}")),
        (true, false) => lines(&Host::ask()).iter().for_each(|line| console.result(line)),
        (_, true) => console.json(&object(&Host::ask()).to_string()),
    }
    console.flush();
    if console.has_lost_results() { exit::FAILED } else { 0 }
}

/// Features of this host that this program can use.
struct Host {
    kernel: Option<String>,
    abilities: Abilities,
    has_types: bool,
    congestion: Vec<Listed>,
    /// Names of the process's effective capabilities.
    capabilities: Vec<String>,
}

impl Host {
    /// Finds out what this program can use on this host.
    fn ask() -> Self {
        let system = System::running();
        let kernel = match system.read("/proc/sys/kernel/osrelease") {
            Reading::Value(text) => Some(text),
            Reading::Missing | Reading::Unreadable(_) => None,
        };
        let has_types = system.path(TYPES).exists();
        let congestion = congestion::list();
        Self { kernel, abilities: Abilities::find(), has_types, congestion, capabilities: capabilities() }
    }
}

/// Names of this process' effective capabilities.
fn capabilities() -> Vec<String> {
    let Ok(sets) = rustix::thread::capabilities(None) else { return Vec::new() };
    sets.effective.iter_names().map(|(name, _)| format!("CAP_{name}")).collect()
}

/// Target triple for which this program was built.
fn target() -> String {
    let environment = if cfg!(target_env = "musl") { "musl" } else { "gnu" };
    format!("{}-unknown-{}-{environment}", std::env::consts::ARCH, std::env::consts::OS)
}

/// C library with which this program was built, and how it is linked.
fn libc() -> &'static str {
    match (cfg!(target_env = "musl"), cfg!(target_feature = "crt-static")) {
        (true, true) => "musl, static",
        (true, false) => "musl, dynamic",
        (false, true) => "glibc, static",
        (false, false) => "glibc, dynamic",
    }
}

/// Optional features of the program that were built in.
fn features() -> Vec<&'static str> {
    let all = [("ebpf", cfg!(feature = "ebpf")), ("experiments", cfg!(feature = "experiments"))];
    all.into_iter().filter(|(_, is_in)| *is_in).map(|(name, _)| name).collect()
}

/// State of a congestion control algorithm in a word or two.
fn state(one: &Listed) -> &'static str {
    match one.state {
        Availability::BuiltIn => "built in",
        Availability::Loaded(_) => "loaded",
        Availability::Loadable => "loadable",
        Availability::Unavailable(_) => "unavailable",
    }
}

/// Text that says whether the ends of a copy can confine themselves by Landlock, with its version,
/// or why they cannot.
fn files_confined() -> String {
    match icdc_confine::files::obstacle() {
        None => format!("yes, version {}", icdc_confine::files::version()),
        Some(why) => format!("no: {why}"),
    }
}

/// Lines about the program and this host.
fn lines(host: &Host) -> Vec<String> {
    let line = |name: &str, value: &str| format!("{name:<20} {value}");
    let list = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let ability = |ability: &Ability| ability.obstacle.as_ref().map_or("yes".to_owned(), |why| format!("no: {why}"));
    let features: Vec<String> = features().into_iter().map(str::to_owned).collect();
    let mut lines = vec![
        format!("icdc {VERSION}"),
        line("commit", COMMIT.unwrap_or("none (not built from a git checkout)")),
        line("protocol", &icdc_protocol::VERSION.to_string()),
        line("target", &target()),
        line("libc", libc()),
        line("features", &list(&features)),
        line("kernel", host.kernel.as_deref().unwrap_or("unknown")),
        line("io_uring", &ability(&host.abilities.io_uring)),
        line("eBPF", &ability(&host.abilities.ebpf)),
        line("Landlock", &files_confined()),
        line("seccomp", &icdc_confine::calls::obstacle().map_or("yes".to_owned(), |why| format!("no: {why}"))),
        line("BTF", if host.has_types { "yes" } else { "no: there is no /sys/kernel/btf/vmlinux" }),
    ];
    for kind in ["built in", "loaded", "loadable"] {
        let names: Vec<String> =
            host.congestion.iter().filter(|one| state(one) == kind).map(|one| one.name.clone()).collect();
        lines.push(line(&format!("congestion, {kind}"), &list(&names)));
    }
    let has_all = host.capabilities.len() == CapabilitySet::all().iter_names().count();
    let capabilities = if has_all { "all".to_owned() } else { list(&host.capabilities) };
    lines.push(line("capabilities", &capabilities));
    lines
}

/// JSON object about the program and this host.
fn object(host: &Host) -> Value {
    let ability = |ability: &Ability| json!({ "available": ability.obstacle.is_none(), "reason": ability.obstacle });
    let confinement = |obstacle: Option<&str>| json!({ "available": obstacle.is_none(), "reason": obstacle });
    let congestion = host.congestion.iter().map(|one| json!({ "name": one.name, "state": state(one) }));
    json!({
        "version": VERSION,
        "commit": COMMIT,
        "protocol": icdc_protocol::VERSION,
        "target": target(),
        "libc": libc(),
        "features": features(),
        "host": {
            "kernel": host.kernel,
            "io_uring": ability(&host.abilities.io_uring),
            "ebpf": ability(&host.abilities.ebpf),
            "landlock": confinement(icdc_confine::files::obstacle()),
            "seccomp": confinement(icdc_confine::calls::obstacle()),
            "btf": host.has_types,
            "congestion_controls": congestion.collect::<Value>(),
            "capabilities": host.capabilities,
        },
    })
}
