// SPDX-License-Identifier: BSD-2-Clause
/* conf_schema.c - see conf_schema.h. */
#include "conf_schema.h"

#include <cyaml/cyaml.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

/* Nothing sane nests deeper, and freeing recurses into the nesting. */
#define DEEPEST 48
#define MOST_BYTES (64u << 20)
#define MOST 65535u /* entries of a list */
#define LONGEST 255u

#define TEXT(key, type, member)                                                                    \
	CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, member, 0,     \
			       LONGEST)
#define NEEDED(key, type, member)                                                                  \
	CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER, type, member, 1, LONGEST)
/* libcyaml's own flag takes any word for true. */
#define FLAG(key, type, member)                                                                    \
	CYAML_FIELD_ENUM(key, CYAML_FLAG_OPTIONAL | CYAML_FLAG_STRICT, type, member, yes_or_no,    \
			 CYAML_ARRAY_LEN(yes_or_no))
#define TEXTS(key, type, member)                                                                   \
	CYAML_FIELD_SEQUENCE_COUNT(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, member.v,  \
				   member.n, &text_value, 1, MOST)
#define LIST(key, type, member, entry)                                                             \
	CYAML_FIELD_SEQUENCE_COUNT(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, member,    \
				   n_##member, entry, 0, MOST)
#define SECTION(key, type, member, fields)                                                         \
	CYAML_FIELD_MAPPING_PTR(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, member, fields)

static const cyaml_strval_t yes_or_no[] = {
	{ "true", RSK_RAW_YES }, { "yes", RSK_RAW_YES }, { "on", RSK_RAW_YES },
	{ "false", RSK_RAW_NO }, { "no", RSK_RAW_NO },	 { "off", RSK_RAW_NO },
};

static const cyaml_schema_value_t text_value = {
	CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, LONGEST),
};

/* ---- sub-functions ---- */

#define WHEN_FIELDS 23
static const cyaml_schema_field_t when_fields[WHEN_FIELDS];
static const cyaml_schema_value_t when_value = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rsk_raw_when, when_fields),
};

#define W struct rsk_raw_when
static const cyaml_schema_field_t when_fields[WHEN_FIELDS] = {
	TEXTS("services", W, services),
	TEXTS("ports", W, ports),
	TEXTS("users", W, users),
	TEXTS("peers", W, peers),
	TEXTS("local", W, local),
	TEXTS("time", W, time),
	TEXT("load-below", W, load_below),
	TEXT("sessions-below", W, sessions_below),
	TEXT("device-load-below", W, device_load_below),
	TEXT("device-sessions-below", W, device_sessions_below),
	FLAG("bandwidth-fits", W, bandwidth_fits),
	TEXT("bandwidth-free", W, bandwidth_free),
	TEXT("transactions-per-second-below", W, transactions_below),
	TEXT("transactions-per-second-at-least", W, transactions_least),
	TEXT("rtt-below", W, rtt_below),
	TEXT("rtt-at-least", W, rtt_least),
	TEXT("stream-bytes-below", W, stream_bytes_below),
	TEXT("stream-bytes-at-least", W, stream_bytes_least),
	TEXTS("functions", W, functions),
	CYAML_FIELD_SEQUENCE_COUNT("any", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, W, any, n_any,
				   &when_value, 1, MOST),
	CYAML_FIELD_SEQUENCE_COUNT("all", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, W, all, n_all,
				   &when_value, 1, MOST),
	SECTION("not", W, not_, when_fields),
	CYAML_FIELD_END
};
#undef W

static const cyaml_schema_field_t function_fields[] = {
	NEEDED("name", struct rsk_raw_function, name),
	CYAML_FIELD_MAPPING_PTR("when", CYAML_FLAG_POINTER, struct rsk_raw_function, when,
				when_fields),
	CYAML_FIELD_END
};
static const cyaml_schema_value_t function_value = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rsk_raw_function, function_fields),
};

static const cyaml_schema_field_t map_fields[] = { TEXT("pm-time", struct rsk_raw_map, pm_time),
						   TEXT("priority", struct rsk_raw_map, priority),
						   TEXT("group", struct rsk_raw_map, group),
						   TEXT("redirect", struct rsk_raw_map, redirect),
						   CYAML_FIELD_END };

