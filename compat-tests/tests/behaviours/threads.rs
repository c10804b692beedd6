//! Several threads on one connection, signals, cancellation.

use compat_tests::{same_everywhere, Pair};

same_everywhere! {
    long_streams_in_both_directions_at_once => Pair::c("threads").arg("duplex").arg("8");
    four_threads_on_each_side_of_young_connections => Pair::c("threads").arg("young");
    two_senders_on_one_socket => Pair::c("threads").arg("two_senders");
    records_of_several_writers => Pair::c("records").arg("calls");
    records_from_files_and_pipes_beside_others => Pair::c("records").arg("files");
    records_of_several_processes => Pair::c("records").arg("forked");
    two_receivers_on_one_socket => Pair::c("threads").arg("two_receivers");
    two_receivers_that_want_all_they_ask_for => Pair::c("threads").arg("two_of_all");
    tasks_that_believe_in_edges => Pair::c("reactor").arg("reactor").arg("4").arg("4096");
    tasks_that_believe_in_edges_on_many_connections => Pair::c("reactor").arg("reactor").arg("24").arg("512");
    tasks_that_ask_for_one_event => Pair::c("reactor").arg("oneshot").arg("4").arg("4096");
    a_thread_for_every_connection => Pair::c("threads").arg("per_connection");
    signal_interrupts => Pair::c("interrupts").arg("eintr");
    signal_restarts => Pair::c("interrupts").arg("restart");
    signal_interrupts_a_look => Pair::c("look_signals").arg("look").env("DP_SPIN", "1000000");
    signal_interrupts_a_look_of_poll => Pair::c("look_signals").arg("poll").env("DP_SPIN", "1000000");
    signal_interrupts_a_look_of_select => Pair::c("look_signals").arg("select").env("DP_SPIN", "1000000");
    signal_interrupts_a_look_of_epoll => Pair::c("look_signals").arg("epoll").env("DP_SPIN", "1000000");
    a_waits_own_mask_lets_signals_through => Pair::c("look_signals").arg("masks").env("DP_SPIN", "1000000");
    handlers_are_the_programs_own => Pair::c("look_signals").arg("asked");
    signal_interrupts_a_blocked_send => Pair::c("interrupts").arg("send");
    signal_interrupts_a_send_to_a_slow_receiver => Pair::c("interrupts").arg("slow");
    restarting_signal_interrupts_a_send_to_a_slow_receiver => Pair::c("interrupts").arg("slow_restart");
    time_limit_of_a_send_to_a_slow_receiver => Pair::c("interrupts").arg("slow_limit");
    cancellation_of_a_blocked_receiver => Pair::c("interrupts").arg("cancel");
    cancellation_of_a_thread_that_only_sends => Pair::c("interrupts").arg("busy");
    a_handler_receives_inside_a_receive_that_does_not_wait => Pair::c("handlers").arg("dontwait");
    a_handler_receives_inside_a_blocking_receive => Pair::c("handlers").arg("blocking");
    handlers_on_a_small_stack => Pair::c("small_stack").env("LD_BIND_NOW", "1");
    a_handler_receives_inside_a_peek => Pair::c("handlers").arg("peek");
    closed_under_a_receive => Pair::c("closed_under").arg("recv");
    replaced_under_a_receive => Pair::c("closed_under").arg("dup2");
    closed_under_a_receive_that_ends => Pair::c("closed_under").arg("eof");
    closed_under_a_peek => Pair::c("closed_under").arg("peek");
    closed_under_a_send => Pair::c("closed_under").arg("send");
    closed_after_a_jump_out_of_a_receive => Pair::c("closed_under").arg("jump");
    closed_after_a_cancelled_receive => Pair::c("closed_under").arg("cancel");
    closed_under_a_receive_beside_a_fork => Pair::c("closed_under").arg("fork");
    closed_under_many_receives => Pair::c("closed_under").arg("stress");
    a_number_is_closed_beside_a_sender => Pair::c("closed_beside").arg("send");
    a_number_is_closed_beside_a_receiver => Pair::c("closed_beside").arg("recv");
    a_number_is_replaced_beside_a_writer => Pair::c("closed_beside").arg("dup2");
    a_thread_exits_inside_a_send => Pair::c("ended_inside").arg("handler");
    a_thread_is_cancelled_inside_a_send => Pair::c("ended_inside").arg("cancel");
    the_first_thread_exits_inside_a_send => Pair::c("ended_inside").arg("first");
    a_thread_exits_inside_epoll_wait => Pair::c("ended_inside").arg("epoll");
    a_thread_is_cancelled_inside_epoll_wait => Pair::c("ended_inside").arg("epoll").arg("1");
    a_thread_exits_inside_poll => Pair::c("ended_inside").arg("poll");
    a_thread_is_cancelled_inside_poll => Pair::c("ended_inside").arg("poll").arg("1");
    a_thread_exits_inside_select => Pair::c("ended_inside").arg("select");
    a_thread_exits_inside_a_poll_of_an_epoll_set => Pair::c("ended_inside").arg("nested");
    a_thread_is_cancelled_inside_a_poll_of_an_epoll_set => Pair::c("ended_inside").arg("nested").arg("1");
}
