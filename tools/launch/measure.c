// SPDX-License-Identifier: BSD-2-Clause
/* measure.c - see measure.h. */
#include "measure.h"

#include "json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

int median_interval(double *values, size_t n, double *low, double *high)
{
	/* one: P(Bin(n, 1/2) = k); sum: the tail up to k, which may be 2.5 % on each side. */
	double one = 1, sum;
	size_t k = 0;

	if (n < MEASURE_LEAST)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		one /= 2;
	sum = one;
	while (sum <= 0.025) {
		one = one * (double)(n - k) / (double)(k + 1);
		sum += one;
		k++;
	}
	/* n is so large that the first terms underflow a double. */
	if (!k || one <= 0)
		return -EINVAL;
	qsort(values, n, sizeof(*values), compare);
	*low = values[k - 1];
	*high = values[n - k];
	return 0;
}

static uint64_t member(const json_t *object, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(object, key));

	return value > 0 ? (uint64_t)value : 0;
}

static void stream_add(struct travelled *sum, const json_t *stream)
{
	uint64_t ring = member(stream, "tx_ring_bytes") + member(stream, "rx_ring_bytes");
	const char *token = json_string_value(json_object_get(stream, "reason"));

	sum->streams++;
	sum->ring_bytes += ring;
	sum->tcp_bytes += member(stream, "tx_tcp_bytes") + member(stream, "rx_tcp_bytes");
	if (member(stream, "promotions") && ring) {
		sum->direct++;
		return;
	}
	for (unsigned int i = 0; token && i < RSK_REASON_COUNT; i++)
		sum->reason[i] += strcmp(token, rsk_reason_token(i)) == 0;
}

void travelled_add(struct travelled *sum, char *lines)
{
	for (char *line = strtok_r(lines, "\n", &lines); line;
	     line = strtok_r(NULL, "\n", &lines)) {
		json_t *root = json_loads(line, 0, NULL), *streams, *stream;
		size_t i;

		streams = json_object_get(root, "streams");
		json_array_foreach(streams, i, stream) if (json_is_object(stream))
			stream_add(sum, stream);
		json_decref(root);
	}
}
