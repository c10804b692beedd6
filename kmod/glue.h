/* SPDX-License-Identifier: GPL-2.0 */
/* The two sides between C and Rust: what Rust calls, and what it is called for. glue.rs declares the same. */
#ifndef DP_GLUE_H
#define DP_GLUE_H

#include <linux/spinlock_types.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "abi/dp_ioctl.h"

struct dp_ether;
struct file;
struct io_uring_cmd;
struct iov_iter;
struct page;
struct seq_file;
struct task_struct;
struct user_struct;
struct vm_area_struct;

/* In Rust: Constants in glue.rs. */
struct dp_glue_constants {
	u32 iocb_nowait;
	u32 fmode_nowait;
	u32 fionread;
	u32 poll_in;
	u32 poll_out;
	u32 poll_err;
};
static_assert(sizeof(struct dp_glue_constants) == 24);

bool dp_glue_constants_are(const struct dp_glue_constants *rust);

void dp_glue_relay_init(struct wait_queue_entry *entry, wait_queue_func_t func, void *private);
void dp_glue_relay_add(struct wait_queue_head *queue, struct wait_queue_entry *entry);
void dp_glue_relay_del(struct wait_queue_head *queue, struct wait_queue_entry *entry);
void dp_glue_relay_done(struct wait_queue_entry *entry);

/* In sleeper.c. */
void dp_glue_sleepers_start(void);
bool dp_glue_sleeper_comes(struct task_struct **place);
bool dp_glue_sleeper_prepares(void);
void dp_glue_sleeper_goes(struct task_struct **place);
void dp_glue_sleeper_wake(struct task_struct **place);

void dp_glue_later_init(struct delayed_work *work, work_func_t func);
void dp_glue_later(struct delayed_work *work, unsigned int ms);

struct user_struct *dp_glue_charge(unsigned long pages, unsigned long free);
void dp_glue_uncharge(struct user_struct *user, unsigned long pages);
void *dp_glue_map_pages(struct page **pages, unsigned int count, unsigned int turns);
void dp_glue_unmap_pages(void *base);
int dp_glue_detach_mapping(struct vm_area_struct *vma);

/* In copy.c. */
bool dp_glue_copy_from(void *to, const char __user *from, size_t len);
bool dp_glue_copy_to(char __user *to, const void *from, size_t len);
size_t dp_glue_copy_to_waiting(char __user *to, const void *from, size_t len);
ssize_t dp_glue_write(struct file *file, const char __user *from, size_t len);
size_t dp_glue_copy_in(void *to, size_t len, struct iov_iter *from);
bool dp_glue_copy_out(struct iov_iter *to, const void *from, size_t len);

/* In Rust: Entry in uring.rs. */
struct dp_glue_entry {
	struct file *file;
	u64 message;
	u32 len;
	u32 command;
	u32 flags;
	u32 pad0;
	struct dp_uring_sendto argument;
};
static_assert(sizeof(struct dp_glue_entry) == 48);

void dp_glue_uring_entry(struct io_uring_cmd *command, struct dp_glue_entry *entry);
void dp_glue_uring_done(struct io_uring_cmd *command, int result, unsigned int issue);

void dp_glue_soft_lock(spinlock_t *lock);
bool dp_glue_soft_try_lock(spinlock_t *lock);
void dp_glue_soft_unlock(spinlock_t *lock);

/* In trace.c. */
void dp_glue_trace_send(u32 dpid, u32 peer_nid, u32 peer_dpid, u64 len);
void dp_glue_trace_full(u32 dpid, u32 peer_nid, u32 peer_dpid, u64 len);
void dp_glue_trace_receive(u32 dpid, u32 peer_nid, u32 peer_dpid, u64 len);

int dp_glue_net_register(void);
void dp_glue_net_unregister(void);
void *dp_glue_net_table(void);
bool dp_glue_may_bind(void);

void *dp_glue_network_table(struct seq_file *out);
void *dp_glue_list_table(struct seq_file *out);
bool dp_glue_list_may_see(struct seq_file *out, u32 uid);
u32 dp_glue_list_uid(struct seq_file *out, u32 uid);

/* In file.rs. */
ssize_t dp_rust_write(struct file *file, struct iov_iter *from);

/* In table.rs. */
void *dp_rust_table_new(struct dp_ether *ether);
void dp_rust_table_free(void *table);

/* In network.rs. */
int dp_rust_network_show(struct seq_file *out, void *unused);

/* In proc.rs. */
void *dp_rust_list_start(struct seq_file *out, loff_t *place);
void *dp_rust_list_next(struct seq_file *out, void *at, loff_t *place);
void dp_rust_list_stop(struct seq_file *out, void *at);
int dp_rust_list_show(struct seq_file *out, void *at);

#endif
