// Operations of threads, children, signals and deaths.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "interp.h"

#define THREADS 16
#define CHILDREN 8
// How often it is looked whether another program has ended, every half a millisecond.
#define PATIENCE 1200

static struct thread {
    char text[12];
    struct line line;
    pthread_t id;
    _Atomic int started, done;
} threads[THREADS];
static int thread_count;

static struct child {
    char text[12];
    pid_t pid;
    int to, from, link;
} children[CHILDREN];
static int child_count;
// To whoever started this process, if a process of the script did.
static int upward = -1;

// How often a handler has run.
static _Atomic int wakings;
static void woken(int signal) {
    (void)signal;
    atomic_fetch_add(&wakings, 1);
}

static void *run_thread(void *argument) {
    struct thread *thread = argument;
    // The main thread's impatience must not reach this one.
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    atomic_store(&thread->started, gettid());
    run(&thread->line);
    atomic_store(&thread->done, 1);
    return NULL;
}

static void put_together(struct line *line, int from, char *text, size_t room) {
    size_t used = 0;
    text[0] = 0;
    for (int at = from; at < line->words && used < room; at++)
        used += (size_t)snprintf(text + used, room - used, "%s%s", at > from ? " " : "", line->word[at]);
}

// Whether a thread of ours sleeps in a call.
static int sleeps(int tid) {
    char name[64], text[512] = "";
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", tid);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    const char *state = n > 0 ? strrchr(text, ')') : NULL;
    return state && state[1] == ' ' && state[2] == 'S';
}

// 3 ms, and on a busy machine, where the pages of a long send alone take longer, until it sleeps there or has done it.
static void until_inside(struct thread *thread) {
    usleep(3000);
    for (int looks = 0; looks < 300 && !atomic_load(&thread->done) && !sleeps(thread->started); looks++) usleep(1000);
}

// thread T OPERATION...: in a thread of its own, which is inside when this ends
static void start_thread(struct line *line) {
    if (thread_count == THREADS) return say(line, "too many");
    struct thread *thread = &threads[thread_count++];
    snprintf(thread->text, sizeof thread->text, "%s", word(line, 1));
    thread->line.patient = 1;
    put_together(line, 2, thread->line.text, sizeof thread->line.text);
    if (pthread_create(&thread->id, NULL, run_thread, thread)) return say(line, "failed");
    while (!atomic_load(&thread->started)) usleep(100);
    until_inside(thread);
    say(line, "ok");
}

int is_threaded(void) {
    for (int i = 0; i < thread_count; i++)
        if (!atomic_load(&threads[i].done)) return 1;
    return 0;
}

// join T [MS]: the result of the thread's operation, or "blocked"
static void join_thread(struct line *line) {
    for (int i = thread_count - 1; i >= 0; i--) {
        if (strcmp(threads[i].text, word(line, 1))) continue;
        for (long waited = 0; !atomic_load(&threads[i].done) && waited < number(line, 2, 60); waited++) usleep(1000);
        return say(line, "%s", atomic_load(&threads[i].done) ? threads[i].line.result : "blocked");
    }
    say(line, "unnamed");
}

// signal T plain|restart: a handler runs in a thread, and ends its call or restarts it; it has run when this ends
static void signal_thread(struct line *line) {
    for (int i = thread_count - 1; i >= 0; i--) {
        struct thread *thread = &threads[i];
        if (strcmp(thread->text, word(line, 1))) continue;
        if (atomic_load(&thread->done)) return say(line, "done");
        struct sigaction action = {.sa_handler = woken, .sa_flags = !strcmp(word(line, 2), "restart") ? SA_RESTART : 0};
        sigaction(SIGUSR1, &action, NULL);
        int before = atomic_load(&wakings);
        pthread_kill(thread->id, SIGUSR1);
        for (int looks = 0; looks < 300 && atomic_load(&wakings) == before; looks++) usleep(1000);
        until_inside(thread);
        return say(line, "ok");
    }
    say(line, "unnamed");
}

// cancel T: ends a thread inside its operation
static void cancel_thread(struct line *line) {
    for (int i = thread_count - 1; i >= 0; i--) {
        struct thread *thread = &threads[i];
        if (strcmp(thread->text, word(line, 1))) continue;
        void *result = NULL;
        if (atomic_load(&thread->done) > 1) return say(line, "joined");
        pthread_cancel(thread->id);
        pthread_join(thread->id, &result);
        atomic_store(&thread->done, 2);
        return say(line, "%s", result == PTHREAD_CANCELED ? "cancelled" : thread->line.result);
    }
    say(line, "unnamed");
}

