//! Copies on a kernel that lacks what came after Linux 3.10: io_uring, openat2, statx, pidfd, getrandom, eBPF, the pacing of
//! sockets. A seccomp filter stands for it, at both ends.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::net::{AddressFamily, SocketType};

use crate::support::daemon::Daemon;
use crate::support::refusals::as_on_linux_3_10;
use crate::support::{MIB, Noise, Shape, Site, Start, assert_no_leftovers, assert_same, data};

fn shape() -> Shape {
    Shape { small: 40, largest_small: 20_000, large: vec![9 * MIB + 5], oddities: true }
}

/// `icdc copy --json …` there.
fn copy(site: &Site, words: &[&str]) -> Command {
    let mut command = site.copy(words);
    as_on_linux_3_10(&mut command);
    command
}

#[test]
fn the_filter_refuses_what_is_newer_and_nothing_else() {
    let mut command = Command::new("true");
    as_on_linux_3_10(&mut command);
    // SAFETY: between fork and exec only system calls are made.
    unsafe {
        command.pre_exec(|| {
            let mut byte = 0u8;
            let random = libc::syscall(libc::SYS_getrandom, &raw mut byte, 1, 0);
            let random = (random, io::Error::last_os_error().raw_os_error());
            let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
            let pacing = (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, Some(libc::ENOPROTOOPT));
            let limit = (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, Some(libc::ENOPROTOOPT));
            let buffer = (libc::SOL_SOCKET, libc::SO_SNDBUF, None);
            let nodelay = (libc::IPPROTO_TCP, libc::TCP_NODELAY, None);
            let as_expected = [pacing, limit, buffer, nodelay].into_iter().all(|(level, name, refused)| {
                let value = 1;
                let set = libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), 4);
                (if set == 0 { None } else { io::Error::last_os_error().raw_os_error() }) == refused
            });
            if random == (-1, Some(libc::ENOSYS)) && as_expected { Ok(()) } else { Err(io::ErrorKind::Other.into()) }
        });
    }
    assert!(command.status().unwrap().success());
}

#[test]
fn trees_go_to_a_daemon_and_come_back() {
    let site = Site::new();
    let source = data::tree(&site.path("source"), Noise::seed("old kernel"), &shape());
    let served = site.directory("served");
    let daemon = Daemon::on_an_old_kernel(&site, &served, "rw");
    copy(&site, &[source.to_str().unwrap(), &daemon.location("copy")]).run().expect_code(0);
    assert_same(&source, &served.join("copy"));
    copy(&site, &[&daemon.location("copy"), "back"]).run().expect_code(0);
    assert_same(&source, &site.path("back"));
    assert_no_leftovers(site.root());
    // The root directory holds, though each component is opened by itself.
    let outside = site.directory("outside");
    symlink("../outside", served.join("out")).unwrap();
    let file = site.path("source-file");
    fs::write(&file, "file").unwrap();
    let refused = copy(&site, &[file.to_str().unwrap(), &daemon.location("out/file")]).run();
    assert_ne!(refused.code, Some(0), "{refused}");
    assert_eq!(fs::read_dir(outside).unwrap().count(), 0, "{refused}");
    daemon.stop().expect_code(0);
}

#[test]
fn trees_go_by_ssh_and_come_back_and_within_the_host() {
    let site = Site::new();
    let source = data::tree(&site.path("source"), Noise::seed("old kernel"), &shape());
    let ssh = site.ssh();
    copy(&site, &["--ssh", &ssh, "source"]).arg(site.by_ssh("pushed")).run().expect_code(0);
    assert_same(&source, &site.path("pushed"));
    copy(&site, &["--ssh", &ssh, "--verify"]).arg(site.by_ssh("source")).arg("pulled").run().expect_code(0);
    assert_same(&source, &site.path("pulled"));
    copy(&site, &["--preserve", "all", "source", "local"]).run().expect_code(0);
    assert_same(&source, &site.path("local"));
    // Through ssh itself, where no connection can be looked at.
    copy(&site, &["--ssh", &ssh, "--via", "ssh", "source"]).arg(site.by_ssh("through")).run().expect_code(0);
    assert_same(&source, &site.path("through"));
    assert_no_leftovers(site.root());
}

#[test]
fn a_limit_of_the_rate_holds() {
    let site = Site::new();
    let file = data::file(&site.path("file"), 6 * MIB, 5);
    let ssh = site.ssh();
    let ended = copy(&site, &["--ssh", &ssh, "--rate", "40mbit", "file"]).arg(site.by_ssh("copy")).run().expect_code(0);
    assert_same(&file, &site.path("copy"));
    let rate = ended.number("goodput_bps");
    assert!(rate < 48_000_000, "{rate} bit/s: {ended}");
}

#[test]
fn a_command_that_does_not_end_is_ended() {
    let site = Site::new();
    fs::write(site.path("file"), "file").unwrap();
    let lingering = site.program("lingering", "shift\nsh -c \"$*\"\nsleep 1000 &\necho $! >lingers\nwait");
    copy(&site, &["--ssh", &lingering, "file"]).arg(site.by_ssh("copy")).run().expect_code(0);
    let process = fs::read_to_string(site.path("lingers")).unwrap();
    let command = fs::read(format!("/proc/{}/cmdline", process.trim())).unwrap_or_default();
    assert!(!command.starts_with(b"sleep"), "the command's sleep runs on as {process}");
}

#[test]
fn an_algorithm_that_cannot_be_loaded_is_told() {
    let site = Site::new();
    let mut load = site.icdc(&["cc", "load", "highspeed"]);
    let load = as_on_linux_3_10(&mut load).run();
    assert_ne!(load.code, Some(0), "{load}");
    assert!(load.stderr.starts_with("icdc: "), "{load}");
}
