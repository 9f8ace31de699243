//! A confined thread tries what it may and what it may not.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::{self, File};
use std::io::ErrorKind::{self, PermissionDenied};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

use icdc_confine::files::{Files, obstacle, version};
use io_uring::{IoUring, opcode, types};

/// Runs `attempt` on a thread that `files` confine; `None` where the kernel cannot.
fn within<T: Send>(files: &Files, attempt: impl FnOnce() -> T + Send) -> Option<T> {
    if let Some(why) = obstacle() {
        eprintln!("skipped: {why}");
        return None;
    }
    std::thread::scope(|scope| {
        let confined = scope.spawn(|| {
            files.enforce();
            attempt()
        });
        Some(confined.join().unwrap())
    })
}

/// `granted/{a,b}` with a file each, and `outside/secret`.
fn directories() -> tempfile::TempDir {
    let temporary = tempfile::tempdir().unwrap();
    for directory in ["granted/a", "granted/b", "outside"] {
        fs::create_dir_all(temporary.path().join(directory)).unwrap();
    }
    fs::write(temporary.path().join("granted/a/file"), "inside").unwrap();
    fs::write(temporary.path().join("outside/secret"), "outside").unwrap();
    temporary
}

fn refused<T>(outcome: std::io::Result<T>) -> Option<ErrorKind> {
    outcome.err().map(|error| error.kind())
}

/// Opens a file through a ring of its own: no filter of system calls sees that.
fn open_by_ring(path: &Path) -> std::io::Result<OwnedFd> {
    let mut ring = IoUring::new(2)?;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    let open = opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), path.as_ptr()).flags(libc::O_RDONLY | libc::O_CLOEXEC);
    // SAFETY: the path lives until the ring has completed the request, below.
    unsafe { ring.submission().push(&open.build()).map_err(std::io::Error::other)? };
    ring.submit_and_wait(1)?;
    let result = ring.completion().next().map_or(-libc::EIO, |done| done.result());
    match result {
        // SAFETY: the kernel has just made this descriptor for this request.
        descriptor @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        error => Err(std::io::Error::from_raw_os_error(-error)),
    }
}

#[test]
fn what_may_be_read_is_read_and_nothing_is_changed() {
    let temporary = directories();
    let (granted, outside) = (temporary.path().join("granted"), temporary.path().join("outside"));
    let open_before = File::open(outside.join("secret")).unwrap();
    let files = Files::of_end().read(&File::open(&granted).unwrap());
    within(&files, || {
        assert_eq!(fs::read_to_string(granted.join("a/file")).unwrap(), "inside");
        assert_eq!(fs::read_dir(&granted).unwrap().count(), 2);
        assert!(fs::read_to_string("/proc/thread-self/status").unwrap().contains("NoNewPrivs:\t1"));
        let attempts = [
            refused(fs::read(outside.join("secret"))),
            refused(fs::read_dir(&outside)),
            refused(fs::read("/etc/passwd")),
            refused(fs::write(granted.join("new"), "")),
            refused(fs::write(granted.join("a/file"), "")),
            refused(fs::remove_file(granted.join("a/file"))),
            refused(fs::create_dir(granted.join("c"))),
            refused(fs::rename(granted.join("a/file"), granted.join("a/other"))),
            refused(Command::new("true").status()),
        ];
        assert_eq!(attempts, [Some(PermissionDenied); 9]);
        // What was open stays open.
        assert_eq!(std::io::read_to_string(&open_before).unwrap(), "outside");
        // Also on a thread that it starts.
        std::thread::scope(|scope| {
            let secret = outside.join("secret");
            let inherited = scope.spawn(move || refused(fs::read(secret))).join().unwrap();
            assert_eq!(inherited, Some(PermissionDenied));
        });
    });
    assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "outside", "other threads are free");
}

#[test]
fn what_may_be_changed_is_changed_and_nothing_else() {
    let temporary = directories();
    let (granted, outside) = (temporary.path().join("granted"), temporary.path().join("outside"));
    let files = Files::of_end().change(&File::open(&granted).unwrap());
    within(&files, || {
        fs::write(granted.join("new"), "made").unwrap();
        fs::rename(granted.join("new"), granted.join("a/new")).unwrap();
        fs::hard_link(granted.join("a/new"), granted.join("b/link")).unwrap();
        std::os::unix::fs::symlink("anywhere", granted.join("b/symbolic")).unwrap();
        File::options().write(true).open(granted.join("a/new")).unwrap().set_len(1).unwrap();
        fs::create_dir(granted.join("c")).unwrap();
        fs::remove_dir(granted.join("c")).unwrap();
        fs::remove_file(granted.join("a/file")).unwrap();
        let fifo = std::ffi::CString::new(granted.join("fifo").as_os_str().as_bytes()).unwrap();
        // SAFETY: the path is a string that ends in a zero byte.
        assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, -1, "neither pipes nor devices are made");
        let attempts = [
            refused(fs::write(outside.join("new"), "")),
            refused(fs::write(outside.join("secret"), "")),
            refused(fs::remove_file(outside.join("secret"))),
            refused(File::options().write(true).truncate(true).open(outside.join("secret"))),
        ];
        assert_eq!(attempts, [Some(PermissionDenied); 4]);
        for moved in [
            fs::rename(granted.join("a/new"), outside.join("new")),
            fs::rename(outside.join("secret"), granted.join("secret")),
            fs::hard_link(outside.join("secret"), granted.join("secret")),
        ] {
            assert!(moved.is_err(), "nothing leaves or comes in by a name");
        }
    });
    assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "outside");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn a_file_may_be_opened_and_none_that_took_its_place() {
    let temporary = directories();
    let file = temporary.path().join("granted/a/file");
    let files = Files::of_end().read(&File::open(&file).unwrap());
    within(&files, || assert_eq!(fs::read_to_string(&file).unwrap(), "inside"));
    fs::rename(temporary.path().join("outside/secret"), &file).unwrap();
    within(&files, || assert_eq!(refused(fs::read(&file)), Some(PermissionDenied)));
}

#[test]
fn a_ring_opens_no_more_than_its_thread() {
    let temporary = directories();
    let (inside, outside) = (temporary.path().join("granted/a/file"), temporary.path().join("outside/secret"));
    if let Err(error) = open_by_ring(&outside) {
        return eprintln!("skipped: io_uring: {error}");
    }
    let files = Files::of_end().read(&File::open(temporary.path().join("granted")).unwrap());
    within(&files, || {
        assert!(open_by_ring(&inside).unwrap().as_raw_fd() >= 0);
        assert_eq!(refused(open_by_ring(&outside)), Some(PermissionDenied));
    });
}

#[test]
fn one_that_is_alone_opens_no_connection() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    within(&Files::of_end().alone(), || {
        if version() < 4 {
            return eprintln!("skipped: this kernel's Landlock knows no sockets");
        }
        assert_eq!(refused(std::net::TcpStream::connect(address)), Some(PermissionDenied));
        assert_eq!(refused(std::net::TcpListener::bind("127.0.0.1:0")), Some(PermissionDenied));
    });
    std::net::TcpStream::connect(address).unwrap();
}
