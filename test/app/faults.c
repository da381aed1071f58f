/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * faults.c - tests SIGSEGV and SIGBUS of a program with streams on the ring: the program gets its
 * own faults as without the library.
 */
#include <setjmp.h>
#include <sys/resource.h>

#include "app.h"

static char buf[64];
static sigjmp_buf back;
static volatile sig_atomic_t calls, number, code;
static void *volatile address;

static void note(int sig, siginfo_t *info, void *context)
{
	(void)context;
	calls++;
	number = sig;
	code = info->si_code;
	address = info->si_addr;
}

static void jump(int sig, siginfo_t *info, void *context)
{
	note(sig, info, context);
	siglongjmp(back, 1);
}

static void show(int sig)
{
	struct sigaction is;

	MUST(sigaction(sig, NULL, &is));
	LOG("%d: default %d ignored %d flags %x mask of USR1 %d", sig, is.sa_handler == SIG_DFL,
	    is.sa_handler == SIG_IGN, (unsigned int)is.sa_flags & ~0x04000000u,
	    sigismember(&is.sa_mask, SIGUSR1));
}

static void install(int sig, void (*fn)(int, siginfo_t *, void *), int flags)
{
	struct sigaction act = { .sa_sigaction = fn, .sa_flags = flags | SA_SIGINFO };

	sigemptyset(&act.sa_mask);
	sigaddset(&act.sa_mask, SIGUSR1);
	MUST(sigaction(sig, &act, NULL));
}

static char *nowhere(void)
{
	char *p = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		app_die("mmap");
	return p;
}

/* Records how a child ends that runs @how. */
static void child(const char *what, void (*how)(int fd), int fd)
{
	struct rlimit none = { 0 };
	pid_t pid = MUST(fork());

	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &none);
		how(fd);
		_exit(7);
	}
	app_reap(pid, what);
}

static void touch(int fd)
{
	(void)fd;
	*(volatile char *)nowhere() = 1;
}

static void shot(int fd)
{
	(void)fd;
	kill(getpid(), SIGSEGV);
}

static void raised(int fd)
{
	(void)fd;
	raise(SIGBUS);
}

static void again(int fd)
{
	(void)fd;
	signal(SIGSEGV, SIG_IGN);
	kill(getpid(), SIGSEGV);
	signal(SIGSEGV, SIG_DFL);
	LOG("ignored it");
	kill(getpid(), SIGSEGV);
}

static void once(int fd)
{
	install(SIGSEGV, note, (int)SA_RESETHAND);
	kill(getpid(), SIGSEGV);
	LOG("called %d, then default", calls);
	show(SIGSEGV);
	LOG("a receive to nowhere %d %s", (int)recv(fd, nowhere(), 4, 0), app_errname(errno));
	kill(getpid(), SIGSEGV);
}

static void blocked(int fd)
{
	sigset_t set, was;

	(void)fd;
	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	sigprocmask(SIG_BLOCK, &set, &was);
	kill(getpid(), SIGSEGV);
	sigpending(&set);
	LOG("pending %d", sigismember(&set, SIGSEGV));
	sigprocmask(SIG_SETMASK, &was, NULL);
}

static volatile bool for_ever = true;

static int deep(volatile char *above)
{
	volatile char here[1024];

	here[0] = *above;
	return for_ever ? deep(here) + here[0] : 0;
}

static void overflow(int fd)
{
	char top = 0;

	_exit(fd + deep(&top));
}

static void overflow_caught(int fd)
{
	static char other[65536];
	stack_t stack = { .ss_sp = other, .ss_size = sizeof(other) };

	MUST(sigaltstack(&stack, NULL));
	install(SIGSEGV, jump, SA_ONSTACK);
	if (!sigsetjmp(back, 1))
		overflow(fd);
	LOG("back from the end of the stack, %d", number);
	show(SIGSEGV);
	_exit(3);
}

CASE(ends, DIRECT, "the default action: shown as such, and a process ends by it as ever")
{
	int fd = app_open(WARM);

	if (CLI)
		SAY(fd, "12345678");
	app_sync();
	if (SRV) {
		app_await_inq(fd, 8);
		show(SIGSEGV);
		show(SIGBUS);
		child("touches", touch, fd);
		child("is shot", shot, fd);
		child("raises", raised, fd);
		child("ignored it before", again, fd);
		child("once", once, fd);
		child("blocked", blocked, fd);
		child("overflows", overflow, fd);
		child("overflows, and catches it", overflow_caught, fd);
		LOG("received %d", recv(fd, nowhere(), 4, 0) < 0 && errno == EFAULT);
		app_hear(fd, 8);
	}
	app_sync();
	app_close(fd);
}

