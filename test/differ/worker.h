/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * worker.h - a process of the differential fuzzer (bin/differ_worker). It makes the calls that the
 * controller (runner.py) names, one line each, and answers with their results. A handle is the
 * controller's name of a descriptor.
 */
#ifndef DIFFER_WORKER_H
#define DIFFER_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MAX_HANDLES 256
#define MAX_ARGS 40
#define MAX_BYTES (1 << 16)
#define PATIENCE_MS (3000 * scale)
#define CONTROL_FD                                                                                 \
	200 /* above the program's own descriptors, so that the kernel chooses their numbers */
#define INBOX_FD 201

/* One operation: its words, and the answer that it writes. Owned by the thread that runs it. */
struct op {
	char line[1024];
	char *word[MAX_ARGS];
	long arg[MAX_ARGS]; /* arg[0] is the first word after the name */
	int count;
	char answer[2048];
	size_t used;
};

extern int fd_of[MAX_HANDLES];
extern char name[32], folder[64];
extern int scale; /* factor of all timeouts: DIFFER_SCALE, or 1 */

/* Adds to the answer; text after '#' is for the controller and is not compared. */
void say(struct op *op, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Adds a return value, and the name of errno where it is -1. */
void say_result(struct op *op, long ret);
/* The descriptor of a handle; -1 where this process does not have it. */
int handle(long h);
/*
 * Stores a new descriptor under the handle, and adds its number to the answer; errno if it is -1.
 */
void handle_set(struct op *op, long h, int fd);
void crc(uint32_t *sum, const void *data, size_t len);
/* The bytes of a stream named @key from position @pos on. */
void pattern(uint32_t key, uint64_t pos, uint8_t *buf, size_t len);
int64_t now_ms(void);

/* Runs one operation by its name. */
void op_run(struct op *op);
void op_parse(struct op *op, const char *line);
/* Connects to the controller's socket under the name; ends the process on failure. */
void control_join(const char *as);

/* Each runs one operation and writes its answer into the op. */
void op_send(struct op *op);
void op_recv(struct op *op);
void op_bulk_send(struct op *op);
void op_bulk_recv(struct op *op);
void op_bulk_check(struct op *op);
void op_stdio(struct op *op);
void op_splice_in(struct op *op);
void op_copy_range(struct op *op);

void op_listen(struct op *op);
void op_connect(struct op *op);
void op_accept(struct op *op);
void op_pipe(struct op *op);
void op_socketpair(struct op *op);
void op_file(struct op *op);
void op_close(struct op *op);
void op_dup(struct op *op);
void op_shutdown(struct op *op);
void op_nonblock(struct op *op);
void op_inq(struct op *op);
void op_outq(struct op *op);
void op_getopt(struct op *op);
void op_setopt(struct op *op);
void op_getfl(struct op *op);

void op_poll(struct op *op);
void op_settle(struct op *op);
void op_epoll_new(struct op *op);
void op_epoll_ctl(struct op *op);
void op_epoll_wait(struct op *op);

void op_fork(struct op *op);
void op_exec(struct op *op);
void op_child(struct op *op);
void op_pass(struct op *op);
void op_take(struct op *op);
/*
 * `worker io FD r LEN | w LEN KEY POS`: what an executed child does with a descriptor that it
 * inherited. Returns an exit status.
 */
int child_main(int argc, char **argv);

#endif
