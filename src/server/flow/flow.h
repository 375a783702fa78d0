// SPDX-License-Identifier: Apache-2.0
//
// Requests and fairness: to which flow a request belongs, what it costs, whether it runs now, waits
// or is sent away. The order of those that wait is fair.h's; docs/design/server.md has the design.
#ifndef SERVER_FLOW_FLOW_H
#define SERVER_FLOW_FLOW_H

#include "server/flow/fair.h"
#include "server/http/server_int.h"

// flow_admit serves a request now or when it is its turn, or answers 429.
void flow_admit(struct exchange *ex, void (*serve)(struct exchange *ex));

// flow_release gives a request's seat back before it ends: what goes on for long, and costs little,
// delays no other request.
void flow_release(struct exchange *ex);

// flow_metrics adds how many run and wait.
void flow_metrics(const struct server *s, struct sbuf *out);

#endif
