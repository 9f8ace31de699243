//! The socket calls that no safe wrapper offers. All unsafe code of this crate is here.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

use libc::{c_int, c_void, socklen_t};

/// Reads a socket option into `value`; returns the part of it that the kernel wrote.
///
/// # Errors
/// The kernel refuses a system call.
pub(crate) fn socket_option<'a>(
    fd: &impl AsFd,
    level: c_int,
    name: c_int,
    value: &'a mut [u8],
) -> io::Result<&'a [u8]> {
    let mut length = socklen_t::try_from(value.len()).unwrap_or(socklen_t::MAX);
    // SAFETY: `value` is writable for `length` bytes, both outlive the call, and the kernel writes
    // at most `length` bytes. Any bytes are a valid `[u8]`.
    let result = unsafe {
        libc::getsockopt(fd.as_fd().as_raw_fd(), level, name, value.as_mut_ptr().cast::<c_void>(), &raw mut length)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(&value[..(length as usize).min(value.len())])
}

/// Sets a socket option that is a number of 32 or 64 bits.
///
/// # Errors
/// The kernel refuses a system call.
pub(crate) fn set_socket_option<N: Number>(fd: &impl AsFd, level: c_int, name: c_int, value: N) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of `value`, which outlives the call; the kernel
    // only reads it.
    let result = unsafe {
        libc::setsockopt(
            fd.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast::<c_void>(),
            size_of::<N>() as socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Type of the value of a socket option that is a number.
pub(crate) trait Number: Copy {}
impl Number for u32 {}
impl Number for u64 {}

/// Number of bytes in the send queue that the peer has not acknowledged (`SIOCOUTQ`, tcp(7)).
///
/// # Errors
/// The kernel refuses a system call.
pub(crate) fn send_queue(fd: &impl AsFd) -> io::Result<u64> {
    let mut bytes: c_int = 0;
    // SAFETY: SIOCOUTQ (= TIOCOUTQ) writes one int through its argument, which points to `bytes`.
    let result = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 { Ok(u64::try_from(bytes).unwrap_or(0)) } else { Err(io::Error::last_os_error()) }
}
