//! Flags, timeouts, vectors, and calls that move bytes in unusual ways.

use compat_tests::{same_everywhere, Pair};

same_everywhere! {
    zerocopy_receive => Pair::c("recv_flags").arg("zerocopy");
    msg_peek => Pair::c("recv_flags").arg("peek");
    msg_peek_until_all_is_seen => Pair::c("recv_flags").arg("peek_until");
    msg_peek_until_all_is_seen_beyond_a_small_ring => Pair::c("recv_flags").arg("peek_until").env("DP_RING", "4096");
    msg_peek_and_msg_waitall => Pair::c("recv_flags").arg("peek_waitall");
    msg_peek_and_msg_waitall_with_a_small_ring => Pair::c("recv_flags").arg("peek_waitall").env("DP_RING", "4096");
    msg_waitall => Pair::c("recv_flags").arg("waitall");
    msg_dontwait => Pair::c("recv_flags").arg("dontwait");
    msg_trunc => Pair::c("recv_flags").arg("trunc");
    nothing_to_send_or_receive => Pair::c("recv_flags").arg("empty");
    bad_address => Pair::c("recv_flags").arg("bad_address");
    fionread_and_siocoutq => Pair::c("recv_flags").arg("pending");
    so_rcvtimeo => Pair::c("timeouts").arg("receive");
    so_sndtimeo => Pair::c("timeouts").arg("send");
    readv_and_writev => Pair::c("vectors").arg("iov");
    sendmsg_and_recvmsg => Pair::c("vectors").arg("msg");
    sendmmsg_and_recvmmsg => Pair::c("vectors").arg("mmsg");
    sendfile => Pair::c("sendfile_splice").arg("sendfile");
    splice_to_the_socket => Pair::c("sendfile_splice").arg("splice_out");
    splice_from_the_socket => Pair::c("sendfile_splice").arg("splice_in");
    splice_and_sendfile_never_block => Pair::c("sendfile_splice").arg("never_blocks");
    calls_for_pipes_and_files_only => Pair::c("sendfile_splice").arg("pipes_only");
    fdopen_one_stream_each_way => Pair::c("stdio_socket").arg("fdopen");
    fdopen_one_stream_both_ways => Pair::c("stdio_socket").arg("fdopen_both");
    dprintf => Pair::c("stdio_socket").arg("dprintf");
    standard_streams_on_the_socket => Pair::c("stdio_socket").arg("standard");
    calls_through_syscall => Pair::c("raw_calls").arg("syscall");
    fortified_calls => Pair::c("raw_calls").arg("fortified");
    io_uring_set_up_before => Pair::c("uring").arg("before");
    io_uring_set_up_after => Pair::c("uring").arg("after");
    io_uring_set_up_by_a_library => Pair::c("uring").arg("after").arg("1");
    io_uring_set_up_by_a_library_before => Pair::c("uring").arg("before").arg("1");
    io_uring_set_up_by_a_plug_in => Pair::c("uring").arg("after").arg("2");
    io_submit_of_a_library => Pair::c("kernel_aio").arg("library");
    io_submit_of_a_plug_in => Pair::c("kernel_aio").arg("plugin");
    io_submit_by_number => Pair::c("kernel_aio").arg("number");
    aio_read_and_aio_write => Pair::c("kernel_aio").arg("posix");
    sigio_by_fcntl => Pair::c("sigio").arg("fcntl");
    sigio_by_ioctl => Pair::c("sigio").arg("ioctl");
    sigio_from_the_beginning => Pair::c("sigio").arg("before");
    sigio_with_a_signal_of_ones_own => Pair::c("sigio").arg("queued");
    sigio_asked_for_inside_a_send => Pair::c("inside");
    sigio_taken_back => Pair::c("sigio").arg("off");
    lio_listio => Pair::c("kernel_aio").arg("list");
}
