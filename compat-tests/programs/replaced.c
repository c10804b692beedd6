/*
 * A descriptor is made another connection by a system call of the program's own, which no library sees, after
 * some exchanges on it: what is written to it from then on arrives on the other connection.
 */
#include "common.h"

#include <sys/syscall.h>

/* With DP_AFTER=6 the write after the third exchange makes the offer; the server takes it before it answers. */
#define MOST 3
#define ROUNDS 3

static void dup3_by_hand(int from, int to) {
    long result;
#if defined __x86_64__
    register long flags __asm__("rdx") = 0;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_dup3), "D"((long)from), "S"((long)to), "r"(flags)
                     : "rcx", "r11", "memory");
#elif defined __aarch64__
    register long number __asm__("x8") = SYS_dup3, first __asm__("x0") = from, second __asm__("x1") = to;
    register long third __asm__("x2") = 0;
    __asm__ volatile("svc 0" : "+r"(first) : "r"(number), "r"(second), "r"(third) : "memory");
    result = first;
#endif
    CHECK(result == to);
}

/* Until the end, or the reset that an answer nobody has read makes of it. */
static void *echo(void *fd) {
    char buffer[50];
    for (ssize_t n; (n = read(*(int *)fd, buffer, sizeof buffer)) > 0;)
        if (write(*(int *)fd, buffer, (size_t)n) != n)
            break;
    close(*(int *)fd);
    return NULL;
}

void server(void) {
    int listener = listen_here();
    for (int round = 0; round < ROUNDS * (MOST + 1); round++) {
        int fds[2];
        pthread_t threads[2];
        for (int i = 0; i < 2; i++) {
            fds[i] = MUST(accept(listener, NULL, NULL));
            threads[i] = start_thread(echo, &fds[i]);
        }
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
    }
    say("served");
}

void client(void) {
    for (int round = 0; round < ROUNDS * (MOST + 1); round++) {
        int first = connect_there(), second = connect_there();
        char word[50] = "";
        for (int i = 0; i < round % (MOST + 1); i++)
            exchange(first, 50, (uint64_t)i);
        write_all(first, word, sizeof word);
        sleep_ms(5);
        dup3_by_hand(second, first);
        for (int i = 0; i < 50; i++)
            exchange(first, 50, (uint64_t)i);
        MUST(shutdown(first, SHUT_WR));
        CHECK(read_to_eof(first, NULL) == 0);
        close(first);
        close(second);
    }
    say("used");
}
