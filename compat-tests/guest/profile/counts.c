// SPDX-License-Identifier: MIT OR Apache-2.0
// A plugin of QEMU's that counts the instructions a guest executes, by where they are, in phases: the guest begins the
// k-th by executing the k-th of the addresses `mark=`, which is a function of a program's that nothing else calls.
//
// arguments: out=FILE,mark=HEX,mark=HEX,...
// FILE: for each block of code "ADDRESS INSTRUCTIONS TIMES-IN-PHASE-1 TIMES-IN-PHASE-2 ...".
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// As qemu-plugin.h has them, which no package brings.
#define EXPORT __attribute__((visibility("default")))
struct qemu_plugin_tb;
typedef uint64_t qemu_plugin_id_t;
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned, void *), int, void *);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);

EXPORT int qemu_plugin_version = 4;

enum { PHASES = 8 };

struct block {
    uint64_t address, instructions, times[PHASES + 1];
    struct block *next;
};

static struct block *blocks;
static uint64_t marks[PHASES];
static int phases, phase;
static const char *out;

// One CPU: nothing here is shared.
static void executed(unsigned cpu, void *block) {
    (void)cpu;
    ((struct block *)block)->times[phase]++;
}

static void marked(unsigned cpu, void *block) {
    for (int i = 0; i < phases; i++)
        if (((struct block *)block)->address == marks[i])
            phase = i + 1;
    executed(cpu, block);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    (void)id;
    struct block *b = calloc(1, sizeof *b);
    if (!b)
        abort();
    *b = (struct block){.address = qemu_plugin_tb_vaddr(tb), .instructions = qemu_plugin_tb_n_insns(tb), .next = blocks};
    blocks = b;
    bool mark = false;
    for (int i = 0; i < phases; i++)
        mark |= b->address == marks[i];
    qemu_plugin_register_vcpu_tb_exec_cb(tb, mark ? marked : executed, 0, b);
}

static void finished(qemu_plugin_id_t id, void *unused) {
    (void)id;
    (void)unused;
    FILE *f = fopen(out, "w");
    if (!f) {
        perror(out);
        return;
    }
    for (struct block *b = blocks; b; b = b->next) {
        fprintf(f, "%016" PRIx64 " %" PRIu64, b->address, b->instructions);
        for (int i = 1; i <= phases; i++)
            fprintf(f, " %" PRIu64, b->times[i]);
        fputc('\n', f);
    }
    fclose(f);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv) {
    (void)info;
    for (int i = 0; i < argc; i++) {
        if (!strncmp(argv[i], "out=", 4))
            out = strdup(argv[i] + 4);
        else if (!strncmp(argv[i], "mark=", 5) && phases < PHASES)
            marks[phases++] = strtoull(argv[i] + 5, NULL, 16);
    }
    if (!out || !phases) {
        fputs("counts: out=FILE,mark=HEX,... are needed\n", stderr);
        return 1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, finished, NULL);
    return 0;
}
