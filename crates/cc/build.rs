//! Compiles the native twins of the algorithms with the C compiler, and the eBPF objects with clang if there is one.
//!
//! Environment: `CLANG` and `LLVM_STRIP` name the programs; `ICDC_WITHOUT_EBPF=1` builds as if there were no clang.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The kernel's functions and the algorithms that every kernel has.
const NATIVE_ONLY: &[&str] = &["native", "reno", "cubic", "bbr"];
/// Algorithms that are built for both.
const EBPF: &[&str] = &["bic", "htcp", "highspeed", "scalable", "ghstcp", "icdc"];

fn main() {
    for variable in ["CLANG", "LLVM_STRIP", "ICDC_WITHOUT_EBPF"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    println!("cargo::rerun-if-changed=c");
    native();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    if let Err(reason) = ebpf(&out) {
        println!("cargo::warning=without eBPF congestion control: {reason}");
        println!("cargo::rustc-env=ICDC_CC_WITHOUT_EBPF=this build has no eBPF objects: {reason}");
        for name in EBPF {
            for object in [object(&out, name), traced_object(&out, name)] {
                fs::write(object, []).expect("OUT_DIR can be written");
            }
        }
    }
}

fn native() {
    let mut build = cc::Build::new();
    build.std("gnu11").opt_level(2).warnings(true).extra_warnings(true);
    // What C leaves undefined ends a test instead of passing unseen; traps need no library.
    if env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        build.flag("-fsanitize=undefined").flag("-fsanitize-undefined-trap-on-error");
    }
    for name in NATIVE_ONLY.iter().chain(EBPF) {
        build.file(format!("c/{name}.c"));
    }
    build.compile("icdc_cc_native");
}

/// Builds every object, or says why that cannot be.
fn ebpf(out: &Path) -> Result<(), String> {
    if env::var_os("ICDC_WITHOUT_EBPF").is_some_and(|value| value != "0" && !value.is_empty()) {
        return Err("ICDC_WITHOUT_EBPF was set".to_owned());
    }
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    for name in EBPF {
        compile(&clang, name, &object(out, name), &[])?;
        compile(&clang, name, &traced_object(out, name), &["-DICDC_TRACE"])?;
    }
    Ok(())
}

fn compile(clang: &str, name: &str, object: &Path, flags: &[&str]) -> Result<(), String> {
    let target = match env::var("CARGO_CFG_TARGET_ENDIAN").as_deref() {
        Ok("big") => "bpfeb",
        _ => "bpfel",
    };
    let output = Command::new(clang)
        .args(["-target", target, "-O2", "-g", "-mcpu=v3", "-std=gnu11", "-Wall", "-Wextra"])
        .arg("-ffile-compilation-dir=.")
        .args(flags)
        .args(["-c", &format!("c/{name}.c"), "-o"])
        .arg(object)
        .output()
        .map_err(|error| {
            format!("{clang} could not be run ({error}): install clang 12 or newer (apt-get install clang), or set CLANG, and build again")
        })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let first = said.lines().find(|line| line.contains("error")).or(said.lines().next()).unwrap_or("no message");
        return Err(format!("{clang} could not compile c/{name}.c for eBPF ({first}): clang 12 or newer is needed"));
    }
    // DWARF is for debuggers; the type information that loading needs stays. Without the program the object is only larger.
    let strip = env::var("LLVM_STRIP").unwrap_or_else(|_| "llvm-strip".to_owned());
    let _ = Command::new(strip).arg("-g").arg(object).status();
    Ok(())
}

fn object(out: &Path, name: &str) -> PathBuf {
    out.join(format!("{name}.bpf.o"))
}

fn traced_object(out: &Path, name: &str) -> PathBuf {
    out.join(format!("{name}.traced.bpf.o"))
}