static const cyaml_strval_t sides[] = {
	{ "both", 0 },
	{ "cp", RSK_CONF_SIDE_CP },
	{ "ap", RSK_CONF_SIDE_AP },
};
static const cyaml_schema_field_t rule_fields[] = {
	NEEDED("name", struct rsk_raw_rule, name),
	CYAML_FIELD_ENUM("side", CYAML_FLAG_OPTIONAL | CYAML_FLAG_STRICT, struct rsk_raw_rule, side,
			 sides, CYAML_ARRAY_LEN(sides)),
	SECTION("when", struct rsk_raw_rule, when, when_fields),
	SECTION("map", struct rsk_raw_rule, map, map_fields), CYAML_FIELD_END
};
static const cyaml_schema_value_t rule_value = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rsk_raw_rule, rule_fields),
};

/* ---- devices ---- */

static const cyaml_schema_field_t port_fields[] = {
	NEEDED("name", struct rsk_raw_port, name),
	TEXT("bandwidth", struct rsk_raw_port, bandwidth),
	TEXTS("addresses", struct rsk_raw_port, addresses),
	TEXTS("reach", struct rsk_raw_port, reach), CYAML_FIELD_END
};
static const cyaml_schema_value_t port_value = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rsk_raw_port, port_fields),
};

static const cyaml_strval_t classes[] = {
	{ "any", RSK_CONF_QOS_ANY },
	{ "high", RSK_CONF_QOS_HIGH },
	{ "best-effort", RSK_CONF_QOS_BEST_EFFORT },
};
static const cyaml_strval_t roles[] = { { "active", 0 }, { "spare", 1 } };

#define R struct rsk_raw_rnic
static const cyaml_schema_field_t rnic_fields[] = {
	NEEDED("name", R, name),
	TEXT("node", R, node),
	TEXT("group", R, group),
	TEXT("bandwidth", R, bandwidth),
	TEXT("sessions", R, sessions),
	TEXT("connections", R, connections),
	TEXT("memory-maps", R, memory_maps),
	TEXT("order", R, order),
	TEXTS("addresses", R, addresses),
	TEXTS("reach", R, reach),
	LIST("ports", R, ports, &port_value),
	CYAML_FIELD_ENUM("qos", CYAML_FLAG_OPTIONAL | CYAML_FLAG_STRICT, R, qos, classes,
			 CYAML_ARRAY_LEN(classes)),
	CYAML_FIELD_ENUM("role", CYAML_FLAG_OPTIONAL | CYAML_FLAG_STRICT, R, spare, roles,
			 CYAML_ARRAY_LEN(roles)),
	CYAML_FIELD_END
};
#undef R
static const cyaml_schema_value_t rnic_value = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rsk_raw_rnic, rnic_fields),
};

static const cyaml_strval_t choices[] = { { "load", 0 }, { "order", 1 } };
static const cyaml_schema_field_t aggregate_fields[] = {
	NEEDED("address", struct rsk_raw_aggregate, address),
	CYAML_FIELD_SEQUENCE_COUNT("over", CYAML_FLAG_POINTER, struct rsk_raw_aggregate, over.v,
				   over.n, &text_value, 1, MOST),
	CYAML_FIELD_ENUM("choose", CYAML_FLAG_OPTIONAL | CYAML_FLAG_STRICT,
			 struct rsk_raw_aggregate, in_order, choices, CYAML_ARRAY_LEN(choices)),
	CYAML_FIELD_END
};
static const cyaml_schema_value_t aggregate_value = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rsk_raw_aggregate, aggregate_fields),
};

/* ---- services ---- */

static const cyaml_schema_field_t limits_fields[] = {
	TEXT("sessions", struct rsk_raw_limits, sessions),
	TEXT("per-cp", struct rsk_raw_limits, per_cp),
	TEXT("per-user", struct rsk_raw_limits, per_user), CYAML_FIELD_END
};

static const cyaml_schema_field_t rails_fields[] = {
	TEXT("bandwidth", struct rsk_raw_rails, bandwidth),
	TEXT("memory-maps", struct rsk_raw_rails, memory_maps),
	TEXT("per-user", struct rsk_raw_rails, per_user), CYAML_FIELD_END
};

static const cyaml_schema_field_t overload_fields[] = {
	TEXT("load", struct rsk_raw_overload, load),
	TEXT("device-load", struct rsk_raw_overload, device_load),
	TEXT("refuse-below-priority", struct rsk_raw_overload, refuse_below),
	TEXT("rate", struct rsk_raw_overload, rate), CYAML_FIELD_END
};

