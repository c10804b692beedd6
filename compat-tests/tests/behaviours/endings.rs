//! How connections end, and what the other side is told.

use compat_tests::{same_everywhere, Pair};

same_everywhere! {
    a_send_cut_short_leaves_the_error_to_the_next => Pair::c("cut_short").arg("send");
    a_send_cut_short_leaves_the_error_to_a_receive => Pair::c("cut_short").arg("receive");
    a_send_cut_short_leaves_the_error_to_so_error => Pair::c("cut_short").arg("error");
    forgotten_by_the_kernel_and_not_read_yet => Pair::c("half_dead");
    half_close_by_the_tester => Pair::c("half_close").arg("tester_first");
    half_close_by_the_helper => Pair::c("half_close").arg("helper_first");
    half_close_at_every_moment_of_youth => Pair::c("early_end");
    half_close_by_both => Pair::c("half_close").arg("both");
    shutdown_of_the_reading_side => Pair::c("half_close").arg("read_side");
    linger_zero_resets => Pair::c("endings").arg("linger");
    close_with_unread_bytes_resets_the_reader => Pair::c("endings").arg("unread");
    close_with_unread_bytes_resets_the_writer => Pair::c("endings").arg("unread_write");
    answer_arrives_before_the_reset => Pair::c("endings").arg("answer_then_reset");
    writing_to_a_closed_peer_gives_epipe => Pair::c("endings").arg("epipe");
    writing_to_a_closed_peer_gives_sigpipe => Pair::c("endings").arg("sigpipe");
    bytes_of_a_killed_peer_arrive => Pair::c("endings").arg("killed");
    bytes_of_a_peer_that_only_exits_arrive => Pair::c("endings").arg("exits");
    bells_that_are_only_claimed_do_not_hold_up_a_close => Pair::c("claims").arg("bells");
    core_dumps_hold_nothing_of_channels => Pair::c("claims").arg("dump");
    sender_killed_at_the_bell_and_its_relative => Pair::c("bell_death").arg("same");
    // The dead one's wake-up is lost by its death, and found.
    sender_killed_at_the_bell_and_another_connection => Pair::c("bell_death").arg("other").env("DP_LOST", "");
    every_row_of_ends_closed => Pair::c("ends").arg("close");
    every_row_of_ends_answered_and_closed => Pair::c("ends").arg("answer");
    every_row_of_ends_unread => Pair::c("ends").arg("unread");
    every_row_of_ends_answered_and_unread => Pair::c("ends").arg("answer_unread");
    every_row_of_ends_more_than_a_ring_and_unread => Pair::c("ends").arg("much_unread");
    every_row_of_ends_lingering => Pair::c("ends").arg("linger");
    every_row_of_ends_no_more_sending => Pair::c("ends").arg("shut_wr");
    every_row_of_ends_no_more_receiving => Pair::c("ends").arg("shut_rd");
    every_row_of_ends_neither => Pair::c("ends").arg("shut_rdwr");
    every_row_of_ends_killed => Pair::c("ends").arg("killed");
    every_row_of_ends_killed_and_unread => Pair::c("ends").arg("killed_unread");
    every_row_of_ends_exited => Pair::c("ends").arg("exited");
    a_sender_alone_learns_of_the_death_of_its_peer => Pair::c("short_reads").arg("alone");
    a_short_receive_means_empty => Pair::c("short_reads").arg("edge");
    a_short_receive_means_empty_for_large_pieces => Pair::c("short_reads").arg("large");
    a_short_scattered_receive_means_empty => Pair::c("short_reads").arg("scattered");
    what_was_counted_and_taken_leaves_an_edge => Pair::c("short_reads").arg("counted");
    bursts_that_are_counted_are_told_to_the_end => Pair::c("short_reads").arg("bursts");
    bursts_on_a_socket_registered_before_it_was_connected => Pair::c("short_reads").arg("early");
    messages_after_one_sent_in_part_wait => Pair::c("many_messages").arg("partial");
    many_messages_in_one_receive => Pair::c("many_messages").arg("receive");
    a_busy_receiver_is_cancelled => Pair::c("many_messages").arg("cancel");
}
