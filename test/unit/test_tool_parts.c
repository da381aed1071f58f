// SPDX-License-Identifier: BSD-2-Clause
/* test_tool_parts.c - tests what the tool reads and writes, part by part. */
#include "library.h"
#include "measure.h"
#include "nettab.h"
#include "proc.h"
#include "program.h"
#include "records.h"
#include "rsock.h"
#include "top.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool parses(const char *text, struct sock_row *row)
{
	char line[512];

	snprintf(line, sizeof(line), "%s", text);
	return nettab_parse(line, row);
}

Test(tool_parts, a_line_of_the_kernels_table)
{
	static const uint8_t here[16] = { 127, 0, 0, 1 };
	struct sock_row row;

	cr_assert(parses("   0: 0100007F:1F90 0200007F:C350 01 00000000:00000000 00:00000000 "
			 "00000000  1000        0 98765 1 0000000000000000 20 4 30 10 -1\n",
			 &row));
	cr_assert_eq(row.tuple.family, AF_INET);
	cr_assert_arr_eq(row.tuple.local, here, 16);
	cr_assert_eq(row.tuple.peer[3], 2);
	cr_assert_eq(row.tuple.local_port, 8080);
	cr_assert_eq(row.tuple.peer_port, 50000);
	cr_assert_eq(row.state, TCP_ESTABLISHED);
	cr_assert_eq(row.uid, 1000);
	cr_assert_eq(row.inode, 98765);
	/* v4-mapped: shown as the IPv4 stream that it is. */
	cr_assert(parses(" 1: 0000000000000000FFFF00000100007F:0050 "
			 "0000000000000000FFFF00000100007F:0051 08 0:0 0:0 0 0 0 7 x",
			 &row));
	cr_assert_eq(row.tuple.family, AF_INET);
	cr_assert_arr_eq(row.tuple.local, here, 16);
	cr_assert_eq(row.state, TCP_CLOSE_WAIT);
	/* A listener on such an address has no peer. */
	cr_assert(parses(" 2: 0000000000000000FFFF00000100007F:0050 "
			 "00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 7 x",
			 &row));
	cr_assert_eq(row.state, TCP_LISTEN);
	cr_assert(parses(" 3: 00000000000000000000000001000000:0050 "
			 "00000000000000000000000001000000:0051 01 0:0 0:0 0 0 0 7 x",
			 &row));
	cr_assert_eq(row.tuple.family, AF_INET6);
	cr_assert_eq(row.tuple.local[15], 1);
}

/*
 * The files are no snapshot: they may show the request and the socket of one connection, in either
 * order.
 */
Test(tool_parts, the_socket_of_a_connection_that_begins)
{
	for (int way = 0; way < 2; way++) {
		struct nettab tab = { .row = calloc(3, sizeof(*tab.row)), .count = 3 };
		struct rsk_tuple mine;

		cr_assert(parses(" 0: 0100007F:1F90 0200007F:C350 03 0:0 0:0 0 0 0 0 1\n",
				 &tab.row[way ? 2 : 0]));
		cr_assert(parses(" 1: 0100007F:1F90 0200007F:C351 06 0:0 0:0 0 0 0 0 1\n",
				 &tab.row[1]));
		cr_assert(parses(" 2: 0100007F:1F90 0200007F:C350 01 0:0 0:0 0 0 0 98765 1\n",
				 &tab.row[way ? 0 : 2]));
		mine = tab.row[0].tuple;
		cr_assert_eq(nettab_settle(&tab), 0);
		cr_assert_eq(nettab_find(&tab, &mine)->inode, 98765);
		cr_assert_eq(nettab_socket(&tab, 98765)->state, TCP_ESTABLISHED);
		mine.peer_port++;
		cr_assert_eq(nettab_find(&tab, &mine)->state, TCP_TIME_WAIT);
		mine.peer_port++;
		cr_assert_null(nettab_find(&tab, &mine));
		nettab_free(&tab);
	}
}

