use super::*;

fn written(text: &[u8]) -> OwnedFd {
    let file = File::from(sealed_memory(c"dp-test", text.len()).unwrap());
    file.write_all_at(text, 0).unwrap();
    file.into()
}

#[test]
fn only_sealed_memory_with_an_account_is_read() {
    let account = Account {
        endpoints: vec![EndpointAccount {
            dpid: 7,
            from: Some(Vec::new()),
            to: Some(vec![LinkAccount { to: (2, 3), state: State::Edge, waiting: 1, sent: (4, 5) }]),
            ..EndpointAccount::default()
        }],
    };
    let text = account.to_string().into_bytes();
    assert_eq!(read(written(&text)), Some(account));
    assert_eq!(read(written(&text[..text.len() - 1])), None);
    assert_eq!(read(written(b"[1e999]\n")), None);
    assert_eq!(read(written(b"")), None);
    let (pipe, _writer) = nix::unistd::pipe().unwrap();
    assert_eq!(read(pipe), None, "a read would block");
    let loose = nix::sys::memfd::memfd_create(c"loose", nix::sys::memfd::MFdFlags::empty()).unwrap();
    File::from(loose.try_clone().unwrap()).write_all_at(&text, 0).unwrap();
    assert_eq!(read(loose), None, "its owner could cut it short");
}

#[test]
fn an_endpoint_in_use_is_left_alone_after_a_moment() {
    let start = Instant::now();
    assert_eq!(patiently(|| None::<()>), None);
    assert!(start.elapsed() >= PATIENCE);
    let mut calls = 0;
    let third = patiently(|| {
        calls += 1;
        (calls == 3).then_some(calls)
    });
    assert_eq!(third, Some(3));
}
