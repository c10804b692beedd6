/*
 * Functions with `...`, without sockets: dprintf where the stack ends, doubles among its arguments, and execl with many.
 */
#include "common.h"

#include <sys/mman.h>
#include <ucontext.h>

#define STACK 65536

static ucontext_t back, coroutine;

static void print(void) {
    dprintf(1, "on a short stack %d %s %.2f %c %ld %d %d %d %.1f\n", 1, "two", 3.25, '4', 5l, 6, 7, 8, 9.5);
}

static void print_where_the_stack_ends(void) {
    char *stack = mmap(NULL, STACK + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED && mprotect(stack + STACK, 4096, PROT_NONE) == 0);
    MUST(getcontext(&coroutine));
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = STACK;
    coroutine.uc_link = &back;
    makecontext(&coroutine, print, 0);
    MUST(swapcontext(&back, &coroutine));
}

#define TEN "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"

static void execute(int how) {
    char *environment[] = {"WORD=given", NULL};
    pid_t child = MUST(fork());
    if (child == 0) {
        if (how == 0)
            execl("/bin/echo", "echo", TEN, TEN, TEN, TEN, TEN, "last", (char *)NULL);
        if (how == 1)
            execlp("echo", "echo", "a few", "more", (char *)NULL);
        if (how == 2)
            execle("/bin/sh", "sh", "-c", "echo $WORD $0 $7", TEN, (char *)NULL, environment);
        _exit(1);
    }
    join_child(child);
}

void tester(int fd) {
    (void)fd;
    print_where_the_stack_ends();
    for (int how = 0; how < 3; how++)
        execute(how);
}

void helper(int fd) { echo_until_eof(fd); }
