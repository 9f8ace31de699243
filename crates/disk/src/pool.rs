//! A fixed number of aligned blocks: the memory bound of a transfer.
//!
//! One anonymous mapping holds all blocks. The kernel gives it memory when a block is first
//! written, and the block that came back last is handed out first, so a pool that is never under
//! pressure stays small. The mapping asks for huge pages: Direct I/O then pins 2 pages per block
//! instead of 1024, and the device gets few long segments instead of many short ones.

use std::ffi::c_void;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Size and alignment of a block in bytes.
pub const BLOCK_SIZE: usize = 4 << 20;

/// A bounded pool of [`Block`]s in memory. Clones share the same blocks.
#[derive(Clone, Debug)]
pub struct BlockPool {
    shared: Arc<PoolMemory>,
}

/// A buffer of [`BLOCK_SIZE`] bytes, aligned to its size. It goes back to its pool when dropped.
///
/// The content is whatever the previous owner left.
#[derive(Debug)]
pub struct Block {
    bytes: NonNull<u8>,
    shared: Arc<PoolMemory>,
}

/// Error: the pool was closed before a block was free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the block pool is closed")]
pub struct Closed;

/// Memory of a pool and the list of its free blocks, which all clones of the pool and its blocks
/// share.
#[derive(Debug)]
struct PoolMemory {
    mapping: Mapping,
    state: Mutex<FreeBlocks>,
    changed: Condvar,
}

/// Free blocks of a pool, and the order in which the threads that wait for one are served.
#[derive(Debug)]
struct FreeBlocks {
    /// Addresses of the free blocks; the last one is handed out next.
    free: Vec<NonNull<u8>>,
    /// Present number of blocks of the pool, of those that it may have.
    capacity: usize,
    /// Ticket numbers: the one that is issued next, and the one that is served next. Blocks are
    /// handed out in the order of requests, so that no thread waits forever where there are more
    /// threads than blocks.
    last_ticket: u64,
    turn: u64,
    closed: bool,
}

