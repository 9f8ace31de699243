//! Two functions that the static libelf of Debian 13 (elfutils 0.192) refers to and does not have.
//! They begin and end a tree of raw chunks (`elf_getdata_rawchunk`), which libbpf never makes.

use std::ffi::c_void;

/// Stand-in for a function of elfutils that is linked and never called.
// SAFETY: the name is that of elfutils' `lib/eu-search.h`, with its types. No other object that is
// linked defines it: where a libelf has it, its object file is taken only for other functions of
// the tree, which nothing refers to.
#[unsafe(no_mangle)]
extern "C" fn eu_search_tree_init(_tree: *mut c_void, _compare: *const c_void) {}

/// Stand-in for a function of elfutils that is linked and never called.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn eu_search_tree_fini(_tree: *mut c_void, _free_node: *const c_void) {}