#define S struct rsk_raw_service
static const cyaml_schema_field_t service_fields[] = {
	NEEDED("name", S, name),
	CYAML_FIELD_SEQUENCE_COUNT("ports", CYAML_FLAG_POINTER, S, ports.v, ports.n, &text_value, 1,
				   MOST),
	TEXT("bandwidth", S, bandwidth),
	TEXT("memory-maps", S, memory_maps),
	TEXT("connections", S, connections),
	TEXT("priority", S, priority),
	TEXT("rdma-port", S, rdma_port),
	TEXT("pm-time", S, pm_time),
	TEXT("dscp", S, dscp),
	TEXT("rate", S, rate),
	TEXT("transactions-wanted", S, transactions_wanted),
	TEXTS("transactions-of", S, transactions_of),
	SECTION("limits", S, limits, limits_fields),
	FLAG("high-availability", S, high_availability),
	FLAG("balance", S, balance),
	FLAG("registered", S, registered),
	CYAML_FIELD_END
};
#undef S
static const cyaml_schema_value_t service_value = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rsk_raw_service, service_fields),
};

/* ---- the daemon ---- */

static const cyaml_schema_field_t pmsp_fields[] = {
#define FIELD(name, key, ...) TEXT(key, struct rsk_raw_pmsp, name),
	RSK_CONF_PMSP(FIELD)
#undef FIELD
		CYAML_FIELD_END
};

static const cyaml_schema_field_t client_fields[] = { TEXT("central", struct rsk_raw_client,
							   central),
#define FIELD(name, key, ...) TEXT(key, struct rsk_raw_client, name),
						      RSK_CONF_CLIENT(FIELD)
#undef FIELD
							      CYAML_FIELD_END };

#define T struct rsk_raw_tls
static const cyaml_schema_field_t tls_fields[] = { TEXT("ca", T, ca),
						   TEXT("certificate", T, certificate),
						   TEXT("key", T, key), CYAML_FIELD_END };
#undef T

static const cyaml_strval_t pma_modes[] = { { "local", RSK_CONF_PMA_LOCAL + 1 },
					    { "central", RSK_CONF_PMA_CENTRAL + 1 },
					    { "both", RSK_CONF_PMA_BOTH + 1 } };
static const cyaml_strval_t silences[] = { { "deny", 0 }, { "local", 1 } };
static const cyaml_schema_field_t pma_fields[] = {
	TEXTS("listen", struct rsk_raw_pma, listen),
	TEXTS("allow", struct rsk_raw_pma, allow),
	TEXT("central", struct rsk_raw_pma, central),
	SECTION("tls", struct rsk_raw_pma, tls, tls_fields),
	CYAML_FIELD_ENUM("mode", CYAML_FLAG_OPTIONAL | CYAML_FLAG_STRICT, struct rsk_raw_pma, mode,
			 pma_modes, CYAML_ARRAY_LEN(pma_modes)),
	CYAML_FIELD_ENUM("if-silent", CYAML_FLAG_OPTIONAL | CYAML_FLAG_STRICT, struct rsk_raw_pma,
			 local_if_silent, silences, CYAML_ARRAY_LEN(silences)),
#define FIELD(name, key, ...) TEXT(key, struct rsk_raw_pma, name),
	RSK_CONF_PMA(FIELD)
#undef FIELD
		CYAML_FIELD_END
};

static const cyaml_strval_t orders[] = { { "random", 0 }, { "listed", 1 } };
static const cyaml_schema_field_t cluster_ledger_fields[] = {
	TEXT("hold", struct rsk_raw_cluster_ledger, hold), CYAML_FIELD_END
};

#define K struct rsk_raw_cluster
static const cyaml_schema_field_t cluster_fields[] = {
	CYAML_FIELD_SEQUENCE_COUNT("etcd", CYAML_FLAG_POINTER, K, etcd.v, etcd.n, &text_value, 1,
				   MOST),
	TEXT("prefix", K, prefix),
	TEXT("user", K, user),
	TEXT("password-file", K, password_file),
	TEXT("timeout", K, timeout),
	TEXT("lease", K, lease),
	TEXT("expire", K, expire),
	TEXT("history", K, history),
	TEXT("address", K, address),
	FLAG("redirect", K, redirect),
	CYAML_FIELD_ENUM("order", CYAML_FLAG_OPTIONAL | CYAML_FLAG_STRICT, K, is_listed, orders,
			 CYAML_ARRAY_LEN(orders)),
	SECTION("tls", K, tls, tls_fields),
	SECTION("ledger", K, ledger, cluster_ledger_fields),
	CYAML_FIELD_END
};
#undef K

