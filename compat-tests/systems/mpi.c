/*
 * What `dp bench` does, by MPI: mpi lat|flood BYTES SECONDS CORE_0 CORE_1
 *
 * lat: round trips; half of one is a message's way. The median is over batches of 16 (one where a message takes a
 * millisecond or more), percentiles are over single round trips, less what reading the clock takes.
 * flood: windows of 64 messages that are sent and received without waiting for each other, as in the OSU benchmarks.
 * Times are of clock_gettime(CLOCK_MONOTONIC). Rank 0 prints one line of JSON.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define BATCH 16
#define WARM_UP 32
#define KEPT 100000
#define BATCHES 1000000
#define LONG 1e6
#define WINDOW 64
#define STOP 0xff

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double cpu(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What so many of 1000 do not exceed, of what is sorted. */
static double percentile(const double *of, size_t n, size_t thousandths)
{
    size_t rank = (n * thousandths + 999) / 1000;
    return of[rank ? rank - 1 : 0];
}

static double clock_cost(void)
{
    double costs[64];
    for (int i = 0; i < 64; i++) {
        double start = now();
        costs[i] = now() - start;
    }
    qsort(costs, 64, sizeof *costs, ascending);
    return costs[32];
}

static void send_one(unsigned char *message, int size, int to)
{
    MPI_Send(message, size, MPI_BYTE, to, 0, MPI_COMM_WORLD);
}

static void recv_one(unsigned char *message, int size, int from)
{
    MPI_Recv(message, size, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void round_trip(unsigned char *there, unsigned char *back, int size)
{
    send_one(there, size, 1);
    recv_one(back, size, 1);
}

static void latency(int size, double time)
{
    unsigned char *there = calloc(1, (size_t)size), *back = calloc(1, (size_t)size);
    double *batches = malloc(BATCHES * sizeof *batches), *singles = malloc(KEPT * sizeof *singles);
    double begin = now();
    int trips = 0;
    while (trips < WARM_UP && (trips == 0 || now() - begin < time / 10)) {
        round_trip(there, back, size);
        trips++;
    }
    int batch = (now() - begin) / trips > LONG ? 1 : BATCH;
    double clock = clock_cost(), start = now(), last = start;
    size_t n = 0, kept = 0;
    while (n == 0 || (last - start < time / 2 && n < BATCHES)) {
        for (int i = 0; i < batch; i++)
            round_trip(there, back, size);
        double t = now();
        batches[n++] = (t - last - clock) / (2.0 * batch);
        last = t;
    }
    while (kept == 0 || (last - start < time && kept < KEPT)) {
        round_trip(there, back, size);
        double t = now();
        singles[kept++] = (t - last - clock) / 2;
        last = t;
    }
    there[size - 1] = STOP;
    send_one(there, size, 1);
    qsort(batches, n, sizeof *batches, ascending);
    qsort(singles, kept, sizeof *singles, ascending);
    printf("{\"p50_ns\": %.1f, \"p99_ns\": %.1f, \"p999_ns\": %.1f}\n", percentile(batches, n, 500),
           percentile(singles, kept, 990), percentile(singles, kept, 999));
}

static void echo(int size)
{
    unsigned char *message = calloc(1, (size_t)size);
    for (;;) {
        recv_one(message, size, 0);
        if (message[size - 1] == STOP)
            return;
        send_one(message, size, 0);
    }
}

static void windows(unsigned char *message, int size, int rank, long count)
{
    MPI_Request requests[WINDOW];
    MPI_Status statuses[WINDOW];
    for (long w = 0; w < count; w++) {
        for (int i = 0; i < WINDOW; i++) {
            if (rank == 0)
                MPI_Isend(message, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[i]);
            else
                MPI_Irecv(message, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[i]);
        }
        MPI_Waitall(WINDOW, requests, statuses);
    }
}

/* A first time to see how many windows fill the time, then these. The last one is answered, so all have come. */
static void flood(int rank, int size, double time)
{
    unsigned char *message = calloc(1, (size_t)size), answer = 0;
    long count = 1;
    double took = 0, used = 0, all = 0;
    for (;;) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now(), before = cpu();
        windows(message, size, rank, count);
        if (rank == 0)
            recv_one(&answer, 1, 1);
        else
            send_one(&answer, 1, 0);
        took = now() - start;
        used = cpu() - before;
        long next = took > time / 2 ? 0 : (long)((double)count * (took > time / 20 ? time / took : 8));
        MPI_Bcast(&next, 1, MPI_LONG, 0, MPI_COMM_WORLD);
        if (next == 0)
            break;
        count = next;
    }
    MPI_Reduce(&used, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("{\"messages\": %ld, \"seconds\": %.6f, \"cpu_s\": %.6f}\n", count * WINDOW, took / 1e9, all);
}

/* Before MPI starts threads of its own: its launcher tells the rank. */
static void stay(char **cores)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (!rank)
        rank = getenv("PMI_RANK");
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(atoi(cores[rank && atoi(rank) == 1]), &set);
    if (!rank || sched_setaffinity(0, sizeof set, &set) != 0) {
        fprintf(stderr, "mpi: no rank, or not allowed on its core\n");
        exit(1);
    }
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    stay(argv + 4);
    MPI_Init(NULL, NULL);
    int rank, size = atoi(argv[2]);
    double time = atof(argv[3]) * 1e9;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (strcmp(argv[1], "flood") == 0)
        flood(rank, size, time);
    else if (rank == 0)
        latency(size, time);
    else
        echo(size);
    MPI_Finalize();
    return 0;
}
