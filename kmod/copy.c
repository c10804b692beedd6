// SPDX-License-Identifier: GPL-2.0
/* Copies between programs and pools that wait for no page. */
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "glue.h"

/*
 * What is short goes word by word: the string instructions, and what surrounds them, take longer to begin than such a copy
 * takes in all. A reader's copy is made with the pool's lock held, for which senders wait.
 */
enum { DP_GLUE_SHORT = 256 };

#define DP_GLUE_GET(type, i) unsafe_get_user(((type *)to)[i], &((const type __user *)at)[i], fault)
#define DP_GLUE_PUT(type, i) unsafe_put_user(((const type *)from)[i], &((type __user *)at)[i], fault)
/* Four words at a time, and whatever is left. `there` and `here` go on together. */
#define DP_GLUE_WORDS(word, left, here, there)                  \
	do {                                                    \
		for (; left >= 32; left -= 32) {                \
			word(u64, 0);                           \
			word(u64, 1);                           \
			word(u64, 2);                           \
			word(u64, 3);                           \
			here += 32;                             \
			there += 32;                            \
		}                                               \
		for (; left >= 8; left -= 8) {                  \
			word(u64, 0);                           \
			here += 8;                              \
			there += 8;                             \
		}                                               \
		for (; left; left--) {                          \
			word(u8, 0);                            \
			here++;                                 \
			there++;                                \
		}                                               \
	} while (0)

static __always_inline bool dp_glue_get(void *to, const char __user *from, size_t left)
{
	pagefault_disable();
	scoped_user_read_access_size(from, left, fault) {
		const char __user *at = from;

		DP_GLUE_WORDS(DP_GLUE_GET, left, at, to);
	}
	pagefault_enable();
	return true;
fault:
	pagefault_enable();
	return false;
}

static __always_inline bool dp_glue_put(char __user *to, const void *from, size_t left)
{
	pagefault_disable();
	scoped_user_write_access_size(to, left, fault) {
		char __user *at = to;

		DP_GLUE_WORDS(DP_GLUE_PUT, left, at, from);
	}
	pagefault_enable();
	return true;
fault:
	pagefault_enable();
	return false;
}

/* A piece of a program's memory, and where. */
static bool dp_glue_is_short(const struct iov_iter *iter, size_t len)
{
	return iter_is_ubuf(iter) && len <= DP_GLUE_SHORT && len <= iter->count;
}

static void dp_glue_advance(struct iov_iter *iter, size_t len)
{
	iter->iov_offset += len;
	iter->count -= len;
}

/*
 * How many bytes could be copied without waiting for a page. The rest is where a fault would have been, in the
 * sender's memory: it cannot be waited for while room in another's pool is held.
 */
size_t dp_glue_copy_in(void *to, size_t len, struct iov_iter *from)
{
	size_t done;

	if (dp_glue_is_short(from, len)) {
		if (!dp_glue_get(to, from->ubuf + from->iov_offset, len))
			return 0;
		dp_glue_advance(from, len);
		return len;
	}
	pagefault_disable();
	done = copy_from_iter(to, len, from);
	pagefault_enable();
	return done;
}

/* Whether all of it could be copied without waiting for a page; else nothing was. Only what is short. */
bool dp_glue_copy_out(struct iov_iter *to, const void *from, size_t len)
{
	if (!dp_glue_is_short(to, len) || !dp_glue_put(to->ubuf + to->iov_offset, from, len))
		return false;
	dp_glue_advance(to, len);
	return true;
}

/* ---- by read(2) and write(2), whose memory is in one piece, and whose caller has seen that it is the program's ---- */

static noinline bool dp_glue_copy_from_long(void *to, const char __user *from, size_t len)
{
	bool whole;

	pagefault_disable();
	whole = !copy_from_user(to, from, len);
	pagefault_enable();
	return whole;
}

/* Whether all of it could be copied without waiting for a page. */
bool dp_glue_copy_from(void *to, const char __user *from, size_t len)
{
	return len <= DP_GLUE_SHORT ? dp_glue_get(to, from, len) : dp_glue_copy_from_long(to, from, len);
}

/* The same the other way, and only what is short. */
bool dp_glue_copy_to(char __user *to, const void *from, size_t len)
{
	return len <= DP_GLUE_SHORT && dp_glue_put(to, from, len);
}

/* How many bytes could be copied at all. */
size_t dp_glue_copy_to_waiting(char __user *to, const void *from, size_t len)
{
	return len - copy_to_user(to, from, len);
}

/* What does not go at once. */
ssize_t dp_glue_write(struct file *file, const char __user *from, size_t len)
{
	struct iov_iter iter;

	iov_iter_ubuf(&iter, ITER_SOURCE, (void __user *)from, len);
	return dp_rust_write(file, &iter);
}
