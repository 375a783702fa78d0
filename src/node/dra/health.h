// SPDX-License-Identifier: Apache-2.0
//
// The health of devices as drivers report it. Each report is the whole list of a driver; a device
// that is not reported again in time becomes unknown. Kept in kubelet's dra_health_state, which may
// be lost.
#ifndef NODE_DRA_HEALTH_H
#define NODE_DRA_HEALTH_H

#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "driver/plugin_api.h"

#define HEALTH_DEVICES_MAX 16384 // of a driver; new ones beyond it are not taken
#define HEALTH_TIMEOUT_NS  (30 * CLOCK_NS_PER_SEC)
#define HEALTH_MESSAGE_MAX 1024
#define HEALTH_NAME_MAX    253 // of a pool, of a device; those with longer names are not taken

struct health;

// A device whose health is not what it was.
struct health_change {
    struct str pool, device;
};
struct health_changes VEC(struct health_change);

struct health *health_new(const struct clock *clock); // borrowed
void health_free(struct health *h);

// health_report takes a driver's report in and adds what changed to out, texts in arena. Returns
// how many devices were too many. *ret_dirty: the file should be written.
size_t health_report(struct health *h, struct str driver, const struct plugin_health_response *r,
                     struct arena *arena, struct health_changes *out, bool *ret_dirty);

// health_clear forgets a driver. Returns whether it had devices.
bool health_clear(struct health *h, struct str driver);

struct health_state {
    enum plugin_health health; // PLUGIN_HEALTH_UNKNOWN when nothing, or nothing recent, is known
    struct str message;        // good until the next change
};

struct health_state health_of(const struct health *h, struct str driver, struct str pool,
                              struct str device);

// health_write adds the file's text; health_read takes one in, if it can be understood.
void health_write(const struct health *h, struct sbuf *out);
int health_read(struct health *h, struct str text, struct err *err) MUST_USE;

// health_name is the word for it in a pod's status: Healthy, Unhealthy, Unknown.
struct str health_name(enum plugin_health health);

#endif
