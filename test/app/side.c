/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * side.c - the part of the harness that runs inside a case's two processes: transcript, barriers,
 * waiting for a state; see app.h.
 */
#include "app.h"
#include "shm.h"

#include <dirent.h>
#include <linux/sockios.h>
#include <stdarg.h>
#include <sys/mman.h>

#include <rsock/clock.h>

#include "side.h"

#define PATIENCE_MS (10000 * app_scale())

int app_side;
struct app_shm *app_shm;

void app_attach(const char *path, int side)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		_exit(4);
	app_shm = mmap(NULL, sizeof(*app_shm), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (app_shm == MAP_FAILED)
		_exit(4);
	close(fd);
	app_side = side;
}

int app_scale(void)
{
	const char *scale = getenv("APP_SCALE");

	return scale ? atoi(scale) : 1;
}

static void append(const char *text, size_t len)
{
	uint32_t at = atomic_fetch_add(&app_shm->log_len[app_side], (uint32_t)len);

	if (at + len < APP_LOG_BYTES)
		memcpy(app_shm->log[app_side] + at, text, len);
}

void app_log(const char *fmt, ...)
{
	char line[1024];
	va_list ap;
	int saved = errno;

	va_start(ap, fmt);
	int len = vsnprintf(line, sizeof(line) - 1, fmt, ap);

	va_end(ap);
	if (len > (int)sizeof(line) - 2)
		len = sizeof(line) - 2;
	line[len++] = '\n';
	append(line, (size_t)len);
	errno = saved;
}

const char *app_errname(int err)
{
	const char *name = strerrorname_np(err);

	return name ? name : "E?";
}

void app_ret(const char *what, long ret, int err)
{
	if (ret == -1)
		app_log("%s = -1 %s", what, app_errname(err));
	else if (err)
		app_log("%s = %ld, errno touched: %s", what, ret, app_errname(err));
	else
		app_log("%s = %ld", what, ret);
}

static uint64_t digest(uint64_t sum, const void *buf, size_t len)
{
	const unsigned char *byte = buf;

	for (size_t i = 0; i < len; i++)
		sum = (sum ^ byte[i]) * 0x100000001b3ull;
	return sum;
}

void app_bytes(const char *what, const void *buf, size_t len)
{
	const unsigned char *byte = buf;
	char text[65];
	size_t shown = len < 64 ? len : 64;

	for (size_t i = 0; i < shown; i++)
		text[i] = byte[i] >= ' ' && byte[i] < 127 ? (char)byte[i] : '.';
	text[shown] = '\0';
	app_log("%s %zu \"%s\" %016llx", what, len, text,
		(unsigned long long)digest(0xcbf29ce484222325ull, buf, len));
}

void app_die(const char *fmt, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	app_log("FATAL %s", line);
	exit(3);
}

int64_t app_now_ms(void)
{
	return (int64_t)(rsk_monotonic_ns() / 1000000);
}

void app_pause_ms(int ms)
{
	struct timespec ts = { ms / 1000, (ms % 1000) * 1000000L };

	nanosleep(&ts, NULL);
}

/* --- lock-step -------------------------------------------------------------------------------- */

static void wait_while(_Atomic uint32_t *word, uint32_t seen, int64_t deadline)
{
	if (atomic_load(&app_shm->aborted))
		app_die("the other side is gone");
	if (app_now_ms() > deadline)
		app_die("the other side does not come");
	app_futex_wait(word, seen, 100);
}

void app_sync(void)
{
	uint32_t mine = atomic_fetch_add(&app_shm->arrived[app_side], 1) + 1;
	_Atomic uint32_t *other = &app_shm->arrived[!app_side];
	int64_t deadline = app_now_ms() + 6 * PATIENCE_MS;
	uint32_t theirs;

	app_futex_wake(&app_shm->arrived[app_side]);
	while ((int32_t)((theirs = atomic_load(other)) - mine) < 0)
		wait_while(other, theirs, deadline);
}

void app_flag_set(int flag, uint64_t value)
{
	atomic_store(&app_shm->flag[flag], value);
	atomic_fetch_add(&app_shm->flag_turn, 1);
	app_futex_wake(&app_shm->flag_turn);
}

