//! Listening sockets that a service manager has opened for this process (sd_listen_fds(3)).

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};

use listenfd::ListenFd;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::sockopt::socket_acceptconn;

/// Takes over the listening TCP sockets that a service manager (systemd) has passed to this
/// process. Empty the second time, and for a process that was only started by the one they were
/// for.
pub fn passed_listeners() -> Vec<TcpListener> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Vec::new();
    }
    let mut passed = ListenFd::from_env();
    let taken = (0..passed.len()).filter_map(|index| passed.take_tcp_listener(index).ok().flatten());
    taken.filter(is_usable).collect()
}

/// Whether a passed socket listens and has an Internet address; also marks it to be closed when a
/// program is executed.
fn is_usable(listener: &TcpListener) -> bool {
    // What this process starts has no business with it.
    fcntl_setfd(listener, FdFlags::CLOEXEC).is_ok()
        && socket_acceptconn(listener).unwrap_or(false)
        && listener.local_addr().is_ok()
}