Test(tool_parts, lines_that_are_none)
{
	static const char *const lines[] = {
		"",
		"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid",
		("  sl  local_address remote_address st tx_queue rx_queue tr tm->when retrnsmt "
		 "uid timeout inode"),
		" 0: 0100007F:1F90 0200007F:C350 01 0:0 0:0 0 1000 0",
		" 0: 0100007F:1F9 0200007F:C350 01 0:0 0:0 0 1000 0 5 1",
		" 0: 0100007F:1F900 0200007F:C350 01 0:0 0:0 0 1000 0 5 1",
		" 0: 0100007G:1F90 0200007F:C350 01 0:0 0:0 0 1000 0 5 1",
		" 0: 0100007F1F90 0200007F:C350 01 0:0 0:0 0 1000 0 5 1",
		" 0: 0100007F:1F90 0200007F:C350 Z1 0:0 0:0 0 1000 0 5 1",
		" 0: 0100007F:1F90 0200007F:C350 01 0:0 0:0 0 1x 0 5 1",
		" 0: 0100007F:1F90 0200007F:C350 01 0:0 0:0 0 1000 0 5x 1",
		" 0: 0100007F:1F90 00000000000000000000000001000000:C350 01 0:0 0:0 0 1000 0 5 1",
		" 0: -100007F:1F90 0200007F:C350 01 0:0 0:0 0 1000 0 5 1",
	};
	struct sock_row row;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		cr_assert_not(parses(lines[i], &row), "%s", lines[i]);
}

/* A small ELF file: header, one program header, the loader's name. */
struct small_elf {
	Elf64_Ehdr eh;
	Elf64_Phdr ph;
	char interp[40];
};

static struct small_elf elf(void)
{
	struct small_elf e = { .interp = "/lib64/ld-linux-x86-64.so.2" };
	FILE *self = fopen("/proc/self/exe", "re");

	cr_assert(self);
	cr_assert_eq(fread(&e.eh, sizeof(e.eh), 1, self), 1);
	fclose(self);
	e.eh.e_phoff = offsetof(struct small_elf, ph);
	e.eh.e_phnum = 1;
	e.ph.p_type = PT_INTERP;
	e.ph.p_offset = offsetof(struct small_elf, interp);
	e.ph.p_filesz = sizeof(e.interp);
	return e;
}

static enum program_kind kind_of(const struct small_elf *e, size_t len)
{
	char interp[PATH_MAX];

	return program_classify((const uint8_t *)e, len, interp);
}

Test(tool_parts, what_a_program_is)
{
	/* glibc's loader under each of its names; every other name belongs to another libc. */
	static const struct {
		const char *interp;
		enum program_kind kind;
	} loaders[] = {
		{ "/lib/ld-linux-aarch64.so.1", PROGRAM_DYNAMIC },
		{ "/lib/ld-linux-riscv64-lp64d.so.1", PROGRAM_DYNAMIC },
		{ "/nix/store/x/ld-linux-x86-64.so.2", PROGRAM_DYNAMIC },
		{ "/lib/ld64.so.1", PROGRAM_DYNAMIC },
		{ "/lib64/ld-lsb-x86-64.so.3", PROGRAM_DYNAMIC },
		{ "/lib/ld-musl-x86_64.so.1", PROGRAM_OTHER_LIBC },
		{ "/lib/ld64-uClibc.so.1", PROGRAM_OTHER_LIBC },
		{ "/system/bin/linker64", PROGRAM_OTHER_LIBC },
		{ "/lib/ld-dietlibc.so", PROGRAM_OTHER_LIBC },
		{ "/lib/libc.so", PROGRAM_OTHER_LIBC },
		{ "/libexec/ld-elf.so.1", PROGRAM_OTHER_LIBC },
	};
	struct small_elf e = elf();
	char interp[PATH_MAX];

	cr_assert_eq(kind_of(&e, sizeof(e)), PROGRAM_DYNAMIC);
	for (size_t len = 0; len < sizeof(e); len++)
		cr_assert_eq(kind_of(&e, len), PROGRAM_UNKNOWN, "%zu bytes", len);
	for (size_t i = 0; i < sizeof(loaders) / sizeof(loaders[0]); i++) {
		memset(e.interp, 0, sizeof(e.interp));
		snprintf(e.interp, sizeof(e.interp), "%s", loaders[i].interp);
		cr_assert_eq(kind_of(&e, sizeof(e)), loaders[i].kind, "%s", loaders[i].interp);
	}
	e = elf();
	e.ph.p_type = PT_NOTE;
	memset(e.interp, 0, sizeof(e.interp));
	memcpy(e.interp, (const uint32_t[]){ 4, 4, 4 }, 12);
	memcpy(e.interp + 12, "Go", 3);
	cr_assert(program_is_go((const uint8_t *)&e, sizeof(e)));
	for (size_t len = 0; len < offsetof(struct small_elf, interp) + 16; len++)
		cr_assert_not(program_is_go((const uint8_t *)&e, len), "%zu bytes", len);
	e.interp[12] = 'N';
	cr_assert_not(program_is_go((const uint8_t *)&e, sizeof(e)));
	memset(e.interp, 0xff, sizeof(e.interp));
	cr_assert_not(program_is_go((const uint8_t *)&e, sizeof(e)));
	e = elf();
	e.ph.p_type = PT_LOAD;
	cr_assert_eq(kind_of(&e, sizeof(e)), PROGRAM_STATIC);
	e = elf();
	e.eh.e_ident[EI_CLASS] = ELFCLASS32;
	cr_assert_eq(kind_of(&e, sizeof(e)), PROGRAM_FOREIGN);
	e = elf();
	e.eh.e_machine ^= 1;
	cr_assert_eq(kind_of(&e, sizeof(e)), PROGRAM_FOREIGN);
	cr_assert_eq(program_classify((const uint8_t *)"#! /bin/sh -e\n", 14, interp),
		     PROGRAM_SCRIPT);
	cr_assert_str_eq(interp, "/bin/sh");
	cr_assert_eq(program_classify((const uint8_t *)"#!/bin/sh", 9, interp), PROGRAM_UNKNOWN);
	cr_assert_eq(program_classify((const uint8_t *)"#! \n", 4, interp), PROGRAM_UNKNOWN);
	cr_assert_eq(program_kind("/proc/self/exe"), PROGRAM_DYNAMIC);
	cr_assert_eq(program_kind("/dev/null"), PROGRAM_UNKNOWN);
	cr_assert_eq(program_kind("/nonexistent"), PROGRAM_UNKNOWN);
}

