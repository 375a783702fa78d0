// SPDX-License-Identifier: Apache-2.0
//
// What the agent's part of DRA counts, under the names that kubelet gives it: operations and calls
// of drivers with their durations, calls that were not needed, claims in use
// (docs/reference/metrics.md).
#ifndef NODE_DRA_DRA_METER_H
#define NODE_DRA_DRA_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "base/vec.h"
#include "codec/prom.h"
#include "net/grpc.h"
#include "node/dra/claims.h"

struct dra_meter_call {
    char *driver, *method;
    enum grpc_status status;
    struct prom_times times;
};

struct dra_meter_skips {
    char *driver;
    uint64_t prepare, unprepare;
};

struct dra_meter {
    struct prom_times operations[2][2]; // preparing; failed
    struct VEC(struct dra_meter_call) calls;
    struct VEC(struct dra_meter_skips) skips;
};

void dra_meter_operation(struct dra_meter *m, bool preparing, bool failed, int64_t took_ns);
// dra_meter_call counts a call; method is the full one of gRPC.
void dra_meter_call(struct dra_meter *m, struct str driver, struct str method,
                    enum grpc_status status, int64_t took_ns);
void dra_meter_skip(struct dra_meter *m, struct str driver, bool preparing);

// dra_meter_write adds it all in Prometheus' text form.
void dra_meter_write(const struct dra_meter *m, const struct node_claims *claims, struct sbuf *out);
void dra_meter_done(struct dra_meter *m);

#endif
