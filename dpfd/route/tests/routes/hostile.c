/* A route that lies, in the way that a macro names. */
#include "dp_route.h"

#include <errno.h>
#include <string.h>

#ifdef SIZES
_Static_assert(sizeof(struct dp_route_slot) == sizeof(void *) + 12 + 64 + (sizeof(void *) - 4), "a slot");
_Static_assert(sizeof(struct dp_route_table) == 8 + 9 * sizeof(void *), "the table");
#endif

static int state __attribute__((unused));

static int lie_open(const char *local, void **route)
{
	(void)local;
#ifdef WILD_ERROR
	return -2000000000;
#endif
#ifdef NO_STATE
	(void)route;
#else
	*route = &state;
#endif
	return 0;
}

static void lie_close(void *route)
{
	(void)route;
}

static int lie_descriptor(void *route)
{
	(void)route;
#ifdef BAD_DESCRIPTOR
	return 1 << 30;
#else
	return 0;
#endif
}

static ssize_t lie_mtu(void *route, const char *to)
{
	(void)route, (void)to;
#ifdef ZERO_MTU
	return 0;
#else
	return 100;
#endif
}

static ssize_t lie_slot(void *route)
{
	(void)route;
#ifdef LONG_SLOT
	return 1 << 20;
#else
	return 100;
#endif
}

static ssize_t lie_send(void *route, const char *to, const void *bytes, const uint16_t *lengths, size_t count)
{
	(void)route, (void)to, (void)bytes, (void)lengths;
#ifdef MANY_SENT
	count++;
#endif
	return (ssize_t)count;
}

static ssize_t lie_recv(void *route, struct dp_route_slot *slots, size_t count)
{
	(void)route, (void)count;
	strcpy(slots->from, "peer");
	slots->length = slots->each = 10;
#ifdef LONG_FRAME
	slots->length = slots->each = slots->room + 1;
#elif defined EMPTY_FRAME
	slots->length = slots->each = 0;
#elif defined NO_EACH
	slots->each = 0;
#elif defined LONG_EACH
	slots->each = 11;
#elif defined ENDLESS_FROM
	memset(slots->from, 'x', sizeof slots->from);
#elif defined BAD_FROM
	strcpy(slots->from, "a b");
#elif defined MANY_SLOTS
	return (ssize_t)count + 1;
#endif
	return 1;
}

#ifndef NO_FUNCTION
static int lie_refresh(void *route)
{
	(void)route;
	return 0;
}
#endif

#ifdef NO_SYMBOL
#define dp_route_table another_name
const struct dp_route_table *another_name(void);
#endif

static const struct dp_route_table_storage {
	uint32_t abi, size;
	const char *name;
	int (*open)(const char *, void **);
	void (*close)(void *);
	int (*descriptor)(void *);
	ssize_t (*mtu)(void *, const char *);
	ssize_t (*slot)(void *);
	ssize_t (*send)(void *, const char *, const void *, const uint16_t *, size_t);
	ssize_t (*recv)(void *, struct dp_route_slot *, size_t);
	int (*refresh)(void *);
} storage = {
#ifdef OTHER_ABI
	.abi = 2,
#else
	.abi = DP_ROUTE_ABI,
#endif
#ifdef SHORT_TABLE
	.size = 16,
#else
	.size = sizeof storage,
#endif
#ifdef BAD_NAME
	.name = "a b",
#elif defined TAKEN_NAME
	.name = "udp",
#elif !defined NO_NAME
	.name = "lie",
#endif
	.open = lie_open,
	.close = lie_close,
	.descriptor = lie_descriptor,
	.mtu = lie_mtu,
	.slot = lie_slot,
	.send = lie_send,
	.recv = lie_recv,
#ifndef NO_FUNCTION
	.refresh = lie_refresh,
#endif
};

const struct dp_route_table *dp_route_table(void)
{
#ifdef NO_TABLE
	(void)storage;
	return 0;
#else
	return (const struct dp_route_table *)&storage;
#endif
}
