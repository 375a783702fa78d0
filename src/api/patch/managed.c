// SPDX-License-Identifier: Apache-2.0
//
// managedFields after a write: entries are decoded, fields that changed are taken from their owners
// and given to the writer, and the entries are written again in upstream's order.
#include "api/managed.h"

#include <stdlib.h>

#include "api/custom.h"
#include "api/patch/managed_int.h"
#include "base/map.h"
#include "codec/json_writer.h"

#include "base/banned.h"

void managed_work_done(struct work *w)
{
    vec_foreach(&w->docs, doc)
        json_doc_done(*doc);
    vec_done(&w->docs);
}

int managed_parse(struct work *w, struct str text, const yyjson_val **ret)
{
    struct json_doc *doc = arena_one(w->arena, struct json_doc);
    const struct json_options options = {.max_bytes = SIZE_MAX};
    int r = json_parse(text, &options, doc, w->err);
    if (r < 0)
        return r;
    vec_push(&w->docs, doc);
    *ret = doc->root;
    return 0;
}

// --- Entries -------------------------------------------------------------------------------------

static bool same_owner(const struct owner *x, const struct owner *y)
{
    return x->applies == y->applies && str_eq(x->manager, y->manager) &&
           str_eq(x->subresource, y->subresource) &&
           (x->applies || str_eq(x->api_version, y->api_version));
}

struct owner *managed_find(struct owners *l, const struct owner *like)
{
    vec_foreach(l, o)
        if (!o->gone && same_owner(o, like))
            return o;
    return NULL;
}

bool managed_is_reset(const struct api_managed_fields_entry_array *entries)
{
    if (entries->n == 0)
        return entries->p != NULL;
    const struct api_managed_fields_entry *e = &entries->p[0];
    return entries->n == 1 && e->manager.n == 0 && e->operation.n == 0 && e->api_version.n == 0 &&
           !e->time.set && e->fields_type.n == 0 && !e->fields_v1.p && e->subresource.n == 0;
}

// Owners by what same_owner compares, as one text: an object may have as many as it has room for.
struct known MAP(size_t);

static struct str owner_text(const struct owner *o, struct arena *arena)
{
    struct str version = o->applies ? STR("") : o->api_version;
    return arena_strf(arena, "%d,%zu,%zu,%.*s%.*s%.*s", o->applies, o->manager.n, version.n,
                      STR_ARG(o->manager), STR_ARG(version), STR_ARG(o->subresource));
}

static int decode_entry(struct work *w, const struct api_managed_fields_entry *e, size_t at,
                        struct known *known)
{
    struct owner o = {.manager = e->manager,
                      .api_version = e->api_version,
                      .subresource = e->subresource,
                      .applies = str_eqz(e->operation, "Apply"),
                      .time = e->time};
    if (!o.applies && !str_eqz(e->operation, "Update"))
        return err_set(w->err, ERR_BAD_REQUEST, "operation must be `Apply` or `Update`");
    if (o.api_version.n == 0)
        return err_set(w->err, ERR_BAD_REQUEST, "apiVersion must not be empty");
    if (e->fields_type.n == 0)
        return err_set(w->err, ERR_BAD_REQUEST, "missing fieldsType in managed fields entry %zu",
                       at);
    if (!str_eqz(e->fields_type, "FieldsV1"))
        return err_set(w->err, ERR_BAD_REQUEST,
                       "invalid fieldsType \"%.*s\" in managed fields entry %zu",
                       STR_ARG(e->fields_type), at);
    cleanup_json_doc struct json_doc doc = {0};
    // A set may be longer than the request that it was made from, and is never longer than the
    // object.
    const struct json_options options = {.max_bytes = DRAY_OBJECT_STORED_BYTES_MAX};
    int r = e->fields_v1.n ? json_parse(e->fields_v1, &options, &doc, w->err) : 0;
    if (r == 0 && doc.root)
        r = field_set_read(doc.root, w->arena, &o.set, w->err);
    if (r < 0)
        return r;
    bool added;
    size_t *place = map_put_new(known, owner_text(&o, w->arena), &added);
    if (added) {
        *place = w->owners.n;
        vec_push_arena(w->arena, &w->owners, o);
    } else {
        w->owners.p[*place] = o; // of two the last one counts
    }
    return 0;
}

