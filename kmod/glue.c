// SPDX-License-Identifier: GPL-2.0
/*
 * What Rust cannot say to the kernel: macros, inline functions, fields of structures that bindgen does not see.
 * Each function is one such thing; the sense is on the Rust side.
 */
#include <linux/anon_inodes.h>
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/io_uring/cmd.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/poll.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>
#include <linux/seq_file.h>
#include <linux/seq_file_net.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <asm/ioctls.h>
#include <linux/uaccess.h>
#include <linux/uidgid.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include "ether.h"
#include "glue.h"

/* Constants that bindgen cannot work out: Rust repeats the numbers, and asks when it is loaded whether they are right. */
bool dp_glue_constants_are(const struct dp_glue_constants *rust)
{
	const struct dp_glue_constants right = {
		.iocb_nowait = (__force u32)IOCB_NOWAIT,
		.fmode_nowait = (__force u32)FMODE_NOWAIT,
		.fionread = FIONREAD,
		.poll_in = (__force u32)(EPOLLIN | EPOLLRDNORM),
		.poll_out = (__force u32)(EPOLLOUT | EPOLLWRNORM),
		.poll_err = (__force u32)EPOLLERR,
	};

	return !memcmp(rust, &right, sizeof(right));
}

/* ---- waiting ---- */

void dp_glue_relay_init(struct wait_queue_entry *entry, wait_queue_func_t func, void *private)
{
	init_waitqueue_func_entry(entry, func);
	entry->private = private;
	INIT_LIST_HEAD(&entry->entry);
}

void dp_glue_relay_add(struct wait_queue_head *queue, struct wait_queue_entry *entry)
{
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	if (list_empty(&entry->entry))
		__add_wait_queue(queue, entry);
	spin_unlock_irqrestore(&queue->lock, flags);
}

void dp_glue_relay_del(struct wait_queue_head *queue, struct wait_queue_entry *entry)
{
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	list_del_init(&entry->entry);
	spin_unlock_irqrestore(&queue->lock, flags);
}

/* From inside the wake-up: the queue's lock is held. */
void dp_glue_relay_done(struct wait_queue_entry *entry)
{
	list_del_init(&entry->entry);
}

void dp_glue_later_init(struct delayed_work *work, work_func_t func)
{
	INIT_DELAYED_WORK(work, func);
}

void dp_glue_later(struct delayed_work *work, unsigned int ms)
{
	mod_delayed_work(system_percpu_wq, work, msecs_to_jiffies(ms));
}

/* ---- memory ---- */

/*
 * Counts pages as the calling user's, beside what mlock(2), io_uring and others count there. `free` of them need no
 * RLIMIT_MEMLOCK. NULL: too many.
 */
struct user_struct *dp_glue_charge(unsigned long pages, unsigned long free)
{
	struct user_struct *user = current_user();
	unsigned long limit = free + (rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT);

	if (atomic_long_add_return(pages, &user->locked_vm) > limit && !capable(CAP_IPC_LOCK)) {
		atomic_long_sub(pages, &user->locked_vm);
		return NULL;
	}
	return get_uid(user);
}

void dp_glue_uncharge(struct user_struct *user, unsigned long pages)
{
	atomic_long_sub(pages, &user->locked_vm);
	free_uid(user);
}

/* The pages, `turns` times in a row. */
void *dp_glue_map_pages(struct page **pages, unsigned int count, unsigned int turns)
{
	struct page **all;
	unsigned int i;
	void *base;

	all = kvmalloc_array(count, turns * sizeof(*all), GFP_KERNEL | __GFP_NOWARN);
	if (!all)
		return NULL;
	for (i = 0; i < turns; i++)
		memcpy(all + (size_t)i * count, pages, count * sizeof(*all));
	base = vmap(all, count * turns, VM_MAP, PAGE_KERNEL);
	kvfree(all);
	return base;
}

void dp_glue_unmap_pages(void *base)
{
	vunmap(base);
}

static const struct file_operations dp_glue_mapping_fops = {
	.owner = THIS_MODULE,
	.llseek = noop_llseek,
};

/* A mapping that kept the endpoint's file would keep the endpoint open after close(2). */
int dp_glue_detach_mapping(struct vm_area_struct *vma)
{
	struct file *file = anon_inode_getfile("[dp]", &dp_glue_mapping_fops, NULL, O_RDWR);

	if (IS_ERR(file))
		return PTR_ERR(file);
	vma_set_file(vma, file);
	fput(file);
	return 0;
}

/* ---- io_uring ---- */

/* A program can change what is in its queue at any time: each part is read once. */
void dp_glue_uring_entry(struct io_uring_cmd *command, struct dp_glue_entry *entry)
{
	const struct dp_uring_sendto *argument = io_uring_sqe_cmd(command->sqe, struct dp_uring_sendto);

	entry->file = command->file;
	entry->message = READ_ONCE(command->sqe->addr);
	entry->len = READ_ONCE(command->sqe->len);
	entry->command = command->cmd_op;
	entry->flags = command->flags & IORING_URING_CMD_MASK;
	entry->pad0 = 0;
	entry->argument.to.nid = READ_ONCE(argument->to.nid);
	entry->argument.to.dpid = READ_ONCE(argument->to.dpid);
	entry->argument.flags = READ_ONCE(argument->flags);
	entry->argument.pad0 = READ_ONCE(argument->pad0);
}

