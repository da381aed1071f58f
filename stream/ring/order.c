// SPDX-License-Identifier: BSD-2-Clause
/*
 * order.c - parses the index form, and the sending machine of order.h: which tag a packet gets,
 * what is acknowledged, and when counting restarts.
 */
#include <errno.h>
#include <string.h>

#include "order_parts.h"

static const struct {
	const char *name;
	uint8_t kind, bits_max;
} forms[] = {
	{ "absolute", RSK_ORDER_ABSOLUTE, RSK_ORDER_BITS_MAX },
	{ "relative", RSK_ORDER_RELATIVE, RSK_ORDER_BITS_MAX - 1 }, /* one bit is the epoch */
	{ "wrapping", RSK_ORDER_WRAPPING, RSK_ORDER_BITS_MAX },
};

/*
 * Parses the digits at *text and advances *text behind them. Returns the number, @max + 1 if it is
 * greater than @max, or 0 if there are no digits.
 */
static uint32_t number(const char **text, uint32_t max)
{
	uint32_t n = 0;

	for (; **text >= '0' && **text <= '9'; (*text)++)
		if (n <= max)
			n = n * 10 + (uint32_t)(**text - '0');
	return n <= max ? n : max + 1;
}

static int refuse(const char **error, const char *why)
{
	*error = why;
	return -EINVAL;
}

/* Parses BITS and EVERY, which are optional. */
static int parse_numbers(struct rsk_order_form *f, const char **text, uint32_t bits_max,
			 const char **error)
{
	uint32_t n;

	if (**text == ':') {
		(*text)++;
		n = number(text, bits_max);
		if (!n || n > bits_max)
			return refuse(error, f->kind == RSK_ORDER_RELATIVE ?
						     "a relative index has 1 to 12 bits" :
						     "an index has 1 to 13 bits");
		f->bits = (uint8_t)n;
	}
	if (**text == '/') {
		(*text)++;
		if (f->kind != RSK_ORDER_RELATIVE)
			return refuse(error,
				      "only relative counting restarts: /EVERY is for it alone");
		n = number(text, RSK_ORDER_EVERY_MAX);
		if (!n || n > RSK_ORDER_EVERY_MAX)
			return refuse(error, "/EVERY is 1 to 65535");
		f->every = n;
	}
	return 0;
}

int rsk_order_parse(struct rsk_order_form *form, const char *text, const char **error)
{
	const size_t n = sizeof(forms) / sizeof(*forms);
	struct rsk_order_form f = { .every = 1 };
	size_t i, len = strcspn(text, ":/+");
	int rc;

	*error = "";
	for (i = 0; i < n; i++)
		if (strlen(forms[i].name) == len && memcmp(forms[i].name, text, len) == 0)
			break;
	if (i == n)
		return refuse(error, "an order begins with absolute, relative or wrapping");
	f.kind = forms[i].kind;
	f.bits = forms[i].bits_max;
	text += len;
	rc = parse_numbers(&f, &text, forms[i].bits_max, error);
	if (rc < 0)
		return rc;
	if (strcmp(text, "+stop") == 0)
		f.stop = true;
	else if (*text && strcmp(text, "+keep") != 0)
		return refuse(error, "expected FORM[:BITS][/EVERY][+stop|+keep]");
	*form = f;
	return 0;
}

bool rsk_order_form_validate(const struct rsk_order_form *form)
{
	return form->kind <= RSK_ORDER_WRAPPING && form->bits &&
	       form->bits <= forms[form->kind].bits_max && form->every &&
	       form->every <= RSK_ORDER_EVERY_MAX &&
	       (form->every == 1 || form->kind == RSK_ORDER_RELATIVE);
}

static bool power_of_two(uint32_t n)
{
	return n && !(n & (n - 1));
}

int rsk_order_setup_check(const struct rsk_order_setup *setup)
{
	if (!rsk_order_form_validate(&setup->form) || !power_of_two(setup->window) ||
	    setup->window > RSK_ORDER_WINDOW_MAX || !power_of_two(setup->cells) ||
	    setup->cells < 64 || setup->place > UINT64_MAX / 2 || setup->number > UINT64_MAX / 2)
		return -EINVAL;
	if (setup->window > rsk_order_span(&setup->form))
		return -ERANGE;
	if (setup->form.kind == RSK_ORDER_ABSOLUTE && setup->number >= rsk_order_span(&setup->form))
		return -ERANGE;
	return 0;
}

int rsk_order_tx_init(struct rsk_order_tx *tx, const struct rsk_order_setup *setup,
		      struct rsk_order_sent *sent)
{
	int rc = rsk_order_setup_check(setup);

	if (rc < 0)
		return rc;
	memset(sent, 0, sizeof(*sent) * setup->window);
	*tx = (struct rsk_order_tx){ .form = setup->form,
				     .window = setup->window,
				     .cells = setup->cells,
				     .sent = sent,
				     .una = setup->number,
				     .next = setup->number,
				     .floor = setup->place,
				     .top = setup->place,
				     .origin = setup->number };
	return 0;
}

static struct rsk_order_sent *sent_at(const struct rsk_order_tx *tx, uint64_t n)
{
	return &tx->sent[n & (tx->window - 1)];
}

/* Is everything of it put, and below @place? */
static bool ends_below(const struct rsk_order_sent *s, uint64_t place)
{
	return s->whole && s->end <= place;
}

/* Does @place divide the first packet? Where the others begin is not recorded. */
static bool in_first(const struct rsk_order_sent *s, uint64_t place)
{
	return place > s->begin && place < s->begin + s->first;
}

