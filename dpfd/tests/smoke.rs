//! First light of the endpoints: plain and in place, small and large, closed and opened again.

use dpfd::{Addr, Endpoint};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;

fn dir() {
    std::env::set_var(
        "DP_RUNTIME_DIR",
        std::env::temp_dir().join(format!("dp-smoke-{}", std::process::id())),
    );
}
fn file(e: &Endpoint) -> File {
    e.as_fd().try_clone_to_owned().unwrap().into()
}

#[test]
fn both_modes() {
    dir();
    let a = Endpoint::open(2001).unwrap();
    let b = Endpoint::open(2002).unwrap();
    a.target(Addr::local(2002)).unwrap();
    // plain -> plain
    file(&a).write_all(b"hello").unwrap();
    let mut buf = [0; 100];
    let n = file(&b).read(&mut buf).unwrap();
    assert_eq!(&buf[..n], b"hello");
    a.send(b"two").unwrap();
    let n = file(&b).read(&mut buf).unwrap();
    assert_eq!(&buf[..n], b"two");
    a.send(b"three").unwrap();
    a.send(b"").unwrap();
    let m = b.recv().unwrap();
    assert_eq!((m.to_vec(), m.from()), (b"three".to_vec(), Addr::local(2001)));
    drop(m);
    assert_eq!(b.recv().unwrap().len(), 0);
    for i in 0..10000u32 {
        a.send(&i.to_ne_bytes()).unwrap();
        if i % 3 == 0 {
            b.send_to(&i.to_ne_bytes(), a.addr()).unwrap();
        }
        let m = b.recv().unwrap();
        assert_eq!(m.to_vec(), i.to_ne_bytes());
        drop(m);
        if i % 3 == 0 {
            assert_eq!(a.recv().unwrap().to_vec(), i.to_ne_bytes());
        }
    }
    println!("{:?}\n{:?}", a.stat(), b.stat());
    let big = vec![7u8; 5 << 20];
    a.send(&big).unwrap();
    a.send(b"after").unwrap();
    let m = b.recv().unwrap();
    assert_eq!(m.len(), big.len());
    assert!(m.to_vec() == big);
    drop(m);
    assert_eq!(b.recv().unwrap().to_vec(), b"after");
    drop(a);
    let a = Endpoint::open(2001).unwrap();
    a.target(Addr::local(2002)).unwrap();
    a.send(b"again").unwrap();
    assert_eq!(b.recv().unwrap().to_vec(), b"again");
}
