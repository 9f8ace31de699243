//! Listening sockets that a service manager has opened for this process (sd_listen_fds(3)):
//! descriptors from 3 on, their number in `LISTEN_FDS`, the process that they are for in
//! `LISTEN_PID`.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::sockopt::socket_acceptconn;

use crate::kernel;

/// The first of them.
const FIRST: i32 = 3;
/// More than any service manager passes.
const MOST: i32 = 1024;

/// Takes the TCP sockets that were passed, and listen. There are none the second time, and none for
/// a process that was only started by the one they were for. What else was passed is closed.
pub fn passed_listeners() -> Vec<TcpListener> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<i32>().ok());
    let is_for_us = number("LISTEN_PID").is_some_and(|pid| pid as u32 == std::process::id());
    if !is_for_us || TAKEN.swap(true, Ordering::Relaxed) {
        return Vec::new();
    }
    let count = number("LISTEN_FDS").unwrap_or(0).clamp(0, MOST);
    (FIRST..FIRST + count).filter_map(kernel::inherited).filter_map(listener).collect()
}

fn listener(descriptor: OwnedFd) -> Option<TcpListener> {
    // What this process starts has no business with it.
    fcntl_setfd(&descriptor, FdFlags::CLOEXEC).ok()?;
    let listens = socket_acceptconn(&descriptor).unwrap_or(false);
    let listener = TcpListener::from(descriptor);
    (listens && listener.local_addr().is_ok()).then_some(listener)
}