/* The result of a command that is not told by returning it. */
void dp_glue_uring_done(struct io_uring_cmd *command, int result, unsigned int issue)
{
	io_uring_cmd_done(command, result, issue);
}

/* ---- a spinlock that is taken in softirq, too ---- */

void dp_glue_soft_lock(spinlock_t *lock)
{
	spin_lock_bh(lock);
}

bool dp_glue_soft_try_lock(spinlock_t *lock)
{
	return spin_trylock_bh(lock);
}

void dp_glue_soft_unlock(spinlock_t *lock)
{
	spin_unlock_bh(lock);
}

/* ---- network namespaces, and /proc/net/dp in each ---- */

static unsigned int dp_glue_net_id;

struct dp_glue_net {
	void *table;
	/* The table's. */
	struct dp_ether *ether;
};

#ifdef CONFIG_PROC_FS
static const struct seq_operations dp_glue_list = {
	.start = dp_rust_list_start,
	.next = dp_rust_list_next,
	.stop = dp_rust_list_stop,
	.show = dp_rust_list_show,
};

static bool dp_glue_list_new(struct net *net)
{
	if (!proc_create_net("dp", 0444, net->proc_net, &dp_glue_list, sizeof(struct seq_net_private)))
		return false;
	if (proc_create_net_single("dp_ether", 0444, net->proc_net, dp_rust_network_show, NULL))
		return true;
	remove_proc_entry("dp", net->proc_net);
	return false;
}

/* Waits for those who are reading it. */
static void dp_glue_list_gone(struct net *net)
{
	remove_proc_entry("dp_ether", net->proc_net);
	remove_proc_entry("dp", net->proc_net);
}
#else
static bool dp_glue_list_new(struct net *net)
{
	return true;
}

static void dp_glue_list_gone(struct net *net)
{
}
#endif

static int __net_init dp_glue_net_init(struct net *net)
{
	struct dp_glue_net *here = net_generic(net, dp_glue_net_id);

	here->ether = dp_ether_new();
	if (!here->ether)
		return -ENOMEM;
	/* Takes `ether` over in any case. */
	here->table = dp_rust_table_new(here->ether);
	if (here->table && dp_glue_list_new(net)) {
		dp_ether_start(here->ether, here->table);
		return 0;
	}
	here->ether = NULL;
	if (here->table)
		dp_rust_table_free(here->table);
	return -ENOMEM;
}

static void __net_exit dp_glue_net_exit(struct net *net)
{
	struct dp_glue_net *here = net_generic(net, dp_glue_net_id);

	dp_glue_list_gone(net);
	/* No frame comes any more. Who still has an endpoint here has the table. */
	dp_ether_stop(here->ether);
	here->ether = NULL;
	dp_rust_table_free(here->table);
}

static struct pernet_operations dp_glue_net_ops = {
	.init = dp_glue_net_init,
	.exit = dp_glue_net_exit,
	.id = &dp_glue_net_id,
	.size = sizeof(struct dp_glue_net),
};

int dp_glue_net_register(void)
{
	int result = register_pernet_subsys(&dp_glue_net_ops);

	if (result)
		return result;
	result = dp_ether_register();
	if (result)
		unregister_pernet_subsys(&dp_glue_net_ops);
	return result;
}

void dp_glue_net_unregister(void)
{
	dp_ether_unregister();
	unregister_pernet_subsys(&dp_glue_net_ops);
}

struct dp_ether *dp_glue_net_ether(struct net *net)
{
	struct dp_glue_net *here = net_generic(net, dp_glue_net_id);

	return here->ether;
}

/* Of the namespace whose /proc/net/dp_ether it is. */
void *dp_glue_network_table(struct seq_file *out)
{
	struct dp_glue_net *here = net_generic(seq_file_single_net(out), dp_glue_net_id);

	return here->table;
}

/* Of the calling process; it lives as long as the process does not leave the namespace. */
void *dp_glue_net_table(void)
{
	struct dp_glue_net *here = net_generic(current->nsproxy->net_ns, dp_glue_net_id);

	return here->table;
}

/* Asked at every open of the device, whether it matters or not: an answer of no is nothing for the audit's log. */
bool dp_glue_may_bind(void)
{
	return ns_capable_noaudit(current->nsproxy->net_ns->user_ns, CAP_NET_BIND_SERVICE);
}

/* Of the namespace whose /proc/net/dp it is; it lives as long as the file is open. */
void *dp_glue_list_table(struct seq_file *out)
{
	struct dp_glue_net *here = net_generic(seq_file_net(out), dp_glue_net_id);

	return here->table;
}

/*
 * Whether whoever opened the list is that user, or has a say in the namespace. Whoever reads it may be another
 * process, which was only given the descriptor.
 */
bool dp_glue_list_may_see(struct seq_file *out, u32 uid)
{
	return uid_eq(out->file->f_cred->euid, KUIDT_INIT(uid)) ||
	       file_ns_capable(out->file, seq_file_net(out)->user_ns, CAP_NET_ADMIN);
}

/* As it is called where the list was opened. */
u32 dp_glue_list_uid(struct seq_file *out, u32 uid)
{
	return from_kuid_munged(seq_user_ns(out), KUIDT_INIT(uid));
}
