// SPDX-License-Identifier: Apache-2.0
//
// Pools as a driver describes them, turned into ResourceSlices within the limits of the API:
// counter sets and devices are spread over as many slices as needed.
#include "driver/sdk/pool.h"

#include <stdlib.h>

#include "base/err_public.h"
#include "codec/json_writer.h"

#include "base/banned.h"

// Bounds of resource.k8s.io/v1.
enum {
    SLICE_DEVICES_MAX = 128,
    SLICE_DEVICES_MAX_RICH = 64, // when any has taints or consumes counters
    SLICE_COUNTER_SETS_MAX = 8,
};

struct amount {
    struct str name, quantity;
};
struct amounts VEC(struct amount);

struct counter_set {
    struct str name;
    struct amounts counters;
};
struct counter_sets VEC(struct counter_set);

// JSON members are kept as text and read as a whole by dray_publish, which reports mistakes.
struct dray_device {
    struct dray_pool *pool;
    struct str name;
    struct sbuf attributes, capacity, extra;
    struct counter_sets consumes;
    struct VEC(struct str) conditions, failures;
    bool shareable;
};

struct dray_pool {
    struct arena arena;
    char *name;
    struct VEC(struct dray_device *) devices;
    struct counter_sets counters;
    struct str selector;
    bool all_nodes;
    bool has_slices;
    struct pool_specs slices; // when it was made of specs
};

struct dray_pool *dray_pool_new(const char *name)
{
    struct dray_pool *p = xcalloc(1, sizeof(*p));
    p->name = name ? xstrndup(name, strlen(name)) : NULL;
    return p;
}

void dray_pool_free(struct dray_pool *p)
{
    if (!p)
        return;
    vec_foreach(&p->devices, d) {
        sbuf_done(&(*d)->attributes);
        sbuf_done(&(*d)->capacity);
        sbuf_done(&(*d)->extra);
    }
    arena_done(&p->arena);
    free(p->name);
    free(p);
}

const char *pool_name(const struct dray_pool *p)
{
    return p->name;
}

bool pool_is_shared(const struct dray_pool *p)
{
    if (p->all_nodes || p->selector.n)
        return true;
    vec_foreach(&p->slices, s)
        if (s->has_all_nodes || s->node_selector || s->has_per_device_node_selection)
            return true;
    return false;
}

void dray_pool_for_all_nodes(struct dray_pool *p)
{
    p->all_nodes = true;
}

void dray_pool_for_nodes(struct dray_pool *p, const char *node_selector)
{
    p->selector = arena_str(&p->arena, str_z(node_selector));
}

static void add_counter(struct arena *a, struct counter_sets *sets, const char *set,
                        const char *counter, const char *quantity)
{
    struct counter_set *to = NULL;
    vec_foreach(sets, s)
        if (str_eqz(s->name, set))
            to = s;
    if (!to) {
        vec_push_arena(a, sets, ((struct counter_set){.name = arena_str(a, str_z(set))}));
        to = vec_last(sets);
    }
    vec_push_arena(a, &to->counters,
                   ((struct amount){arena_str(a, str_z(counter)), arena_str(a, str_z(quantity))}));
}

void dray_pool_counter(struct dray_pool *p, const char *set, const char *counter,
                       const char *quantity)
{
    add_counter(&p->arena, &p->counters, set, counter, quantity);
}

struct dray_device *dray_pool_device(struct dray_pool *p, const char *name)
{
    struct dray_device *d = arena_one(&p->arena, struct dray_device);
    d->pool = p;
    d->name = arena_str(&p->arena, str_z(name));
    vec_push_arena(&p->arena, &p->devices, d);
    return d;
}

// --- Members of devices --------------------------------------------------------------------------

static void begin_member(struct sbuf *out, const char *name)
{
    if (out->n)
        sbuf_addc(out, ',');
    sbuf_add_json_str(out, str_z(name), false);
    sbuf_addc(out, ':');
}

static void text_member(struct sbuf *out, const char *name, const char *type, const char *value)
{
    begin_member(out, name);
    sbuf_addf(out, "{\"%s\":", type);
    sbuf_add_json_str(out, str_z(value), false);
    sbuf_addc(out, '}');
}

void dray_attribute_text(struct dray_device *d, const char *name, const char *value)
{
    text_member(&d->attributes, name, "string", value);
}

void dray_attribute_version(struct dray_device *d, const char *name, const char *value)
{
    text_member(&d->attributes, name, "version", value);
}