Test(tool_parts, an_elf_file_is_not_believed)
{
	static const uint64_t odd[] = { 1, 2, 63, 65, 0xffff, UINT32_MAX, UINT64_MAX, INT64_MAX };
	struct small_elf e;

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		e = elf();
		e.eh.e_phoff = odd[i];
		cr_assert_neq(kind_of(&e, sizeof(e)), PROGRAM_DYNAMIC);
		e = elf();
		e.ph.p_offset = odd[i] == 1 || odd[i] == 2 ? sizeof(e) : odd[i];
		cr_assert_neq(kind_of(&e, sizeof(e)), PROGRAM_DYNAMIC);
		e = elf();
		e.ph.p_filesz = odd[i];
		cr_assert_neq(kind_of(&e, sizeof(e)), PROGRAM_DYNAMIC);
		e = elf();
		e.eh.e_phnum = (uint16_t)(odd[i] + 1);
		cr_assert_neq(kind_of(&e, sizeof(e)), PROGRAM_DYNAMIC);
	}
	e = elf();
	memset(e.interp, 'x', sizeof(e.interp));
	cr_assert_eq(kind_of(&e, sizeof(e)), PROGRAM_UNKNOWN);
}

Test(tool_parts, where_a_program_is)
{
	char path[PATH_MAX], folder[] = "/tmp/rsock-find-XXXXXX", file[64];

	cr_assert(mkdtemp(folder));
	snprintf(file, sizeof(file), "%s/prog", folder);
	setenv("PATH", "/nonexistent:/bin:/usr/bin", 1);
	cr_assert_eq(program_find("sh", path), 0);
	cr_assert_str_eq(path, "/bin/sh");
	cr_assert_eq(program_find("no-such-program", path), -ENOENT);
	cr_assert_eq(program_find("", path), -ENOENT);
	fclose(fopen(file, "we"));
	cr_assert_eq(program_find(file, path), -EACCES);
	cr_assert_eq(program_find("/tmp", path), -EACCES);
	setenv("PATH", folder, 1);
	cr_assert_eq(program_find("prog", path), -EACCES);
	unlink(file);
	rmdir(folder);
}

