//! Kernels that grant no ring, in full or half-way, by seccomp as containers do it.
//!
//! A filter holds for the thread that installs it, so each case runs in a thread of its own.

mod seccomp;

use std::fs::File;
use std::sync::Arc;
use std::thread;

use icdc_disk::{BlockPool, DiskFile, Engine, EngineError, EngineKind, Job, open_engine};

use crate::seccomp::forbid;

/// `io_uring_setup` and `io_uring_enter`: the same numbers on all architectures.
const SETUP: u32 = libc::SYS_io_uring_setup as u32;
const ENTER: u32 = libc::SYS_io_uring_enter as u32;

/// Runs a case in a thread of its own.
fn apart(case: impl FnOnce() + Send + 'static) {
    let thread = thread::spawn(case);
    assert!(thread.join().is_ok(), "the case above failed");
}

fn read_this_file(engine: &mut dyn Engine, pool: &BlockPool) -> Result<usize, EngineError> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/engine_refused.rs");
    let file = DiskFile::for_reading(File::open(path).expect("this file is there"));
    let file = Arc::new(file.expect("and is a regular file"));
    let block = pool.take().expect("the pool is open");
    engine.submit(1, Job::Read { file, offset: 0, length: 100, block });
    engine.wait().expect("one job is in flight").result
}

#[test]
fn without_a_ring_there_are_threads() {
    for (call, errno) in [(SETUP, libc::ENOSYS), (SETUP, libc::EPERM), (ENTER, libc::EPERM)] {
        apart(move || {
            if call == ENTER && open_engine(4, EngineKind::Uring).is_err() {
                return; // There is no ring to take away.
            }
            forbid(call, errno);
            let error = open_engine(4, EngineKind::Uring).map(|_| ()).unwrap_err().to_string();
            assert!(error.starts_with("io_uring is not available"), "{error}");
            assert!(error.ends_with("choose the threads engine"), "{error}");
            let mut engine = open_engine(4, EngineKind::Auto).unwrap();
            assert_eq!(engine.name(), "threads");
            let pool = BlockPool::new(1).unwrap();
            assert_eq!(read_this_file(&mut *engine, &pool).unwrap(), 100);
        });
    }
}

#[test]
fn a_ring_that_is_taken_away_ends_its_jobs() {
    apart(|| {
        let Ok(mut engine) = open_engine(2, EngineKind::Uring) else {
            return;
        };
        let pool = BlockPool::new(4).unwrap();
        assert_eq!(read_this_file(&mut *engine, &pool).unwrap(), 100);
        forbid(ENTER, libc::EPERM);
        let error = read_this_file(&mut *engine, &pool).unwrap_err();
        assert!(matches!(error, EngineError::Lost(_)), "{error}");
        assert_eq!(pool.in_use(), 1, "what the kernel may still write to is not used again");
        assert_eq!(engine.in_flight(), 0);
        // The kernel never heard of this one.
        let error = read_this_file(&mut *engine, &pool).unwrap_err();
        assert!(matches!(error, EngineError::Lost(_)), "{error}");
        assert_eq!(pool.in_use(), 1);
        drop(engine);
    });
}
