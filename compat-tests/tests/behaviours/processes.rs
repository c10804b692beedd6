//! fork, exec, started programs, and connections handed from process to process.

use compat_tests::{same_everywhere, Pair};

/// A ring that is longer than any send buffer that the shim asks for.
fn more_than_tcp_takes(mode: &str) -> Pair {
    Pair::c("left_alone").arg(mode).arg("300000").env("DP_RING", "524288")
}

same_everywhere! {
    fork_after_accept => Pair::c("fork_serve").arg("child_serves");
    fork_before_the_first_read => Pair::c("fork_serve").arg("child_serves_cold");
    fork_before_accept => Pair::c("fork_serve").arg("prefork");
    fork_only_to_exit => Pair::c("fork_serve").arg("snapshot");
    fork_and_take_turns => Pair::c("fork_serve").arg("in_turns");
    children_of_under_fork => Pair::c("forks").arg("_Fork");
    children_of_clone => Pair::c("forks").arg("clone");
    children_of_clone_by_its_second_name => Pair::c("forks").arg("__clone");
    children_of_clone_by_number => Pair::c("forks").arg("number");
    more_children_than_members => Pair::c("forks").arg("fork").arg("270");
    fork_while_a_thread_accepts => Pair::c("fork_window").arg("files");
    fork_and_exec_while_a_thread_accepts => Pair::c("fork_window").arg("exec");
    fork_that_fails => Pair::c("fork_lives").arg("fails");
    forks_inside_the_c_library_that_fail => Pair::c("fork_lives").arg("inside");
    forks_of_two_threads => Pair::c("fork_lives").arg("threads");
    forks_with_handlers_that_lock => Pair::c("fork_handlers").arg("locks");
    forks_with_handlers_that_use_a_set => Pair::c("fork_handlers").arg("sets");
    forks_beside_signals_that_use_a_set => Pair::c("fork_handlers").arg("signals");
    forks_that_last_beside_a_set => Pair::c("fork_handlers").arg("vfork");
    a_child_has_its_parents_signal_mask => Pair::c("fork_handlers").arg("mask");
    a_child_of_vfork_makes_sockets => Pair::c("fork_lives").arg("vfork");
    a_child_executes_and_lasts => Pair::c("fork_lives").arg("exec");
    a_child_cannot_execute_and_goes_on => Pair::c("fork_lives").arg("failed");
    fork_of_the_client => Pair::c("fork_serve").arg("client_child");
    child_in_a_pid_namespace_of_its_own => Pair::c("namespaces").arg("child");
    child_in_a_pid_namespace_closes_and_lives_on => Pair::c("namespaces").arg("close");
    child_in_a_pid_namespace_outlives_its_parent => Pair::c("namespaces").arg("parent_ends");
    child_closes_an_epoll_set_of_its_parent => Pair::c("namespaces").arg("epoll");
    exec_of_cat => Pair::c("exec_live").arg("cat");
    exec_of_cat_without_the_shim => Pair::c("exec_live").arg("bare");
    exec_of_a_static_program => Pair::c("exec_live").arg("static");
    exec_of_a_stdio_program => Pair::c("exec_live").arg("stdio");
    exec_of_a_shell => Pair::c("exec_live").arg("shell");
    exec_in_a_child => Pair::c("exec_live").arg("child");
    pass_to_a_relative => Pair::c("pass_fd").arg("fork");
    pass_to_a_relative_and_keep => Pair::c("pass_fd").arg("fork").arg("1");
    pass_to_another_program => Pair::c("pass_fd").arg("exec");
    pass_to_another_program_and_keep => Pair::c("pass_fd").arg("exec").arg("1");
    pass_to_a_program_without_the_shim => Pair::c("pass_fd").arg("bare");
    stranded_and_passed => Pair::c("stranded").arg("pass");
    stranded_and_passed_after_a_shutdown => Pair::c("stranded").arg("pass").arg("1");
    stranded_and_passed_after_a_close => Pair::c("stranded").arg("pass").arg("2");
    stranded_and_executed => Pair::c("stranded").arg("exec");
    stranded_and_executed_after_a_shutdown => Pair::c("stranded").arg("exec").arg("1").arg("5000");
    stranded_and_executed_by_number => Pair::c("stranded").arg("number").arg("2");
    stranded_under_vfork => Pair::c("stranded").arg("vfork").arg("1");
    stranded_and_spawned => Pair::c("stranded").arg("spawn");
    stranded_and_spawned_after_a_close => Pair::c("stranded").arg("spawn").arg("2").arg("5000");
    stranded_in_a_child_by_its_number => Pair::c("stranded").arg("child");
    stranded_in_a_child_by_its_number_after_a_shutdown => Pair::c("stranded").arg("child").arg("1").arg("5000");
    stranded_in_a_child_by_its_number_after_a_close => Pair::c("stranded").arg("child").arg("2");
    stranded_in_a_child_by_another_number => Pair::c("stranded").arg("copy");
    stranded_in_a_child_by_another_number_after_a_close => Pair::c("stranded").arg("copy").arg("2").arg("5000");
    stranded_in_a_child_of_vfork_by_another_number => Pair::c("stranded").arg("vcopy");
    stranded_in_a_childs_streams => Pair::c("stranded").arg("streams");
    stranded_in_a_childs_streams_after_a_shutdown => Pair::c("stranded").arg("streams").arg("1").arg("5000");
    stranded_in_a_child_by_chance => Pair::c("stranded").arg("chance");
    stranded_in_a_child_by_chance_after_a_shutdown => Pair::c("stranded").arg("chance").arg("1").arg("5000");
    stranded_before_aio_read => Pair::c("stranded").arg("aio");
    stranded_before_aio_read_after_a_shutdown => Pair::c("stranded").arg("aio").arg("1").arg("5000");
    stranded_before_aio_read_after_a_close => Pair::c("stranded").arg("aio").arg("2");
    stranded_before_io_submit => Pair::c("stranded").arg("submit");
    stranded_before_io_submit_after_a_shutdown => Pair::c("stranded").arg("submit").arg("1").arg("5000");
    stranded_before_io_submit_after_a_close => Pair::c("stranded").arg("submit").arg("2");
    stranded_in_stdio => Pair::c("stranded").arg("stdio");
    stranded_in_stdio_after_a_close => Pair::c("stranded").arg("stdio").arg("2").arg("5000");
    stranded_in_stdio_beside_an_epoll_set => Pair::c("stranded").arg("set");
    stranded_in_stdio_beside_an_epoll_set_after_a_shutdown => Pair::c("stranded").arg("set").arg("1");
    stranded_in_stdio_beside_an_epoll_set_after_a_close => Pair::c("stranded").arg("set").arg("2").arg("5000");
    stranded_in_stdio_beside_an_epoll_set_with_edges => Pair::c("stranded").arg("set_edge").arg("1");
    given_away_and_not_read_for_long => Pair::c("slow_taker").arg("more");
    given_away_and_shut_down_meanwhile => Pair::c("slow_taker").arg("shut");
    given_away_and_closed_meanwhile => Pair::c("slow_taker").arg("close");
    given_away_and_spliced_to_meanwhile => Pair::c("slow_taker").arg("splice");
    given_away_and_sent_to_with_a_timeout => Pair::c("slow_taker").arg("timeout");
    given_away_and_sent_to_among_signals => Pair::c("slow_taker").arg("restart");
    given_away_and_followed_by_many_threads => Pair::c("push_again").arg("threads");
    given_away_and_sent_to_by_many_edges => Pair::c("push_again").arg("edges");
    left_by_stdio_and_not_read => Pair::c("left_alone").arg("stdio");
    left_for_signals_and_not_read => Pair::c("left_alone").arg("signals");
    left_to_a_stranger_who_does_not_read => Pair::c("left_alone").arg("stranger");
    left_to_a_child_that_does_not_read => Pair::c("left_alone").arg("inherit");
    left_to_a_child_that_answers => Pair::c("left_alone").arg("answer");
    left_by_stdio_and_closed_at_once => Pair::c("left_alone").arg("close");
    left_by_stdio_with_more_than_tcp_takes => more_than_tcp_takes("stdio");
    left_for_signals_with_more_than_tcp_takes => more_than_tcp_takes("signals");
    left_to_a_stranger_with_more_than_tcp_takes => more_than_tcp_takes("stranger");
    left_to_a_child_with_more_than_tcp_takes => more_than_tcp_takes("inherit");
    left_to_a_child_that_answers_to_more_than_tcp_takes => more_than_tcp_takes("answer");
    left_by_stdio_and_closed_with_more_than_tcp_takes => more_than_tcp_takes("close");
    given_to_stdio_with_much_unsent => Pair::c("full_giver").arg("stdio");
    given_to_dprintf_with_much_unsent => Pair::c("full_giver").arg("dprintf");
    given_to_a_child_with_much_unsent => Pair::c("full_giver").arg("spawn");
    given_to_stdio_among_signals => Pair::c("full_giver").arg("signals");
    inherited_by_system => by_chance("system");
    inherited_by_popen => by_chance("popen");
    inherited_by_posix_spawn => Pair::c("inherit").arg("spawn");
    inherited_by_vfork_and_exec => by_chance("vfork");
    inherited_by_exec_through_syscall => by_chance("number");
    inherited_by_vfork_at_another_number => by_chance("vfork_number");
    inherited_by_vfork_as_a_copy => Pair::c("inherit").arg("vfork_copy");
    closed_in_a_child_of_vfork => Pair::c("borrowed").arg("closed");
    replaced_in_a_child_of_vfork => Pair::c("borrowed").arg("replaced");
    replaced_by_another_connection_in_a_child_of_vfork => Pair::c("borrowed").arg("another");
    last_words_before_a_close => Pair::c("inherit").arg("close");
    last_words_before_a_shutdown => Pair::c("inherit").arg("half");
    last_words_after_a_close => Pair::c("inherit").arg("close").arg("1");
    last_words_after_a_shutdown => Pair::c("inherit").arg("half").arg("1");
    start_programs_in_the_middle_of_a_stream => Pair::c("inherit").arg("stream");
    not_inherited => Pair::c("inherit").arg("system").arg("1");
    start_programs_meanwhile => Pair::c("spawn");
    a_filter_of_system_calls_before_the_first_connection => Pair::c("sandbox").arg("early");
    a_filter_of_system_calls_on_a_live_connection => Pair::c("sandbox").arg("live");
    a_filter_of_system_calls_between_two_connections => Pair::c("sandbox").arg("live").arg("1");
    no_system_calls_but_read_and_write => Pair::c("sandbox").arg("strict");
    no_clock => Pair::c("sandbox").arg("clock");
    a_filter_of_system_calls_beside_an_epoll_set => Pair::c("sandbox").arg("epoll");
    a_filter_of_system_calls_beside_an_epoll_set_with_edges => Pair::c("sandbox").arg("epoll").arg("1");
    a_filter_of_system_calls_before_what_is_unread => Pair::c("sandbox").arg("rest");
    a_filter_of_system_calls_in_a_child => Pair::c("sandbox").arg("child");
    a_filter_of_system_calls_beside_a_blocked_thread => Pair::c("sandbox").arg("threads");
    a_filter_of_system_calls_beside_a_thread_asleep_in_a_set => Pair::c("sandbox").arg("asleep");
    a_filter_of_system_calls_beside_a_thread_asleep_in_a_set_for_a_while => Pair::c("sandbox").arg("asleep").arg("1");
    no_descriptors_and_a_blocking_receive => Pair::c("limited").arg("recv");
    no_descriptors_and_receives_that_do_not_block => Pair::c("limited").arg("nonblocking").arg("1");
    no_descriptors_and_a_set => Pair::c("limited").arg("epoll");
    no_descriptors_and_select => Pair::c("limited").arg("select").arg("2");
    no_descriptors_and_select_for_a_time => Pair::c("limited").arg("select_time");
    one_descriptor_and_poll => Pair::c("limited").arg("poll");
    no_descriptors_by_another_process_and_a_blocking_receive => Pair::c("limited").arg("recv").arg("3");
    no_descriptors_by_another_process_and_receives_that_do_not_block => Pair::c("limited").arg("nonblocking").arg("3");
    no_descriptors_by_another_process_and_a_set => Pair::c("limited").arg("epoll").arg("3");
    no_descriptors_by_another_process_and_select => Pair::c("limited").arg("select").arg("3");
    one_descriptor_by_another_process_and_poll => Pair::c("limited").arg("poll").arg("3");
    a_filter_of_system_calls_from_the_start => Pair::c("sandbox").arg("listed");
    questions_about_filters => Pair::c("sandbox").arg("question");
}

/// The program has the connection above number 2 and from its parent, which has it too: without what lies unread in the ring where the
/// peer has gone back to TCP.
fn by_chance(mode: &str) -> Pair {
    Pair::c("inherit").arg(mode).unforced()
}
