// SPDX-License-Identifier: Apache-2.0
//
// Relief of a server that holds too much for its peers together: the worst are cut off.
#ifndef NET_HTTP_RELIEF_H
#define NET_HTTP_RELIEF_H

#include "net/http/http_int.h"

// relief_count counts every piece of an answer. Now and then it weighs what waits for all
// peers; when that is more than answers_bytes, the connections that keep most waiting are closed
// with the next flush.
void relief_count(struct http_server *s, size_t bytes);

// relief_bodies refuses all requests whose bodies have been on their way for a while, but one:
// anybody can begin bodies, and a client that never ends them would take the room of those who do
// not.
void relief_bodies(struct http_server *s, const struct stream *but);

// relief_idlest is the connection that has had nothing answered for longest, and for longer than it
// may while others wait; NULL: there is none. Those with an answer on its way are not asked to go.
struct conn *relief_idlest(const struct http_server *s);

#endif