static const cyaml_schema_field_t vouch_fields[] = {
	TEXTS("users", struct rsk_raw_vouch, users), TEXTS("groups", struct rsk_raw_vouch, groups),
	TEXTS("ports", struct rsk_raw_vouch, ports),
	TEXTS("cgroups", struct rsk_raw_vouch, cgroups), CYAML_FIELD_END
};
static const cyaml_schema_value_t vouch_value = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct rsk_raw_vouch, vouch_fields),
};

static const cyaml_strval_t watches[] = {
	{ "true", RSK_CONF_WATCH_YES + 1 },  { "yes", RSK_CONF_WATCH_YES + 1 },
	{ "on", RSK_CONF_WATCH_YES + 1 },    { "false", RSK_CONF_WATCH_NO + 1 },
	{ "no", RSK_CONF_WATCH_NO + 1 },     { "off", RSK_CONF_WATCH_NO + 1 },
	{ "rdma", RSK_CONF_WATCH_RDMA + 1 },
};
static const cyaml_strval_t softs[] = { { "decline", 0 }, { "use", 1 } };
#define C struct rsk_raw_conf
/*
 * The policy, which a document of the cluster can have, too. A missing list of rules is not an
 * empty one: an empty list would refuse everything, which has to be written as a rule.
 */
#define POLICY_FIELDS                                                                              \
	LIST("aggregates", C, aggregates, &aggregate_value),                                       \
		LIST("services", C, services, &service_value),                                     \
		LIST("functions", C, functions, &function_value),                                  \
		CYAML_FIELD_SEQUENCE_COUNT("rules", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, C,   \
					   rules, n_rules, &rule_value, 1, MOST)

static const cyaml_schema_field_t document_fields[] = { POLICY_FIELDS, CYAML_FIELD_END };
static const cyaml_schema_value_t document_value = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct rsk_raw_conf, document_fields),
};

static const cyaml_schema_field_t conf_fields[] = {
	TEXT("node", C, node),
	TEXT("user", C, user),
	TEXT("control", C, control),
	TEXT("state", C, state),
	TEXT("metrics", C, metrics),
	TEXT("rdma-ports", C, rdma_ports),
	TEXT("local", C, local),
	TEXTS("ask-first", C, ask_first),
	TEXT("ask-first-time", C, ask_first_time),
	LIST("vouch", C, vouch, &vouch_value),
	TEXTS("listen", C, listen),
	TEXTS("redirects-from", C, redirects_from),
	CYAML_FIELD_ENUM("soft-rdma", CYAML_FLAG_OPTIONAL | CYAML_FLAG_STRICT, C, use_soft, softs,
			 CYAML_ARRAY_LEN(softs)),
	FLAG("discover-devices", C, discover),
	FLAG("between-namespaces", C, between_namespaces),
	CYAML_FIELD_ENUM("watch-devices", CYAML_FLAG_OPTIONAL | CYAML_FLAG_STRICT, C, watch_devices,
			 watches, CYAML_ARRAY_LEN(watches)),
	SECTION("pmsp", C, pmsp, pmsp_fields),
	SECTION("pma", C, pma, pma_fields),
	SECTION("client", C, client, client_fields),
	SECTION("limits", C, limits, limits_fields),
	SECTION("overload", C, overload, overload_fields),
	SECTION("rails", C, rails, rails_fields),
	SECTION("cluster", C, cluster, cluster_fields),
	LIST("rnics", C, rnics, &rnic_value),
	POLICY_FIELDS,
	CYAML_FIELD_END
};
#undef C
static const cyaml_schema_value_t conf_value = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct rsk_raw_conf, conf_fields),
};

/* ---- reading ---- */

/*
 * What libcyaml says about an error: a message, then the innermost place, then the enclosing ones.
 * The place is that of the last thing that it understood.
 */
struct complaint {
	char text[160], place[160];
};