int managed_decode(struct work *w, const struct api_managed_fields_entry_array *entries)
{
    struct known known = {0};
    int r = 0;
    for (size_t i = 0; r == 0 && i < entries->n; i++)
        r = decode_entry(w, &entries->p[i], i, &known);
    map_done(&known);
    return r;
}

static int managed_order_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_time(const void *x, const void *y)
{
    const struct owner *a = x, *b = y;
    int c = managed_order_numbers(!a->applies, !b->applies); // Apply before Update
    if (c == 0)
        c = managed_order_numbers(a->time.set ? a->time.at.sec : 0,
                                  b->time.set ? b->time.at.sec : 0);
    if (c == 0)
        c = str_cmp(a->manager, b->manager);
    if (c == 0)
        c = str_cmp(a->api_version, b->api_version);
    return c ? c : str_cmp(a->subresource, b->subresource);
}

void managed_encode(struct work *w, struct api_managed_fields_entry_array *ret)
{
    struct owners *l = &w->owners;
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        if (!l->p[i].gone)
            l->p[n++] = l->p[i];
    l->n = n;
    *ret = (struct api_managed_fields_entry_array){0};
    if (n == 0)
        return;
    qsort(l->p, n, sizeof(l->p[0]), by_time);
    ret->p = arena_array(w->arena, struct api_managed_fields_entry, n);
    for (size_t i = 0; i < n; i++) {
        const struct owner *o = &l->p[i];
        cleanup_sbuf struct sbuf text = {0};
        field_set_write(&o->set, &text);
        ret->p[ret->n++] = (struct api_managed_fields_entry){
            .manager = o->manager,
            .operation = o->applies ? STR("Apply") : STR("Update"),
            .api_version = o->api_version,
            .time = o->time,
            .fields_type = STR("FieldsV1"),
            .fields_v1 = arena_str(w->arena, sbuf_str(&text)),
            .subresource = o->subresource};
    }
}

// Fields that no manager owns: what identifies the object and what the server maintains. Sorted.
#define MANAGED_NAME(text)                                                   \
    {                                                                        \
        .elem = {.kind = FIELD_NAME, .name = STR_INIT(text)}, .member = true \
    }
static struct field_node unmanaged_metadata[] = {
    MANAGED_NAME("clusterName"),
    MANAGED_NAME("creationTimestamp"),
    MANAGED_NAME("generation"),
    MANAGED_NAME("managedFields"),
    MANAGED_NAME("name"),
    MANAGED_NAME("namespace"),
    MANAGED_NAME("resourceVersion"),
    MANAGED_NAME("selfLink"),
    MANAGED_NAME("uid"),
};
static struct field_set unmanaged_metadata_set = {unmanaged_metadata, array_len(unmanaged_metadata),
                                                  array_len(unmanaged_metadata)};
static struct field_node unmanaged[] = {
    MANAGED_NAME("apiVersion"),
    MANAGED_NAME("kind"),
    {.elem = {.kind = FIELD_NAME, .name = STR_INIT("metadata")},
     .member = true,
     .children = &unmanaged_metadata_set},
};

struct field_set managed_strip(struct work *w, const struct field_set *s)
{
    static const struct field_set all = {unmanaged, array_len(unmanaged), array_len(unmanaged)};
    return field_set_difference(s, &all, w->arena);
}

struct field_set managed_unignored(const struct work *w, const struct field_set *s)
{
    return w->q->ignored ? field_set_recursive_difference(s, w->q->ignored, w->arena) : *s;
}

// What changed, in one version.
struct version_diff {
    struct str api_version;
    bool missing;
    struct field_diff diff;
    struct field_set changed; // modified or added
};