Test(tool_parts, what_ld_preload_holds)
{
	const char *at;
	size_t len;

	cr_assert(preload_names_library("/a/librsock.so", &at, &len));
	cr_assert_eq(len, 14);
	cr_assert(preload_names_library("libasan.so.8:/b/librsock.so:x", &at, &len));
	cr_assert_eq(strncmp(at, "/b/librsock.so", len), 0);
	cr_assert(preload_names_library("x librsock.so", NULL, NULL));
	cr_assert_not(preload_names_library("", NULL, NULL));
	cr_assert_not(preload_names_library("::", NULL, NULL));
	cr_assert_not(preload_names_library("/a/librsock.so.old", NULL, NULL));
	cr_assert_not(preload_names_library("/librsock.so/x", NULL, NULL));
	cr_assert_not(preload_names_library("notlibrsock.so", NULL, NULL));

	unsetenv("LD_PRELOAD");
	cr_assert_eq(preload_set("/b/librsock.so"), 0);
	cr_assert_str_eq(getenv("LD_PRELOAD"), "/b/librsock.so");
	cr_assert_eq(preload_set("/c/librsock.so"), 0);
	cr_assert_str_eq(getenv("LD_PRELOAD"), "/b/librsock.so", "never twice");
	setenv("LD_PRELOAD", "libfirst.so", 1);
	cr_assert_eq(preload_set("/b/librsock.so"), 0);
	cr_assert_str_eq(getenv("LD_PRELOAD"), "libfirst.so:/b/librsock.so");
	setenv("LD_PRELOAD", "/a/librsock.so:libfirst.so /b/librsock.so", 1);
	cr_assert_eq(preload_unset(), 0);
	cr_assert_str_eq(getenv("LD_PRELOAD"), "libfirst.so ");
	setenv("LD_PRELOAD", "/a/librsock.so", 1);
	cr_assert_eq(preload_unset(), 0);
	cr_assert_null(getenv("LD_PRELOAD"));
	cr_assert_eq(preload_unset(), 0);
	cr_assert_eq(preload_set("/b c/librsock.so"), -EINVAL);
	cr_assert_eq(preload_set("/b:c/librsock.so"), -EINVAL);
	unsetenv("LD_PRELOAD");
}

Test(tool_parts, names_and_sizes)
{
	char out[8], size[16];

	cr_assert_str_eq(text_clean(out, sizeof(out),
				    "a\033[2J\n\xff"
				    "b",
				    16),
			 "a?[2J??");
	cr_assert_str_eq(text_clean(out, sizeof(out), "abcdef", 3), "abc");
	cr_assert_str_eq(size_text(size, 999), "999B");
	cr_assert_str_eq(size_text(size, 1234567), "1.2M");
	cr_assert_str_eq(size_text(size, UINT64_MAX), "18.4E");
}

Test(tool_parts, what_a_process_was_started_with)
{
	static const char env[] = "A=1\0LD_PRELOADX=no\0LD_PRELOAD=/x/librsock.so\0B";
	Elf64_auxv_t auxv[] = { { .a_type = AT_UID, .a_un.a_val = 1 },
				{ .a_type = AT_SECURE, .a_un.a_val = 1 },
				{ .a_type = AT_NULL } };

	cr_assert_str_eq(environ_value(env, sizeof(env), "LD_PRELOAD"), "/x/librsock.so");
	cr_assert_null(environ_value(env, sizeof(env), "B"));
	cr_assert_null(environ_value(env, 4, "LD_PRELOAD"));
	cr_assert_eq(auxv_secure(auxv, sizeof(auxv)), ANSWER_YES);
	cr_assert_eq(auxv_secure(auxv, sizeof(auxv[0])), ANSWER_UNKNOWN);
	auxv[1].a_un.a_val = 0;
	cr_assert_eq(auxv_secure(auxv, sizeof(auxv)), ANSWER_NO);
}

