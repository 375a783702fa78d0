// SPDX-License-Identifier: Apache-2.0
//
// The health of devices: takes in reports, expires devices that are not reported again in time, and
// keeps the result in a file across restarts.
#include "node/dra/health.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/mem.h"
#include "codec/json.h"
#include "codec/json_writer.h"
#include "codec/rfc3339.h"

#include "base/banned.h"

struct device {
    char *key; // pool/device
    struct str pool, name;
    char *message;
    enum plugin_health health;
    int64_t updated_ns; // on the wall clock: it outlives the process
    int64_t timeout_ns;
    bool reported; // in the report that is being taken in
};

struct devices MAP(struct device);

struct driver {
    char *name;
    struct devices devices;
};

struct drivers MAP(struct driver);

struct health {
    const struct clock *clock;
    struct drivers drivers;
};

struct health *health_new(const struct clock *clock)
{
    struct health *h = xcalloc(1, sizeof(*h));
    h->clock = clock;
    return h;
}

static void health_device_free(struct device *d)
{
    free(d->key);
    free(d->message);
}

static void health_driver_done(struct driver *d)
{
    map_foreach(&d->devices, i)
        health_device_free(map_value(&d->devices, i));
    map_done(&d->devices);
    free(d->name);
}

void health_free(struct health *h)
{
    if (!h)
        return;
    map_foreach(&h->drivers, i)
        health_driver_done(map_value(&h->drivers, i));
    map_done(&h->drivers);
    free(h);
}

static struct driver *health_driver_put(struct health *h, struct str name)
{
    struct driver *d = map_get(&h->drivers, name);
    if (d)
        return d;
    char *copy = xstrndup(name.p, name.n);
    d = map_put(&h->drivers, str_make(copy, name.n));
    d->name = copy;
    return d;
}

static struct device *health_device_find(const struct driver *d, struct str pool, struct str name)
{
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(pool), STR_ARG(name));
    return map_get(&d->devices, sbuf_str(&key));
}

static struct device *health_device_add(struct driver *d, struct str pool, struct str name)
{
    struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(pool), STR_ARG(name));
    struct str text = sbuf_str(&key);
    struct device *device = map_put(&d->devices, text);
    device->key = sbuf_take(&key);
    device->pool = str_upto(text, pool.n);
    device->name = str_from(text, pool.n + 1);
    device->message = xstrndup("", 0);
    return device;
}

static void health_device_del(struct driver *d, size_t i)
{
    struct device gone = *map_value(&d->devices, i);
    (void)map_del(&d->devices, map_key(&d->devices, i));
    health_device_free(&gone);
}

static bool health_is_late(const struct device *d, int64_t now_ns)
{
    return now_ns - d->updated_ns > d->timeout_ns;
}

// --- Reports -------------------------------------------------------------------------------------

// The message as it is kept: cut like kubelet does, but never within a character.
static char *health_keep_message(struct str message)
{
    if (message.n <= HEALTH_MESSAGE_MAX)
        return xstrndup(message.p, message.n);
    size_t n = HEALTH_MESSAGE_MAX - 3;
    while (n > 0 && ((unsigned char)message.p[n] & 0xc0) == 0x80)
        n--;
    struct sbuf cut = {0};
    sbuf_add(&cut, str_upto(message, n));
    sbuf_addz(&cut, "...");
    return sbuf_take(&cut);
}

static int64_t health_timeout_of(const struct plugin_device_health *r)
{
    int64_t sec = r->health_check_timeout_sec;
    if (sec <= 0)
        return HEALTH_TIMEOUT_NS;
    return sec > INT64_MAX / CLOCK_NS_PER_SEC ? INT64_MAX : sec * CLOCK_NS_PER_SEC;
}

static enum plugin_health health_parse_health(int64_t v)
{
    return v == PLUGIN_HEALTHY     ? PLUGIN_HEALTHY
           : v == PLUGIN_UNHEALTHY ? PLUGIN_UNHEALTHY
                                   : PLUGIN_HEALTH_UNKNOWN;
}

