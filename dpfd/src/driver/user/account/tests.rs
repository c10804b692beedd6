use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use super::*;

fn link() -> impl Strategy<Value = LinkAccount> {
    let state = proptest::sample::select(State::ALL.to_vec());
    (any::<(u16, u16)>(), state, any::<u64>(), any::<(u64, u64)>())
        .prop_map(|(to, state, waiting, sent)| LinkAccount { to, state, waiting, sent })
}

fn edge() -> impl Strategy<Value = EdgeAccount> {
    any::<((u16, u16), (u64, u64))>().prop_map(|(from, received)| EdgeAccount { from, received })
}

prop_compose! {
    fn endpoint()(
        (dpid, serial, pooled) in any::<(u16, u32, bool)>(),
        pool in of(any::<(usize, usize)>()),
        target in of(any::<(u16, u16)>()),
        received in of(any::<(u64, u64)>()),
        loaned in of(any::<usize>()),
        to in of(vec(link(), 0..4)),
        from in of(vec(edge(), 0..4)),
    ) -> EndpointAccount {
        EndpointAccount { dpid, serial, pooled, pool, target, received, loaned, to, from }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(endpoints in vec(endpoint(), 0..5)) {
        let account = Account { endpoints };
        prop_assert_eq!(Account::read(&account.to_string()), Some(account));
    }

    #[test]
    fn a_part_of_it_is_none(endpoints in vec(endpoint(), 1..3), cut in 1usize..30) {
        let text = Account { endpoints }.to_string();
        // A whole line less is an account, too.
        let end = text.len().saturating_sub(cut);
        prop_assert!(text[..end].ends_with('\n') || Account::read(&text[..end]).is_none());
    }

    #[test]
    fn hostile_text_is_refused_and_never_panics(
        lines in vec("(endpoint|link|edge|no-links|no-edges|x)( (-|[0-9]{1,22}|edge|plain)){0,12}", 0..6)
    ) {
        let text = format!("{HEAD}\n{}\n", lines.join("\n"));
        if let Some(account) = Account::read(&text) {
            prop_assert_eq!(Account::read(&account.to_string()), Some(account));
        }
    }
}

#[test]
fn another_version_is_not_believed() {
    assert_eq!(Account::read("dp-account 1\n"), Some(Account::default()));
    for text in ["", "dp-account 1", "dp-account 2\n", "{\"endpoints\":[]}\n", "dp-account 1\nedge 1 2 3 4\n"]
    {
        assert_eq!(Account::read(text), None, "{text}");
    }
}
