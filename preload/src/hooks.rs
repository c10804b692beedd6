//! The symbols that the shim replaces, by the [`crate::table`].

#![allow(missing_docs, non_snake_case)]

use core::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};

use libc::{
    epoll_event, fd_set, iovec, mmsghdr, msghdr, off64_t, off_t, pollfd, sigset_t, size_t, sockaddr,
    socklen_t, ssize_t, timespec, timeval, FILE,
};

use crate::real::{Iocb, Params, Ring};
use crate::table::table;
use crate::{ops, signals};

macro_rules! hook {
    (quick $name:ident ($($v:ident: $t:ty),*) -> $r:ty = $body:path) => {
        mod $name {
            use super::*;
            redhook::hook! {
                unsafe fn $name($($v: $t),*) -> $r => hook {
                    // SAFETY: the program's own arguments, handed on as they came.
                    unsafe { $body($($v),*) }
                }
            }
        }
    };
    ($form:ident $name:ident ($($v:ident: $t:ty),*) -> $r:ty = $body:path) => {
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $name($($v: $t),*) -> $r {
            // SAFETY: the program's own arguments, handed on as they came.
            unsafe { $body($($v),*) }
        }
    };
}

macro_rules! hooks {
    ($($form:ident fn $name:ident($($v:ident: $t:ty),*) -> $r:ty = $body:path;)*) => {
        $(hook!($form $name($($v: $t),*) -> $r = $body);)*
    };
}

table!(hooks);
