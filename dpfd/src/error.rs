//! What can go wrong with an endpoint: an errno and a sentence each.

use std::io;
use std::path::PathBuf;

use crate::addr::{Addr, Dpid, Nid, PRIVILEGED};

/// Why an immediate cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoImmediate {
    /// The receiver does not know that there are any.
    #[error("its program knows none; start it again with this version of the library, or send without one")]
    OldReceiver,
    /// The module does not know that there are any.
    #[error("the kernel's module dp is older than this library; load the one that belongs to it, or send without one")]
    OldModule,
    /// The kernel driver's frames have no place for one.
    #[error("the kernel driver carries none to other nodes; send without one")]
    OtherNode,
}

/// Why a call on an endpoint failed. [`Error::errno`] is what the C interface puts into `errno`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// EINVAL: a number that no endpoint has.
    #[error("endpoint number {0} is not in 0..=65535 (0: any free one)")]
    BadDpid(i64),
    /// EINVAL: a number that no node has.
    #[error("node number {0} is not in 0..=65535 (0: this node)")]
    BadNid(i64),
    /// EADDRINUSE: the number is taken on this node.
    #[error("endpoint {0} is open already; `dp ls` shows by whom")]
    InUse(Dpid),
    /// EACCES: a number for privileged programs.
    #[error("endpoint {0} is below {PRIVILEGED} and needs CAP_NET_BIND_SERVICE; choose a higher number")]
    Privileged(Dpid),
    /// ENFILE: all numbers are taken.
    #[error("no endpoint number is free on this node")]
    NoneFree,
    /// EACCES and others: the folder in which endpoints find each other cannot be used.
    #[error("{}: {what}; set DP_RUNTIME_DIR to a folder of your own", path.display())]
    Folder {
        /// The folder, or what lies in it.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
        /// The errno.
        errno: i32,
    },
    /// EBADF: not a descriptor of an endpoint that this process opened.
    #[error("descriptor {0} is no endpoint that this process opened")]
    NotAnEndpoint(i32),
    /// EDESTADDRREQ: nowhere to send to.
    #[error("the endpoint has no target; set one with dp_target, or name it with dp_sendto")]
    NoTarget,
    /// EHOSTUNREACH: no route leads to that node.
    #[error(
        "no route to node {0}: it is not this node, and no gateway serves it here; start one in this DP_RUNTIME_DIR, or, with \
         the kernel driver, say where the node is (dp device)"
    )]
    NoRoute(Nid),
    /// ENOENT: the gateway of this node has no route of that name.
    #[error("no route {name} from this node: {why}")]
    NoSuchRoute {
        /// The name.
        name: String,
        /// Which there are, or why there are none.
        why: String,
    },
    /// EADDRINUSE: another process is the gateway of this node.
    #[error("process {process} is the gateway of this node already; end it first")]
    HasGateway {
        /// Its name in the registry, which begins with its number.
        process: String,
    },
    /// EACCES: the endpoint belongs to a user who does not let this one send.
    #[error("endpoint {0} belongs to another user")]
    Denied(Addr),
    /// EACCES: the gateway of this node belongs to a user who does not let this one send by it.
    #[error(
        "the gateway of this node is another user's, and takes nothing for endpoint {0} from this one: let that user, or root, run \
         this program, or start a gateway of this user's as a node of its own, in another DP_RUNTIME_DIR"
    )]
    NotItsGateway(Addr),
    /// EACCES: the gateway of this node has a strict graph without that edge.
    #[error(
        "the graph of this node's gateway is strict and has no edge {from} -> {to}; add it, and start the gateways again, or send \
         along another edge"
    )]
    NoEdge {
        /// The sender.
        from: Addr,
        /// Where it would send.
        to: Addr,
    },
    /// EACCES: the graph is strict, and has no such edge.
    #[error(
        "the graph in DP_GRAPH is strict and has no edge {from} -> {to}; add it to the file that this was compiled from, and \
         compile that again (dp graph compile), or send along another edge"
    )]
    NotInGraph {
        /// The sender.
        from: Addr,
        /// Where it would send.
        to: Addr,
    },
    /// EINVAL, ENOENT and others: what `DP_GRAPH` names is no compiled graph.
    #[error("DP_GRAPH={}: {what}; name a file that dp graph compile made, or unset it", path.display().to_string().escape_debug())]
    Graph {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
        /// The errno.
        errno: i32,
    },
    /// EMSGSIZE: longer than the destination can take.
    #[error("a message of {len} bytes to {to}: the limit is {limit}")]
    TooLong {
        /// The message.
        len: usize,
        /// Where it should go.
        to: Addr,
        /// What would go.
        limit: usize,
    },
    /// EPROTONOSUPPORT: a message with an immediate that would not be told. It was not sent.
    #[error("a message with an immediate to {0}: {1}")]
    NoImmediate(Addr, NoImmediate),
    /// EINVAL: more pieces than one message may have.
    #[error("a message of {count} pieces: the limit is {limit}; put some together first")]
    TooManyPieces {
        /// Its pieces.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// EAGAIN: nothing there, or no room, and the endpoint does not wait.
    #[error("nothing to receive, or no room to send, at the moment")]
    WouldBlock,
    /// EINTR: a signal came while the call waited.
    #[error("interrupted by a signal")]
    Interrupted,
    /// EINVAL: more messages released than are loaned out.
    #[error("{asked} messages released, but only {loaned} are loaned out")]
    NotLoaned {
        /// What was asked.
        asked: usize,
        /// What is there.
        loaned: usize,
    },
    /// EINVAL: a pool that cannot be.
    #[error("a pool of {0} bytes: 4096 to 1073741824 are possible")]
    BadPool(usize),
    /// EBUSY: the pool is there and keeps its size.
    #[error("the endpoint has a pool already, of {0} bytes; its size stays")]
    HasPool(usize),
    /// EINVAL: an option or a value that there is not.
    #[error("option {0}: unknown, or not with this value")]
    BadOption(i32),
    /// ESHUTDOWN: the endpoint was closed under the call.
    #[error("the endpoint was closed")]
    Closed,
    /// EPROTO: another process wrote what no honest one writes; the edge was given up.
    #[error("a sender wrote an impossible value into its edge; the edge was closed")]
    Corrupt,
    /// EAGAIN: no thread could be made.
    #[error("pthread_create: no more threads; raise the limit of processes (ulimit -u, RLIMIT_NPROC), or of memory")]
    NoThread,
    /// ENOENT, EACCES and others: /dev/dp cannot be opened, and no other driver was asked for.
    #[error(
        "the kernel driver cannot be used: /dev/dp: {}; load it (modprobe dp) and let this user open it, or let the \
         library serve (DP_DRIVER=user)",
        io::Error::from_raw_os_error(*errno)
    )]
    NoKernelDriver {
        /// What open(2) said.
        errno: i32,
    },
    /// EINVAL: there is no such driver.
    #[error("DP_DRIVER={0}: no such driver; set it to user or kernel, or unset it")]
    BadDriver(String),
    /// ENOMEM: the kernel has no memory for a pool, or the user may not have that much.
    #[error(
        "a pool of {0} bytes: no memory; it counts as the user's locked memory: raise that limit (ulimit -l, \
         RLIMIT_MEMLOCK, or the parameter user_mib of the module dp), or ask for less"
    )]
    PoolMemory(usize),
    /// EPROTO: somebody else who holds the descriptor released messages that are not read yet.
    #[error("another holder of the endpoint moved the positions in its pool; close it and open it again")]
    Meddled,
    /// What the system says to a call the library made.
    #[error("{call}: {}{}", io::Error::from_raw_os_error(*errno), way_out(*errno))]
    System {
        /// The call.
        call: &'static str,
        /// Its errno.
        errno: i32,
    },
}

