// SPDX-License-Identifier: GPL-2.0
/* The place of one sleeper, for sleeper.rs. */
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/wait.h>

#include "glue.h"

/* WF_SYNC, the scheduler's own number for a waker who is about to sleep: learned from a wake-up that has it. */
static int dp_glue_wake_flags;

static int dp_glue_learn(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	dp_glue_wake_flags = flags;
	return 0;
}

void dp_glue_sleepers_start(void)
{
	DECLARE_WAIT_QUEUE_HEAD_ONSTACK(queue);
	struct wait_queue_entry entry;

	init_waitqueue_func_entry(&entry, dp_glue_learn);
	add_wait_queue(&queue, &entry);
	__wake_up_sync(&queue, TASK_NORMAL);
	remove_wait_queue(&queue, &entry);
}

/* Whether the place was free; then it is the calling task's. */
bool dp_glue_sleeper_comes(struct task_struct **place)
{
	return !READ_ONCE(*place) && !cmpxchg_relaxed(place, NULL, current);
}

/* From here on a wake-up is not missed. Whether there is a signal. */
bool dp_glue_sleeper_prepares(void)
{
	set_current_state(TASK_INTERRUPTIBLE);
	return signal_pending(current);
}

void dp_glue_sleeper_goes(struct task_struct **place)
{
	__set_current_state(TASK_RUNNING);
	WRITE_ONCE(*place, NULL);
}

/* A task that has gone meanwhile is kept until the end of the RCU section, as for rcuwait. */
void dp_glue_sleeper_wake(struct task_struct **place)
{
	struct wait_queue_entry entry;

	rcu_read_lock();
	entry.private = READ_ONCE(*place);
	if (entry.private)
		default_wake_function(&entry, TASK_NORMAL, dp_glue_wake_flags, NULL);
	rcu_read_unlock();
}
