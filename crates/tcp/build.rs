//! Finds what the eBPF loader is linked with, and says what to do where it is missing.

use std::process::Command;

const MISSING: &str = "the eBPF loader needs libelf and zlib with their static libraries (Debian and Ubuntu: libelf-dev, zlib1g-dev, \
    pkg-config; `scripts/setup.sh build` installs them). Without it: cargo build --no-default-features";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_EBPF").is_none() {
        return;
    }
    // This host's libraries are no use to another one. What a build for another system is linked with
    // is named to libbpf-sys (`scripts/dist.sh`).
    if std::env::var_os("HOST") != std::env::var_os("TARGET") {
        return;
    }
    let Some(libraries) = pkg_config(&["--static", "--libs", "libelf", "zlib"]) else {
        println!("cargo::error={MISSING}");
        return;
    };
    // libbpf-sys links libelf alone. Newer ones use zstd, which has to be complete: it comes before
    // libelf on the line.
    if libraries.split_whitespace().any(|word| word == "-lzstd") {
        if let Some(directory) = pkg_config(&["--variable=libdir", "libzstd"]) {
            println!("cargo::rustc-link-search=native={}", directory.trim());
        }
        println!("cargo::rustc-link-lib=static:+whole-archive,-bundle=zstd");
    }
}

fn pkg_config(words: &[&str]) -> Option<String> {
    let output = Command::new("pkg-config").args(words).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
