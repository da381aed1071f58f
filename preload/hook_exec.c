/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hook_exec.c - hooks of all exec*() calls: the engine is called before, and again if the exec
 * fails.
 */
#include <sys/mman.h>
#include <unistd.h>

#define RSK_EXPORT_exec 1
#include "export.h"
#include "hook.h"

/* ---- a program that begins under a filter ---- */

/* The kernel reports an environment that cannot be read. */
static bool rsk_env_count(char *const *envp, size_t *n)
{
	*n = 0;
	if (!envp)
		return true;
	while (rsk_readable(&envp[*n]) && envp[*n])
		++*n;
	return rsk_readable(&envp[*n]);
}

char *const *rsk_env_begin(struct rsk_exec_env *e, char *const *envp)
{
	static char off[] = "RSOCK_DISABLE=1";
	char **to = e->few;
	size_t n;

	e->map_bytes = 0;
	e->map = NULL;
	if (!rsk_env_count(envp, &n))
		return envp;
	if (n + 2 > RSK_EXEC_ARGS) {
		to = rsk_sys_mmap(NULL, (n + 2) * sizeof(*to), PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (rsk_sys_is_err(to))
			return envp;
		e->map = to;
		e->map_bytes = (n + 2) * sizeof(*to);
	}
	to[0] = off; /* the first entry of a name counts */
	for (size_t i = 0; i < n; i++)
		to[i + 1] = envp[i];
	to[n + 1] = NULL;
	return to;
}

int rsk_env_end(struct rsk_exec_env *e, int ret)
{
	if (e->map)
		rsk_sys_munmap(e->map, e->map_bytes);
	return ret;
}

static rsk_noinline int rsk_filtered_execve(const char *path, char *const *argv, char *const *envp)
{
	struct rsk_exec_env e;

	return rsk_env_end(&e, rsk_real.execve(path, argv, rsk_env_begin(&e, envp)));
}

static rsk_noinline int rsk_filtered_execvpe(const char *file, char *const *argv, char *const *envp)
{
	struct rsk_exec_env e;

	return rsk_env_end(&e, rsk_real.execvpe(file, argv, rsk_env_begin(&e, envp)));
}

static rsk_noinline int rsk_filtered_fexecve(int fd, char *const *argv, char *const *envp)
{
	struct rsk_exec_env e;

	return rsk_env_end(&e, rsk_real.fexecve(fd, argv, rsk_env_begin(&e, envp)));
}

static rsk_noinline int rsk_filtered_execveat(int dir, const char *path, char *const *argv,
					      char *const *envp, int flags)
{
	struct rsk_exec_env e;

	return rsk_env_end(&e, rsk_real.execveat(dir, path, argv, rsk_env_begin(&e, envp), flags));
}

/* ---- exec ---- */

/* A vfork child shares its parent's memory, and must not change it. 0 or -errno. */
static int rsk_before_exec(void)
{
	if (rsk_live())
		return rsk_exec_prepare();
	return rsk_booted && rsk_direct ? rsk_exec_vforked() : 0;
}

/* Only a failed exec returns. */
static int rsk_after_exec(int ret)
{
	if (rsk_live())
		rsk_exec_failed();
	return ret;
}

int rsk_hook_execve(const char *path, char *const *argv, char *const *envp)
{
	int rc = rsk_before_exec();

	if (rc < 0)
		return (int)rsk_result(rc);
	if (rsk_kernel_only())
		return rsk_filtered_execve(path, argv, envp);
	return rsk_after_exec(rsk_real.execve(path, argv, envp));
}

int rsk_hook_execv(const char *path, char *const *argv)
{
	int rc = rsk_before_exec();

	if (rc < 0)
		return (int)rsk_result(rc);
	if (rsk_kernel_only())
		return rsk_filtered_execve(path, argv, environ);
	return rsk_after_exec(rsk_real.execv(path, argv));
}

int rsk_hook_execvp(const char *file, char *const *argv)
{
	int rc = rsk_before_exec();

	if (rc < 0)
		return (int)rsk_result(rc);
	if (rsk_kernel_only())
		return rsk_filtered_execvpe(file, argv, environ);
	return rsk_after_exec(rsk_real.execvp(file, argv));
}

int rsk_hook_execvpe(const char *file, char *const *argv, char *const *envp)
{
	int rc = rsk_before_exec();

	if (rc < 0)
		return (int)rsk_result(rc);
	if (rsk_kernel_only())
		return rsk_filtered_execvpe(file, argv, envp);
	return rsk_after_exec(rsk_real.execvpe(file, argv, envp));
}

int rsk_hook_fexecve(int fd, char *const *argv, char *const *envp)
{
	int rc = rsk_before_exec();

	if (rc < 0)
		return (int)rsk_result(rc);
	if (rsk_kernel_only())
		return rsk_filtered_fexecve(fd, argv, envp);
	return rsk_after_exec(rsk_real.fexecve(fd, argv, envp));
}

int rsk_hook_execveat(int dir, const char *path, char *const *argv, char *const *envp, int flags)
{
	int rc = rsk_before_exec();

	if (rc < 0)
		return (int)rsk_result(rc);
	if (rsk_kernel_only())
		return rsk_filtered_execveat(dir, path, argv, envp, flags);
	return rsk_after_exec(rsk_real.execveat(dir, path, argv, envp, flags));
}

/* ---- arguments in the call ---- */

struct rsk_exec_args {
	char **argv;
	size_t map_bytes;
	char *const *envp; /* execle's, after the NULL */
	char *few[RSK_EXEC_ARGS];
};

static size_t rsk_exec_count(const char *first, va_list ap)
{
	size_t n = 0;

	for (const char *arg = first; arg; arg = va_arg(ap, const char *))
		n++;
	return n;
}

/* Collects @first and the arguments up to NULL; @count is their number. Returns 0 or -errno. */
static int rsk_exec_collect(struct rsk_exec_args *a, size_t count, const char *first, va_list ap,
			    bool with_env)
{
	a->argv = a->few;
	a->map_bytes = 0;
	a->envp = NULL;
	if (count >= RSK_EXEC_ARGS) {
		a->map_bytes = (count + 1) * sizeof(char *);
		a->argv = rsk_sys_mmap(NULL, a->map_bytes, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (rsk_sys_is_err(a->argv))
			return rsk_sys_ptr_err(a->argv);
	}
	a->argv[0] = (char *)first;
	for (size_t i = 1; i <= count; i++)
		a->argv[i] = va_arg(ap, char *); /* the last one is the NULL */
	if (with_env)
		a->envp = va_arg(ap, char *const *);
	return 0;
}

static int rsk_exec_done(struct rsk_exec_args *a, int ret)
{
	if (a->map_bytes)
		rsk_sys_munmap(a->argv, a->map_bytes);
	return ret;
}

#define RSK_EXEC_COLLECT(a, first, with_env, rc)                                                   \
	do {                                                                                       \
		va_list ap;                                                                        \
		size_t count;                                                                      \
		va_start(ap, first);                                                               \
		count = rsk_exec_count(first, ap);                                                 \
		va_end(ap);                                                                        \
		va_start(ap, first);                                                               \
		(rc) = rsk_exec_collect(a, count, first, ap, with_env);                            \
		va_end(ap);                                                                        \
	} while (0)

int rsk_hook_execl(const char *path, const char *arg, ...)
{
	struct rsk_exec_args a;
	int rc;

	RSK_EXEC_COLLECT(&a, arg, false, rc);
	if (rc < 0)
		return (int)rsk_result(rc);
	return rsk_exec_done(&a, rsk_hook_execv(path, a.argv));
}

int rsk_hook_execle(const char *path, const char *arg, ...)
{
	struct rsk_exec_args a;
	int rc;

	RSK_EXEC_COLLECT(&a, arg, true, rc);
	if (rc < 0)
		return (int)rsk_result(rc);
	return rsk_exec_done(&a, rsk_hook_execve(path, a.argv, a.envp));
}

int rsk_hook_execlp(const char *file, const char *arg, ...)
{
	struct rsk_exec_args a;
	int rc;

	RSK_EXEC_COLLECT(&a, arg, false, rc);
	if (rc < 0)
		return (int)rsk_result(rc);
	return rsk_exec_done(&a, rsk_hook_execvp(file, a.argv));
}
