//! Compiles the policies' eBPF program with clang if there is one.

#![forbid(unsafe_code)]

#[path = "../cc/build/ebpf.rs"]
mod ebpf;

use std::env;
use std::fs;
use std::path::PathBuf;

fn main() {
    ebpf::rerun_if_changed();
    println!("cargo::rerun-if-changed=c");
    println!("cargo::rerun-if-changed=../cc/build");
    let object = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("policy.bpf.o");
    if let Err(reason) = ebpf::compile("c/policy.c", &object, &[]) {
        println!("cargo::warning=without pacing policies: {reason}");
        println!("cargo::rustc-env=ICDC_PACER_WITHOUT_EBPF=this build has no eBPF objects: {reason}");
        fs::write(object, []).expect("OUT_DIR can be written");
    }
}
