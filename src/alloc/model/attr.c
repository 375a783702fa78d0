// SPDX-License-Identifier: Apache-2.0
//
// Attribute values as constraints compare them: published ones, numbered once for the whole
// cluster, and derived ones, computed when a constraint first asks.
#include "alloc/search/solver_int.h"
#include "cel/value.h"
#include "codec/semver.h"

#include "base/banned.h"

struct interner {
    uint32_t (*intern)(void *arg, char type, struct str bytes);
    void *arg;
    struct arena *arena;
};

static uint32_t intern_int(const struct interner *in, int64_t v)
{
    return in->intern(in->arg, 'i', str_make((const char *)&v, sizeof(v)));
}

static uint32_t intern_bool(const struct interner *in, bool v)
{
    return in->intern(in->arg, 'b', v ? STR("1") : STR("0"));
}

static struct attr_value attr_make(const struct interner *in, size_t n, uint32_t **ret)
{
    *ret = arena_array(in->arena, uint32_t, n);
    return (struct attr_value){.ids = *ret, .n = (uint16_t)n, .state = ATTR_VALUE};
}

static struct attr_value of_texts(const struct interner *in, char type, const struct str *p,
                                  size_t n)
{
    uint32_t *ids;
    struct attr_value v = attr_make(in, n, &ids);
    for (size_t i = 0; i < n; i++)
        ids[i] = in->intern(in->arg, type, p[i]);
    return v;
}

static struct attr_value of_ints(const struct interner *in, const int64_t *p, size_t n)
{
    uint32_t *ids;
    struct attr_value v = attr_make(in, n, &ids);
    for (size_t i = 0; i < n; i++)
        ids[i] = intern_int(in, p[i]);
    return v;
}

static struct attr_value of_bools(const struct interner *in, const bool *p, size_t n)
{
    uint32_t *ids;
    struct attr_value v = attr_make(in, n, &ids);
    for (size_t i = 0; i < n; i++)
        ids[i] = intern_bool(in, p[i]);
    return v;
}

// With lists on, a list comes before a scalar and everything is a set.
static struct attr_value value_as_set(const struct api_device_attribute *a,
                                      const struct interner *in)
{
    if (a->int_values.n)
        return of_ints(in, a->int_values.p, a->int_values.n);
    if (a->bool_values.n)
        return of_bools(in, a->bool_values.p, a->bool_values.n);
    if (a->string_values.n)
        return of_texts(in, 's', a->string_values.p, a->string_values.n);
    if (a->version_values.n)
        return of_texts(in, 'v', a->version_values.p, a->version_values.n);
    if (a->has_int_value)
        return of_ints(in, &a->int_value, 1);
    if (a->has_bool_value)
        return of_bools(in, &a->bool_value, 1);
    if (a->has_string_value)
        return of_texts(in, 's', &a->string_value, 1);
    if (a->has_version_value)
        return of_texts(in, 'v', &a->version_value, 1);
    return (struct attr_value){.state = ATTR_MISSING};
}

struct attr_value attr_value_of(const struct api_device_attribute *a, bool lists,
                                uint32_t (*intern)(void *arg, char type, struct str bytes),
                                void *arg, struct arena *arena)
{
    struct interner in = {intern, arg, arena};
    if (lists)
        return value_as_set(a, &in);
    if (a->has_string_value)
        return of_texts(&in, 's', &a->string_value, 1);
    if (a->has_int_value)
        return of_ints(&in, &a->int_value, 1);
    if (a->has_bool_value)
        return of_bools(&in, &a->bool_value, 1);
    if (a->has_version_value)
        return of_texts(&in, 'v', &a->version_value, 1);
    return (struct attr_value){.state = ATTR_NO_VALUE};
}

// --- Columns -------------------------------------------------------------------------------------

static const struct attr_value *attr_find_published(const struct cl_device *d, struct str name)
{
    for (size_t i = 0; i < d->api->attributes.n; i++)
        if (str_eq(d->api->attributes.p[i].key, name))
            return &d->attrs[i];
    return NULL;
}

// The qualified name first; then, in the driver's own domain, the short one.
static struct attr_value attr_lookup_name(const struct cl_device *d, struct str name)
{
    struct str domain;
    struct str id;
    const struct attr_value *v = attr_find_published(d, name);
    if (!v && str_cut(name, '/', &domain, &id) && str_eq(domain, d->slice->spec.driver))
        v = attr_find_published(d, id);
    return v ? *v : (struct attr_value){.state = ATTR_MISSING};
}

// Values that no published attribute has get numbers behind the cluster's.
static uint32_t intern_local(void *arg, char type, struct str bytes)
{
    struct alloc_solver *s = arg;
    const struct alloc_cluster *c = s->view->cluster;
    sbuf_clear(&s->scratch);
    sbuf_addc(&s->scratch, type);
    sbuf_add(&s->scratch, bytes);
    const uint32_t *known = map_get(&c->values, sbuf_str(&s->scratch));
    if (known)
        return *known;
    bool is_new = false;
    struct str key = arena_str(&s->arena, sbuf_str(&s->scratch));
    uint32_t *id = map_put_new(&s->p.local_values, key, &is_new);
    if (is_new)
        *id = (uint32_t)(map_len(&c->values) + map_len(&s->p.local_values));
    return *id;
}

