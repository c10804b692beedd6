/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A route of your own: a shared object that exports dp_route_table(). `dp node` loads it and calls the functions of
 * its table; ../examples/route_unix.c is a whole one.
 *
 * A route carries frames, opaque bytes, between nodes, best effort: it may lose, repeat and reorder them, and never
 * joins or splits them. No function blocks, but open. All are called from one thread at a time. None lets a C++ exception
 * out. A function that fails answers with a negative errno, -EAGAIN for "not now".
 */
#ifndef DP_ROUTE_H
#define DP_ROUTE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. Functions added later stand behind those of today, and dp_route_table.size tells. */
#define DP_ROUTE_ABI 1u
/* Bytes of an address as text, with the zero at its end. */
#define DP_ROUTE_ADDRESS 64
/* The longest frame, bytes, and the most of one call. */
#define DP_ROUTE_FRAME_MAX 65507
#define DP_ROUTE_BATCH_MAX 64

/* Room for what arrives. */
struct dp_route_slot {
	void *bytes;			/* in: where to put it */
	uint32_t room;			/* in: bytes there, at least what slot() said */
	uint32_t length;		/* out: bytes put there, 1 to room */
	uint32_t each;			/* out: bytes of each frame in it, 1 to length; the last may be shorter */
	char from[DP_ROUTE_ADDRESS];	/* out: who sent it: printable ASCII without spaces, zero at the end */
};

struct dp_route_table {
	uint32_t abi;		/* DP_ROUTE_ABI */
	uint32_t size;		/* sizeof(struct dp_route_table) */
	const char *name;	/* of the route: 1 to 15 letters, digits, '-' and '_'; not udp, eth, sim or shm */

	/* Opens the route on this node's address, what stands behind "NAME:" in the graph. 0, and what the others get. */
	int (*open)(const char *local, void **route);
	void (*close)(void *route);
	/* For poll(2): readable when frames have arrived, writable when there is room. The same until close. */
	int (*descriptor)(void *route);
	/* Bytes of the longest frame to there, 1 to DP_ROUTE_FRAME_MAX. May change. */
	ssize_t (*mtu)(void *route, const char *to);
	/* Bytes that a slot must have: 1 to 65536. */
	ssize_t (*slot)(void *route);
	/*
	 * Sends count frames, 1 to DP_ROUTE_BATCH_MAX, which lie one behind the other, with these lengths. How many of
	 * the first ones were sent; or if none, why: -EAGAIN no room, -EMSGSIZE longer than the MTU, -ENETDOWN, ...
	 */
	ssize_t (*send)(void *route, const char *to, const void *bytes, const uint16_t *lengths, size_t count);
	/* Fills the first of count slots. How many; 0 if nothing has arrived. */
	ssize_t (*recv)(void *route, struct dp_route_slot *slots, size_t count);
	/* Finds out anew what may have changed, such as MTUs. 0, or why nothing can be carried now. */
	int (*refresh)(void *route);
};

/* What the shared object exports. The table stays where it is and as it is. */
const struct dp_route_table *dp_route_table(void);

#ifdef __cplusplus
}
#endif

#endif