__attribute__((format(printf, 3, 0))) static void listen_to(cyaml_log_t level, void *ctx,
							    const char *fmt, va_list args)
{
	struct complaint *c = ctx;
	char line[160], *p = line;

	if (vsnprintf(line, sizeof(line), fmt, args) <= 0)
		return;
	line[strcspn(line, "\n")] = 0;
	if (strncmp(p, "Load: ", 6) == 0)
		p += 6;
	if (strncmp(p, "Backtrace", 9) == 0)
		return;
	if (*p != ' ') {
		if (!*c->text)
			snprintf(c->text, sizeof(c->text), "%s", p);
	} else if (!*c->place) {
		snprintf(c->place, sizeof(c->place), "%s", p + strspn(p, " "));
	}
}

static const cyaml_config_t *config(struct complaint *c, cyaml_config_t *to)
{
	*to = (cyaml_config_t){ .log_fn = listen_to,
				.log_ctx = c,
				.mem_fn = cyaml_mem,
				.log_level = CYAML_LOG_ERROR,
				.flags = CYAML_CFG_NO_ALIAS };
	return to;
}

static int depth_of(yaml_event_type_t type)
{
	switch (type) {
	case YAML_SEQUENCE_START_EVENT:
	case YAML_MAPPING_START_EVENT:
		return 1;
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		return -1;
	default:
		return 0;
	}
}

/*
 * Checks what libcyaml does not check, or not with a line number: that it is YAML, one document,
 * and not nested too deeply.
 */
static int look_over(const char *text, size_t len, int *documents, char *error, size_t n)
{
	yaml_parser_t parser;
	yaml_event_t event;
	bool end = false;
	int depth = 0, rc = 0;

	*documents = 0;
	if (!yaml_parser_initialize(&parser))
		return -ENOMEM;
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	while (!end && rc == 0) {
		if (!yaml_parser_parse(&parser, &event)) {
			snprintf(error, n, "line %zu: %s", parser.problem_mark.line + 1,
				 parser.problem ? parser.problem : "no memory");
			rc = parser.error == YAML_MEMORY_ERROR ? -ENOMEM : -EINVAL;
			break;
		}
		depth += depth_of(event.type);
		*documents += event.type == YAML_DOCUMENT_START_EVENT;
		end = event.type == YAML_STREAM_END_EVENT;
		if (depth > DEEPEST || *documents > 1) {
			snprintf(error, n, "line %zu: %s", event.start_mark.line + 1,
				 depth > DEEPEST ? "nested too deeply" : "a second document");
			rc = -EINVAL;
		}
		yaml_event_delete(&event);
	}
	yaml_parser_delete(&parser);
	return rc;
}

static int parse(const cyaml_schema_value_t *schema, const char *text, size_t len, size_t most,
		 struct rsk_raw_conf **out, char *error, size_t n)
{
	struct complaint c = { 0 };
	cyaml_data_t *data = NULL;
	cyaml_config_t to;
	cyaml_err_t err;
	int documents, rc;

	*out = NULL;
	if (len > most) {
		snprintf(error, n, "%zu bytes are too many", len);
		return -EINVAL;
	}
	rc = look_over(text, len, &documents, error, n);
	if (rc < 0 || !documents)
		return rc;
	err = cyaml_load_data((const uint8_t *)text, len, config(&c, &to), schema, &data, NULL);
	if (err == CYAML_OK) {
		*out = data;
		return 0;
	}
	snprintf(error, n, "%s%s%s", *c.text ? c.text : cyaml_strerror(err),
		 *c.place ? ", near: " : "", c.place);
	return err == CYAML_ERR_OOM ? -ENOMEM : -EINVAL;
}

int rsk_raw_parse(const char *text, size_t len, struct rsk_raw_conf **out, char *error, size_t n)
{
	return parse(&conf_value, text, len, MOST_BYTES, out, error, n);
}

int rsk_raw_parse_document(const char *text, size_t len, struct rsk_raw_conf **out, char *error,
			   size_t n)
{
	return parse(&document_value, text, len, RSK_CONF_DOCUMENT_MOST, out, error, n);
}

/* Frees a document, too: what its schema lacks is NULL in it. */
void rsk_raw_free(struct rsk_raw_conf *raw)
{
	struct complaint c = { 0 };
	cyaml_config_t to;

	cyaml_free(config(&c, &to), &conf_value, raw, 0);
}
