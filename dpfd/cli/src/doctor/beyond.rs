//! A process's connections that leave its network namespace: with a program of this machine, or with another machine.

use std::collections::BTreeMap;

use super::{process, Finding};
use crate::ls::sockets::{Beyond, Sockets};

pub fn examine(pid: u32, sockets: &mut Sockets) -> Vec<Finding> {
    let (open, hidden) = sockets.beyond(pid);
    told(&open, hidden, process::name)
}

/// The programs that have the other ends of connections.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Unseen,
    Nobody,
    Process(u32),
}

/// `hidden`: there may be network namespaces that could not be looked into.
fn told(open: &[Beyond], hidden: bool, name: impl Fn(u32) -> String) -> Vec<Finding> {
    let mut here: BTreeMap<(bool, Who), usize> = BTreeMap::new();
    let mut elsewhere = 0;
    for connection in open {
        let Some(far) = &connection.with else {
            elsewhere += 1;
            continue;
        };
        let who = match &far.by {
            None => Who::Nobody,
            // Those that it forked have it, too.
            Some(by) => by.iter().copied().min().map_or(Who::Unseen, Who::Process),
        };
        *here.entry((far.probable, who)).or_default() += 1;
    }
    let finding = |((probable, who), n): ((bool, Who), usize)| {
        let probably = if probable { "probably " } else { "" };
        let with = match who {
            Who::Unseen => format!("{probably}with a program that you may not see, "),
            Who::Nobody => format!("whose other end nobody has yet, {probably}"),
            Who::Process(pid) => format!("{probably}with {}, ", name(pid)),
        };
        let text = format!(
            "{n} open {with}in another network namespace of this machine: that stays on TCP (remote)"
        );
        let way_out =
            "let both share one network namespace, as the containers of a pod do; or leave it on TCP";
        Finding::note("network", text, way_out)
    };
    let mut found: Vec<Finding> = here.into_iter().map(finding).collect();
    let text = format!("{elsewhere} open with other machines, or behind a translation of addresses");
    match (elsewhere, hidden) {
        (0, _) => {}
        (_, false) => found.push(Finding::fine("network", format!("{text}: that stays on TCP"))),
        (_, true) => {
            let text =
                format!("{text}, or in network namespaces that you may not look into: that stays on TCP");
            found.push(Finding::note("network", text, "ask as root on the host to know which"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ls::sockets::Far;

    #[test]
    fn who_has_the_other_end_is_named_with_what_would_help() {
        let to = |with| Beyond {
            own: "10.0.0.1:40000".parse().unwrap(),
            other: "10.0.0.2:80".parse().unwrap(),
            with,
        };
        let far =
            |pids: &[u32], probable| to(Some(Far { by: Some(pids.iter().copied().collect()), probable }));
        let nobody = to(Some(Far { by: None, probable: false }));
        let open =
            [far(&[72, 71], false), far(&[71], false), far(&[], false), far(&[71], true), nobody, to(None)];
        let texts = |hidden| -> Vec<String> {
            told(&open, hidden, |pid| format!("redis ({pid})")).into_iter().map(|found| found.text).collect()
        };
        assert_eq!(
            texts(false),
            [
                "1 open with a program that you may not see, in another network namespace of this machine: that stays on TCP (remote)",
                "1 open whose other end nobody has yet, in another network namespace of this machine: that stays on TCP (remote)",
                "2 open with redis (71), in another network namespace of this machine: that stays on TCP (remote)",
                "1 open probably with redis (71), in another network namespace of this machine: that stays on TCP (remote)",
                "1 open with other machines, or behind a translation of addresses: that stays on TCP",
            ]
        );
        let last = told(&open, true, |_| String::new()).pop().unwrap();
        assert!(last.text.contains("network namespaces that you may not look into"), "{last:?}");
        assert_eq!(last.way_out.as_deref(), Some("ask as root on the host to know which"));
        assert_eq!(told(&[], true, |_| String::new()), []);
    }
}
