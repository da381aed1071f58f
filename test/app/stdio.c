/* SPDX-License-Identifier: BSD-2-Clause */
/* stdio.c - tests stdio on sockets: its reads and writes pass no hook. */
#include "app.h"

#include <stdarg.h>
#include <sys/types.h>

static char buf[65536];

CASE(dprintf_write, DIRECT, "dprintf and vdprintf among writes")
{
	int fd = app_open(WARM);

	if (CLI) {
		R(write(fd, "a-", 2));
		R(dprintf(fd, "%s-%d-", "b", 7));
		R(write(fd, "c-", 2));
		R(dprintf(fd, "%0*d", 3000, 1));
		R(write(fd, "-d", 2));
		R(dprintf(-1, "x"));
	} else {
		app_hear(fd, 8);
		app_hear(fd, 3002);
	}
	app_sync();
	app_close(fd);
}

static int my_dprintf(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int my_dprintf(int fd, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int n = vdprintf(fd, fmt, ap);

	va_end(ap);
	return n;
}

CASE(vdprintf_only, DIRECT, "vdprintf, both ways")
{
	int fd = app_open(WARM);

	for (int i = 0; i < 3; i++) {
		if ((i % 2 == 0) == CLI)
			R(my_dprintf(fd, "message %d %s", i, "text"));
		else
			app_hear(fd, 14);
	}
	app_sync();
	app_close(fd);
}

CASE(fdopen_lines, DIRECT, "fdopen: lines there and back with stdio on both ends")
{
	int fd = app_open(WARM);
	FILE *in = fdopen(fd, "r"), *out = fdopen((int)MUST(dup(fd)), "w");
	char line[64];
	int good = 0;

	setvbuf(out, NULL, _IOLBF, 0);
	for (int i = 0; i < 200; i++) {
		int got = -1;

		if (CLI)
			fprintf(out, "line %d\n", i);
		if (!fgets(line, sizeof(line), in) || sscanf(line, "line %d", &got) != 1)
			break;
		if (SRV)
			fprintf(out, "line %d\n", got);
		good += got == i;
	}
	LOG("good %d", good);
	app_sync();
	R(fclose(out));
	R(fclose(in));
	R(read(fd, buf, 1));
	app_sync();
}

CASE(fdopen_queued, DIRECT, "fdopen of a stream with bytes waiting")
{
	int fd = app_open(WARM);

	if (SRV) {
		char line[64];

		app_await_inq(fd, 22);
		app_sync();
		app_hear(fd, 5);
		FILE *in = fdopen(fd, "r+");

		while (fgets(line, sizeof(line), in))
			app_bytes("line", line, strlen(line));
		LOG("eof %d error %d", !!feof(in), !!ferror(in));
		R(fclose(in));
	} else {
		SAY(fd, "head one\ntwo\nthree\nend");
		R(shutdown(fd, SHUT_WR));
		app_sync();
		R(read(fd, buf, 1));
		app_close(fd);
	}
	app_sync();
}

CASE(fwrite_bulk, DIRECT, "3 MB by fwrite, read by fread, then the descriptor itself")
{
	int fd = app_open(WARM);
	bool ok = true;

	if (CLI) {
		FILE *out = fdopen(fd, "w");

		for (uint64_t pos = 0; pos < 3000000; pos += 1000) {
			app_pattern(buf, 1000, pos, 1);
			ok &= fwrite(buf, 1, 1000, out) == 1000;
		}
		R(fflush(out));
		R(write(fileno(out), "raw", 3));
		LOG("ok %d", ok);
		R(fclose(out));
	} else {
		FILE *in = fdopen(fd, "r");

		setvbuf(in, NULL, _IONBF, 0);
		for (uint64_t pos = 0; pos < 3000000 && ok; pos += 500)
			ok &= fread(buf, 1, 500, in) == 500 && app_pattern_ok(buf, 500, pos, 1);
		LOG("ok %d", ok);
		app_hear(fd, 3);
		R(fclose(in));
	}
	app_sync();
}

CASE(getline_getc, DIRECT, "getline, getc, ungetc, fscanf")
{
	int fd = app_open(WARM);

	if (CLI) {
		SAY(fd, "first line\nX42 rest\n");
		app_hear(fd, 2);
	} else {
		FILE *in = fdopen(fd, "r");
		char *line = NULL;
		size_t room = 0;
		int number = 0;

		R(getline(&line, &room, in));
		LOG("line %s", line);
		R(getc(in));
		R(ungetc('Y', in));
		R(getc(in));
		R(fscanf(in, "%d", &number));
		LOG("number %d", number);
		R(getline(&line, &room, in));
		SAY(fd, "ok");
		free(line);
	}
	app_sync();
	app_close(fd);
}

CASE(std_streams, DIRECT, "the stream as stdin, stdout and stderr of stdio")
{
	int fd = app_open(WARM);

	if (SRV) {
		char line[64];

		MUST(dup2(fd, 0));
		MUST(dup2(fd, 1));
		MUST(dup2(fd, 2));
		close(fd);
		setvbuf(stdin, NULL, _IONBF, 0);
		for (int i = 0; i < 3; i++) {
			if (!fgets(line, sizeof(line), stdin))
				break;
			printf("out: %s", line);
			fflush(stdout);
			fprintf(stderr, "err: %s", line);
		}
		puts("bye");
		fflush(stdout);
		errno = EPIPE;
		perror("perror");
		close(0);
		close(1);
		close(2);
	} else {
		for (int i = 0; i < 3; i++) {
			SAY(fd, "hello\n");
			app_hear(fd, 22);
		}
		app_drain(fd, "rest");
		app_close(fd);
	}
	app_sync();
}

CASE(freopen_stream, DIRECT, "freopen of a FILE on the stream ends it")
{
	int fd = app_open(WARM);

	if (SRV) {
		FILE *out = fdopen(fd, "w");

		fputs("last words", out);
		FILE *null = freopen("/dev/null", "w", out);

		LOG("reopened %d, number kept %d", null != NULL, null && fileno(null) == fd);
		fputs("lost", null);
		R(fclose(null));
	} else {
		app_drain(fd, "drained");
		app_close(fd);
	}
	app_sync();
}

CASE(fdopen_before, 0, "fdopen on the fresh connection, used through and through")
{
	int fd = app_open(COLD | NODELAY);
	FILE *file = fdopen(fd, "r+");
	int good = 0;

	setvbuf(file, NULL, _IONBF, 0);
	for (int i = 0; i < 1000; i++) {
		int c = i & 0xff;

		if (CLI)
			putc(c, file);
		int got = getc(file);

		if (SRV)
			putc(got, file);
		good += got == c;
	}
	LOG("good %d", good);
	app_sync();
	R(fclose(file));
}

CASE(mixed_levels, DIRECT, "stdio writes between write calls, flushed: the order holds")
{
	int fd = app_open(WARM);

	if (CLI) {
		FILE *out = fdopen(fd, "w");

		for (int i = 0; i < 50; i++) {
			fprintf(out, "<stdio %02d>", i);
			fflush(out);
			char text[16];

			snprintf(text, sizeof(text), "<write %02d>", i);
			app_write_all(fd, text, 10);
			dprintf(fd, "<dprtf %02d>", i);
		}
		fclose(out);
	} else {
		app_drain(fd, "drained");
		app_close(fd);
	}
	app_sync();
}

CASE(fdopen_errors, DIRECT, "fdopen of bad descriptors and with bad modes")
{
	int fd = app_open(WARM);

	LOG("mode %d %s", fdopen(fd, "q") != NULL, app_errname(errno));
	LOG("closed %d %s", fdopen(-1, "r") != NULL, app_errname(errno));
	if (CLI)
		SAY(fd, "still");
	else
		app_hear(fd, 5);
	app_sync();
	app_close(fd);
}

CASE(exit_flushes, DIRECT, "exit flushes a FILE on the stream")
{
	int fd = app_open(WARM);

	if (CLI) {
		FILE *out = fdopen(fd, "w");

		fputs("flushed by exit", out);
		LOG("end");
		exit(0);
	}
	app_drain(fd, "drained");
	app_close(fd);
}
