/*
 * A route of one's own: frames by AF_UNIX datagrams between nodes that are programs of one machine. Build it with
 *     cc -shared -fPIC -Idpfd/route/include -o route_unix.so dpfd/route/examples/route_unix.c
 * An address is a name, as in "unix:left", of a socket in the abstract namespace.
 */
#define _GNU_SOURCE
#include "dp_route.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MTU 16384
static const char PREFIX[] = "dp-route-unix/";

struct route {
	int fd;
};

/* The socket of that name. Its length, or 0. */
static socklen_t address(const char *name, struct sockaddr_un *un)
{
	int length;

	memset(un, 0, sizeof *un);
	un->sun_family = AF_UNIX;
	/* The first byte stays zero: no file. */
	length = snprintf(un->sun_path + 1, sizeof un->sun_path - 1, "%s%s", PREFIX, name);
	if (length < 0 || (size_t)length >= sizeof un->sun_path - 1)
		return 0;
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

static int unix_open(const char *local, void **out)
{
	struct route *route = malloc(sizeof *route);
	struct sockaddr_un un;
	socklen_t length = address(local, &un);
	int error = 0;

	if (!route)
		return -ENOMEM;
	route->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (route->fd < 0 || !length || bind(route->fd, (struct sockaddr *)&un, length))
		error = length ? errno : EINVAL;
	if (error) {
		if (route->fd >= 0)
			close(route->fd);
		free(route);
		return -error;
	}
	*out = route;
	return 0;
}

static void unix_close(void *state)
{
	struct route *route = state;

	close(route->fd);
	free(route);
}

static int unix_descriptor(void *state)
{
	return ((struct route *)state)->fd;
}

static ssize_t unix_mtu(void *state, const char *to)
{
	(void)state, (void)to;
	return MTU;
}

static ssize_t unix_slot(void *state)
{
	(void)state;
	return MTU;
}

static ssize_t unix_send(void *state, const char *to, const void *bytes, const uint16_t *lengths, size_t count)
{
	struct route *route = state;
	struct sockaddr_un un;
	socklen_t length = address(to, &un);
	const char *next = bytes;
	size_t sent;

	for (sent = 0; sent < count; sent++) {
		ssize_t status;

		if (lengths[sent] > MTU)
			return sent ? (ssize_t)sent : -EMSGSIZE;
		status = sendto(route->fd, next, lengths[sent], 0, (struct sockaddr *)&un, length);
		if (status < 0)
			return sent ? (ssize_t)sent : -errno;
		next += lengths[sent];
	}
	return (ssize_t)sent;
}

static ssize_t unix_recv(void *state, struct dp_route_slot *slots, size_t count)
{
	struct route *route = state;
	size_t got = 0;

	while (got < count) {
		struct dp_route_slot *slot = &slots[got];
		struct sockaddr_un un;
		socklen_t length = sizeof un;
		ssize_t bytes = recvfrom(route->fd, slot->bytes, slot->room, MSG_TRUNC, (struct sockaddr *)&un, &length);
		size_t skip = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(PREFIX), name;

		if (bytes < 0)
			return errno == EAGAIN || got ? (ssize_t)got : -errno;
		/* Strangers: too long, empty, from a socket that is no route's, or of a name that is too long. */
		name = length > skip ? length - skip : 0;
		if (bytes == 0 || (size_t)bytes > slot->room || !name || name >= sizeof slot->from ||
		    un.sun_path[0] || memcmp(un.sun_path + 1, PREFIX, strlen(PREFIX)))
			continue;
		memcpy(slot->from, un.sun_path + 1 + strlen(PREFIX), name);
		slot->from[name] = 0;
		slot->length = slot->each = (uint32_t)bytes;
		got++;
	}
	return (ssize_t)got;
}

static int unix_refresh(void *state)
{
	(void)state;
	return 0;
}

const struct dp_route_table *dp_route_table(void)
{
	static const struct dp_route_table table = {
		.abi = DP_ROUTE_ABI,
		.size = sizeof table,
		.name = "unix",
		.open = unix_open,
		.close = unix_close,
		.descriptor = unix_descriptor,
		.mtu = unix_mtu,
		.slot = unix_slot,
		.send = unix_send,
		.recv = unix_recv,
		.refresh = unix_refresh,
	};

	return &table;
}
