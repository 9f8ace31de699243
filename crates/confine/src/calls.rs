//! System calls that a process of icdc never makes, refused by seccomp.
//!
//! The list says what is refused, not what is allowed: the C library and the allocator choose their
//! calls by release, and a call that is missed in a list of allowed ones breaks copies. What is
//! refused leads to other processes, to other programs, to the kernel's own configuration, or to
//! namespaces, where most of the kernel opens to users without rights. Calls within an `io_uring`
//! pass no filter: of those that are refused, sockets can be made, bound and connected there, which
//! Landlock refuses for TCP, since Linux 6.7.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter_all_threads,
};

/// Kind of process, by which the filter of its system calls is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// The process has all its connections, or is handed them.
    Connected,
    /// The process opens connections of its own.
    Connecting,
    /// The process opens connections, as [`Connecting`](Self::Connecting), and may load eBPF if its
    /// user has the right.
    Loading,
}

/// Makes system calls that this kind of process never needs fail from now on, for all its threads
/// and for good (seccomp). If the kernel has no such filters, that is logged and nothing changes.
pub fn refuse_for(process: Process) {
    let applied = filters(process).map_err(|error| error.to_string()).and_then(|filters| {
        filters.iter().try_for_each(|filter| apply_filter_all_threads(filter).map_err(|error| error.to_string()))
    });
    if let Err(why) = applied {
        tracing::debug!("system calls are not filtered: {why}");
    }
}

/// Reason why system calls cannot be filtered; `None` if they can.
#[must_use]
pub fn obstacle() -> Option<&'static str> {
    let actions = std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    let has = actions.split_whitespace().any(|action| action == "errno");
    (!has).then_some("the kernel has no filters of system calls (seccomp)")
}

/// Conditions under which system calls are refused, by call number; an empty list refuses a call
/// always.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Builds the two filters for a kind of process: one that fails refused calls with EPERM, and one
/// that fails `clone3` with ENOSYS.
fn filters(process: Process) -> Result<[BpfProgram; 2], BackendError> {
    let mut refused: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    refused.extend(of_processor().map(|call| (call, Vec::new())));
    if process != Process::Loading {
        refused.insert(libc::SYS_bpf, Vec::new());
    }
    refused.insert(libc::SYS_clone, clones()?);
    refused.insert(libc::SYS_ioctl, terminals()?);
    match process {
        Process::Connected => refused.extend(SOCKETS.map(|call| (call, Vec::new()))),
        // Without netlink and raw packets.
        Process::Connecting => drop(refused.insert(libc::SYS_socket, vec![other_families()?])),
        Process::Loading => {}
    }
    // The C library then uses `clone`, whose flags a filter can see.
    let absent: Rules = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    Ok([program(with_x32(refused), libc::EPERM)?, program(with_x32(absent), libc::ENOSYS)?])
}

/// Compiles a filter in which calls that match the rules fail with the error number `answer`; all
/// others are allowed.
fn program(rules: Rules, answer: i32) -> Result<BpfProgram, BackendError> {
    let processor = std::env::consts::ARCH.try_into()?;
    let answer = SeccompAction::Errno(answer.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, answer, processor)?.try_into()
}

/// Adds the same rules for calls by the x32 convention, which kernels for x86-64 may have beside
/// the usual one.
fn with_x32(rules: Rules) -> Rules {
    /// Bit that marks system calls of the x32 ABI (`__X32_SYSCALL_BIT`).
    const X32: i64 = 0x4000_0000;
    /// Refused system calls that have numbers of their own in the x32 ABI: `execve`, `ptrace`,
    /// `kexec_load`, `process_vm_readv`, `process_vm_writev`, `execveat`
    /// (arch/x86/entry/syscalls/syscall_64.tbl).
    const OWN: [i64; 6] = [520, 521, 528, 539, 540, 545];
    if cfg!(not(target_arch = "x86_64")) {
        return rules;
    }
    let twins = rules.clone().into_iter().map(|(call, rules)| (call | X32, rules));
    let own = OWN.iter().map(|call| (call | X32, Vec::new()));
    let all = twins.chain(own).collect::<Vec<_>>();
    let mut rules = rules;
    rules.extend(all);
    rules
}

/// Rules by which `clone` is refused unless it starts a thread in the namespaces of this process.
fn clones() -> Result<Vec<SeccompRule>, BackendError> {
    const NAMESPACES: [i32; 7] = [
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWUTS,
    ];
    let flag = |flag: i32, value: u64| {
        let operator = SeccompCmpOp::MaskedEq(flag as u64);
        SeccompRule::new(vec![SeccompCondition::new(0, SeccompCmpArgLen::Qword, operator, value)?])
    };
    let namespaces = NAMESPACES.iter().map(|namespace| flag(*namespace, *namespace as u64));
    std::iter::once(flag(libc::CLONE_THREAD, 0)).chain(namespaces).collect()
}

/// Rules by which `ioctl` may not type into the terminal that standard error may be.
fn terminals() -> Result<Vec<SeccompRule>, BackendError> {
    /// ioctl requests that type into a terminal: `TIOCSTI` and `TIOCLINUX` of asm-generic/ioctls.h.
    const TYPING: [u64; 2] = [0x5412, 0x541c];
    let request = |request: u64| {
        SeccompRule::new(vec![SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, request)?])
    };
    TYPING.into_iter().map(request).collect()
}

/// Rule by which `socket` is refused for all address families but Unix, IPv4 and IPv6.
fn other_families() -> Result<SeccompRule, BackendError> {
    let not = |family: i32| SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family as u64);
    SeccompRule::new(vec![not(libc::AF_UNIX)?, not(libc::AF_INET)?, not(libc::AF_INET6)?])
}

/// System calls that open connections, refused to a process that has all its connections or is
/// handed them.
const SOCKETS: [i64; 4] = [libc::SYS_socket, libc::SYS_connect, libc::SYS_bind, libc::SYS_listen];

/// System calls that are refused to every process of icdc once it serves.
const REFUSED: [i64; 61] = [
    // Other programs.
    libc::SYS_execve,
    libc::SYS_execveat,
    // Other processes, and their memory and descriptors.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // What is mounted, and what is seen of it.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_fanotify_init,
    // Files by their handles, past the directories above them.
    libc::SYS_open_by_handle_at,
    // Namespaces.
    libc::SYS_unshare,
    libc::SYS_setns,
    // Keys of the kernel.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // The kernel's code.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    KEXEC_FILE_LOAD,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    libc::SYS_personality,
    // The host.
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    // Users: it has become its own before.
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setgroups,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
];

/// `kexec_file_load`; the number is the same on aarch64 and riscv64.
const KEXEC_FILE_LOAD: i64 = if cfg!(target_arch = "x86_64") { 320 } else { 294 };

/// Further system calls to refuse that only some processors have.
fn of_processor() -> impl Iterator<Item = i64> {
    #[cfg(target_arch = "x86_64")]
    const ONLY: [i64; 5] = [libc::SYS_fork, libc::SYS_vfork, libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt];
    #[cfg(not(target_arch = "x86_64"))]
    const ONLY: [i64; 0] = [];
    ONLY.into_iter()
}