static bool tx_one_ok(const struct rsk_order_tx *tx, uint64_t n, uint64_t *after)
{
	const struct rsk_order_sent *s = sent_at(tx, n);

	if (!s->first) /* begun, nothing put */
		return n + 1 == tx->next && tx->open && !s->whole;
	if (s->begin < *after || s->end - s->begin < s->first || s->end > tx->top)
		return false;
	*after = s->end;
	if (s->whole != (n + 1 < tx->next || !tx->open))
		return false;
	/* Acknowledgements are in order: at most the lowest one has some. */
	return !ends_below(s, tx->floor) && !in_first(s, tx->floor) &&
	       (n == tx->una || s->begin >= tx->floor);
}

bool rsk_order_tx_validate(const struct rsk_order_tx *tx)
{
	uint64_t after = 0, open = tx->next - tx->una;

	if (!rsk_order_form_validate(&tx->form) || !tx->sent || open > tx->window ||
	    tx->floor > tx->top || tx->top - tx->floor > tx->cells || (tx->open && !open))
		return false;
	if (tx->form.kind == RSK_ORDER_RELATIVE &&
	    (tx->origin > tx->una || tx->next - tx->origin > rsk_order_span(&tx->form)))
		return false;
	if (tx->form.kind == RSK_ORDER_ABSOLUTE && tx->next > rsk_order_span(&tx->form))
		return false;
	for (uint64_t n = tx->una; n < tx->next; n++)
		if (!tx_one_ok(tx, n, &after))
			return false;
	return true;
}

int rsk_order_tx_begin(struct rsk_order_tx *tx)
{
	if (tx->open)
		return -EBUSY;
	if (tx->form.kind == RSK_ORDER_ABSOLUTE && tx->next >= rsk_order_span(&tx->form))
		return -EOVERFLOW;
	if (tx->next - tx->una >= tx->window)
		return -EAGAIN;
	if (tx->form.kind == RSK_ORDER_RELATIVE &&
	    tx->next - tx->origin >= rsk_order_span(&tx->form))
		return -EAGAIN;
	*sent_at(tx, tx->next) = (struct rsk_order_sent){ .begin = tx->top, .end = tx->top };
	tx->next++;
	tx->open = true;
	return 0;
}

/* The index of transaction @n, with the epoch. */
static uint32_t index_of(const struct rsk_order_tx *tx, uint64_t n)
{
	if (tx->form.kind == RSK_ORDER_RELATIVE)
		return (uint32_t)(n - tx->origin) | (uint32_t)tx->epoch << tx->form.bits;
	return (uint32_t)(n & (rsk_order_span(&tx->form) - 1));
}

uint16_t rsk_order_tx_tag(const struct rsk_order_tx *tx, bool last)
{
	const struct rsk_order_sent *s = sent_at(tx, tx->next - 1);
	uint32_t tag;

	if (!tx->open)
		return 0;
	if (tx->form.stop && s->first && s->begin + s->first <= tx->floor)
		tag = RSK_ORDER_BARE;
	else
		tag = RSK_ORDER_INDEXED | index_of(tx, tx->next - 1);
	return (uint16_t)(tag | (s->first ? 0 : RSK_ORDER_FIRST) | (last ? RSK_ORDER_LAST : 0));
}

int rsk_order_tx_put(struct rsk_order_tx *tx, uint64_t place, uint32_t cells, bool last)
{
	struct rsk_order_sent *s = sent_at(tx, tx->next - 1);

	if (!tx->open || !rsk_order_fits(tx->cells, place, cells))
		return -EINVAL;
	if (s->first ? place != s->end : place < tx->top)
		return -EINVAL;
	if (place + cells - tx->floor > tx->cells)
		return -ENOBUFS;
	if (!s->first) {
		s->begin = place;
		s->first = cells;
	}
	s->end = tx->top = place + cells;
	s->whole = last;
	tx->open = !last;
	return 0;
}

int rsk_order_tx_put_other(struct rsk_order_tx *tx, uint64_t place, uint32_t cells)
{
	if (!rsk_order_fits(tx->cells, place, cells) || place < tx->top)
		return -EINVAL;
	if (tx->open && sent_at(tx, tx->next - 1)->first)
		return -EBUSY;
	if (place + cells - tx->floor > tx->cells)
		return -ENOBUFS;
	tx->top = place + cells;
	return 0;
}

/* Everything is acknowledged: relative counting may restart. */
static void drained(struct rsk_order_tx *tx)
{
	uint64_t used = tx->next - tx->origin;

	if (tx->form.kind != RSK_ORDER_RELATIVE || !used)
		return;
	tx->drained++;
	if (tx->drained % tx->form.every && used < rsk_order_span(&tx->form))
		return;
	tx->origin = tx->next;
	tx->epoch = !tx->epoch;
	tx->drained = 0;
	tx->restarts++;
}

int rsk_order_tx_ack_below(struct rsk_order_tx *tx, uint64_t place)
{
	uint64_t una = tx->una;

	if (place > tx->top)
		return -EPROTO;
	if (place <= tx->floor)
		return 0;
	while (una < tx->next && ends_below(sent_at(tx, una), place))
		una++;
	/* A packet is never acknowledged in part. */
	if (una < tx->next && in_first(sent_at(tx, una), place))
		return -EPROTO;
	tx->floor = place;
	if (una == tx->una)
		return 0;
	tx->una = una;
	if (una == tx->next)
		drained(tx);
	return 0;
}

int rsk_order_tx_where(const struct rsk_order_tx *tx, uint64_t number, uint64_t *begin,
		       uint64_t *end)
{
	const struct rsk_order_sent *s = sent_at(tx, number);

	if (number < tx->una || number >= tx->next || !s->first || s->end <= tx->floor)
		return -ENOENT;
	/* Below the floor, newer packets may occupy the same cells. */
	*begin = s->begin > tx->floor ? s->begin : tx->floor;
	*end = s->end;
	return 0;
}
