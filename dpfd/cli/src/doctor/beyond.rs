//! A process's connections that leave its network namespace: with a program of this machine, or with another machine.

use std::collections::BTreeMap;

use super::{process, Finding};
use crate::ls::sockets::{Beyond, Sockets};

pub fn examine(pid: u32) -> Vec<Finding> {
    let (open, hidden) = Sockets::default().beyond(pid);
    told(&open, hidden, process::name)
}

/// `hidden`: there may be network namespaces that could not be looked into.
fn told(open: &[Beyond], hidden: bool, name: impl Fn(u32) -> String) -> Vec<Finding> {
    let mut here: BTreeMap<Option<u32>, usize> = BTreeMap::new();
    let mut elsewhere = 0;
    for connection in open {
        match &connection.with {
            // Those that it forked have it, too.
            Some(with) => *here.entry(with.iter().copied().min()).or_default() += 1,
            None => elsewhere += 1,
        }
    }
    let finding = |(pid, n): (Option<u32>, usize)| {
        let with = pid.map_or_else(|| "a program that you may not see".into(), &name);
        let text = format!(
            "{n} open with {with}, in another network namespace of this machine: that stays on TCP (remote)"
        );
        let way_out =
            "let both share one network namespace, as the containers of a pod do; or leave it on TCP";
        Finding::note("network", text, way_out)
    };
    let mut found: Vec<Finding> = here.into_iter().map(finding).collect();
    let text = format!("{elsewhere} open with other machines");
    match (elsewhere, hidden) {
        (0, _) => {}
        (_, false) => found.push(Finding::fine("network", format!("{text}: that stays on TCP"))),
        (_, true) => {
            let text = format!("{text}, or network namespaces that you may not look into: that stays on TCP");
            found.push(Finding::note("network", text, "ask as root to know which"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_the_other_end_is_named_with_what_would_help() {
        let to = |with: Option<&[u32]>| Beyond {
            own: "10.0.0.1:40000".parse().unwrap(),
            other: "10.0.0.2:80".parse().unwrap(),
            with: with.map(|pids| pids.iter().copied().collect()),
        };
        let open = [to(Some(&[72, 71])), to(Some(&[71])), to(Some(&[])), to(None)];
        let texts = |hidden| -> Vec<String> {
            told(&open, hidden, |pid| format!("redis ({pid})")).into_iter().map(|found| found.text).collect()
        };
        assert_eq!(
            texts(false),
            [
                "1 open with a program that you may not see, in another network namespace of this machine: that stays on TCP (remote)",
                "2 open with redis (71), in another network namespace of this machine: that stays on TCP (remote)",
                "1 open with other machines: that stays on TCP",
            ]
        );
        assert!(texts(true)[2].contains("network namespaces that you may not look into"));
        assert_eq!(told(&[], true, |_| String::new()), []);
    }
}
