// SPDX-License-Identifier: Apache-2.0
//
// How a process is, over HTTP: /healthz and /livez, /readyz, /metrics; nothing that could be
// changed.
#ifndef CMD_RUN_COMPONENT_HTTP_H
#define CMD_RUN_COMPONENT_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "net/loop.h"

struct component_http;

struct component_http_options {
    struct loop *loop;
    const char *listen; // HOST:PORT
    // ready returns whether it is ready, else why not. Any answer means alive.
    bool (*ready)(void *arg, struct sbuf *why);
    void (*metrics)(void *arg, struct sbuf *out); // Prometheus' text; the process' own is added
    void *arg;
};

// component_http_new listens. Returns 0, with the port, or a negative code with what to do.
int component_http_new(const struct component_http_options *options, struct component_http **ret,
                       uint16_t *ret_port, struct err *err) MUST_USE;

void component_http_free(struct component_http *h);

#endif