static struct str version_text(struct arena *a, const struct semver *v)
{
    cleanup_sbuf struct sbuf b = {0};
    semver_write(v, &b);
    return arena_str(a, sbuf_str(&b));
}

// Copies list items of one type; false when the types are mixed.
static bool list_attribute(const struct cel_list *l, struct arena *a,
                           struct api_device_attribute *ret)
{
    uint8_t kind = l->items[0].kind;
    struct str *texts = arena_array(a, struct str, l->n);
    int64_t *ints = arena_array(a, int64_t, l->n);
    bool *bools = arena_array(a, bool, l->n);
    for (uint32_t i = 0; i < l->n; i++) {
        struct cel_val v = l->items[i];
        if (v.kind != kind)
            return false;
        if (kind == CEL_INT)
            ints[i] = v.i;
        else if (kind == CEL_BOOL)
            bools[i] = v.b;
        else if (kind == CEL_STRING)
            texts[i] = arena_str(a, cel_str(v));
        else if (kind == CEL_SEMVER)
            texts[i] = version_text(a, v.semver);
        else
            return false;
    }
    if (kind == CEL_INT)
        ret->int_values = (struct api_i64_array){ints, l->n};
    else if (kind == CEL_BOOL)
        ret->bool_values = (struct api_bool_array){bools, l->n};
    else if (kind == CEL_STRING)
        ret->string_values = (struct api_str_array){texts, l->n};
    else
        ret->version_values = (struct api_str_array){texts, l->n};
    return true;
}

static bool value_attribute(const struct cel_val *v, struct arena *a,
                            struct api_device_attribute *ret)
{
    *ret = (struct api_device_attribute){0};
    if (v->kind == CEL_BOOL) {
        ret->has_bool_value = true;
        ret->bool_value = v->b;
    } else if (v->kind == CEL_INT) {
        ret->has_int_value = true;
        ret->int_value = v->i;
    } else if (v->kind == CEL_STRING) {
        ret->has_string_value = true;
        ret->string_value = arena_str(a, cel_str(*v));
    } else if (v->kind == CEL_SEMVER) {
        ret->has_version_value = true;
        ret->version_value = version_text(a, v->semver);
    } else if (v->kind == CEL_LIST) {
        return v->list->n == 0 || list_attribute(v->list, a, ret);
    } else {
        return false;
    }
    return true;
}

static bool attr_fill_column(struct alloc_solver *s, struct column *c, struct sbuf *issues,
                             struct err *err)
{
    const struct alloc_cluster *cl = s->view->cluster;
    return c->program || cel_cache_get(cl->kit.cache, cl->kit.derived_env, c->expression,
                                       &c->program, issues, err) == 0;
}

static struct attr_value attr_derive_value(struct alloc_solver *s, struct column *c,
                                           uint32_t device)
{
    struct attr_value failed = {.state = ATTR_ERROR};
    struct api_device_attribute a;
    struct cel_result r;
    cleanup_sbuf struct sbuf issues = {0};
    struct err err = {0};
    if (!attr_fill_column(s, c, &issues, &err))
        return failed;
    cel_eval_value(s->run, c->program,
                   answer_device_record(s->view->cluster, s->view->devices[device].cl), NULL, &r);
    answer_charge(s->options.meter, &r);
    if (r.failed || !value_attribute(r.value, &s->arena, &a))
        return failed;
    return attr_value_of(&a, s->view->cluster->features.list_type_attributes, intern_local, s,
                         &s->arena);
}

const struct attr_value *attr_column_value(struct alloc_solver *s, uint32_t column, uint32_t device)
{
    struct column *c = &s->p.columns[column];
    struct attr_value *v = &c->values[device];
    if (v->state == ATTR_UNKNOWN)
        *v = c->expression.p ? attr_derive_value(s, c, device)
                             : attr_lookup_name(s->view->devices[device].cl, c->name);
    return v;
}

void attr_column_error(struct alloc_solver *s, uint32_t column, uint32_t device)
{
    struct column *c = &s->p.columns[column];
    struct api_device_attribute a;
    struct cel_result r;
    cleanup_sbuf struct sbuf issues = {0};
    cleanup_sbuf struct sbuf name = {0};
    struct err err = {0};
    if (!attr_fill_column(s, c, &issues, &err)) {
        solver_fail(s, "compile derived attribute %.*s failed: %.*s", STR_ARG(c->name),
                    STR_ARG(sbuf_str(&issues)));
        return;
    }
    solver_device_name(&name, &s->view->devices[device]);
    cel_eval_value(s->run, c->program,
                   answer_device_record(s->view->cluster, s->view->devices[device].cl), NULL, &r);
    struct str why = r.failed ? r.error : STR("unsupported CEL return type");
    if (!r.failed && r.value->kind == CEL_LIST && !value_attribute(r.value, &s->arena, &a))
        why = STR("unsupported list element type");
    solver_fail(s, "evaluate derived attribute %.*s on device %.*s failed: %.*s", STR_ARG(c->name),
                STR_ARG(sbuf_str(&name)), STR_ARG(why));
}
