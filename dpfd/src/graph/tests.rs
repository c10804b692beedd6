use super::*;

const SOUND: &str = "dp-graph 1\nstrict\nedge 1/1 1/5\nedge 1/2 2/2\nedge 2/1 1/3\nend\n";

fn there(nid: Nid, dpid: Dpid) -> Addr {
    Addr { nid, dpid }
}

#[test]
fn a_strict_part_allows_its_nodes_edges_and_no_others() {
    let part = Part::parse(SOUND, 1).unwrap();
    assert!(part.allows(1, Addr::local(5)) && part.allows(1, there(1, 5)) && part.allows(2, there(2, 2)));
    assert!(!part.allows(5, Addr::local(1)), "an edge is one direction");
    assert!(!part.allows(1, there(2, 1)) && !part.allows(1, Addr::local(3)));
    let other = Part::parse(SOUND, 2).unwrap();
    assert!(
        other.allows(1, there(1, 3)) && !other.allows(1, Addr::local(5)) && !other.allows(2, Addr::local(2))
    );
}

#[test]
fn a_part_that_is_not_strict_allows_everything() {
    let part = Part::parse(&SOUND.replace("strict\n", ""), 1).unwrap();
    assert!(part.allows(9, there(9, 9)));
}

#[test]
fn what_is_refused_is_told_with_both_nodes() {
    let why = Part::parse(SOUND, 1).unwrap().check(2, Addr::local(9)).unwrap_err();
    assert_eq!(why.errno(), libc::EACCES);
    assert!(why.to_string().contains("no edge 1/2 -> 1/9"), "{why}");
}

#[test]
fn lines_of_others_are_passed_over() {
    let text = SOUND.replace("strict\n", "strict\nroute 2 udp 192.0.2.1:7100\n\n");
    assert_eq!(Part::parse(&text, 1), Part::parse(SOUND, 1));
}

#[test]
fn a_file_that_is_none_is_told_apart() {
    let said = |text: &str| Part::parse(text, 1).unwrap_err();
    assert_eq!(said(""), "no compiled graph");
    assert_eq!(said("strict = true\n"), "no compiled graph");
    assert_eq!(said("dp-graph 2\nend\n"), "compiled by a dp that is newer than this library");
    assert_eq!(said(SOUND.strip_suffix("end\n").unwrap()), "the end is missing");
    assert_eq!(said("dp-graph 1\nedge 1/1\nend\n"), "line 2 is no edge");
    assert_eq!(said("dp-graph 1\nedge 1 5\nend\n"), "line 2 is no edge");
}