struct version_diffs VEC(struct version_diff);

// --- Versions ------------------------------------------------------------------------------------

const struct api_kind *managed_kind_in(const struct work *w, struct str api_version)
{
    const struct api_kind *k = w->q->kind;
    if (k->custom)
        return custom_version_of(k, api_version);
    return str_eq(api_version, k->api_version) ? k : api_kind_find(api_version, k->kind);
}

// Makes the JSON of an object in another version.
int managed_convert(struct work *w, const struct api_kind *from, const yyjson_val *v,
                    const struct api_kind *to, const yyjson_val **ret)
{
    if (from == to) {
        *ret = v;
        return 0;
    }
    struct api_object in, out;
    cleanup_sbuf struct sbuf text = {0};
    struct json_writer writer = {.out = &text};
    const struct json_doc doc = {.root = v};
    int r = api_decode_as(from, &doc, v, w->arena, NULL, &in, w->err);
    if (r == 0)
        r = api_convert(&in, to, w->arena, &out, w->err);
    if (r == 0) {
        api_set_type_meta(&out);
        r = api_json_write(to->type, out.value, &writer, w->err);
    }
    return r < 0 ? r : managed_parse(w, arena_str(w->arena, sbuf_str(&text)), ret);
}

// What changed between two objects of the request's version, seen in another one.
static int diff_in(struct work *w, struct version_diffs *known, struct str api_version,
                   const yyjson_val *before, const yyjson_val *after,
                   const struct version_diff **ret)
{
    vec_foreach(known, k) {
        if (str_eq(k->api_version, api_version)) {
            *ret = k;
            return 0;
        }
    }
    struct version_diff d = {.api_version = api_version};
    const struct api_kind *from = w->q->kind, *to = managed_kind_in(w, api_version);
    const yyjson_val *x = NULL, *y = NULL;
    d.missing = !to;
    if (to) {
        struct field_type t = managed_type(to);
        int r = managed_convert(w, from, before, to, &x);
        if (r == 0)
            r = managed_convert(w, from, after, to, &y);
        if (r == 0)
            r = field_compare(&t, x, y, w->arena, &d.diff, w->err);
        if (r < 0)
            return r;
        d.diff.removed = managed_unignored(w, &d.diff.removed);
        d.diff.modified = managed_unignored(w, &d.diff.modified);
        d.diff.added = managed_unignored(w, &d.diff.added);
        d.changed = field_set_union(&d.diff.modified, &d.diff.added, w->arena);
    }
    vec_push_arena(w->arena, known, d);
    *ret = vec_last(known);
    return 0;
}

// --- Others' fields ------------------------------------------------------------------------------

// The text by which upstream sorts managers.
static struct str managed_owner_identity(struct work *w, const struct owner *o)
{
    cleanup_sbuf struct sbuf b = {0};
    struct json_writer j = {.out = &b, .html = true};
    json_write_object_begin(&j);
    json_write_text_if(&j, "manager", o->manager);
    json_write_text(&j, "operation", o->applies ? STR("Apply") : STR("Update"));
    if (!o->applies)
        json_write_text(&j, "apiVersion", o->api_version);
    json_write_text_if(&j, "subresource", o->subresource);
    json_write_object_end(&j);
    return arena_str(w->arena, sbuf_str(&b));
}

static void note_conflict(void *arg, const struct field_path *path)
{
    struct conflict_list *l = arg;
    cleanup_sbuf struct sbuf text = {0};
    if (l->bytes > MANAGED_CONFLICT_BYTES_MAX ||
        (l->allowed && field_set_has_path(l->allowed, path)))
        return;
    field_path_write(path, &text);
    l->bytes += text.n;
    vec_push_arena(
        l->w->arena, &l->found,
        ((struct managed_conflict){l->manager, arena_str(l->w->arena, sbuf_str(&text))}));
}