void dray_attribute_int(struct dray_device *d, const char *name, int64_t value)
{
    begin_member(&d->attributes, name);
    sbuf_addf(&d->attributes, "{\"int\":%lld}", (long long)value);
}

void dray_attribute_bool(struct dray_device *d, const char *name, bool value)
{
    begin_member(&d->attributes, name);
    sbuf_addf(&d->attributes, "{\"bool\":%s}", value ? "true" : "false");
}

void dray_capacity(struct dray_device *d, const char *name, const char *quantity)
{
    text_member(&d->capacity, name, "value", quantity);
}

static void range_member(struct json_writer *w, const char *name, const char *value)
{
    if (!value)
        return;
    json_write_key(w, str_z(name));
    json_write_str(w, str_z(value));
}

void dray_capacity_range(struct dray_device *d, const char *name, const char *quantity,
                         const struct dray_range *range)
{
    begin_member(&d->capacity, name);
    struct json_writer w = {.out = &d->capacity};
    json_write_object_begin(&w);
    range_member(&w, "value", quantity);
    json_write_key(&w, STR("requestPolicy"));
    json_write_object_begin(&w);
    range_member(&w, "default", range->default_value);
    if (range->min || range->max || range->step) {
        json_write_key(&w, STR("validRange"));
        json_write_object_begin(&w);
        range_member(&w, "min", range->min);
        range_member(&w, "max", range->max);
        range_member(&w, "step", range->step);
        json_write_object_end(&w);
    }
    json_write_object_end(&w);
    json_write_object_end(&w);
}

void dray_consumes(struct dray_device *d, const char *set, const char *counter,
                   const char *quantity)
{
    add_counter(&d->pool->arena, &d->consumes, set, counter, quantity);
}

void dray_shareable(struct dray_device *d)
{
    d->shareable = true;
}

void dray_binding(struct dray_device *d, const char *condition, const char *failure)
{
    struct arena *a = &d->pool->arena;
    if (condition)
        vec_push_arena(a, &d->conditions, arena_str(a, str_z(condition)));
    if (failure)
        vec_push_arena(a, &d->failures, arena_str(a, str_z(failure)));
}

void dray_device_json(struct dray_device *d, const char *fields)
{
    sbuf_clear(&d->extra);
    sbuf_addz(&d->extra, fields);
}

// --- As JSON, then typed -------------------------------------------------------------------------

static void write_counters(struct json_writer *w, const struct amounts *counters)
{
    json_write_key(w, STR("counters"));
    json_write_object_begin(w);
    vec_foreach(counters, c) {
        json_write_key(w, c->name);
        json_write_object_begin(w);
        json_write_key(w, STR("value"));
        json_write_str(w, c->quantity);
        json_write_object_end(w);
    }
    json_write_object_end(w);
}

