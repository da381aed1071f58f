/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_lib.h - the calls of librdmacm. All files of librsock-verbs.so call it through this table,
 * because the child of a fork needs a librdmacm of its own (cm_lib.c).
 */
#ifndef RSK_VERBS_CM_LIB_H
#define RSK_VERBS_CM_LIB_H

#include <rdma/rdma_cma.h>

struct rsk_verbs_host;

/* Every function of librdmacm that the module calls, without its "rdma_". */
#define RSK_CM_CALLS(CALL)                                                                         \
	CALL(create_event_channel)                                                                 \
	CALL(destroy_event_channel)                                                                \
	CALL(get_cm_event)                                                                         \
	CALL(ack_cm_event)                                                                         \
	CALL(create_id)                                                                            \
	CALL(destroy_id)                                                                           \
	CALL(set_option)                                                                           \
	CALL(bind_addr)                                                                            \
	CALL(get_src_port)                                                                         \
	CALL(listen)                                                                               \
	CALL(resolve_addr)                                                                         \
	CALL(resolve_route)                                                                        \
	CALL(connect)                                                                              \
	CALL(accept)                                                                               \
	CALL(reject)                                                                               \
	CALL(disconnect)                                                                           \
	CALL(notify)                                                                               \
	CALL(create_qp)                                                                            \
	CALL(destroy_qp)

struct rsk_cm_lib {
#define RSK_CM_MEMBER(name) __typeof__(&rdma_##name) name;
	RSK_CM_CALLS(RSK_CM_MEMBER)
#undef RSK_CM_MEMBER
};

/*
 * Private to the process; only the progress thread reads it, and writes it, in rsk_cm_lib_open().
 * Never NULL.
 */
extern const struct rsk_cm_lib *rsk_cm;

/*
 * Progress thread, before the first call of librdmacm after the start of the process or after its
 * fork: *rsk_cm is a library that only this process has used. Returns 0; in a forked child also
 * -errno: there is none, and nothing of the module may be used.
 */
int rsk_cm_lib_open(const struct rsk_verbs_host *host);

/* In the child of a fork whose parent has used the module. Stores a flag, and does nothing else. */
void rsk_cm_lib_forked(void);

#endif
