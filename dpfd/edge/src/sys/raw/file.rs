//! Descriptors and small files.

use super::{call, Res};

/// ioctl(2) with a request that writes one int (FIONREAD, SIOCOUTQ).
pub fn ioctl_int(fd: i32, request: libc::c_ulong) -> Result<i32, i32> {
    let mut value = 0i32;
    sys!(SYS_ioctl, fd, request, &mut value as *mut i32)?;
    Ok(value)
}

/// fcntl(2) with a plain argument.
#[inline]
pub fn fcntl(fd: i32, cmd: i32, arg: usize) -> Res {
    sys!(SYS_fcntl, fd, cmd, arg)
}

/// Whether O_NONBLOCK is set on the open file.
#[inline]
pub fn is_nonblocking(fd: i32) -> bool {
    fcntl(fd, libc::F_GETFL, 0).is_ok_and(|f| f as i32 & libc::O_NONBLOCK != 0)
}

/// close(2).
pub fn close(fd: i32) {
    let _ = sys!(SYS_close, fd);
}

/// `/dev/null`, closed on exec.
pub fn open_null() -> Result<i32, i32> {
    let flags = libc::O_RDWR | libc::O_CLOEXEC;
    sys!(SYS_openat, libc::AT_FDCWD, c"/dev/null".as_ptr(), flags, 0).map(|fd| fd as i32)
}

/// dup3(2): `to` is of what `from` is of, and closed on exec.
pub fn dup_over(from: i32, to: i32) -> Res {
    sys!(SYS_dup3, from, to, libc::O_CLOEXEC)
}

/// Device and number of the file that a descriptor is of, fstat(2).
pub fn file_of(fd: i32) -> Result<[u64; 2], i32> {
    // SAFETY: plain data.
    let mut meta: libc::stat = unsafe { core::mem::zeroed() };
    sys!(SYS_fstat, fd, &mut meta as *mut libc::stat).map(|_| [meta.st_dev as u64, meta.st_ino as u64])
}

/// A path with a number in it, and a zero at its end. By hand: a thread may be ended by a signal's handler anywhere in calls
/// that use it, and what formats has something to drop.
pub fn numbered(before: &[u8], number: u32, after: &[u8]) -> [u8; 64] {
    let mut path = [0u8; 64];
    let mut digits = [0u8; 10];
    let (mut at, mut rest) = (digits.len(), number);
    while at == digits.len() || rest > 0 {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let text = before.iter().chain(&digits[at..]).chain(after);
    for (to, from) in path[..63].iter_mut().zip(text) {
        *to = *from;
    }
    path
}

/// Adds a line to the end of a file, which is made if need be; what cannot be written, is not.
pub fn append(path: &core::ffi::CStr, line: &[u8]) {
    let how = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
    let Ok(fd) = sys!(SYS_openat, libc::AT_FDCWD, path.as_ptr(), how, 0o666usize) else { return };
    let pieces =
        [line, b"\n"].map(|piece| libc::iovec { iov_base: piece.as_ptr() as *mut _, iov_len: piece.len() });
    let _ = sys!(SYS_writev, fd, pieces.as_ptr(), pieces.len());
    close(fd as i32);
}

/// Reads a whole small file into `buf`; how much there was.
pub fn read_file(path: &core::ffi::CStr, buf: &mut [u8]) -> Res {
    let fd = sys!(SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0usize)?;
    let mut n = 0;
    let result = loop {
        if n == buf.len() {
            break Ok(n);
        }
        match sys!(SYS_read, fd, buf[n..].as_mut_ptr(), buf.len() - n) {
            Ok(0) => break Ok(n),
            Ok(k) => n += k,
            Err(e) => break Err(e),
        }
    };
    close(fd as i32);
    result
}

/// The longest line that [`read_lines`] tells in full.
const LINE: usize = 256;

/// Tells `f` each line of a file, without its end. Longer ones than 256 bytes are cut, since the caller's stack may be a small
/// one.
///
/// # Errors
///
/// Those of open(2) and read(2).
pub fn read_lines(path: &core::ffi::CStr, f: impl FnMut(&[u8])) -> Result<(), i32> {
    let fd = sys!(SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0usize)?;
    let result = lines(|to| sys!(SYS_read, fd, to.as_mut_ptr(), to.len()), f);
    close(fd as i32);
    result
}

fn lines(mut read: impl FnMut(&mut [u8]) -> Res, mut f: impl FnMut(&[u8])) -> Result<(), i32> {
    let (mut buf, mut n, mut cut) = ([0u8; LINE], 0, false);
    loop {
        let end = match read(&mut buf[n..])? {
            0 => {
                if n > 0 {
                    f(&buf[..n]);
                }
                return Ok(());
            }
            more => n + more,
        };
        let mut start = 0;
        while let Some(length) = buf[start..end].iter().position(|&b| b == b'\n') {
            // The rest of a line that was told is none.
            if !core::mem::take(&mut cut) {
                f(&buf[start..start + length]);
            }
            start += length + 1;
        }
        buf.copy_within(start..end, 0);
        n = end - start;
        if n == LINE {
            if !cut {
                f(&buf);
            }
            (n, cut) = (0, true);
        } else if cut {
            n = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lines_are_told_once_and_long_ones_cut(
            text in proptest::collection::vec(prop_oneof![9 => Just(b'x'), 1 => Just(b'\n'), 1 => any::<u8>()], 0..2000),
            step in 1usize..400,
        ) {
            let (mut at, mut told) = (0, Vec::new());
            let read = |to: &mut [u8]| {
                let n = step.min(to.len()).min(text.len() - at);
                to[..n].copy_from_slice(&text[at..at + n]);
                at += n;
                Ok(n)
            };
            lines(read, |line| told.push(line.to_vec())).unwrap();
            let mut expected: Vec<Vec<u8>> = text.split(|&b| b == b'\n').map(|line| line[..line.len().min(LINE)].to_vec()).collect();
            // Behind the last line end there is no line.
            if expected.last().is_some_and(Vec::is_empty) {
                expected.pop();
            }
            prop_assert_eq!(told, expected);
        }
    }
}
