//! Compiles the native twins of the algorithms with the C compiler, and the eBPF objects with clang
//! if there is one.

#[path = "build/ebpf.rs"]
mod ebpf;

use std::env;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The kernel's functions and the algorithms that every kernel has.
const NATIVE_ONLY: &[&str] = &["native", "reno", "cubic", "bbr"];
/// Algorithms that are built for both.
const EBPF: &[&str] = &["bic", "htcp", "highspeed", "scalable", "ghstcp", "icdc"];

fn main() {
    ebpf::rerun_if_changed();
    println!("cargo::rerun-if-changed=c");
    println!("cargo::rerun-if-changed=build");
    native();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    if let Err(reason) = objects(&out) {
        println!("cargo::warning=without eBPF congestion control: {reason}");
        println!("cargo::rustc-env=ICDC_CC_WITHOUT_EBPF=this build has no eBPF objects: {reason}");
        for name in EBPF {
            for object in [object(&out, name), traced_object(&out, name)] {
                fs::write(packed(&object), []).expect("OUT_DIR can be written");
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
        build.define("ICDC_CHECKED", None);
    }
    for name in NATIVE_ONLY.iter().chain(EBPF) {
        build.file(format!("c/{name}.c"));
    }
    build.compile("icdc_cc_native");
}

/// Builds every object, or says why that cannot be.
fn objects(out: &Path) -> Result<(), String> {
    for name in EBPF {
        let source = format!("c/{name}.c");
        for (object, flags) in [(object(out, name), &[][..]), (traced_object(out, name), &["-DICDC_TRACE"])] {
            ebpf::compile(&source, &object, flags)?;
            pack(&object).map_err(|error| format!("{}: {error}", object.display()))?;
        }
    }
    Ok(())
}

fn object(out: &Path, name: &str) -> PathBuf {
    out.join(format!("{name}.bpf.o"))
}

fn traced_object(out: &Path, name: &str) -> PathBuf {
    out.join(format!("{name}.traced.bpf.o"))
}

/// As `src/packed.rs` reads it: the length (32 bits, little-endian), then zlib.
fn pack(object: &Path) -> io::Result<()> {
    let bytes = fs::read(object)?;
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    let compressed = miniz_oxide::deflate::compress_to_vec_zlib(&bytes, 9);
    fs::write(packed(object), [&length.to_le_bytes()[..], &compressed].concat())
}

fn packed(object: &Path) -> PathBuf {
    let mut name = object.as_os_str().to_owned();
    name.push(".zlib");
    name.into()
}
