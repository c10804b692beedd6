//! Why a connection is on TCP: one word each, for `dp ls` and dp-preload(7).

macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $name:ident = $n:literal, $word:literal, $text:literal;)*) => {
        /// Why a connection stayed on TCP, or went back to it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Reason { $(#[doc = $text] $name = $n,)* }

        impl Reason {
            /// All of them.
            pub const ALL: &'static [Reason] = &[$(Reason::$name,)*];
            /// The word that `dp ls` prints.
            pub fn word(self) -> &'static str { match self { $(Reason::$name => $word,)* } }
            /// What it means, in a sentence.
            pub fn text(self) -> &'static str { match self { $(Reason::$name => $text,)* } }
            /// From its number.
            pub fn from_number(n: u32) -> Option<Reason> {
                match n { $($n => Some(Reason::$name),)* _ => None }
            }
        }
    };
}

reasons! {
    None = 0, "-", "Nothing keeps it on TCP.";
    Rules = 1, "rules", "The rules leave this address on TCP.";
    Remote = 2, "remote", "The other end is not on this host, or in another network namespace of it.";
    NoDoor = 3, "no-door", "The server has no door at its address: it does not run under the shim, or could not have one.";
    Owner = 4, "owner", "Who answered at the door, or came through it, does not hold the other end of the connection.";
    Version = 5, "version", "The other side speaks another version of the channel protocol.";
    Memory = 6, "memory", "There was no memory or no descriptor for the rings.";
    Slots = 7, "slots", "As many connections, programs or addresses as the shim can track are in use.";
    Silent = 8, "silent", "The other side never took the offer.";
    NoOffer = 9, "no-offer", "The client made no offer: it does not run under the shim.";
    Shared = 10, "shared", "Other descriptors stand for the socket, or may.";
    Exec = 11, "exec", "The process executed another program with the socket open.";
    Passed = 12, "passed", "The socket was passed to another process.";
    Stdio = 13, "stdio", "The socket was given to stdio (fdopen).";
    IoUring = 14, "io_uring", "An io_uring was told of the socket, or the process has one that the shim cannot follow.";
    State = 15, "state", "The descriptor was not the offered connection any more.";
    Option = 16, "option", "A socket option in use is not supported on a channel.";
    Corrupt = 17, "corrupt", "The peer wrote impossible values; the connection was reset.";
    PeerLeft = 18, "peer-left", "The other side went back to TCP.";
    Closed = 19, "closed", "The connection closed before it was worth a channel.";
    NoUnix = 20, "no-unix", "This process may have no AF_UNIX or no AF_NETLINK sockets, by which the two ends find each other and prove that they hold the connection.";
    Sandbox = 21, "sandbox", "The process has forbidden itself system calls (seccomp), the processor's clock, or new descriptors.";
    Nat = 22, "nat", "The connection was made to another address, and translated on its way.";
    Refused = 23, "refused", "The rules refuse the connection, or demand a channel that it could not become.";
    Plugin = 24, "plug-in", "The process has loaded a library whose calls do not come to the shim (RTLD_DEEPBIND, dlmopen).";
}