CASE(handler, DIRECT,
     "a handler of the program's: called for its own faults only, and with their address")
{
	int fd = app_open(WARM);
	char *gone = nowhere();

	if (CLI)
		SAY(fd, "12345678");
	app_sync();
	if (SRV) {
		app_await_inq(fd, 8);
		install(SIGSEGV, jump, SA_RESTART);
		show(SIGSEGV);
		R(recv(fd, gone, 4, 0));
		R(recv(fd, gone, 4, MSG_PEEK));
		LOG("called %d", calls);
		if (!sigsetjmp(back, 1))
			*(volatile char *)(gone + 5) = 1;
		LOG("called %d for %d code %d at %ld", calls, number, code,
		    (long)((char *)address - gone));
		R(recv(fd, gone, 4, 0));
		app_hear(fd, 4);
		install(SIGSEGV, note, 0);
		R(kill(getpid(), SIGSEGV));
		LOG("called %d for %d code %d", calls, number, code);
		LOG("was ours %d", signal(SIGSEGV, SIG_DFL) == (sighandler_t)(uintptr_t)note);
		show(SIGSEGV);
		R(recv(fd, gone, 4, 0));
		LOG("was the default %d", signal(SIGSEGV, SIG_IGN) == SIG_DFL);
		show(SIGSEGV);
		LOG("was ignored %d", signal(SIGSEGV, SIG_DFL) == SIG_IGN);
		R(recv(fd, gone, 4, 0));
		app_hear(fd, 4);
		LOG("called %d", calls);
	}
	app_sync();
	app_close(fd);
}

CASE(before, DIRECT, "a handler that was there before the stream was paired")
{
	int fd;
	char *gone = nowhere();

	install(SIGSEGV, jump, SA_NODEFER);
	fd = app_open(WARM);
	show(SIGSEGV);
	if (CLI) {
		SAY(fd, "1234");
	} else {
		app_await_inq(fd, 4);
		R(recv(fd, gone, 4, 0));
		if (!sigsetjmp(back, 1))
			*(volatile char *)gone = 1;
		LOG("called %d for %d", calls, number);
		R(send(fd, gone, 4, 0));
		LOG("called %d", calls);
		app_hear(fd, 4);
	}
	app_sync();
	app_close(fd);
}

HELPER(faults_shown)
{
	(void)argc;
	(void)argv;
	show(SIGSEGV);
	show(SIGBUS);
	touch(0);
	return 0;
}

CASE(executed, DIRECT, "a program that is executed finds the default action")
{
	int fd = app_open(WARM);
	pid_t pid;

	if (SRV) {
		pid = MUST(fork());
		if (pid == 0) {
			struct rlimit none = { 0 };

			setrlimit(RLIMIT_CORE, &none);
			execv(app_self(), app_self_argv("faults_shown", NULL));
			_exit(9);
		}
		app_reap(pid, "executed");
	}
	if (CLI)
		SAY(fd, "still");
	else
		app_hear(fd, 5);
	app_sync();
	app_close(fd);
	(void)buf;
}

struct worker {
	int fd;
	char *gone;
	int bad;
};

static void receives(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < 1000; i++)
		w->bad += recv(w->fd, w->gone, 4, MSG_PEEK) != -1 || errno != EFAULT;
}

CASE(threads, DIRECT, "several threads at it at once, one of them with faults of its own")
{
	int fds[3];
	struct app_thread t[3];
	struct worker w[3];

	app_open_more(WARM, fds, 3);
	for (int i = 0; i < 3; i++) {
		w[i] = (struct worker){ fds[i], nowhere(), 0 };
		if (CLI)
			SAY(fds[i], "1234");
	}
	if (SRV) {
		install(SIGSEGV, jump, 0);
		for (int i = 0; i < 3; i++) {
			app_await_inq(fds[i], 4);
			app_thread_start(&t[i], receives, &w[i]);
		}
		for (volatile int i = 0; i < 1000; i++)
			if (!sigsetjmp(back, 1))
				*(volatile char *)w[0].gone = 1;
		for (int i = 0; i < 3; i++) {
			app_thread_join(&t[i]);
			LOG("wrong %d", w[i].bad);
			app_hear(fds[i], 4);
		}
		LOG("called %d", calls);
	}
	app_sync();
	for (int i = 0; i < 3; i++)
		app_close(fds[i]);
}
