//! What reads bytes of strangers, each by itself under a fuzzer that sees which code its bytes reach (libFuzzer).
//!
//! | module | what reads | whose bytes |
//! |---|---|---|
//! | [`flow`], [`raw`] | `dp-flow`: frames, and what two ends of a flow, or of raw mode, make of them | who is on the wire |
//! | [`seal`] | `dp-seal`: the handshake and sealed frames, also of who has the graph's key | who is on the wire, another node |
//! | [`node`] | `dp-node`: a gateway, from what its route brings to its endpoints' pools | another node |
//! | [`channel`] | `dp-channel`: an arena and its rings, a family's memory, one who follows a channel | the program at the other end |
//! | [`pool`] | `dpfd`: an edge in the pool of an endpoint | a sender |
//! | [`words`] | `dpfd`: what services say to each other, accounts; probes, frames of the kernel driver | processes of the node |
//! | [`graph`] | dp-graph.toml(5), what is compiled of it, addresses, users, keys | whoever wrote the file |
//! | [`rules`] | dp-preload.conf(5), `DP_LOG`, control groups | whoever wrote the file |
//!
//! Of most of them a run is a small program: its bytes say what is sent, what becomes of it on its way, and what else happens
//! ([`input`]). So what is changed is a real frame, made in the same run, and no file of frames has to be kept. Frames have no
//! checksum here, and who forges words of a handshake has the key: behind these the bytes would not come.
//!
//! Beside panics, and accesses that AddressSanitizer or a guard page finds, each module says what must hold whatever comes. A run
//! in which nobody forged anything must be right in every way.

pub mod channel;
pub mod flow;
pub mod graph;
pub mod input;
pub mod node;
pub mod pool;
pub mod raw;
pub mod rules;
pub mod seal;
pub mod wire;
pub mod words;

#[doc(hidden)]
pub use libfuzzer_sys;

/// Writes what a target begins with into the folder that `DP_SEEDS` names, if it is set.
pub fn plant(seeds: impl FnOnce() -> Vec<Vec<u8>>) {
    let Some(folder) = std::env::var_os("DP_SEEDS").map(std::path::PathBuf::from) else { return };
    std::fs::create_dir_all(&folder).expect("the folder of DP_SEEDS");
    for (i, seed) in seeds().into_iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{i:02}")), seed).expect("a file there");
    }
}

/// The program of one module.
#[macro_export]
macro_rules! target {
    ($($module:ident)::+) => {
        $crate::libfuzzer_sys::fuzz_target!(
            init: $crate::plant($($module)::+::seeds),
            |bytes: &[u8]| $($module)::+::run(bytes)
        );
    };
}

/// What the fuzzer begins with runs also without it.
#[cfg(test)]
mod tests {
    #[test]
    fn seeds_are_right_in_every_way() {
        for (seeds, run) in [
            (super::flow::seeds(), super::flow::run as fn(&[u8])),
            (super::raw::seeds(), super::raw::run),
            (super::seal::seeds(), super::seal::run),
            (super::node::seeds(), super::node::run),
            (super::channel::seeds(), super::channel::run),
            (super::pool::seeds(), super::pool::run),
            (super::words::seeds(), super::words::run),
            (super::graph::seeds(), super::graph::run),
            (super::rules::seeds(), super::rules::run),
        ] {
            assert!(!seeds.is_empty());
            seeds.iter().for_each(|seed| run(seed));
        }
    }
}
