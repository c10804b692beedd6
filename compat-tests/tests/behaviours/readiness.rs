//! poll, select and epoll, and being idle.

use compat_tests::{same_everywhere, Pair};

same_everywhere! {
    bytes_written_past_the_library_end_a_receive => Pair::c("stray").arg("read");
    bytes_written_past_the_library_end_a_wait => Pair::c("stray").arg("epoll");
    server_with_poll => Pair::c("ready_server").arg("poll");
    server_with_ppoll => Pair::c("ready_server").arg("ppoll");
    server_with_select => Pair::c("ready_server").arg("select");
    server_with_pselect => Pair::c("ready_server").arg("pselect");
    server_with_epoll => Pair::c("ready_server").arg("epoll");
    server_with_epoll_pwait => Pair::c("ready_server").arg("epoll_pwait");
    server_with_edge_triggered_epoll => Pair::c("ready_server").arg("epoll_edge");
    epoll_turns_on_one_cpu => Pair::c("turns").arg("");
    poll_turns_on_one_cpu => Pair::c("turns").arg("poll");
    epoll_level => Pair::c("epoll_modes").arg("level");
    epoll_edge_read_until_eagain => Pair::c("epoll_modes").arg("edge_drain");
    epoll_edge_new_bytes_after_a_partial_read => Pair::c("epoll_modes").arg("edge_partial");
    epoll_edge_new_bytes_after_a_partial_read_of_a_small_ring => Pair::c("epoll_modes").arg("edge_partial").env("DP_RING", "4096");
    epoll_oneshot => Pair::c("epoll_modes").arg("oneshot");
    epoll_nested => Pair::c("epoll_modes").arg("nested");
    epoll_nested_and_made_anew => Pair::c("epoll_modes").arg("nested_anew");
    epoll_nested_over_bytes_that_nobody_announced => Pair::c("epoll_modes").arg("unheard");
    epoll_polled_after_all_was_told => Pair::c("epoll_modes").arg("told");
    epoll_sets_that_were_inside_each_other_one_after_the_other => Pair::c("crossed_sets");
    select_with_what_has_hung_up_in_the_third_set => Pair::c("excepted");
    pselect_with_what_has_hung_up_in_the_third_set => Pair::c("excepted").arg("-").arg("1");
    select_with_one_set_in_several_arguments => Pair::c("sets_twice");
    pselect_with_one_set_in_several_arguments => Pair::c("sets_twice").arg("-").arg("1");
    epoll_in_two_sets => Pair::c("epoll_modes").arg("two_sets");
    epoll_add_mod_del => Pair::c("epoll_modes").arg("add_mod_del");
    epoll_of_a_connection_that_is_paused => Pair::c("paused").arg("paused");
    epoll_of_a_connection_that_is_deleted_as_its_peer_sends => Pair::c("paused").arg("deleted");
    epoll_set_closed_under_a_wait_with_a_time_limit => Pair::c("set_closed").arg("timed");
    epoll_set_closed_under_a_wait_without_one => Pair::c("set_closed").arg("forever");
    epoll_set_with_a_copy_closed_under_a_wait => Pair::c("set_closed").arg("copy");
    epoll_peer_shutdown => Pair::c("epoll_modes").arg("peer_shutdown");
    a_child_waits_in_a_set_from_which_something_was_just_deleted => Pair::c("shared_set").arg("deleted");
    a_child_waits_in_a_set_in_which_something_was_just_changed => Pair::c("shared_set").arg("changed");
    a_child_and_its_parent_wait_in_one_set => Pair::c("shared_set").arg("asleep");
    two_threads_in_poll_from_the_first_byte_on => Pair::c("born_polled").arg("300");
    two_threads_in_poll => Pair::c("watchers").arg("poll");
    two_threads_in_epoll => Pair::c("watchers").arg("epoll");
    two_threads_share_a_oneshot => Pair::c("watchers").arg("shared_oneshot");
    first_word_in_the_ring_wakes_recv => Pair::c("wake").arg("recv");
    first_word_in_the_ring_wakes_select => Pair::c("wake").arg("select");
    first_word_in_the_ring_wakes_poll => Pair::c("wake").arg("poll");
    first_word_in_the_ring_wakes_epoll => Pair::c("wake").arg("epoll");
    first_word_in_the_ring_wakes_edge_triggered_epoll => Pair::c("wake").arg("edge");
    control_connection_beside_a_flood_under_select => Pair::c("wake").arg("control").arg("select");
    control_connection_beside_a_flood_under_poll => Pair::c("wake").arg("control").arg("poll");
    control_connection_beside_a_flood_under_epoll => Pair::c("wake").arg("control").arg("epoll");
    idle_in_recv => Pair::c("idle").arg("recv");
    idle_in_poll => Pair::c("idle").arg("poll");
    idle_in_epoll => Pair::c("idle").arg("epoll");
}
