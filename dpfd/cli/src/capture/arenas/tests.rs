//! Whose memory is whose.

use dp_channel::arena::{Arena as Made, Geometry};
use dp_channel::family::Family;
use dp_channel::slot::{Side, Tuple};

use super::*;

const SLOT: u32 = 3;
const NONCE: u64 = 4711;
const TUPLE: Tuple = Tuple { client: [1; 16], server: [2; 16], client_port: 3, server_port: 4, scope: 0 };
/// Families, by the inodes of their memory.
const CLIENT: u64 = 10;
const SERVER: u64 = 20;
const STRANGER: u64 = 30;

/// Memory with an offer in a slot: the generation, and its file.
fn made(nonce: u64) -> (u32, File) {
    let (arena, fd) = Made::create(Geometry { slots: 16, lines: 64, spare: 0 }).unwrap();
    assert!(arena.bring(SLOT));
    let generation = arena.slot(SLOT).unwrap().offer(&TUPLE, 1, 1, nonce);
    (generation, File::from(fd))
}

fn inode(file: &File) -> u64 {
    use std::os::unix::fs::MetadataExt;
    file.metadata().unwrap().ino()
}

/// One end of the connection, as its family notes it.
fn noted(side: Side, memory: u64) -> (Family, View) {
    let (family, fd) = Family::create().unwrap();
    assert_eq!(family.claim(), Some(0));
    let c = family.conn(0);
    let [client, server] = [(TUPLE.client, TUPLE.client_port), (TUPLE.server, TUPLE.server_port)]
        .map(|(ip, port)| Addr { ip, port, scope: 0 });
    let [nonce, expected] = match side {
        Side::Client => {
            c.reset(side as u32, client, server);
            [NONCE, 5]
        }
        Side::Server => {
            c.reset(side as u32, server, client);
            c.memory.store(memory, Ordering::Relaxed);
            [5, NONCE]
        }
    };
    c.nonce.store(nonce, Ordering::Relaxed);
    c.expected.store(expected, Ordering::Relaxed);
    let view = View::open(&File::from(fd)).unwrap();
    (family, view)
}

#[test]
fn a_strangers_memory_is_not_taken_for_a_connections() {
    let (generation, true_one) = made(NONCE);
    let (same, forged) = made(NONCE);
    let (also, guessed) = made(NONCE + 1);
    assert!(generation == same && generation == also, "they look alike");
    let right = inode(&true_one);
    let (_client, client) = noted(Side::Client, 0);
    let (_server, server) = noted(Side::Server, right);
    let of_client = (CLIENT, &client);
    let mut arenas = Arenas::new(KEPT);
    let found = |arenas: &Arenas, (family, view): (u64, &View)| {
        arenas.find(family, view, &view.connection(0), [SLOT, generation]).map(|memory| memory.key()[1])
    };
    arenas.add(STRANGER, forged);
    assert_eq!((found(&arenas, of_client), found(&arenas, (SERVER, &server))), (None, None));
    // One that the stranger gave to the client's family, without the number.
    arenas.add(CLIENT, guessed);
    assert_eq!(found(&arenas, of_client), None);
    arenas.add(SERVER, true_one);
    // The server has noted it; of the client it is not known yet.
    assert_eq!((found(&arenas, of_client), found(&arenas, (SERVER, &server))), (None, Some(right)));
    arenas.share(CLIENT, right);
    assert_eq!(found(&arenas, of_client), Some(right));
}

#[test]
fn memory_is_dropped_with_the_last_who_has_it_or_is_followed_there() {
    let mut arenas = Arenas::new(KEPT);
    let files: Vec<File> = (0..3).map(|_| made(NONCE).1).collect();
    let inodes: Vec<u64> = files.iter().map(inode).collect();
    for (file, family) in files.into_iter().zip([CLIENT, CLIENT, STRANGER]) {
        arenas.add(family, file);
    }
    arenas.share(SERVER, inodes[1]);
    let followed = arenas.all[2].memory.clone().channel(SLOT).unwrap();
    assert!(arenas.put_away(|_| true).is_empty());
    assert_eq!(arenas.put_away(|family| family == SERVER), [inodes[0]]);
    assert_eq!(arenas.put_away(|_| false), [inodes[1]]);
    drop(followed);
    assert_eq!(arenas.put_away(|_| false), [inodes[2]]);
    assert!(arenas.all.is_empty());
}

#[test]
fn one_family_keeps_no_more_than_its_share() {
    let mut arenas = Arenas::new(4);
    let files: Vec<File> = (0..7).map(|_| made(NONCE).1).collect();
    let inodes: Vec<u64> = files.iter().map(inode).collect();
    files.into_iter().for_each(|file| arenas.add(STRANGER, file));
    arenas.share(CLIENT, inodes[0]);
    assert_eq!(arenas.put_away(|_| true), inodes[1..3], "the oldest, but for the client's");
    let followed = arenas.all[1].memory.clone().channel(SLOT).unwrap();
    let (more, last) = (made(NONCE).1, made(NONCE).1);
    arenas.add(STRANGER, more);
    arenas.add(STRANGER, last);
    assert_eq!(arenas.put_away(|_| true), inodes[4..6], "the oldest that nothing is followed in");
    drop(followed);
}