// fork F: the child answers to `child F OPERATION...`; spawn F [bare]: so does another program, which has none of our descriptors;
// bare: without our environment
static void start_child(struct line *line) {
    int to[2], from[2], link[2];
    if (child_count == CHILDREN || pipe(to) || pipe(from) || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link))
        return say(line, "failed");
    pid_t pid = fork();
    if (pid < 0) return say_result(line, pid);
    if (pid == 0) {
        // The runner must see the end of its pipes when the parent dies, not later.
        close(0);
        close(1);
        close(to[1]);
        close(from[0]);
        close(link[0]);
        for (int i = 0; i < child_count; i++) close(children[i].to), close(children[i].from), close(children[i].link);
        thread_count = child_count = 0;
        if (!strcmp(word(line, 0), "spawn")) become_stranger(to[0], from[1], link[1], !strcmp(word(line, 2), "bare"));
        upward = link[1];
        serve(to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    close(link[1]);
    struct child *child = &children[child_count++];
    *child = (struct child){.pid = pid, .to = to[1], .from = from[0], .link = link[0]};
    snprintf(child->text, sizeof child->text, "%s", word(line, 1));
    say(line, "ok");
}

static struct child *find_child(const char *text) {
    for (int i = child_count - 1; i >= 0; i--)
        if (!strcmp(children[i].text, text)) return &children[i];
    return NULL;
}

int link_to(const char *text) {
    struct child *child = find_child(text);
    if (*text) return child ? child->link : -1;
    return upward < 0 && fcntl(UPWARD, F_GETFD) >= 0 ? UPWARD : upward;
}

static void in_child(struct line *line) {
    struct child *child = find_child(word(line, 1));
    if (!child) return say(line, "unnamed");
    char text[LINE];
    put_together(line, 2, text, sizeof text - 1);
    strcat(text, "\n");
    void (*former)(int) = signal(SIGPIPE, SIG_IGN);
    ssize_t n = write(child->to, text, strlen(text));
    signal(SIGPIPE, former);
    size_t have = 0;
    while (n > 0 && have < sizeof text - 1) {
        struct pollfd one = {child->from, POLLIN, 0};
        if (poll(&one, 1, 1500) != 1) return say(line, "HANG");
        n = read(child->from, text + have, sizeof text - 1 - have);
        if (n > 0) have += (size_t)n;
        if (have && text[have - 1] == '\n') {
            text[have - 1] = 0;
            return say(line, "%s", text);
        }
    }
    // Its sockets are closed by then, which its pipes do not tell.
    siginfo_t ended;
    while (waitid(P_PID, (id_t)child->pid, &ended, WEXITED | WNOWAIT) && errno == EINTR);
    say(line, "gone");
}

// A timer whose signal comes in so many milliseconds, once it is set, and that time. 0: there is none.
static int alarm_in(long ms, timer_t *timer, struct itimerspec *when) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
    *when = (struct itimerspec){.it_value = {0, ms * 1000000}};
    return !timer_create(CLOCK_MONOTONIC, &event, timer);
}

// alarmed MS plain|restart OPERATION...: a signal comes so much later, whose handler ends calls, or restarts them
static void alarmed(struct line *line) {
    struct sigaction action = {.sa_handler = woken, .sa_flags = !strcmp(word(line, 2), "restart") ? SA_RESTART : 0};
    sigaction(SIGUSR2, &action, NULL);
    timer_t timer;
    struct itimerspec when;
    if (!alarm_in(number(line, 1, 3), &timer, &when)) return say(line, "failed");
    static struct line inner;
    memset(&inner, 0, sizeof inner);
    put_together(line, 3, inner.text, sizeof inner.text);
    int before = atomic_load(&ticks);
    timer_settime(timer, 0, &when, NULL);
    run(&inner);
    timer_delete(timer);
    // A call that goes on behind the handler is ended by the main thread's impatience.
    say(line, "%s%s", inner.result, atomic_load(&ticks) == before ? " early" : "");
}

static sigjmp_buf way_out;
static void leaves(int signal) {
    (void)signal;
    siglongjmp(way_out, 1);
}

// leap MS OPERATION...: a signal comes so much later, whose handler jumps out of the operation, also one that would wait
static void leap(struct line *line) {
    struct sigaction action = {.sa_handler = leaves};
    sigaction(SIGUSR2, &action, NULL);
    timer_t timer;
    struct itimerspec when;
    if (!alarm_in(number(line, 1, 3), &timer, &when)) return say(line, "failed");
    static struct line inner;
    memset(&inner, 0, sizeof inner);
    inner.patient = 1;
    put_together(line, 2, inner.text, sizeof inner.text);
    int left = sigsetjmp(way_out, 1);
    if (!left) {
        timer_settime(timer, 0, &when, NULL);
        run(&inner);
    }
    timer_delete(timer);
    say(line, "%s", left ? "left" : inner.result);
}

