//! System calls that fail by themselves, as on a broken disk or on a file system that cannot do
//! something: a seccomp filter answers them in place of the kernel, for a process and everything
//! that it starts.

use std::os::unix::process::CommandExt;
use std::process::Command;

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, c_long,
    sock_filter, sock_fprog,
};

/// A system call that fails with `errno`.
pub struct Refusal {
    pub call: c_long,
    /// Fails only if this argument is at least so large (and below 4 GiB).
    pub from: Option<(u32, u32)>,
    pub errno: i32,
}

impl Refusal {
    pub fn of(call: c_long, errno: i32) -> Self {
        Self { call, from: None, errno }
    }

    /// Fails if argument number `argument` is `least` or more.
    pub fn beyond(call: c_long, argument: u32, least: u32, errno: i32) -> Self {
        Self { call, from: Some((argument, least)), errno }
    }
}

/// `pread` fails at and behind `offset`, and so do the other ways to read there.
pub fn unreadable_beyond(offset: u32) -> Vec<Refusal> {
    vec![Refusal::of(libc::SYS_io_uring_setup, libc::ENOSYS), Refusal::beyond(libc::SYS_pread64, 3, offset, libc::EIO)]
}

/// `pwrite` fails at and behind `offset`, and so do the other ways to write there.
pub fn unwritable_beyond(offset: u32) -> Vec<Refusal> {
    vec![Refusal::of(libc::SYS_io_uring_setup, libc::ENOSYS), Refusal::beyond(libc::SYS_pwrite64, 3, offset, libc::EIO)]
}

/// Makes the calls of a command fail.
pub fn refuse<'a>(command: &'a mut Command, refusals: &[Refusal]) -> &'a mut Command {
    filter(command, program(refusals))
}

/// Makes the kernel of a command one of the year 2013, Linux 3.10: it has no system call and no
/// option of a socket that came later.
pub fn as_on_linux_3_10(command: &mut Command) -> &mut Command {
    let newer = libc::SYS_finit_module as u32 + 1;
    let (of_sockets, of_tcp) = (libc::SO_BUSY_POLL as u32, libc::TCP_NOTSENT_LOWAT as u32);
    let equals = |value, otherwise| jump(BPF_JMP | BPF_JEQ | BPF_K, value, 0, otherwise);
    let at_least = |value, otherwise| jump(BPF_JMP | BPF_JGE | BPF_K, value, 0, otherwise);
    filter(
        command,
        vec![
            load(0),
            at_least(newer, 1),
            fail(libc::ENOSYS),
            // Options: of setsockopt and getsockopt, by level and name.
            jump(BPF_JMP | BPF_JEQ | BPF_K, libc::SYS_setsockopt as u32, 1, 0),
            equals(libc::SYS_getsockopt as u32, 8),
            load(16 + 8 + low_half()),
            equals(libc::SOL_SOCKET as u32, 2),
            load(16 + 16 + low_half()),
            jump(BPF_JMP | BPF_JGE | BPF_K, of_sockets, 3, 4),
            equals(libc::IPPROTO_TCP as u32, 3),
            load(16 + 16 + low_half()),
            at_least(of_tcp, 1),
            fail(libc::ENOPROTOOPT),
            statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        ],
    )
}

fn filter(command: &mut Command, program: Vec<sock_filter>) -> &mut Command {
    // SAFETY: between fork and exec only prctl(2) is called, on memory that was made before.
    unsafe {
        command.pre_exec(move || {
            let filter = sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
            let none: libc::c_ulong = 0;
            if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1 as libc::c_ulong, none, none, none) != 0
                || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) != 0
            {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        })
    }
}

fn program(refusals: &[Refusal]) -> Vec<sock_filter> {
    let mut program = Vec::new();
    for Refusal { call, from, errno } in refusals {
        program.push(load(0));
        match from {
            None => {
                program.push(jump(BPF_JMP | BPF_JEQ | BPF_K, *call as u32, 0, 1));
                program.push(fail(*errno));
            }
            Some((argument, least)) => {
                program.push(jump(BPF_JMP | BPF_JEQ | BPF_K, *call as u32, 0, 3));
                program.push(load(16 + 8 * argument + low_half()));
                program.push(jump(BPF_JMP | BPF_JGE | BPF_K, *least, 0, 1));
                program.push(fail(*errno));
            }
        }
    }
    program.push(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    program
}

fn load(offset: u32) -> sock_filter {
    statement(BPF_LD | BPF_W | BPF_ABS, offset)
}

fn fail(errno: i32) -> sock_filter {
    statement(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | errno as u32)
}

/// Where the lower half of a 64-bit number lies.
const fn low_half() -> u32 {
    if cfg!(target_endian = "big") { 4 } else { 0 }
}

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn jump(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}
