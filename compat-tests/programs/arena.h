/*
 * Where things lie in the memory of channels, for programs that meddle with it: preload/channel/src/arena.rs has the same.
 */
#ifndef ARENA_H
#define ARENA_H

#include "common.h"

#include <dirent.h>
#include <sys/mman.h>

#define ARENA_VERSION 5
enum { ARENA_CHUNK = 16, ARENA_SLOT = 512, ARENA_SHORT = 4096 };

struct arena_header {
    char magic[8];
    uint32_t version, slots, lines, spare;
};

/* Header, groups, and an index of four words a slot. */
static inline size_t arena_first(const struct arena_header *h) { return (8192 + (size_t)h->slots * 16 + 4095) & ~4095ul; }

/* Slots, a page of short rings for each, and their own rings. */
static inline size_t arena_chunk(const struct arena_header *h) {
    return ARENA_CHUNK * (ARENA_SLOT + ARENA_SHORT + (size_t)h->lines * 128);
}

static inline size_t arena_slot_at(const struct arena_header *h, size_t i) {
    size_t chunk = arena_first(h) + (size_t)h->spare * 64 * 16 + i / ARENA_CHUNK * arena_chunk(h);
    return chunk + i % ARENA_CHUNK * ARENA_SLOT;
}

static inline size_t arena_length(const struct arena_header *h) { return arena_slot_at(h, h->slots); }

/* The whole of an arena, sparse. */
static inline char *arena_mapped(int fd) {
    struct stat st;
    MUST(fstat(fd, &st));
    char *arena = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    CHECK(arena != MAP_FAILED);
    return arena;
}

/* That of this process as a client, if it has one. */
static inline char *arena_of_ours(void) {
    char *arena = NULL;
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder);
    for (struct dirent *entry; !arena && (entry = readdir(folder));) {
        char path[300], target[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        if (readlink(path, target, sizeof target - 1) > 0 && strstr(target, "/memfd:dp-arena")) {
            int fd = MUST(open(path, O_RDWR | O_CLOEXEC));
            arena = arena_mapped(fd);
            close(fd);
        }
    }
    closedir(folder);
    return arena;
}

#endif