static struct str managed_owner_name(struct work *w, const struct owner *o)
{
    cleanup_sbuf struct sbuf b = {0};
    sbuf_add_quoted(&b, o->manager);
    if (o->subresource.n) {
        sbuf_addz(&b, " with subresource ");
        sbuf_add_quoted(&b, o->subresource);
    }
    if (!o->applies)
        sbuf_addf(&b, " using %.*s", STR_ARG(o->api_version));
    return arena_str(w->arena, sbuf_str(&b));
}

// An owner and what it would lose.
struct hit {
    struct str identity;
    const struct owner *owner;
    struct field_set set;
};

static void note_conflicts(struct conflict_list *l, struct hit *hits, size_t n)
{
    if (n)
        qsort(hits, n, sizeof(hits[0]), str_cmp_elements);
    for (size_t i = 0; i < n; i++) {
        l->manager = managed_owner_name(l->w, hits[i].owner);
        field_set_each(&hits[i].set, note_conflict, l);
    }
}

// Takes from an owner what a write changed or removed. What it had is often little, what a write
// changes much, and owners may be many: no set is made here that is larger than what the owner had.
static int take_from(struct work *w, struct version_diffs *diffs, const yyjson_val *before,
                     const yyjson_val *after, struct owner *o)
{
    const struct version_diff *d = NULL;
    int r = diff_in(w, diffs, o->api_version, before, after, &d); // known by now
    if (r < 0)
        return r;
    struct field_set left = field_set_difference(&o->set, &d->changed, w->arena);
    o->set = field_set_difference(&left, &d->diff.removed, w->arena);
    return 0;
}

// Takes from everyone but self what a write changes, or lists it. self may be NULL. Returns 0 or
// -ERR_CONFLICT.
int managed_take_over(struct work *w, const struct owner *self, const yyjson_val *before,
                      const yyjson_val *after, bool force, struct conflict_list *conflicts,
                      struct field_set *ret_changed)
{
    struct version_diffs diffs = {0};
    const struct version_diff *d = NULL;
    int r = diff_in(w, &diffs, w->q->kind->api_version, before, after, &d);
    if (r < 0)
        return r;
    *ret_changed = d->changed;
    struct hit *hits = arena_array(w->arena, struct hit, w->owners.n + 1);
    size_t hits_len = 0;
    for (size_t i = 0; i < w->owners.n; i++) {
        struct owner *o = &w->owners.p[i];
        if (o->gone || o == self)
            continue;
        r = diff_in(w, &diffs, o->api_version, before, after, &d);
        if (r < 0)
            return r;
        if (d->missing) {
            o->gone = true;
            continue;
        }
        struct field_set hit = field_set_intersection(&o->set, &d->changed, w->arena);
        if (!field_set_empty(&hit) && !force)
            hits[hits_len++] = (struct hit){managed_owner_identity(w, o), o, hit};
    }
    note_conflicts(conflicts, hits, hits_len);
    if (conflicts->found.n)
        return err_set(w->err, ERR_CONFLICT, "Apply failed with %zu conflicts", conflicts->found.n);
    for (size_t i = 0; r == 0 && i < w->owners.n; i++) {
        struct owner *o = &w->owners.p[i];
        if (!o->gone && o != self)
            r = take_from(w, &diffs, before, after, o);
        o->gone |= field_set_empty(&o->set);
    }
    return r;
}

// --- Updates -------------------------------------------------------------------------------------

static int managed_order_by_age(const void *x, const void *y)
{
    const struct owner *a = *(struct owner *const *)x, *b = *(struct owner *const *)y;
    int c =
        managed_order_numbers(a->time.set ? a->time.at.sec : 0, b->time.set ? b->time.at.sec : 0);
    if (c == 0)
        c = str_cmp(a->manager, b->manager);
    if (c == 0)
        c = str_cmp(a->api_version, b->api_version);
    return c ? c : str_cmp(a->subresource, b->subresource);
}