// Returns whether anything but the time changed.
static bool health_device_update(struct device *d, const struct plugin_device_health *r,
                                 int64_t now_ns, bool fresh)
{
    char *message = health_keep_message(r->message);
    enum plugin_health health = health_parse_health(r->health);
    int64_t timeout_ns = health_timeout_of(r);
    bool changed = fresh || d->health != health || d->timeout_ns != timeout_ns ||
                   strcmp(d->message, message) != 0;
    free(d->message);
    d->message = message;
    d->health = health;
    d->timeout_ns = timeout_ns;
    d->updated_ns = now_ns;
    d->reported = true;
    return changed;
}

static void health_add_change(struct arena *a, struct health_changes *out, const struct device *d)
{
    vec_push_arena(a, out, ((struct health_change){arena_str(a, d->pool), arena_str(a, d->name)}));
}

// Drops devices that were not reported for too long. Returns whether there were any.
static bool health_drop_late(struct driver *d, int64_t now_ns, struct arena *a,
                             struct health_changes *out)
{
    bool any = false;
    map_foreach(&d->devices, i) {
        struct device *device = map_value(&d->devices, i);
        if (device->reported || !health_is_late(device, now_ns))
            continue;
        if (device->health != PLUGIN_HEALTH_UNKNOWN)
            health_add_change(a, out, device);
        health_device_del(d, i);
        any = true;
    }
    return any;
}

// The API has no longer names, and a driver chooses how long its devices are kept.
static bool health_name_is_valid(const struct plugin_device_health *r)
{
    return r->device.pool_name.n <= HEALTH_NAME_MAX && r->device.device_name.n <= HEALTH_NAME_MAX;
}

size_t health_report(struct health *h, struct str driver, const struct plugin_health_response *r,
                     struct arena *arena, struct health_changes *out, bool *ret_dirty)
{
    struct driver *d = health_driver_put(h, driver);
    int64_t now_ns = clock_wall_ns(h->clock);
    size_t ignored = 0;
    size_t before = out->n;
    map_foreach(&d->devices, i)
        map_value(&d->devices, i)->reported = false;
    vec_foreach(&r->devices, report) {
        struct device *device =
            health_device_find(d, report->device.pool_name, report->device.device_name);
        bool fresh = !device;
        if (fresh &&
            (map_len(&d->devices) >= HEALTH_DEVICES_MAX || !health_name_is_valid(report))) {
            ignored++;
            continue;
        }
        if (fresh)
            device = health_device_add(d, report->device.pool_name, report->device.device_name);
        if (health_device_update(device, report, now_ns, fresh))
            health_add_change(arena, out, device);
    }
    bool dropped = health_drop_late(d, now_ns, arena, out);
    *ret_dirty = dropped || out->n > before;
    return ignored;
}

bool health_clear(struct health *h, struct str driver)
{
    struct driver *d = map_get(&h->drivers, driver);
    if (!d)
        return false;
    struct driver gone = *d;
    (void)map_del(&h->drivers, driver);
    health_driver_done(&gone);
    return true;
}

struct health_state health_of(const struct health *h, struct str driver, struct str pool,
                              struct str device)
{
    struct health_state unknown = {.health = PLUGIN_HEALTH_UNKNOWN};
    const struct driver *d = map_get(&h->drivers, driver);
    const struct device *found = d ? health_device_find(d, pool, device) : NULL;
    if (!found || health_is_late(found, clock_wall_ns(h->clock)))
        return unknown;
    return (struct health_state){found->health, str_z(found->message)};
}

struct str health_name(enum plugin_health health)
{
    return health == PLUGIN_HEALTHY     ? STR("Healthy")
           : health == PLUGIN_UNHEALTHY ? STR("Unhealthy")
                                        : STR("Unknown");
}

// --- The file ------------------------------------------------------------------------------------