static void wait_child(struct line *line) {
    struct child *child = find_child(word(line, 1));
    int status = 0;
    if (!child) return say(line, "unnamed");
    for (int waited = 0; waitpid(child->pid, &status, WNOHANG) == 0; waited++) {
        if (waited == 200) return say(line, "alive");
        usleep(1000);
    }
    say(line, WIFSIGNALED(status) ? "killed %d" : "exited %d", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

// headfrom NAME N [bare]: another program takes so many bytes from it; headto NAME N [bare]: puts them there. bare: without our
// environment. It is killed if it has not ended soon
static void another_program(struct line *line) {
    int takes = !strcmp(word(line, 0), "headfrom"), bare = !strcmp(word(line, 3), "bare"), ends[2], status = 0;
    struct name name = {.fd = -1};
    if (find(word(line, 1))) name = *find(word(line, 1));
    size_t length = (size_t)number(line, 2, 1), have = 0;
    char *bytes = malloc(length + 1), count[24];
    snprintf(count, sizeof count, "%zu", length);
    if (pipe2(ends, O_CLOEXEC)) return say(line, "failed");
    pid_t pid = fork();
    if (pid == 0) {
        char *arguments[] = {"head", "-c", count, NULL}, *none[] = {NULL};
        int in = takes ? name.fd : ends[0], out = takes ? ends[1] : name.fd;
        if (dup2(in, 0) < 0 || dup2(out, 1) < 0) _exit(95);
        signal(SIGPIPE, SIG_DFL);
        if (bare)
            execve("/usr/bin/head", arguments, none);
        else
            execv("/usr/bin/head", arguments);
        _exit(96);
    }
    close(ends[takes]);
    if (!takes) {
        fill(name.stream, bytes, length, 0);
        void (*former)(int) = signal(SIGPIPE, SIG_IGN);
        ssize_t n = write(ends[1], bytes, length);
        signal(SIGPIPE, former);
        close(ends[1]);
        have = n > 0 ? (size_t)n : 0;
    }
    for (int waited = 0;; waited++) {
        struct pollfd one = {ends[0], POLLIN, 0};
        if (takes && have < length && poll(&one, 1, 1) == 1) {
            ssize_t n = read(ends[0], bytes + have, length - have);
            if (n > 0) have += (size_t)n;
        }
        pid_t ended = waitpid(pid, &status, waited > PATIENCE ? 0 : WNOHANG);
        if (ended == pid) break;
        if (waited == PATIENCE) kill(pid, SIGKILL);
        usleep(500);
    }
    while (takes && have < length) {
        ssize_t n = read(ends[0], bytes + have, length - have);
        if (n <= 0) break;
        have += (size_t)n;
    }
    if (takes) close(ends[0]);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        say(line, "blocked");
    else if (WIFSIGNALED(status))
        say(line, "killed %d", WTERMSIG(status));
    else if (WEXITSTATUS(status))
        say(line, "exited %d", WEXITSTATUS(status));
    else
        say(line, "%zu", have);
    if (takes)
        check(line, name.stream, bytes, have, 1);
    else if (WIFEXITED(status) && !WEXITSTATUS(status) && name.stream)
        atomic_fetch_add(&name.stream->sent, have);
    free(bytes);
}

int run_life(struct line *line) {
    const char *what = word(line, 0);
    if (!strcmp(what, "cancel")) return cancel_thread(line), 1;
    if (!strcmp(what, "headfrom") || !strcmp(what, "headto")) return another_program(line), 1;
    if (!strcmp(what, "thread")) return start_thread(line), 1;
    if (!strcmp(what, "join")) return join_thread(line), 1;
    if (!strcmp(what, "fork") || !strcmp(what, "spawn")) return start_child(line), 1;
    if (!strcmp(what, "child")) return in_child(line), 1;
    if (!strcmp(what, "waitchild")) return wait_child(line), 1;
    if (!strcmp(what, "alarmed")) return alarmed(line), 1;
    if (!strcmp(what, "leap")) return leap(line), 1;
    if (!strcmp(what, "signal")) return signal_thread(line), 1;
    if (!strcmp(what, "kill9")) return kill(getpid(), SIGKILL), 1;
    if (!strcmp(what, "_exit")) _exit((int)number(line, 1, 0));
    if (!strcmp(what, "exit")) exit((int)number(line, 1, 0));
    return 0;
}
