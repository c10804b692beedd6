/*
 * A plug-in that reads and writes the program's connection.
 *   deep, lazy   loaded with RTLD_DEEPBIND, before or after it is first called
 *   name         the same, by a name that only the RUNPATH of the library finds that loads it
 *   space        loaded by dlmopen, with a C library of its own
 *   disk         loaded with RTLD_DEEPBIND, and never given the connection
 *   missing      what is said of a plug-in that is not there
 */
#include "common.h"

#include <dlfcn.h>
#include <libgen.h>

static void *libraries(const char *name, void *(*open)(const char *, int), int flags) {
    char path[600], program[512];
    snprintf(program, sizeof program, "%s", program_argv[0]);
    CHECK(snprintf(path, sizeof path, "%s/%s", dirname(program), name) < (int)sizeof path);
    return open(path, flags);
}

static void *in_a_space(const char *path, int flags) { return dlmopen(LM_ID_NEWLM, path, flags); }

/* What the program gives all libraries; the plug-in has its own. */
static void *load(void) {
    void *library = libraries("libplug_opener.so", dlopen, RTLD_NOW | RTLD_GLOBAL);
    CHECK(library);
    void *(*by_name)(const char *, int) = dlsym(library, "opener_open");
    CHECK(by_name);
    if (mode_is("name"))
        return by_name("libplug.so", RTLD_NOW | RTLD_DEEPBIND);
    if (mode_is("space"))
        return libraries("libplug.so", in_a_space, RTLD_NOW);
    return libraries("libplug.so", dlopen, (mode_is("lazy") ? RTLD_LAZY : RTLD_NOW) | RTLD_DEEPBIND);
}

static void missing(void) {
    CHECK(!dlopen("/nowhere/libnone.so", RTLD_NOW | RTLD_DEEPBIND));
    say("%s", dlerror());
    CHECK(!dlopen("libplug.so", RTLD_NOW | RTLD_DEEPBIND));
    say("%s", dlerror());
    say("%s", dlerror() ? "twice" : "once");
    CHECK(!dlopen("/nowhere/libnone.so", RTLD_NOW));
    say("%s", dlerror());
}

void tester(int fd) {
    if (mode_is("missing")) {
        missing();
        exchange(fd, 100, 1);
        return;
    }
    void *plug = load();
    if (!plug)
        say("%s", dlerror());
    CHECK(plug && !dlerror());
    ssize_t (*reads)(int, void *, size_t) = dlsym(plug, "plug_read");
    ssize_t (*receives)(int, void *, size_t) = dlsym(plug, "plug_receive");
    ssize_t (*writes)(int, const void *, size_t) = dlsym(plug, "plug_write");
    int (*word)(void) = dlsym(plug, "plug_word");
    CHECK(reads && receives && writes && word);
    say("the word of library %d", word());
    for (int i = 0; i < 200 && !mode_is("disk"); i++) {
        char out[300], in[300];
        size_t length = 1 + (size_t)i * 7 % sizeof out;
        fill(out, length, (uint64_t)i);
        CHECK(writes(fd, out, length) == (ssize_t)length);
        for (size_t at = 0; at < length;) {
            ssize_t n = (i % 2 ? reads : receives)(fd, in + at, length - at);
            CHECK(n > 0);
            at += (size_t)n;
        }
        CHECK(memcmp(in, out, length) == 0);
        exchange(fd, 100, (uint64_t)i);
    }
    long exchanges = argument(0, 0);
    for (long i = 0; i < exchanges; i++)
        exchange(fd, 100, (uint64_t)i);
    say("the end");
    if (exchanges) {
        mark("server-done", 1);
        mark("client-done", 1);
        await_mark("looked");
    }
}

void helper(int fd) {
    echo_until_eof(fd);
    say("EOF");
}
