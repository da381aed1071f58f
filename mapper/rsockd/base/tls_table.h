/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tls_table.h - the functions of OpenSSL, and libevent's for it, which are loaded only where policy
 * agents use TLS: a daemon without it does not map these libraries. tls.c calls through the table.
 */
#ifndef RSK_TLS_TABLE_H
#define RSK_TLS_TABLE_H

#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stddef.h>

/* X(member, name in the library, return type, arguments) */
#define RSK_TLS_FUNCTIONS(X)                                                                       \
	X(error, ERR_get_error, unsigned long, (void))                                             \
	X(error_text, ERR_error_string_n, void, (unsigned long, char *, size_t))                   \
	X(method, TLS_method, const SSL_METHOD *, (void))                                          \
	X(ctx_new, SSL_CTX_new, SSL_CTX *, (const SSL_METHOD *))                                   \
	X(ctx_free, SSL_CTX_free, void, (SSL_CTX *))                                               \
	X(ctx_ctrl, SSL_CTX_ctrl, long, (SSL_CTX *, int, long, void *))                            \
	X(ctx_options, SSL_CTX_set_options, uint64_t, (SSL_CTX *, uint64_t))                       \
	X(ctx_ca, SSL_CTX_load_verify_file, int, (SSL_CTX *, const char *))                        \
	X(ctx_certificate, SSL_CTX_use_certificate_chain_file, int, (SSL_CTX *, const char *))     \
	X(ctx_key, SSL_CTX_use_PrivateKey_file, int, (SSL_CTX *, const char *, int))               \
	X(ctx_verify, SSL_CTX_set_verify, void, (SSL_CTX *, int, SSL_verify_cb))                   \
	X(ctx_hello, SSL_CTX_set_client_hello_cb, void,                                            \
	  (SSL_CTX *, SSL_client_hello_cb_fn, void *))                                             \
	X(ssl_new, SSL_new, SSL *, (SSL_CTX *))                                                    \
	X(ssl_fd, SSL_get_fd, int, (const SSL *))                                                  \
	X(ssl_free, SSL_free, void, (SSL *))                                                       \
	X(ssl_param, SSL_get0_param, X509_VERIFY_PARAM *, (SSL *))                                 \
	X(ssl_certificate, SSL_get1_peer_certificate, X509 *, (const SSL *))                       \
	X(param_ip, X509_VERIFY_PARAM_set1_ip, int,                                                \
	  (X509_VERIFY_PARAM *, const unsigned char *, size_t))                                    \
	X(x509_free, X509_free, void, (X509 *))                                                    \
	X(free, CRYPTO_free, void, (void *, const char *, int))                                    \
	X(x509_host, X509_check_host, int, (X509 *, const char *, size_t, unsigned int, char **))  \
	X(bev_new, bufferevent_openssl_socket_new, struct bufferevent *,                           \
	  (struct event_base *, evutil_socket_t, SSL *, enum bufferevent_ssl_state, int))          \
	X(bev_ssl, bufferevent_openssl_get_ssl, SSL *, (struct bufferevent *))

struct rsk_tls_table {
#define X(member, name, type, arguments) type(*member) arguments;
	RSK_TLS_FUNCTIONS(X)
#undef X
};

/* Valid after rsk_tls_load() has returned 0; immutable then. */
extern struct rsk_tls_table rsk_tls_lib;

/*
 * Loads the libraries; they stay loaded until the process ends. Returns 0 or -errno, with a line in
 * @error. Blocks: it reads files.
 */
int rsk_tls_load(char *error, size_t n);

#endif
