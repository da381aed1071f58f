/* SPDX-License-Identifier: BSD-2-Clause */
/* std.h - what the sources of the family std share: how a service is started. */
#ifndef APP_STD_H
#define APP_STD_H

#define ALSO_2 1u /* the connection is descriptor 2, too */
#define RING 2u	  /* the service's stream goes by the ring */

/*
 * The server side is the inetd: it starts @argv with the connection as 0 and 1, and closes its own
 * copy. The client side sends 600 words of 8 bytes, which the service is to send back.
 */
void program_case(char *const *argv, unsigned int how);

#endif