impl Error {
    /// The errno of the C interface.
    ///
    /// ```
    /// let e = dpfd::Error::InUse(2001);
    /// assert_eq!(e.errno(), 98); // EADDRINUSE
    /// assert!(e.to_string().contains("2001"));
    /// ```
    pub fn errno(&self) -> i32 {
        match self {
            Error::BadDpid(_) | Error::BadNid(_) | Error::NotLoaned { .. } => libc::EINVAL,
            Error::TooManyPieces { .. } => libc::EINVAL,
            Error::BadPool(_) | Error::BadOption(_) | Error::BadDriver(_) => libc::EINVAL,
            Error::InUse(_) | Error::HasGateway { .. } => libc::EADDRINUSE,
            Error::Privileged(_) | Error::Denied(_) | Error::NotItsGateway(_) => libc::EACCES,
            Error::NotInGraph { .. } | Error::NoEdge { .. } => libc::EACCES,
            Error::NoneFree => libc::ENFILE,
            Error::Folder { errno, .. }
            | Error::System { errno, .. }
            | Error::Graph { errno, .. }
            | Error::NoKernelDriver { errno } => *errno,
            Error::NotAnEndpoint(_) => libc::EBADF,
            Error::NoTarget => libc::EDESTADDRREQ,
            Error::NoRoute(_) => libc::EHOSTUNREACH,
            Error::NoSuchRoute { .. } => libc::ENOENT,
            Error::TooLong { .. } => libc::EMSGSIZE,
            Error::NoImmediate(..) => libc::EPROTONOSUPPORT,
            Error::WouldBlock | Error::NoThread => libc::EAGAIN,
            Error::Interrupted => libc::EINTR,
            Error::HasPool(_) => libc::EBUSY,
            Error::Closed => libc::ESHUTDOWN,
            Error::Corrupt | Error::Meddled => libc::EPROTO,
            Error::PoolMemory(_) => libc::ENOMEM,
        }
    }