// SAFETY: the pointers of `FreeBlocks` and `Block` refer to disjoint blocks of the mapping; each is
// either in the free list (behind the mutex) or owned by exactly one `Block`. The mapping lives as
// long as the last `Arc<PoolMemory>`.
unsafe impl Send for FreeBlocks {}
// SAFETY: see `FreeBlocks`: a block has exclusive access to its bytes, and shared access to a
// `&Block` only reads them.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl BlockPool {
    /// New pool of `blocks` blocks (at least one).
    ///
    /// # Errors
    /// Error of `mmap`, when the kernel grants no address space, or `InvalidInput` for a size
    /// beyond the address space.
    pub fn new(blocks: usize) -> io::Result<Self> {
        Self::growing(blocks, blocks)
    }

    /// New pool of `blocks` blocks (at least one) that may grow to `most` blocks. A block that was
    /// never used takes no memory.
    ///
    /// # Errors
    /// As [`BlockPool::new`].
    pub fn growing(blocks: usize, most: usize) -> io::Result<Self> {
        let capacity = blocks.max(1);
        let mapping = Mapping::new(most.max(capacity))?;
        let free = (0..capacity).rev().map(|index| mapping.block(index)).collect();
        let state = Mutex::new(FreeBlocks { free, capacity, last_ticket: 0, turn: 0, closed: false });
        Ok(Self { shared: Arc::new(PoolMemory { mapping, state, changed: Condvar::new() }) })
    }

    /// New pool without blocks, which is closed: for where payloads are not expected. It takes no
    /// memory.
    #[must_use]
    pub fn without_blocks() -> Self {
        let state = Mutex::new(FreeBlocks { free: Vec::new(), capacity: 0, last_ticket: 0, turn: 0, closed: true });
        Self { shared: Arc::new(PoolMemory { mapping: Mapping::EMPTY, state, changed: Condvar::new() }) }
    }

    /// Takes a free block; waits until there is one, behind the threads that wait already.
    ///
    /// # Errors
    /// [`Closed`] as soon as the pool is closed.
    pub fn take(&self) -> Result<Block, Closed> {
        let mut state = self.shared.lock();
        let number = state.last_ticket;
        state.last_ticket += 1;
        loop {
            if state.closed {
                return Err(Closed);
            }
            if state.turn == number
                && let Some(bytes) = state.free.pop()
            {
                state.turn += 1;
                // There may be one for the next as well.
                if state.turn < state.last_ticket && !state.free.is_empty() {
                    self.shared.changed.notify_all();
                }
                return Ok(Block { bytes, shared: Arc::clone(&self.shared) });
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes a free block, if there is one that no other thread waits for, and the pool is open;
    /// `None` otherwise.
    #[must_use]
    pub fn try_take(&self) -> Option<Block> {
        let mut state = self.shared.lock();
        if state.closed || state.turn < state.last_ticket {
            return None;
        }
        state.free.pop().map(|bytes| Block { bytes, shared: Arc::clone(&self.shared) })
    }

    /// Adds one block, up to the limit of the pool.
    pub fn grow(&self) {
        let mut state = self.shared.lock();
        if state.capacity < self.shared.mapping.blocks {
            let block = self.shared.mapping.block(state.capacity);
            state.capacity += 1;
            state.free.push(block);
            drop(state);
            self.shared.changed.notify_all();
        }
    }

    /// Hands out no more blocks and wakes everyone who waits for one. Blocks in use stay valid.
    pub fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }

    /// Present number of blocks of the pool.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.shared.lock().capacity
    }

    /// Number of blocks that are handed out at present.
    #[must_use]
    pub fn in_use(&self) -> usize {
        let state = self.shared.lock();
        state.capacity - state.free.len()
    }
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block owns these BLOCK_SIZE mapped bytes, which the kernel initialised to
        // zero.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr(), BLOCK_SIZE) }
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.as_ptr(), BLOCK_SIZE) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.free.push(self.bytes);
        if state.turn < state.last_ticket {
            drop(state);
            // Only the one whose turn it is may take it.
            self.shared.changed.notify_all();
        }
    }
}

impl PoolMemory {
    fn lock(&self) -> MutexGuard<'_, FreeBlocks> {
        // No code that can panic runs under this lock, so the state behind a poisoned one is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Memory mapping of all blocks, one block larger than they are, so that the first can start
/// aligned.
#[derive(Debug)]
struct Mapping {
    start: NonNull<c_void>,
    length: usize,
    blocks: usize,
}

// SAFETY: the mapping is only an address range; access to its bytes goes through `Block`.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Mapping without memory, for a pool without blocks.
    const EMPTY: Self = Self { start: NonNull::dangling(), length: 0, blocks: 0 };