Test(tool_parts, what_stands_in_a_processs_way)
{
	struct proc p;

	proc_read(getpid(), &p);
	cr_assert(p.there);
	cr_assert_eq(p.loaded, ANSWER_NO);
	cr_assert_eq(p.kind, PROGRAM_DYNAMIC);
	cr_assert_eq(p.euid, geteuid());
	cr_assert_eq(p.secure, ANSWER_NO);
	cr_assert_gt(p.files, 2);
	cr_assert_eq(proc_finding(&p), FINDING_NO_PRELOAD);
	p.asked = ANSWER_YES;
	cr_assert_eq(proc_finding(&p), FINDING_PRELOAD_FAILED);
	p.asked = ANSWER_UNKNOWN;
	cr_assert_eq(proc_finding(&p), FINDING_NOT_LOADED);
	p.secure = ANSWER_YES;
	cr_assert_eq(proc_finding(&p), FINDING_SECURE);
	p.loaded = ANSWER_UNKNOWN;
	cr_assert_eq(proc_finding(&p), FINDING_UNREADABLE);
	p.kind = PROGRAM_STATIC;
	cr_assert_eq(proc_finding(&p), FINDING_STATIC);
	p.loaded = ANSWER_YES;
	cr_assert_eq(proc_finding(&p), FINDING_SECURE);
	p.secure = ANSWER_NO;
	cr_assert_eq(proc_finding(&p), FINDING_READY);
	p.disabled = ANSWER_YES;
	cr_assert_eq(proc_finding(&p), FINDING_DISABLED);
	p.state = 'Z';
	cr_assert_eq(proc_finding(&p), FINDING_ZOMBIE);
	proc_read(INT_MAX, &p);
	cr_assert_eq(proc_finding(&p), FINDING_GONE);
	proc_read(2, &p); /* kthreadd, or any process inside a PID namespace */
	cr_assert(p.there == (access("/proc/2/status", F_OK) == 0));
}

Test(tool_parts, rates_between_two_looks)
{
	static struct rsk_stats_segment first, second;
	struct segment before = { .dev = 1, .ino = 2, .taken_ns = 1000000000, .copy = &first };
	struct segment after = { .dev = 1, .ino = 2, .taken_ns = 1500000000, .copy = &second };
	struct rsk_stats_stream *then = &first.stream[7], *now = &second.stream[7];
	struct rates r;

	then->state = now->state = RSK_STATS_OPEN;
	then->opened_ns = now->opened_ns = 5;
	then->tx_ring_bytes = 100;
	now->tx_ring_bytes = 600;
	then->rx_tcp_bytes = 900; /* overwritten by another process: no rate */
	r = record_rates(&before, &after, now);
	cr_assert_eq(r.tx_ring, 1000);
	cr_assert_eq(r.rx_tcp, 0);
	now->opened_ns = 6; /* another stream in the same place */
	r = record_rates(&before, &after, now);
	cr_assert_eq(r.tx_ring, 0);
	now->opened_ns = 5;
	after.ino = 3;
	r = record_rates(&before, &after, now);
	cr_assert_eq(r.tx_ring, 0);
	after.ino = 2;
	after.taken_ns = before.taken_ns;
	r = record_rates(&before, &after, now);
	cr_assert_eq(r.tx_ring, 0);
}

Test(tool_parts, medians_and_their_intervals)
{
	double odd[] = { 3, 1, 2 }, even[] = { 4, 1, 3, 2 }, ten[10], lo, hi;

	cr_assert_eq(median(odd, 3), 2);
	cr_assert_eq(median(even, 4), 2.5);
	for (int i = 0; i < 10; i++)
		ten[i] = 10 - i;
	/* Conover's table of the sign test: n = 10, the 2nd and the 9th. */
	cr_assert_eq(median_interval(ten, 10, &lo, &hi), 0);
	cr_assert_eq(lo, 2);
	cr_assert_eq(hi, 9);
	cr_assert_eq(median_interval(ten, 6, &lo, &hi), 0);
	cr_assert_eq(lo, 1, "of six, all");
	cr_assert_eq(hi, 6);
	cr_assert_eq(median_interval(ten, 5, &lo, &hi), -EINVAL, "five cannot say it with 95 %%");
}

Test(tool_parts, what_runs_leave_in_their_statistics)
{
	static const char text[] =
		"{\"streams\":[{\"promotions\":2,\"tx_ring_bytes\":10,\"rx_ring_bytes\":20,"
		"\"tx_tcp_bytes\":1,\"rx_tcp_bytes\":2,\"reason\":\"closed\"},"
		"{\"promotions\":0,\"tx_tcp_bytes\":7,\"reason\":\"no-peer\"}]}\n"
		"not JSON\n{\"streams\":7}\n{\"streams\":[7,{\"reason\":\"no-peer\"}]}\n";
	struct travelled t = { 0 };
	char lines[sizeof(text)];

	memcpy(lines, text, sizeof(text));
	travelled_add(&t, lines);
	cr_assert_eq(t.streams, 3);
	cr_assert_eq(t.direct, 1);
	cr_assert_eq(t.ring_bytes, 30);
	cr_assert_eq(t.tcp_bytes, 10);
	cr_assert_eq(t.reason[RSK_REASON_NO_PEER], 2);
	cr_assert_eq(t.reason[RSK_REASON_CLOSED], 0);
}

