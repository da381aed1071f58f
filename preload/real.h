/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * real.h - libc's own functions, one typed pointer for each row of symbols.def. All other code of
 * preload/ calls libc by rsk_real only.
 *
 * A pointer is never NULL. Until boot has resolved it (other libraries' constructors, dlsym()'s own
 * calloc), it points to a small function that boots, or, while boot is under way, makes the system
 * call itself (real.c).
 */
#ifndef RSK_REAL_H
#define RSK_REAL_H

#include <aio.h>
#include <dirent.h>
#include <execinfo.h>
#include <fcntl.h>
#include <mntent.h>
#include <mqueue.h>
#include <netdb.h>
#include <poll.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>
#include <wordexp.h>

#include <rsock/sys.h>

/* System calls that aarch64 never had. */
#ifdef SYS_poll
#define RSK_NR_poll SYS_poll
#define RSK_NR_select SYS_select
#define RSK_NR_epoll_create SYS_epoll_create
#define RSK_NR_dup2 SYS_dup2
#else
#define RSK_NR_poll (-1L)
#define RSK_NR_select (-1L)
#define RSK_NR_epoll_create (-1L)
#define RSK_NR_dup2 (-1L)
#endif

struct rsk_real {
#define RSK_SYM(ret, name, params, args, family, raw, note) ret(*name) params;
#include "symbols.def"
};

extern struct rsk_real rsk_real;

/* Fills the table. Returns the number of symbols that the running libc does not have. */
int rsk_real_resolve(void);

/*
 * rsk_direct - not zero in a vfork child (which runs on its parent's memory, including this word,
 * but with its own fds): every hook goes straight to the kernel and leaves the tables alone. It is
 * a counter, since a vfork child may vfork. Used by vfork.S.
 */
extern __thread uint32_t rsk_direct;

#endif