    /// Maps address space for `blocks` blocks; memory is used only for blocks that are written.
    fn new(blocks: usize) -> io::Result<Self> {
        let length = blocks
            .checked_add(1)
            .and_then(|blocks| blocks.checked_mul(BLOCK_SIZE))
            .filter(|&length| isize::try_from(length).is_ok())
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no other
        // memory.
        let start = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), length, protection, flags)? };
        // SAFETY: the range is the mapping just made; the advice changes no content. It is a hint:
        // kernels without transparent huge pages refuse it, and the pool works the same with small
        // pages.
        let _ = unsafe { rustix::mm::madvise(start, length, Advice::LinuxHugepage) };
        let start = NonNull::new(start).expect("mmap gives no address 0");
        Ok(Self { start, length, blocks })
    }

    /// Address of block number `index`, aligned to [`BLOCK_SIZE`]. `index` must be less than the
    /// number of blocks, which is not checked.
    fn block(&self, index: usize) -> NonNull<u8> {
        let start = self.start.cast::<u8>();
        let lead = start.as_ptr().align_offset(BLOCK_SIZE);
        // SAFETY: lead < BLOCK_SIZE and index < blocks, so the block ends within the (blocks + 1)
        // of the mapping.
        unsafe { start.add(lead + index * BLOCK_SIZE) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.length == 0 {
            return;
        }
        // SAFETY: every `Block` holds the `Arc` that owns this mapping, so none is left.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn blocks_are_aligned_disjoint_and_bounded() {
        let pool = BlockPool::new(3).unwrap();
        let mut blocks: Vec<Block> = (0..3).map(|_| pool.take().unwrap()).collect();
        for (index, block) in blocks.iter_mut().enumerate() {
            assert_eq!(block.len(), BLOCK_SIZE);
            assert_eq!(block.as_ptr() as usize % BLOCK_SIZE, 0);
            block.fill(index as u8 + 1);
        }
        for (index, block) in blocks.iter().enumerate() {
            assert!(block.iter().all(|&byte| byte == index as u8 + 1));
        }
        assert_eq!((pool.capacity(), pool.in_use()), (3, 3));
        assert!(pool.try_take().is_none());
        blocks.pop();
        assert_eq!(pool.in_use(), 2);
        assert!(pool.try_take().is_some());
    }

    #[test]
    fn the_block_that_came_back_last_goes_first() {
        let pool = BlockPool::new(8).unwrap();
        let first = pool.take().unwrap().as_ptr() as usize;
        assert_eq!(pool.take().unwrap().as_ptr() as usize, first);
    }

    #[test]
    fn take_waits_for_a_block() {
        let pool = BlockPool::new(1).unwrap();
        let mut block = pool.take().unwrap();
        block[0] = 42;
        let waiter = thread::spawn({
            let pool = pool.clone();
            move || pool.take().unwrap()[0]
        });
        drop(block);
        assert_eq!(waiter.join().unwrap(), 42);
    }

    #[test]
    fn a_pool_that_grows_serves_who_waits_and_grows_no_further_than_it_may() {
        let pool = BlockPool::growing(1, 2).unwrap();
        let first = pool.take().unwrap();
        let waiter = thread::spawn({
            let pool = pool.clone();
            move || pool.take().unwrap().as_ptr() as usize
        });
        pool.grow();
        assert_ne!(waiter.join().unwrap(), first.as_ptr() as usize);
        pool.grow();
        assert_eq!((pool.capacity(), pool.in_use()), (2, 1));
    }

    #[test]
    fn blocks_go_to_those_who_wait_in_the_order_in_which_they_came() {
        let pool = BlockPool::new(1).unwrap();
        let block = pool.take().unwrap();
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for number in 0..16 {
                let (pool, order) = (&pool, &order);
                scope.spawn(move || {
                    let block = pool.take().unwrap();
                    order.lock().unwrap().push(number);
                    drop(block);
                });
                while pool.shared.lock().last_ticket < number + 2 {
                    thread::yield_now();
                }
            }
            drop(block);
            assert!(pool.try_take().is_none() || pool.shared.lock().turn == 17, "it overtakes nobody");
        });
        assert_eq!(order.into_inner().unwrap(), (0..16).collect::<Vec<_>>());
        assert!(pool.try_take().is_some());
    }

    #[test]
    fn close_wakes_all_waiters() {
        let pool = BlockPool::new(1).unwrap();
        let block = pool.take().unwrap();
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let pool = pool.clone();
                thread::spawn(move || pool.take().map(drop))
            })
            .collect();
        pool.close();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Err(Closed));
        }
        drop(block);
        assert!(pool.try_take().is_none());
        assert_eq!(pool.take().map(drop), Err(Closed));
    }

    #[test]
    fn a_block_outlives_its_pool() {
        let pool = BlockPool::new(2).unwrap();
        let mut block = pool.take().unwrap();
        drop(pool);
        block.fill(7);
        assert_eq!(block[BLOCK_SIZE - 1], 7);
    }

    #[test]
    fn sizes_beyond_the_address_space_are_refused() {
        assert!(BlockPool::new(usize::MAX).is_err());
        assert!(BlockPool::new(usize::MAX / BLOCK_SIZE).is_err());
    }
}
