//! Compiles C to eBPF objects with clang, for the build scripts of all crates that have such
//! sources.
//!
//! Environment: `CLANG` and `LLVM_STRIP` name the programs; `ICDC_WITHOUT_EBPF=1` builds as if
//! there were no clang.

use std::env;
use std::path::Path;
use std::process::Command;

pub(crate) fn rerun_if_changed() {
    for variable in ["CLANG", "LLVM_STRIP", "ICDC_WITHOUT_EBPF"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
}

/// Compiles `source`, or says why that cannot be.
pub(crate) fn compile(source: &str, object: &Path, flags: &[&str]) -> Result<(), String> {
    if env::var_os("ICDC_WITHOUT_EBPF").is_some_and(|value| value != "0" && !value.is_empty()) {
        return Err("ICDC_WITHOUT_EBPF was set".to_owned());
    }
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let target = match env::var("CARGO_CFG_TARGET_ENDIAN").as_deref() {
        Ok("big") => "bpfeb",
        _ => "bpfel",
    };
    let output = Command::new(&clang)
        .args(["-target", target, "-O2", "-g", "-mcpu=v3", "-std=gnu11", "-Wall", "-Wextra"])
        .arg("-ffile-compilation-dir=.")
        .args(flags)
        .args(["-c", source, "-o"])
        .arg(object)
        .output()
        .map_err(|error| {
            rerun_when_programs_are_installed();
            format!("{clang} could not be run ({error}): install clang 12 or newer (apt-get install clang), or set CLANG, and build again")
        })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let first = said.lines().find(|line| line.contains("error")).or(said.lines().next()).unwrap_or("no message");
        return Err(format!("{clang} could not compile {source} for eBPF ({first}): clang 12 or newer is needed"));
    }
    // DWARF is for debuggers; the type information that loading needs stays. Without the program
    // the object is only larger.
    let strip = env::var("LLVM_STRIP").unwrap_or_else(|_| "llvm-strip".to_owned());
    let _ = Command::new(strip).arg("-g").arg(object).status();
    Ok(())
}

/// A compiler that is installed after this build is found by the next: a directory's time changes
/// with its entries.
fn rerun_when_programs_are_installed() {
    for directory in env::split_paths(&env::var_os("PATH").unwrap_or_default()).filter(|path| path.is_dir()) {
        println!("cargo::rerun-if-changed={}", directory.display());
    }
}
