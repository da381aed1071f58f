/*
 * tsan_main.c - runs Criterion tests under ThreadSanitizer, where Criterion's own runner cannot:
 * its sandbox maps an arena at fixed addresses that ThreadSanitizer keeps for its shadow memory.
 * The tests and assertions are the same. Each test runs in a forked child of a process with one
 * thread, so that TSan sees every thread that the test makes. Linked into unit tests of
 * -DRSK_SANITIZE=thread only, before libcriterion, whose main() and reporting it replaces.
 */
#include <criterion/criterion.h>
#include <criterion/event.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The sections into which the tests' macros put their descriptions. */
extern struct criterion_test *__start_cr_tst[] __attribute__((weak));
extern struct criterion_test *__stop_cr_tst[] __attribute__((weak));
extern struct criterion_suite *__start_cr_sts[] __attribute__((weak));
extern struct criterion_suite *__stop_cr_sts[] __attribute__((weak));

enum {
	EXIT_FAILED = 101,
	EXIT_SKIPPED = 102
};

static struct criterion_test *current;
static void *current_param;
static atomic_uint failed_asserts;

static const struct criterion_suite *suite_of(const struct criterion_test *test)
{
	for (struct criterion_suite **suite = __start_cr_sts; suite < __stop_cr_sts; suite++)
		if (!strcmp((*suite)->name, test->category))
			return *suite;
	return NULL;
}

/* ---- functions that the macros call ---- */

void criterion_internal_test_setup(void)
{
	const struct criterion_suite *suite = suite_of(current);

	if (suite && suite->data && suite->data->init)
		suite->data->init();
	if (current->data->init)
		current->data->init();
}

void criterion_internal_test_main(void (*fn)(void))
{
	if (current->data->kind_ == CR_TEST_PARAMETERIZED)
		((void (*)(void *))(void *)fn)(current_param);
	else
		fn();
}

void criterion_internal_test_teardown(void)
{
	const struct criterion_suite *suite = suite_of(current);

	if (current->data->fini)
		current->data->fini();
	if (suite && suite->data && suite->data->fini)
		suite->data->fini();
}

void cri_asserts_passed_incr(void)
{
}

void criterion_send_assert(struct criterion_assert_stats *stats)
{
	if (stats->passed)
		return;
	atomic_fetch_add(&failed_asserts, 1);
	fprintf(stderr, "[----] %s:%u: Assertion failed: %s\n", stats->file, stats->line,
		stats->message ? stats->message : "");
}

static void print_failed_node(const struct cri_assert_node *node)
{
	if (node->pass)
		return;
	if (!node->nchild && node->repr)
		fprintf(stderr, "[----]   %s\n", node->repr);
	if (node->message)
		fprintf(stderr, "[----]   %s\n", node->message);
	for (uint32_t i = 0; i < node->nchild; i++)
		print_failed_node(&node->children[i]);
}

void cri_assert_node_send(const char *file, size_t line, struct cri_assert_node *tree)
{
	if (tree->pass)
		return;
	atomic_fetch_add(&failed_asserts, 1);
	fprintf(stderr, "[----] %s:%zu: Assertion failed\n", file, line);
	print_failed_node(tree);
}

CR_NORETURN void criterion_abort_test(void)
{
	exit(EXIT_FAILED);
}

CR_NORETURN __attribute__((format(printf, 1, 2))) void criterion_skip_test(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(EXIT_SKIPPED);
}

__attribute__((format(printf, 1, 2))) void criterion_test_die(const char *msg, ...)
{
	va_list args;

	va_start(args, msg);
	vfprintf(stderr, msg, args);
	va_end(args);
	exit(EXIT_FAILED);
}

/* ---- the runner ---- */

static int expected(const struct criterion_test *test, int status)
{
	const struct criterion_suite *suite = suite_of(test);
	int sig = test->data->signal;
	int code = test->data->exit_code;

	if (suite && suite->data) {
		sig = sig ? sig : suite->data->signal;
		code = code ? code : suite->data->exit_code;
	}
	if (WIFSIGNALED(status))
		return sig == WTERMSIG(status);
	return !sig && WEXITSTATUS(status) == code;
}

/* Runs one test. Returns 0, or 1 if it failed. */
static int run_one(struct criterion_test *test, void *param)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		perror("fork");
		exit(2);
	}
	if (!pid) {
		current = test;
		current_param = param;
		test->test();
		exit(atomic_load(&failed_asserts) ? EXIT_FAILED : 0);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (expected(test, status))
		return 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED) {
		fprintf(stderr, "[SKIP] %s::%s\n", test->category, test->name);
		return 0;
	}
	fprintf(stderr, "[FAIL] %s::%s: %s %d\n", test->category, test->name,
		WIFSIGNALED(status) ? "signal" : "exit status",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return 1;
}

int main(void)
{
	unsigned int tested = 0, failing = 0;

	for (struct criterion_test **at = __start_cr_tst; at < __stop_cr_tst; at++) {
		struct criterion_test *test = *at;
		const struct criterion_suite *suite = test ? suite_of(test) : NULL;

		if (!test)
			continue;
		if (test->data->disabled || (suite && suite->data && suite->data->disabled)) {
			fprintf(stderr, "[SKIP] %s::%s: disabled\n", test->category, test->name);
			continue;
		}
		if (test->data->kind_ == CR_TEST_PARAMETERIZED) {
			struct criterion_test_params params = test->data->param_();

			for (size_t i = 0; i < params.length; i++, tested++)
				failing += (unsigned int)run_one(test, (char *)params.params +
									       i * params.size);
			if (params.cleanup)
				params.cleanup(&params);
			continue;
		}
		failing += (unsigned int)run_one(test, NULL);
		tested++;
	}
	fprintf(stderr, "[====] Synthesis: Tested: %u | Passing: %u | Failing: %u | Crashing: 0\n",
		tested, tested - failing, failing);
	return failing || !tested;
}
