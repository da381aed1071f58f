// SPDX-License-Identifier: BSD-2-Clause
/*
 * screen.c - rsock top on a terminal: draws the table, waits for a key or the next scan. See top.h.
 */
#include "top.h"

#include "rsock.h"

#include <curses.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rsock/clock.h>

#define KEYS "q quit   r rate   b bytes   p process   w why   up, down, page up, page down"

/* The state of the screen. */
struct screen {
	struct top_request *req;
	struct segment *before;
	struct segment *now;
	size_t first; /* index of the row at the top */
	uint64_t shown;
	bool quit;
};

static volatile sig_atomic_t ended;

static void on_end(int sig)
{
	ended = sig;
}

static int page(void)
{
	return LINES > 4 ? LINES - 4 : 1;
}

static void put_line(int y, const char *line)
{
	move(y, 0);
	addnstr(line, COLS > 0 ? COLS : 1);
	clrtoeol();
}

static int draw(struct screen *s)
{
	char line[TOP_LINE];
	struct top top;
	int err = top_take(s->before, s->now, s->req->pid, s->req->sort, &top);

	if (err)
		return err;
	if (s->first >= top.count)
		s->first = top.count ? top.count - 1 : 0;
	erase();
	put_line(0, top_summary(&top, line));
	put_line(1, KEYS);
	attron(A_REVERSE);
	put_line(2, top_heading(line));
	attroff(A_REVERSE);
	for (int y = 0; y < page() && s->first + (size_t)y < top.count; y++)
		put_line(3 + y, top_line(&top.row[s->first + (size_t)y], line));
	if (!top.count)
		put_line(3, "no process of this user has TCP streams that librsock tracks");
	refresh();
	top_free(&top);
	return 0;
}

/* Scrolls down, or up if @lines is negative. */
static void scroll_by(struct screen *s, int lines)
{
	if (lines < 0 && s->first < (size_t)-lines)
		s->first = 0;
	else
		s->first += (size_t)lines;
}

static void key_take(struct screen *s, int key)
{
	int sort = top_sort_of_key(key);

	if (sort >= 0)
		s->req->sort = (enum top_sort)sort;
	else if (key == 'q' || key == 'Q' || key == 3)
		s->quit = true;
	else if (key == KEY_DOWN)
		scroll_by(s, 1);
	else if (key == KEY_UP)
		scroll_by(s, -1);
	else if (key == KEY_NPAGE || key == ' ')
		scroll_by(s, page());
	else if (key == KEY_PPAGE)
		scroll_by(s, -page());
	else if (key == KEY_HOME)
		s->first = 0;
}

/* Handles keys until the next scan is due. 0 or -ENOMEM. */
static int wait_keys(struct screen *s, uint64_t due_ns)
{
	int err = 0;

	while (!err && !s->quit && !ended) {
		uint64_t now = rsk_monotonic_ns();
		int key;

		if (now >= due_ns)
			break;
		timeout((int)((due_ns - now) / 1000000 + 1));
		key = getch();
		/* No key: a timeout, a signal, or the terminal was closed. */
		if (key == ERR) {
			if (!isatty(STDIN_FILENO))
				s->quit = true;
			continue;
		}
		key_take(s, key);
		err = draw(s);
	}
	return err;
}

static int look(struct screen *s)
{
	segments_free(s->before);
	s->before = s->now;
	s->now = NULL;
	return segments_scan(s->req->whose, &s->now);
}

static int loop(struct screen *s)
{
	int err = look(s);

	while (!err && !s->quit && !ended) {
		uint64_t due_ns = rsk_monotonic_ns() + s->req->interval_ns;

		err = draw(s);
		if (!err)
			err = wait_keys(s, due_ns);
		if (err || s->quit || ended || (s->req->count && ++s->shown >= s->req->count))
			break;
		err = look(s);
	}
	return err;
}

int top_screen(struct top_request *req)
{
	struct sigaction end = { .sa_handler = on_end };
	struct screen s = { .req = req };
	SCREEN *terminal;
	int err;

	terminal = isatty(STDOUT_FILENO) ? newterm(NULL, stdout, stdin) : NULL;
	if (!terminal)
		return failure("standard output is not a terminal; -b prints tables");
	sigaction(SIGINT, &end, NULL);
	sigaction(SIGTERM, &end, NULL);
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	curs_set(0);
	err = loop(&s);
	endwin();
	delscreen(terminal);
	segments_free(s.before);
	segments_free(s.now);
	return err ? failure("cannot read /proc: %s", strerror(-err)) : EXIT_OK;
}