/* Three streams of this process: an idle direct one, a fast one, one on TCP. */
static void three_streams(struct rsk_stats_segment *seg)
{
	static const struct {
		uint8_t reason;
		uint8_t path;
		uint64_t bytes;
	} kinds[] = { { RSK_REASON_DIRECT, RSK_PATH_RING, 9000 },
		      { RSK_REASON_DIRECT, RSK_PATH_RING, 1000 },
		      { RSK_REASON_NO_PEER, RSK_PATH_TCP, 10 } };

	memset(seg, 0, sizeof(*seg));
	seg->header.high_water = 3;
	for (unsigned int i = 0; i < 3; i++) {
		struct rsk_stats_stream *s = &seg->stream[i];

		s->state = RSK_STATS_OPEN;
		s->pid = (uint32_t)getpid();
		s->family = AF_INET;
		s->local_port = (uint16_t)(100 + i);
		s->opened_ns = i + 1;
		s->reason = kinds[i].reason;
		s->tx = s->rx = kinds[i].path;
		s->tx_ring_bytes = kinds[i].bytes;
	}
	seg->process[0].pid = (uint32_t)getpid();
	memcpy(seg->process[0].comm, "a\033name", 6);
}

Test(tool_parts, the_order_of_the_table)
{
	static struct rsk_stats_segment first, second;
	pid_t self = getpid();
	struct segment before = {
		.taken_ns = 1, .copy = &first, .holders = &self, .holder_count = 1
	};
	struct segment now = {
		.taken_ns = 1000000001, .copy = &second, .holders = &self, .holder_count = 1
	};
	static const char *const firsts[] = { [TOP_SORT_RATE] = "0.0.0.0:101",
					      [TOP_SORT_BYTES] = "0.0.0.0:100",
					      [TOP_SORT_PID] = "0.0.0.0:100",
					      [TOP_SORT_REASON] = "0.0.0.0:102" };
	char line[TOP_LINE];
	struct top top;

	three_streams(&first);
	three_streams(&second);
	second.stream[1].tx_ring_bytes += 500;
	for (int sort = 0; sort < TOP_SORT_COUNT; sort++) {
		cr_assert_eq(top_take(&before, &now, 0, (enum top_sort)sort, &top), 0);
		cr_assert_eq(top.count, 3);
		cr_assert_str_eq(top.row[0].local, firsts[sort], "order %d", sort);
		top_free(&top);
	}
	cr_assert_eq(top_take(&before, &now, 0, TOP_SORT_RATE, &top), 0);
	cr_assert_eq(top.direct, 2);
	cr_assert_eq(top.ring_rate, 500);
	cr_assert_eq(top.row[0].tx_rate, 500);
	cr_assert_null(strchr(top_line(&top.row[0], line), 033), "a control code");
	cr_assert(strstr(line, "a?name"), "%s", line);
	cr_assert(strstr(line, " direct"), "%s", line);
	cr_assert(strstr(top_summary(&top, line), "3 streams, 2 accelerated"), "%s", line);
	top_free(&top);
	cr_assert_eq(top_take(&before, &now, (uint32_t)self + 1, TOP_SORT_RATE, &top), 0);
	cr_assert_eq(top.count, 0);
	top_free(&top);
	/* Whatever is in a record: the line has a bounded length. */
	memset(&second.stream[1].reason, 0xff, 5);
	cr_assert_eq(top_take(NULL, &now, 0, TOP_SORT_REASON, &top), 0);
	for (size_t i = 0; i < top.count; i++)
		cr_assert_lt(strlen(top_line(&top.row[i], line)), TOP_LINE);
	top_free(&top);
	cr_assert_eq(top_sort_named("rate"), TOP_SORT_RATE);
	cr_assert_eq(top_sort_named("nonsense"), -1);
	cr_assert_eq(top_sort_of_key('w'), TOP_SORT_REASON);
	cr_assert_eq(top_sort_of_key('x'), -1);
}