uint64_t app_flag_wait(int flag)
{
	int64_t deadline = app_now_ms() + PATIENCE_MS;

	for (;;) {
		uint32_t turn = atomic_load(&app_shm->flag_turn);
		uint64_t value = atomic_load(&app_shm->flag[flag]);

		if (value)
			return value;
		wait_while(&app_shm->flag_turn, turn, deadline);
	}
}

bool app_flag_is_set(int flag)
{
	return atomic_load(&app_shm->flag[flag]);
}

static void ask_runner(pid_t pid, int count, int port)
{
	int64_t deadline = app_now_ms() + PATIENCE_MS;
	uint32_t mine, done;

	atomic_store(&app_shm->check_streams[app_side], (uint32_t)count);
	atomic_store(&app_shm->check_port, (uint32_t)port);
	atomic_store(&app_shm->check_pid[app_side], pid);
	mine = atomic_fetch_add(&app_shm->check_wanted[app_side], 1) + 1;
	atomic_fetch_add(&app_shm->attention, 1);
	app_futex_wake(&app_shm->attention);
	while ((int32_t)((done = atomic_load(&app_shm->check_done)) - mine) < 0)
		wait_while(&app_shm->check_done, done, deadline);
}

void app_expect_rings(int count)
{
	ask_runner(getpid(), count, 0);
}

void app_expect_rings_of(pid_t pid, int count)
{
	ask_runner(pid, count, 0);
}

bool app_stream_settled(int port)
{
	ask_runner(getpid(), 1, port);
	return atomic_load(&app_shm->check_settled);
}

/* --- waiting for a state ---------------------------------------------------------------------- */

void app_await_inq(int fd, int bytes)
{
	int64_t deadline = app_now_ms() + PATIENCE_MS;
	int inq = -1;

	while (ioctl(fd, FIONREAD, &inq) == 0 && inq != bytes && app_now_ms() < deadline)
		app_pause_ms(1);
	if (inq != bytes)
		app_log("FIONREAD stays at %d, expected %d", inq, bytes);
}

void app_await_outq_empty(int fd)
{
	int64_t deadline = app_now_ms() + PATIENCE_MS;
	int outq = -1;

	while (ioctl(fd, SIOCOUTQ, &outq) == 0 && outq && app_now_ms() < deadline)
		app_pause_ms(1);
	if (outq)
		app_log("SIOCOUTQ does not get to 0");
}

short app_await_poll(int fd, short events, int timeout_ms)
{
	int64_t deadline = app_now_ms() + timeout_ms;
	struct pollfd pfd = { .fd = fd, .events = events };
	int left;

	while ((left = (int)(deadline - app_now_ms())) > 0) {
		int n = poll(&pfd, 1, left);

		if (n > 0 && (!events || (pfd.revents & events)))
			return pfd.revents;
		if (n < 0 && errno != EINTR)
			break;
		if (n > 0)
			app_pause_ms(1);
	}
	return 0;
}

/* The state letter of /proc/<tid>/stat, which follows the name: S is sleeping. */
static char thread_state(pid_t tid)
{
	char path[64], text[512];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)tid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	const char *end = strrchr(text, ')');

	return end && end[1] ? end[2] : 0;
}

void app_await_asleep(pid_t tid)
{
	int64_t deadline = app_now_ms() + PATIENCE_MS;
	int sleeping = 0;

	/* Several checks in a row: short sleeps on the way into the call do not count. */
	while (sleeping < 5 && app_now_ms() < deadline) {
		sleeping = thread_state(tid) == 'S' ? sleeping + 1 : 0;
		app_pause_ms(2);
	}
	if (sleeping < 5)
		app_log("thread never goes to sleep");
}

void app_drain(int fd, const char *what)
{
	static __thread unsigned char buf[65536];
	uint64_t total = 0, sum = 0xcbf29ce484222325ull;
	ssize_t n;

	errno = 0;
	while ((n = read(fd, buf, sizeof(buf))) > 0) {
		sum = digest(sum, buf, (size_t)n);
		total += (uint64_t)n;
	}
	app_log("%s: %llu bytes %016llx then %s", what, (unsigned long long)total,
		(unsigned long long)sum, n == 0 ? "EOF" : app_errname(errno));
}
