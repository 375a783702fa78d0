// SPDX-License-Identifier: Apache-2.0
//
// Metrics of the DRA manager, under kubelet's names and with its buckets, so that dashboards made
// for kubelet work.
#include "node/dra/dra_meter.h"

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"

#include "base/banned.h"

// Kubelet's: fifteen from 0.1 s to 40 s, each so much longer than the one before: the fourteenth
// root of 400.
static const struct prom_buckets buckets = {.first = 0.1, .factor = 1.534127404634391, .n = 15};

void dra_meter_operation(struct dra_meter *m, bool preparing, bool failed, int64_t took_ns)
{
    prom_observe_ns(&m->operations[preparing][failed], &buckets, took_ns);
}

void dra_meter_call(struct dra_meter *m, struct str driver, struct str method,
                    enum grpc_status status, int64_t took_ns)
{
    vec_foreach(&m->calls, c)
        if (c->status == status && str_eqz(driver, c->driver) && str_eqz(method, c->method)) {
            prom_observe_ns(&c->times, &buckets, took_ns);
            return;
        }
    vec_push(&m->calls, ((struct dra_meter_call){.driver = xstrndup(driver.p, driver.n),
                                                 .method = xstrndup(method.p, method.n),
                                                 .status = status}));
    prom_observe_ns(&vec_last(&m->calls)->times, &buckets, took_ns);
}

void dra_meter_skip(struct dra_meter *m, struct str driver, bool preparing)
{
    struct dra_meter_skips *found = NULL;
    vec_foreach(&m->skips, s)
        if (str_eqz(driver, s->driver))
            found = s;
    if (!found) {
        vec_push(&m->skips, ((struct dra_meter_skips){.driver = xstrndup(driver.p, driver.n)}));
        found = vec_last(&m->skips);
    }
    *(preparing ? &found->prepare : &found->unprepare) += 1;
}

// --- Writing -------------------------------------------------------------------------------------

static void dra_meter_write_operations(const struct dra_meter *m, struct sbuf *out)
{
    static const char name[] = "dra_operations_duration_seconds";
    prom_head(
        out, name, "histogram",
        "Latency histogram in seconds for the duration of handling all ResourceClaims referenced "
        "by a pod when the pod starts or stops.");
    for (int preparing = 1; preparing >= 0; preparing--)
        for (int failed = 0; failed < 2; failed++) {
            cleanup_sbuf struct sbuf labels = {0};
            sbuf_addf(&labels, "operation_name=\"%s\",is_error=\"%s\"",
                      preparing ? "PrepareResources" : "UnprepareResources",
                      failed ? "true" : "false");
            if (m->operations[preparing][failed].n)
                prom_write_times(out, name, labels.p, &m->operations[preparing][failed], &buckets);
        }
}

// dra_meter_write_go_name is a status as Go's gRPC writes it: DeadlineExceeded.
static void dra_meter_write_go_name(struct sbuf *out, enum grpc_status status)
{
    bool first = true;
    if (status == GRPC_OK) {
        sbuf_addz(out, "OK");
        return;
    }
    for (const char *p = grpc_status_name(status); *p; p++) {
        if (*p != '_')
            sbuf_addc(out, (char)(first ? *p : *p + ('a' - 'A')));
        first = *p == '_';
    }
}

static void dra_meter_write_calls(const struct dra_meter *m, struct sbuf *out)
{
    static const char name[] = "dra_grpc_operations_duration_seconds";
    prom_head(out, name, "histogram", "Duration in seconds of the DRA gRPC operations");
    vec_foreach(&m->calls, c) {
        cleanup_sbuf struct sbuf labels = {0};
        sbuf_addf(&labels, "driver_name=\"%s\",method_name=\"%s\",grpc_status_code=\"", c->driver,
                  c->method);
        dra_meter_write_go_name(&labels, c->status);
        sbuf_addc(&labels, '"');
        prom_write_times(out, name, labels.p, &c->times, &buckets);
    }
}

static void dra_meter_write_skips(const struct dra_meter *m, struct sbuf *out)
{
    prom_head(out, "dra_node_prepare_skips_total", "counter",
              "Calls of NodePrepareResources that were not needed, by driver.");
    vec_foreach(&m->skips, s)
        sbuf_addf(out, "dra_node_prepare_skips_total{driver_name=\"%s\"} %llu\n", s->driver,
                  (unsigned long long)s->prepare);
    prom_head(out, "dra_node_unprepare_skips_total", "counter",
              "Calls of NodeUnprepareResources that were not needed, by driver.");
    vec_foreach(&m->skips, s)
        sbuf_addf(out, "dra_node_unprepare_skips_total{driver_name=\"%s\"} %llu\n", s->driver,
                  (unsigned long long)s->unprepare);
}

// Claims by driver; all of them as <any>.
static void dra_meter_write_claims(const struct node_claims *claims, struct sbuf *out)
{
    struct driver_counts MAP(size_t) counts = {0};
    prom_head(
        out, "dra_resource_claims_in_use", "gauge",
        "The number of ResourceClaims that are currently in use on the node, by driver name "
        "(driver_name label value) and across all drivers (special value <any> for driver_name). "
        "Note that the sum of all by-driver counts is not the total number of in-use "
        "ResourceClaims because the same ResourceClaim might use devices from different drivers. "
        "Instead, use the count for the <any> driver_name.");
    *map_put(&counts, STR("<any>")) = map_len(&claims->by_key);
    map_foreach(&claims->by_key, i) {
        vec_foreach(&(*map_value(&claims->by_key, i))->drivers, d)
            *map_put(&counts, d->name) += 1;
    }
    map_foreach(&counts, i)
        sbuf_addf(out, "dra_resource_claims_in_use{driver_name=\"%.*s\"} %zu\n",
                  STR_ARG(map_key(&counts, i)), *map_value(&counts, i));
    map_done(&counts);
}

void dra_meter_write(const struct dra_meter *m, const struct node_claims *claims, struct sbuf *out)
{
    dra_meter_write_operations(m, out);
    dra_meter_write_calls(m, out);
    dra_meter_write_skips(m, out);
    dra_meter_write_claims(claims, out);
}

void dra_meter_done(struct dra_meter *m)
{
    vec_foreach(&m->calls, c) {
        free(c->driver);
        free(c->method);
    }
    vec_foreach(&m->skips, s)
        free(s->driver);
    vec_done(&m->calls);
    vec_done(&m->skips);
}
