// SPDX-License-Identifier: Apache-2.0
//
// From a fault to a device that can be given out again, on its own and recorded as events:
//
//     fault → taint, unhealthy → drained (no claim holds it) → reset → verified → untainted,
//     healthy
//
// What only hands can repair stays tainted until the fault is taken away. State lives in memory:
// after a restart the loop begins again from the faults, which is safe because every step may be
// repeated.
#include <stdio.h>

#include "api/match/taint.h"
#include "driver/sim/hw.h"

#include "base/banned.h"

// Errors of the application, not of the GPU: recorded, but nothing is taken out of service.
static bool is_benign_xid(int64_t code)
{
    static const int64_t benign[] = {13, 31, 43, 45, 68, 109};
    for (size_t i = 0; i < array_len(benign); i++)
        if (benign[i] == code)
            return true;
    return false;
}

static struct str parent_of(const struct hw_device *d)
{
    struct str parent = hw_text(d, "parentUUID");
    return parent.n ? parent : hw_text(d, "uuid");
}

// Whether a device is the broken one or a part of the same hardware.
static bool hw_heal_is_part(const struct hw_device *broken, const struct hw_device *other)
{
    struct str uuid = parent_of(broken);
    return broken == other || (uuid.n && str_eq(uuid, parent_of(other)));
}

static void hw_heal_record_event(struct hw_driver *d, const struct heal *h, bool warning,
                                 const char *reason, const char *what)
{
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text, "device %.*s of %s: %s", STR_ARG(h->device->device->name), d->name, what);
    dray_event(d->driver, warning, reason, text.p);
    if (d->sim->o.told)
        d->sim->o.told(d->sim->o.arg, d->node ? d->node : "", d->name, text.p);
}

static void taint_key(const struct hw_driver *d, const struct heal *h, char *buf, size_t cap)
{
    bool nvidia = strcmp(d->name, "gpu.nvidia.com") == 0;
    const char *lost = nvidia ? "gpu-lost" : "lost";
    (void)snprintf(buf, cap, "%s/%s", d->name, h->kind == FAULT_LOST ? lost : "xid");
}

static void hw_heal_mark_device(struct hw_driver *d, const struct heal *h, bool broken)
{
    char key[96];
    char value[32] = "";
    char message[96];
    bool benign = h->kind == FAULT_XID && is_benign_xid(h->code);
    const char *effect = benign ? "None" : d->sim->o.evict ? TAINT_NO_EXECUTE : TAINT_NO_SCHEDULE;
    taint_key(d, h, key, sizeof(key));
    if (h->kind == FAULT_XID)
        (void)snprintf(value, sizeof(value), "%lld", (long long)h->code);
    (void)snprintf(message, sizeof(message),
                   h->kind == FAULT_XID ? "XID %s" : "the device is lost%s", value);
    vec_foreach(&d->devices, one) {
        if (!hw_heal_is_part(h->device, one) || one->shared)
            continue;
        cleanup_free char *pool = xstrndup(one->pool.p, one->pool.n);
        cleanup_free char *name = xstrndup(one->device->name.p, one->device->name.n);
        if (broken)
            dray_taint(d->driver, pool, name, key, value, effect);
        else
            dray_untaint(d->driver, pool, name, key);
        if (!benign)
            dray_health(d->driver, pool, name, broken ? DRAY_UNHEALTHY : DRAY_HEALTHY,
                        broken ? message : "");
    }
}

static bool hw_heal_is_idle(const struct hw_driver *d, const struct heal *h)
{
    size_t users = 0;
    vec_foreach(&d->devices, one) {
        if (!hw_heal_is_part(h->device, one))
            continue;
        cleanup_free char *pool = xstrndup(one->pool.p, one->pool.n);
        cleanup_free char *name = xstrndup(one->device->name.p, one->device->name.n);
        users += dray_in_use(d->driver, pool, name);
    }
    return users == 0;
}

static struct heal *heal_of(struct hw_driver *d, const struct hw_device *device)
{
    vec_foreach(&d->heals, h)
        if (h->device == device)
            return h;
    return NULL;
}

static void fall_ill(struct hw_driver *d, const struct hw_device *device, enum fault_kind kind,
                     int64_t code)
{
    const struct heal new = {.device = device,
                             .kind = kind,
                             .code = code,
                             .state = kind == FAULT_LOST ? HEAL_LOST : HEAL_DRAINING};
    char what[96];
    vec_push(&d->heals, new);
    struct heal *h = vec_last(&d->heals);
    hw_heal_mark_device(d, h, true);
    if (kind == FAULT_LOST)
        (void)snprintf(what, sizeof(what), "it does not answer; waiting for hands");
    else
        (void)snprintf(what, sizeof(what), "XID %lld; it is drained, then reset", (long long)code);
    hw_heal_record_event(d, h, true, "DeviceFailed", what);
}

static void hw_heal_recover_device(struct hw_driver *d, struct heal *h)
{
    struct err err = {0};
    if (hw_write_identity(d, h->device, &err) != 0) { // verify: it must answer again
        hw_heal_record_event(d, h, true, "DeviceResetFailed", err.msg);
        h->state = HEAL_DRAINING;
        return;
    }
    hw_heal_mark_device(d, h, false);
    hw_heal_record_event(d, h, false, "DeviceRecovered", "verified; it can be used again");
    *h = d->heals.p[--d->heals.n];
}

// One step of a device that is ill. True: h is gone.
static void hw_heal_step_device(struct hw_driver *d, struct heal *h, int64_t now)
{
    struct fault f;
    struct str name = h->device->device->name;
    switch (h->state) {
    case HEAL_LOST:
        if (!fault_file_find(&d->faults, FAULT_LOST, name, &f))
            hw_heal_recover_device(d, h);
        return;
    case HEAL_DRAINING:
        if (!fault_file_find(&d->faults, FAULT_XID, name, &f)) {
            hw_heal_recover_device(d, h); // somebody took the fault away
            return;
        }
        if (is_benign_xid(h->code) || !hw_heal_is_idle(d, h))
            return;
        h->state = HEAL_RESETTING;
        h->until_ns = now + d->sim->o.reset_ms * CLOCK_NS_PER_MS;
        hw_heal_record_event(d, h, false, "DeviceResetting", "no claim uses it; it is being reset");
        return;
    case HEAL_RESETTING:
        if (now < h->until_ns)
            return;
        fault_file_drop(&d->faults, FAULT_XID, name);
        hw_heal_recover_device(d, h);
        return;
    case HEAL_FINE:
        return;
    }
}

void hw_heal_tick(struct hw_driver *d)
{
    int64_t now = exec_now_ns(d->sim->exec);
    for (size_t i = d->heals.n; i-- > 0;)
        hw_heal_step_device(d, &d->heals.p[i], now);
    struct fault f;
    if (!fault_file_find(&d->faults, FAULT_LOST, STR(""), &f) &&
        !fault_file_find(&d->faults, FAULT_XID, STR(""), &f))
        return;
    vec_foreach(&d->devices, one) {
        if (heal_of(d, one) || one->shared)
            continue;
        if (fault_file_find(&d->faults, FAULT_LOST, one->device->name, &f))
            fall_ill(d, one, FAULT_LOST, 0);
        else if (fault_file_find(&d->faults, FAULT_XID, one->device->name, &f))
            fall_ill(d, one, FAULT_XID, f.code);
    }
}