static void health_write_device(struct json_writer *w, const struct device *d)
{
    cleanup_sbuf struct sbuf time = {0};
    rfc3339_write_nanos(moment_from_ns(d->updated_ns), &time);
    json_write_object_begin(w);
    json_write_text(w, "PoolName", d->pool);
    json_write_text(w, "DeviceName", d->name);
    json_write_text(w, "Health", health_name(d->health));
    json_write_text(w, "LastUpdated", sbuf_str(&time));
    json_write_key(w, STR("HealthCheckTimeout"));
    json_write_i64(w, d->timeout_ns);
    json_write_text(w, "Message", str_z(d->message));
    json_write_object_end(w);
}

void health_write(const struct health *h, struct sbuf *out)
{
    struct json_writer w = {.out = out, .html = true};
    json_write_object_begin(&w);
    map_foreach(&h->drivers, i) {
        const struct driver *d = map_value(&h->drivers, i);
        json_write_key(&w, str_z(d->name));
        json_write_object_begin(&w);
        json_write_key(&w, STR("Devices"));
        json_write_object_begin(&w);
        map_foreach(&d->devices, j) {
            json_write_key(&w, map_key(&d->devices, j));
            health_write_device(&w, map_value(&d->devices, j));
        }
        json_write_object_end(&w);
        json_write_object_end(&w);
    }
    json_write_object_end(&w);
}

static struct str health_get_text(const yyjson_val *v, struct str key)
{
    const yyjson_val *t = json_get(v, key);
    return t && json_is_string(t) ? json_str(t) : (struct str){0};
}

static void health_read_device(struct driver *d, const yyjson_val *v)
{
    struct str health = health_get_text(v, STR("Health"));
    struct moment at = {0};
    const yyjson_val *timeout = json_get(v, STR("HealthCheckTimeout"));
    int64_t timeout_ns = 0;
    if (map_len(&d->devices) >= HEALTH_DEVICES_MAX ||
        health_device_find(d, health_get_text(v, STR("PoolName")),
                           health_get_text(v, STR("DeviceName"))) ||
        rfc3339_parse(health_get_text(v, STR("LastUpdated")), &at, NULL) < 0)
        return;
    if (timeout)
        (void)!json_to_i64(timeout, &timeout_ns, NULL);
    struct device *device = health_device_add(d, health_get_text(v, STR("PoolName")),
                                              health_get_text(v, STR("DeviceName")));
    device->health = str_eqz(health, "Healthy")     ? PLUGIN_HEALTHY
                     : str_eqz(health, "Unhealthy") ? PLUGIN_UNHEALTHY
                                                    : PLUGIN_HEALTH_UNKNOWN;
    device->timeout_ns = timeout_ns > 0 ? timeout_ns : HEALTH_TIMEOUT_NS;
    free(device->message);
    device->message = health_keep_message(health_get_text(v, STR("Message")));
    // A time that nanoseconds cannot represent was not written by us.
    bool sane = at.sec > 0 && at.sec < INT64_MAX / CLOCK_NS_PER_SEC - 1;
    device->updated_ns = sane ? at.sec * CLOCK_NS_PER_SEC + at.nsec : 0;
}

int health_read(struct health *h, struct str text, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    const struct json_options rules = {.max_bytes = (size_t)64 * 1024 * 1024,
                                       .duplicates = JSON_DUPLICATES_LAST};
    int r = json_parse(text, &rules, &doc, err);
    if (r == 0)
        r = json_want_object(doc.root, err);
    if (r < 0)
        return r;
    json_obj_foreach(doc.root, key, val) {
        const yyjson_val *devices = json_get(val, STR("Devices"));
        if (!devices || !json_is_object(devices))
            continue;
        struct driver *d = health_driver_put(h, json_str(key));
        json_obj_foreach(devices, name, device) {
            (void)name;
            if (json_is_object(device))
                health_read_device(d, device);
        }
    }
    return 0;
}