static void write_sets(struct json_writer *w, struct str key, struct str name_key,
                       const struct counter_sets *sets)
{
    if (sets->n == 0)
        return;
    json_write_key(w, key);
    json_write_array_begin(w);
    vec_foreach(sets, s) {
        json_write_object_begin(w);
        json_write_key(w, name_key);
        json_write_str(w, s->name);
        write_counters(w, &s->counters);
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

static void pool_spec_write_texts(struct json_writer *w, struct str key, const struct str *texts,
                                  size_t n)
{
    if (n == 0)
        return;
    json_write_key(w, key);
    json_write_array_begin(w);
    for (size_t i = 0; i < n; i++)
        json_write_str(w, texts[i]);
    json_write_array_end(w);
}

static void write_members(struct json_writer *w, struct str key, const struct sbuf *members)
{
    if (members->n == 0)
        return;
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text, "{%s}", members->p);
    json_write_key(w, key);
    json_write_raw(w, sbuf_str(&text));
}

// Members of a JSON object that the driver wrote itself.
static int write_extra(struct json_writer *w, const struct dray_device *d, struct err *err)
{
    if (d->extra.n == 0)
        return 0;
    cleanup_json_doc struct json_doc doc = {0};
    int r = json_parse(sbuf_str(&d->extra), NULL, &doc, err);
    if (r == 0)
        r = json_want_object(doc.root, err);
    if (r != 0)
        return r;
    json_obj_foreach(doc.root, key, value) {
        json_write_key(w, json_str(key));
        json_write_value(w, value);
    }
    return 0;
}

static int pool_spec_write_device(struct json_writer *w, const struct dray_device *d,
                                  struct err *err)
{
    json_write_object_begin(w);
    json_write_key(w, STR("name"));
    json_write_str(w, d->name);
    write_members(w, STR("attributes"), &d->attributes);
    write_members(w, STR("capacity"), &d->capacity);
    write_sets(w, STR("consumesCounters"), STR("counterSet"), &d->consumes);
    pool_spec_write_texts(w, STR("bindingConditions"), d->conditions.p, d->conditions.n);
    pool_spec_write_texts(w, STR("bindingFailureConditions"), d->failures.p, d->failures.n);
    if (d->shareable) {
        json_write_key(w, STR("allowMultipleAllocations"));
        json_write_bool(w, true);
    }
    int r = write_extra(w, d, err);
    json_write_object_end(w);
    return r;
}

static void write_nodes(struct json_writer *w, const struct dray_pool *p)
{
    if (p->all_nodes) {
        json_write_key(w, STR("allNodes"));
        json_write_bool(w, true);
    }
    if (p->selector.n) {
        json_write_key(w, STR("nodeSelector"));
        json_write_raw(w, p->selector);
    }
}

static int write_pool(struct json_writer *w, const struct dray_pool *p, struct err *err)
{
    int r = 0;
    json_write_array_begin(w);
    if (p->counters.n) {
        json_write_object_begin(w);
        write_nodes(w, p);
        write_sets(w, STR("sharedCounters"), STR("name"), &p->counters);
        json_write_object_end(w);
    }
    json_write_object_begin(w);
    write_nodes(w, p);
    json_write_key(w, STR("devices"));
    json_write_array_begin(w);
    for (size_t i = 0; i < p->devices.n && r == 0; i++) {
        r = pool_spec_write_device(w, p->devices.p[i], err);
        if (r != 0)
            err_path_field(err, p->devices.p[i]->name.p, p->devices.p[i]->name.n);
    }
    json_write_array_end(w);
    json_write_object_end(w);
    json_write_array_end(w);
    return r;
}

static int read_specs(struct str json, struct arena *arena, struct pool_specs *ret, struct err *err)
{
    const struct json_options options = {.max_bytes = DRAY_OBJECT_BYTES_MAX};
    cleanup_json_doc struct json_doc doc = {0};
    int r = json_parse(json, &options, &doc, err);
    if (r == 0)
        r = json_want_array(doc.root, err);
    if (r != 0)
        return r;
    size_t n = 0;
    cleanup_json_strict struct json_strict strict = {0};
    json_arr_foreach(doc.root, item) {
        struct api_resource_slice_spec spec = {0};
        r = api_json_read(&api_resource_slice_spec_type, &doc, item, &spec, arena, &strict, err);
        if (r == 0 && strict.reports.n)
            r = err_set(err, ERR_INVALID, "%.*s", STR_ARG(strict.reports.p[0]));
        if (r != 0) {
            err_path_index(err, n);
            return r;
        }
        vec_push_arena(arena, ret, spec);
        n++;
    }
    return 0;
}

static void copy_specs(const struct pool_specs *from, struct arena *arena, struct pool_specs *ret)
{
    vec_foreach(from, s) {
        struct api_resource_slice_spec copy = {0};
        api_copy(&api_resource_slice_spec_type, s, &copy, arena);
        vec_push_arena(arena, ret, copy);
    }
}

int pool_make(const struct dray_pool *p, struct arena *arena, struct pool_specs *ret,
              struct err *err)
{
    *ret = (struct pool_specs){0};
    if (p->has_slices) {
        copy_specs(&p->slices, arena, ret);
        return 0;
    }
    cleanup_sbuf struct sbuf json = {0};
    struct json_writer w = {.out = &json};
    int r = write_pool(&w, p, err);
    return r == 0 ? read_specs(sbuf_str(&json), arena, ret, err) : r;
}

struct dray_pool *pool_from_specs(const char *name,
                                  const struct api_resource_slice_spec *const *specs, size_t n)
{
    struct dray_pool *p = dray_pool_new(name);
    p->has_slices = true;
    for (size_t i = 0; i < n; i++) {
        struct api_resource_slice_spec copy = {0};
        api_copy(&api_resource_slice_spec_type, specs[i], &copy, &p->arena);
        vec_push_arena(&p->arena, &p->slices, copy);
    }
    return p;
}

int dray_pool_json(const char *name, const char *slices, struct dray_pool **ret,
                   struct dray_error *err)
{
    struct dray_pool *p = dray_pool_new(name);
    struct err why = {0};
    p->has_slices = true;
    if (read_specs(str_z(slices), &p->arena, &p->slices, &why) != 0) {
        dray_pool_free(p);
        return err_to_public(err, &why);
    }
    *ret = p;
    return 0;
}

// --- Taints --------------------------------------------------------------------------------------

static void taint_one(struct api_device *d, const struct pool_taint *t, struct arena *arena)
{
    const struct api_device_taint taint = {.key = t->key, .value = t->value, .effect = t->effect};
    for (size_t i = 0; i < d->taints.n; i++) {
        if (str_eq(d->taints.p[i].key, t->key)) {
            d->taints.p[i] = taint;
            return;
        }
    }
    struct api_device_taint *all = arena_array(arena, struct api_device_taint, d->taints.n + 1);
    if (d->taints.n)
        memcpy(all, d->taints.p, d->taints.n * sizeof(*all));
    all[d->taints.n] = taint;
    d->taints.p = all;
    d->taints.n++;
}

void pool_taint_all(struct pool_specs *specs, const struct pool_taints *taints, struct arena *arena)
{
    if (taints->n == 0)
        return;
    vec_foreach(specs, s) {
        for (size_t i = 0; i < s->devices.n; i++) {
            vec_foreach(taints, t)
                if (str_eq(t->device, s->devices.p[i].name))
                    taint_one(&s->devices.p[i], t, arena);
        }
    }
}

// --- Sizes ---------------------------------------------------------------------------------------

static size_t pool_spec_devices_max(const struct api_resource_slice_spec *s)
{
    for (size_t i = 0; i < s->devices.n; i++)
        if (s->devices.p[i].taints.n || s->devices.p[i].consumes_counters.n)
            return SLICE_DEVICES_MAX_RICH;
    return SLICE_DEVICES_MAX;
}

void pool_split(struct pool_specs *specs, struct arena *arena)
{
    struct pool_specs out = {0};
    vec_foreach(specs, s) {
        size_t max = pool_spec_devices_max(s);
        size_t device = 0;
        size_t set = 0;
        do {
            struct api_resource_slice_spec part = *s;
            size_t sets = s->shared_counters.n - set;
            size_t devices = s->devices.n - device;
            part.shared_counters.n = sets < SLICE_COUNTER_SETS_MAX ? sets : SLICE_COUNTER_SETS_MAX;
            part.devices.n = devices < max ? devices : max;
            part.shared_counters.p = part.shared_counters.n ? s->shared_counters.p + set : NULL;
            part.devices.p = part.devices.n ? s->devices.p + device : NULL;
            set += part.shared_counters.n;
            device += part.devices.n;
            vec_push_arena(arena, &out, part);
        } while (device < s->devices.n || set < s->shared_counters.n);
    }
    *specs = out;
}

static const struct api_counter_set *pool_spec_find_set(const struct pool_specs *specs,
                                                        struct str name)
{
    vec_foreach(specs, s)
        for (size_t i = 0; i < s->shared_counters.n; i++)
            if (str_eq(s->shared_counters.p[i].name, name))
                return &s->shared_counters.p[i];
    return NULL;
}

struct set_list VEC(struct api_counter_set);

static void take_set(const struct pool_specs *specs, struct str name, struct set_list *to,
                     struct arena *arena)
{
    vec_foreach(to, have)
        if (str_eq(have->name, name))
            return;
    const struct api_counter_set *set = pool_spec_find_set(specs, name);
    if (set)
        vec_push_arena(arena, to, *set);
}

void pool_combine(struct pool_specs *specs, struct arena *arena)
{
    struct pool_specs out = {0};
    vec_foreach(specs, s) {
        if (s->devices.n == 0 && s->shared_counters.n)
            continue;
        struct api_resource_slice_spec whole = *s;
        struct set_list sets = {0};
        for (size_t i = 0; i < s->devices.n; i++)
            for (size_t k = 0; k < s->devices.p[i].consumes_counters.n; k++)
                take_set(specs, s->devices.p[i].consumes_counters.p[k].counter_set, &sets, arena);
        whole.shared_counters = (struct api_counter_set_array){sets.p, sets.n};
        vec_push_arena(arena, &out, whole);
    }
    *specs = out;
}