    /// The errno of a system call that failed, with the call's name.
    pub(crate) fn system(call: &'static str) -> impl Fn(i32) -> Error {
        move |errno| match errno {
            libc::EAGAIN => Error::WouldBlock,
            libc::EINTR => Error::Interrupted,
            _ => Error::System { call, errno },
        }
    }

    /// What happened to a file of the folder in which endpoints find each other.
    pub(crate) fn folder(path: PathBuf, e: &io::Error) -> Error {
        let errno = e.raw_os_error().unwrap_or(libc::EIO);
        match errno {
            // Another folder would not help.
            libc::EMFILE | libc::ENFILE | libc::ENOMEM => Error::System { call: "open", errno },
            _ => Error::Folder { path, what: e.to_string(), errno },
        }
    }

    /// The same from std.
    pub(crate) fn io(call: &'static str) -> impl Fn(io::Error) -> Error {
        move |e| Error::system(call)(e.raw_os_error().unwrap_or(libc::EIO))
    }
}

/// Which limit it is, and what to do about it.
fn way_out(errno: i32) -> String {
    match errno {
        libc::EMFILE => format!(
            "; this process may have {} descriptors: close some, or raise the limit (ulimit -n, RLIMIT_NOFILE)",
            dp_edge::sys::process::descriptor_limit()
        ),
        libc::ENFILE => "; the limit is the machine's: sysctl fs.file-max".into(),
        libc::ENOMEM => "; memory, address space (ulimit -v, RLIMIT_AS) or mappings (sysctl vm.max_map_count) are \
                         used up: free some, or raise the limit"
            .into(),
        libc::ENOSPC => "; the file system, or the memory behind it, is full".into(),
        libc::EFBIG => "; files may not be that large: raise the limit (ulimit -f, RLIMIT_FSIZE)".into(),
        _ => String::new(),
    }
}

impl From<Error> for io::Error {
    fn from(e: Error) -> io::Error {
        let kind = io::Error::from_raw_os_error(e.errno()).kind();
        io::Error::new(kind, e)
    }
}

/// What the calls of this crate return.
pub type Result<T> = core::result::Result<T, Error>;
