// SPDX-License-Identifier: Apache-2.0
//
// How ResourcePoolStatusRequests were answered, by driver. Anybody who may make requests chooses
// the driver's name: only so many are counted on their own.
#include <stdlib.h>

#include "ctl/device/pool_int.h"

#include "base/banned.h"

#define DRIVERS_MAX 100
#define OTHERS      "_others"

// kube-controller-manager's.
static const struct prom_buckets buckets = {.first = 0.001, .factor = 2, .n = 15};

static struct pool_meter_row *pool_meter_get_row(struct pool_meter *m, struct str driver)
{
    struct pool_meter_row *row = map_get(&m->rows, driver);
    if (!row && map_len(&m->rows) >= DRIVERS_MAX) {
        driver = STR(OTHERS);
        row = map_get(&m->rows, driver);
    }
    if (row)
        return row;
    char *name = xstrndup(driver.p, driver.n);
    row = map_put(&m->rows, str_z(name));
    row->driver = name;
    return row;
}

void pool_meter_answered(struct pool_meter *m, struct str driver, bool well, int64_t took_ns)
{
    struct pool_meter_row *row = pool_meter_get_row(m, driver);
    row->processed++;
    row->errors += !well;
    prom_observe_ns(&row->took, &buckets, took_ns);
}

void pool_meter_write(const struct pool_meter *m, struct sbuf *out)
{
#define PREFIX "resourcepoolstatusrequest_controller_request"
    static const char processed[] = PREFIX "s_processed_total";
    static const char errors[] = PREFIX "_processing_errors_total";
    static const char took[] = PREFIX "_processing_duration_seconds";
    prom_head(out, processed, "counter", "Total number of ResourcePoolStatusRequests processed");
    map_foreach(&m->rows, i) {
        const struct pool_meter_row *r = map_value(&m->rows, i);
        sbuf_addf(out, "%s{driver_name=\"%s\"} %llu\n", processed, r->driver,
                  (unsigned long long)r->processed);
    }
    prom_head(out, errors, "counter",
              "Total number of errors encountered while processing ResourcePoolStatusRequests");
    map_foreach(&m->rows, i) {
        const struct pool_meter_row *r = map_value(&m->rows, i);
        sbuf_addf(out, "%s{driver_name=\"%s\"} %llu\n", errors, r->driver,
                  (unsigned long long)r->errors);
    }
    prom_head(out, took, "histogram", "Time taken to process a ResourcePoolStatusRequest");
    map_foreach(&m->rows, i) {
        const struct pool_meter_row *r = map_value(&m->rows, i);
        cleanup_sbuf struct sbuf labels = {0};
        sbuf_addf(&labels, "driver_name=\"%s\"", r->driver);
        prom_write_times(out, took, labels.p, &r->took, &buckets);
    }
#undef PREFIX
}

void pool_meter_done(struct pool_meter *m)
{
    map_foreach(&m->rows, i)
        free(map_value(&m->rows, i)->driver);
    map_done(&m->rows);
}
