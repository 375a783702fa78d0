// SPDX-License-Identifier: Apache-2.0
//
// The registration directory: plugins put sockets there; each is queried and notified of the
// result. A socket that is removed or replaced ends its plugin's registration.
#ifndef NODE_DRA_REGISTRAR_H
#define NODE_DRA_REGISTRAR_H

#include <stdint.h>

#include "base/exec.h"
#include "driver/plugin_api.h"
#include "node/dra/transport.h"

struct registrar;

#define REGISTRAR_SOCKETS_MAX 4096
#define REGISTRAR_DEPTH_MAX   16

struct registrar_options {
    struct exec *exec;
    struct transport *transport; // borrowed
    const char *folder;          // copied; made if it is missing
    int64_t period_ns;           // between looks; 0: 1 s
    int64_t dial_ns;             // 0: 10 s
    // accept registers a plugin; its endpoint is filled in. Returns 0, or a code with the
    // answer to the plugin. leave ends the registration of one that was accepted.
    int (*accept)(void *arg, const struct plugin_info *info, struct err *err);
    void (*leave)(void *arg, struct str driver, struct str endpoint);
    // looked (may be NULL) gets, after each scan, the number of sockets not settled yet: neither
    // registered nor refused.
    void (*looked)(void *arg, size_t unsettled);
    // failed (may be NULL) gets the reason why a socket's plugin could not be registered.
    void (*failed)(void *arg, struct str path, const struct err *err);
    void *arg;
};

// registrar_new makes the folder and a registrar for it. Returns 0 or -errno.
int registrar_new(const struct registrar_options *options, struct registrar **ret,
                  struct err *err) MUST_USE;

// registrar_start looks at once, then every period.
void registrar_start(struct registrar *r);

// registrar_free forgets everything without calling leave.
void registrar_free(struct registrar *r);

#endif
