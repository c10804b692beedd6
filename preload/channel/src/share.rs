//! What a peer can make a program hold: the memory of a ring is the sender's to pay for, who first writes to it, and the
//! client chooses how long the rings are. So the one who fills them goes by its own settings (PROTOCOLS I3).

/// The rings of a channel may be so many times as long as our own setting: settings differ.
const LARGER: u64 = 8;

/// Whether a channel may have rings of `lines`, where ours would have `own`.
pub fn may_be_filled(lines: u64, own: u64) -> bool {
    lines <= own.saturating_mul(LARGER)
}

/// Whether a stream of ours may go over to a ring of `lines`, where the longest of our own would have `own`.
pub fn may_go_over(lines: u64, own: u64) -> bool {
    lines <= own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_cannot_choose_what_a_server_holds() {
        // 128 KiB and 4 MiB of ours, in lines.
        let (ring, long) = (2048, 65_536);
        assert!(may_be_filled(ring, ring) && may_be_filled(8 * ring, ring));
        assert!(!may_be_filled(16 * ring, ring) && !may_be_filled(u64::MAX, ring));
        assert!(may_go_over(long, long) && may_go_over(16, long));
        assert!(!may_go_over(2 * long, long) && !may_go_over(4, 0));
    }
}
