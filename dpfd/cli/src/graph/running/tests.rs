use super::*;
use crate::ls::tests::listing;

/// One end of a channel.
fn end(pid: u32, role: &'static str, local: u16, peer: u16, bytes: (u64, u64)) -> Connection {
    let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
    Connection {
        pid,
        program: format!("p{pid}"),
        role: Some(role),
        local: at(local),
        peer: at(peer),
        tx_bytes: bytes.0,
        rx_bytes: bytes.1,
        ..listing().families[0].connections[0].clone()
    }
}

fn running(connections: Vec<Connection>) -> Running {
    let mut families = listing().families;
    families[0].connections = connections;
    let mut running = Running::default();
    // Processes from 100 on are in another network namespace.
    add_channels(&mut running, &families, |pid| u64::from(pid / 100));
    running
}

#[test]
fn channels_of_two_processes_are_one_line() {
    let running = running(vec![
        end(7, "client", 40_000, 80, (10, 20_480)),
        end(7, "client", 40_001, 81, (5, 0)),
        end(9, "server", 80, 40_000, (20_480, 10)),
        end(9, "server", 81, 40_001, (0, 5)),
        Connection { state: "tcp", ..end(7, "client", 40_002, 82, (0, 0)) },
    ]);
    let titles: Vec<_> = running.processes.iter().map(|process| &*process.title).collect();
    assert_eq!(titles, ["p7 7", "p9 9"]);
    let expected = RunningChannels {
        client: 7,
        server: 9,
        ports: [80, 81].into(),
        channels: 2,
        client_bytes: 15,
        server_bytes: 20_480,
        label: "2 channels, 15B out, 20KiB in".into(),
    };
    assert_eq!(running.channels, [expected]);
}

#[test]
fn an_end_whose_other_one_may_not_be_seen_is_somebodys() {
    let running = running(vec![
        end(7, "client", 40_000, 80, (1, 2)),
        end(8, "server", 90, 40_009, (3, 4)),
        // The same addresses in another network namespace are not the other end.
        end(109, "server", 80, 40_000, (5, 6)),
    ]);
    let ends: Vec<_> = running.channels.iter().map(|c| (c.client, c.server, c.client_bytes)).collect();
    assert_eq!(ends, [(0, 8, 4), (0, 109, 6), (7, 0, 1)]);
}