// Puts the oldest updaters of a version together until there are few enough.
static void cap_updaters(struct work *w)
{
    struct VEC(struct owner *) old = {0};
    vec_foreach(&w->owners, o)
        if (!o->gone && !o->applies)
            vec_push_arena(w->arena, &old, o);
    if (old.n <= MANAGED_UPDATERS_MAX)
        return;
    qsort(old.p, old.n, sizeof(old.p[0]), managed_order_by_age);
    size_t left = old.n;
    for (size_t i = 0; i < old.n && left > MANAGED_UPDATERS_MAX; i++) {
        struct owner *o = old.p[i], *first = NULL;
        for (size_t k = 0; k < i && !first; k++)
            if (str_eq(old.p[k]->api_version, o->api_version))
                first = old.p[k];
        if (!first)
            continue;
        const struct owner bucket = {.manager = STR("ancient-changes"),
                                     .api_version = o->api_version};
        struct owner *to = managed_find(&w->owners, &bucket);
        if (!to) {
            to = first;
            to->manager = bucket.manager;
            to->subresource = bucket.subresource;
        }
        if (to == o)
            continue;
        to->set = field_set_union(&o->set, &to->set, w->arena);
        to->time = o->time;
        o->gone = true;
        left--;
    }
}

int managed_step(struct work *w, const yyjson_val *before, const yyjson_val *after,
                 struct str manager)
{
    struct field_set set;
    struct conflict_list none = {.w = w};
    int r = managed_take_over(w, NULL, before, after, true, &none, &set);
    if (r < 0)
        return r;
    set = managed_strip(w, &set);
    if (!field_set_empty(&set)) {
        struct owner self = {.manager = manager.n ? manager : STR("unknown"),
                             .api_version = w->q->kind->api_version,
                             .subresource = w->q->subresource,
                             .time = {w->q->now, true},
                             .set = set};
        struct owner *previous = managed_find(&w->owners, &self);
        if (previous) {
            previous->set = field_set_union(&set, &previous->set, w->arena);
            previous->time = self.time;
        } else {
            vec_push_arena(w->arena, &w->owners, self);
        }
    }
    cap_updaters(w);
    return 0;
}

int managed_update(const struct managed_request *q, const yyjson_val *before,
                   const yyjson_val *after, const struct api_managed_fields_entry_array *entries,
                   struct arena *a, struct api_managed_fields_entry_array *ret, struct err *err)
{
    struct work w = {.q = q, .arena = a, .err = err};
    int r = managed_decode(&w, entries);
    if (r == 0)
        r = managed_step(&w, before, after, q->manager);
    if (r == 0)
        managed_encode(&w, ret);
    managed_work_done(&w);
    return r;
}

int managed_empty(const struct api_kind *kind, struct arena *a, struct sbuf *out, struct err *err)
{
    struct api_object o = {kind, arena_alloc(a, kind->type->size, _Alignof(max_align_t))};
    struct json_writer w = {.out = out};
    memset(o.value, 0, kind->type->size);
    api_set_type_meta(&o);
    return api_json_write(kind->type, o.value, &w, err);
}

struct str managed_conflict_message(const struct managed_conflict *conflicts, size_t n,
                                    struct arena *a)
{
    cleanup_sbuf struct sbuf b = {0};
    if (n == 1)
        return arena_strf(a, "Apply failed with 1 conflict: conflict with %.*s: %.*s",
                          STR_ARG(conflicts[0].manager), STR_ARG(conflicts[0].field));
    sbuf_addf(&b, "Apply failed with %zu conflicts: ", n);
    for (size_t i = 0; i < n; i++) {
        if (i)
            sbuf_addc(&b, '\n');
        if (i == 0 || !str_eq(conflicts[i].manager, conflicts[i - 1].manager))
            sbuf_addf(&b, "conflicts with %.*s:\n", STR_ARG(conflicts[i].manager));
        sbuf_addf(&b, "- %.*s", STR_ARG(conflicts[i].field));
    }
    return arena_str(a, sbuf_str(&b));
}
