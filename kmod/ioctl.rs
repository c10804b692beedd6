// SPDX-License-Identifier: GPL-2.0

//! The calls that read(2) and write(2) have no words for. Arguments are copied in once, before they are looked at.

use kernel::{
    bindings,
    error::to_result,
    iov::IovIterSource,
    prelude::*,
    sync::ArcBorrow,
    transmute::{AsBytes, FromBytes},
    types::Opaque,
    uaccess::{UserPtr, UserSlice},
};

use crate::{
    abi::{self, POOL_MAX, POOL_MIN},
    endpoint::Endpoint,
    glue,
};

macro_rules! plain {
    ($($name:ident),+) => {
        $(
            // SAFETY: numbers only, and every pattern of bits is one.
            unsafe impl FromBytes for abi::$name {}
            // SAFETY: numbers only, and no padding without a name.
            unsafe impl AsBytes for abi::$name {}
        )+
    };
}

plain!(Open, Addr, SendTo, SendMsg, PoolInfo, Stat, Node, Iface, Route);

fn copy_in<T: FromBytes>(argument: usize) -> Result<T> {
    UserSlice::new(UserPtr::from_addr(argument), size_of::<T>()).reader().read()
}

fn copy_out<T: AsBytes>(argument: usize, value: &T) -> Result<usize> {
    UserSlice::new(UserPtr::from_addr(argument), size_of::<T>()).writer().write(value)?;
    Ok(0)
}

pub(crate) fn call(
    endpoint: ArcBorrow<'_, Endpoint>,
    nowait: bool,
    command: u32,
    argument: usize,
) -> Result<usize> {
    match command {
        abi::IOC_OPEN => {
            let mut open: abi::Open = copy_in(argument)?;
            if open.version > abi::VERSION {
                return Err(EINVAL);
            }
            open.dpid = Endpoint::open(endpoint, open.dpid, open.version, open.pool)?;
            // The endpoint stays open if its number cannot be told: IOC_STAT has it, too.
            copy_out(argument, &open)
        }
        abi::IOC_TARGET => {
            endpoint.target(copy_in(argument)?)?;
            Ok(0)
        }
        abi::IOC_SENDTO => send_to(&endpoint, nowait, copy_in(argument)?),
        abi::IOC_SENDMSG => send_msg(&endpoint, nowait, copy_in(argument)?),
        abi::IOC_PEER => copy_out(argument, &endpoint.pool()?.last()),
        abi::IOC_POOL => {
            let pool: abi::PoolInfo = copy_in(argument)?;
            if pool.size != 0 && !(POOL_MIN..=POOL_MAX).contains(&pool.size) {
                return Err(EINVAL);
            }
            let size = (pool.size != 0).then_some(pool.size);
            copy_out(argument, &endpoint.pool()?.reshape(size, true, None)?)
        }
        abi::IOC_FSYNC => {
            endpoint.pool()?.release(argument as u64)?;
            Ok(0)
        }
        abi::IOC_NODE => {
            endpoint.network().set_nid(copy_in(argument)?)?;
            Ok(0)
        }
        abi::IOC_ATTACH_IF => {
            endpoint.network().set_iface(&copy_in(argument)?)?;
            Ok(0)
        }
        abi::IOC_NART => {
            endpoint.network().set_route(&copy_in(argument)?)?;
            Ok(0)
        }
        glue::FIONREAD => {
            let len = endpoint.pool()?.next_len().unwrap_or(0);
            copy_out(argument, &i32::try_from(len)?)
        }
        // A program may know of fewer or more fields.
        _ if abi::ioc_without_size(command) == abi::ioc_without_size(abi::IOC_STAT) => {
            stat(&endpoint, argument)
        }
        _ => Err(ENOTTY),
    }
}

pub(crate) fn send_to(endpoint: &Endpoint, nowait: bool, what: abi::SendTo) -> Result<usize> {
    let iter = Opaque::<bindings::iov_iter>::zeroed();
    let from = UserPtr::from_addr(usize::try_from(what.message)?);
    let len = usize::try_from(what.len)?;
    if what.len > abi::MESSAGE_MAX {
        return Err(EMSGSIZE);
    }
    if what.flags & !(abi::SEND_NOWAIT | abi::SEND_TARGET) != 0 || what.pad0 != 0 {
        return Err(EINVAL);
    }
    let to = (what.flags & abi::SEND_TARGET == 0).then_some(what.to);
    let nowait = nowait || what.flags & abi::SEND_NOWAIT != 0;
    // SAFETY: the iterator is written before it is used; the range is checked there.
    to_result(unsafe {
        bindings::import_ubuf(bindings::ITER_SOURCE as i32, from.as_mut_ptr(), len, iter.get())
    })?;
    // SAFETY: just made, to be read from, and on this stack for as long as it is used.
    let message = unsafe { IovIterSource::from_raw(iter.get()) };
    endpoint.send(to, nowait, None, message)
}

/// Pieces that need no memory to be looked at.
const FEW: usize = 8;

fn send_msg(endpoint: &Endpoint, nowait: bool, what: abi::SendMsg) -> Result<usize> {
    let flags = abi::SEND_NOWAIT | abi::SEND_TARGET | abi::SEND_IMMEDIATE;
    let has_immediate = what.flags & abi::SEND_IMMEDIATE != 0;
    if what.flags & !flags != 0 || what.count > abi::PIECES_MAX || (!has_immediate && what.immediate != 0) {
        return Err(EINVAL);
    }
    let to = (what.flags & abi::SEND_TARGET == 0).then_some(what.to);
    let nowait = nowait || what.flags & abi::SEND_NOWAIT != 0;
    let immediate = has_immediate.then_some(what.immediate);
    let from = UserPtr::from_addr(usize::try_from(what.pieces)?);
    let iter = Opaque::<bindings::iov_iter>::zeroed();
    let few = Opaque::<[bindings::iovec; FEW]>::zeroed();
    let mut pieces = few.get().cast::<bindings::iovec>();
    // SAFETY: the iterator is written before it is used; the pieces are copied in and checked there, to `few` or to memory
    // that is told in `pieces`.
    let len = unsafe {
        bindings::import_iovec(
            bindings::ITER_SOURCE as i32,
            from.as_mut_ptr().cast(),
            what.count,
            FEW as u32,
            &mut pieces,
            iter.get(),
        )
    };
    if len < 0 {
        return Err(Error::from_errno(len as i32));
    }
    // SAFETY: just made, to be read from; it and the pieces are there for as long as it is used.
    let sent = endpoint.send(to, nowait, immediate, unsafe { IovIterSource::from_raw(iter.get()) });
    // SAFETY: memory of import_iovec(), or none.
    unsafe { bindings::kfree(pieces.cast()) };
    sent
}

/// As much as the program knows of the structure.
fn stat(endpoint: &Endpoint, argument: usize) -> Result<usize> {
    let known: u32 = copy_in(argument)?;
    let mut stat = endpoint.stat()?;
    stat.size = known.min(size_of::<abi::Stat>() as u32);
    if (stat.size as usize) < size_of_val(&stat.size) {
        return Err(EINVAL);
    }
    let bytes = &<abi::Stat as AsBytes>::as_bytes(&stat)[..stat.size as usize];
    UserSlice::new(UserPtr::from_addr(argument), bytes.len()).writer().write_slice(bytes)?;
    Ok(0)
}
