/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * export.h - declares the hooks of one family and exports each under libc's names.
 *
 * A hook_<family>.c defines RSK_EXPORT_<family> as 1 and includes this file once. A row without its
 * hook does not compile (an alias needs its target), and a hook without a row is reported as
 * unused, so the table cannot become outdated. Inside the library the hook is rsk_hook_<name>, so
 * that no code calls libc's name by accident.
 */
#include "real.h"

#define RSK_PICK(what, on) RSK_PICK_(what, on)
#define RSK_PICK_(what, on) what##_##on

#define RSK_HOOK_0(ret, name, params, attr)
#define RSK_HOOK_1(ret, name, params, attr)                                                        \
	attr ret rsk_hook_##name params;                                                           \
	extern attr ret name params                                                                \
		__attribute__((alias("rsk_hook_" #name), visibility("default")));
#define RSK_SECOND_0(alias_name, name)
#define RSK_SECOND_1(alias_name, name)                                                             \
	extern __typeof__(rsk_hook_##name) alias_name                                              \
		__attribute__((alias("rsk_hook_" #name), visibility("default")));

#ifndef RSK_EXPORT_io
#define RSK_EXPORT_io 0
#endif
#ifndef RSK_EXPORT_msg
#define RSK_EXPORT_msg 0
#endif
#ifndef RSK_EXPORT_sock
#define RSK_EXPORT_sock 0
#endif
#ifndef RSK_EXPORT_wait
#define RSK_EXPORT_wait 0
#endif
#ifndef RSK_EXPORT_epoll
#define RSK_EXPORT_epoll 0
#endif
#ifndef RSK_EXPORT_fd
#define RSK_EXPORT_fd 0
#endif
#ifndef RSK_EXPORT_ioctl
#define RSK_EXPORT_ioctl 0
#endif
#ifndef RSK_EXPORT_copy
#define RSK_EXPORT_copy 0
#endif
#ifndef RSK_EXPORT_open
#define RSK_EXPORT_open 0
#endif
#ifndef RSK_EXPORT_syscall
#define RSK_EXPORT_syscall 0
#endif
#ifndef RSK_EXPORT_splice
#define RSK_EXPORT_splice 0
#endif
#ifndef RSK_EXPORT_stdio
#define RSK_EXPORT_stdio 0
#endif
#ifndef RSK_EXPORT_proc
#define RSK_EXPORT_proc 0
#endif
#ifndef RSK_EXPORT_exec
#define RSK_EXPORT_exec 0
#endif
#ifndef RSK_EXPORT_signal
#define RSK_EXPORT_signal 0
#endif
#ifndef RSK_EXPORT_misc
#define RSK_EXPORT_misc 0
#endif
#ifndef RSK_EXPORT_pass
#define RSK_EXPORT_pass 0
#endif
#define RSK_EXPORT_vfork 0 /* vfork.S */

#define RSK_SYM(ret, name, params, args, family, raw, note)                                        \
	RSK_PICK(RSK_HOOK, RSK_EXPORT_##family)(ret, name, params, )
#define RSK_EXIT(name, params, args, family, raw, note)                                            \
	RSK_PICK(RSK_HOOK, RSK_EXPORT_##family)(void, name, params, __attribute__((noreturn)))
#define RSK_ALIAS(alias_name, name, family, note)                                                  \
	RSK_PICK(RSK_SECOND, RSK_EXPORT_##family)(alias_name, name)
#include "symbols.def"
