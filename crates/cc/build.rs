//! Compiles the native twins of the algorithms.

const NATIVE: &[&str] = &["native", "reno"];

fn main() {
    let mut build = cc::Build::new();
    // Sections named like identifiers get start and stop symbols, by which the parameters are found.
    build.std("gnu11").opt_level(2).warnings(true).extra_warnings(true);
    for name in NATIVE {
        build.file(format!("c/{name}.c"));
    }
    build.compile("icdc_cc_native");
    println!("cargo::rerun-if-changed=c");
}
