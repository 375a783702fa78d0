// SPDX-License-Identifier: Apache-2.0
//
// Server-side apply: merge, take out what is no longer stated, take over or conflict.
#include <stdlib.h>

#include "api/patch/managed_int.h"
#include "codec/json_writer.h"

#include "base/banned.h"

// An object in some version, with its paths.
struct seen {
    const struct api_kind *kind;
    const yyjson_val *value;
};

static struct field_set named_set_of(struct work *w, const struct seen *s)
{
    struct field_type t = managed_type(s->kind);
    struct field_set set = field_set_of(&t, s->value, w->arena);
    return field_set_name_members(&t, &set, w->arena);
}

static int remove_from(struct work *w, const struct seen *s, const struct field_set *items,
                       struct seen *ret)
{
    cleanup_sbuf struct sbuf text = {0};
    struct field_type t = managed_type(s->kind);
    field_remove(&t, s->value, items, w->arena, &text);
    *ret = (struct seen){.kind = s->kind};
    return managed_parse(w, arena_str(w->arena, sbuf_str(&text)), &ret->value);
}

static int see_in(struct work *w, const struct seen *s, const struct api_kind *kind,
                  struct seen *ret)
{
    struct seen out = {.kind = kind};
    int r = managed_convert(w, s->kind, s->value, kind, &out.value);
    if (r == 0)
        *ret = out;
    return r;
}

// What n owners have together. Halves are joined, so that each set is copied log n times at most.
static struct field_set union_of(const struct field_set *const *sets, size_t n, struct arena *a)
{
    if (n < 2)
        return n ? *sets[0] : (struct field_set){0};
    struct field_set x = union_of(sets, n / 2, a), y = union_of(sets + n / 2, n - n / 2, a);
    return field_set_union(&x, &y, a);
}

// Puts back what was taken out though somebody owns it, in one version.
static int add_back_owned(struct work *w, struct seen *merged, struct seen *pruned,
                          struct str api_version)
{
    const struct api_kind *kind = managed_kind_in(w, api_version);
    struct VEC(const struct field_set *) sets = {0};
    if (!kind)
        return 0;
    vec_foreach(&w->owners, o)
        if (!o->gone && str_eq(o->api_version, api_version))
            vec_push_arena(w->arena, &sets, &o->set);
    struct field_set owned = union_of(sets.p, sets.n, w->arena);
    int r = see_in(w, merged, kind, merged);
    if (r == 0)
        r = see_in(w, pruned, kind, pruned);
    if (r < 0)
        return r;
    struct field_type t = managed_type(kind);
    struct field_set all = named_set_of(w, merged), left = named_set_of(w, pruned);
    owned = field_set_name_members(&t, &owned, w->arena);
    struct field_set keep = field_set_union(&left, &owned, w->arena);
    struct field_set drop = field_set_difference(&all, &keep, w->arena);
    return remove_from(w, merged, &drop, pruned);
}

static int add_back_all_owned(struct work *w, struct seen merged, struct seen *pruned)
{
    struct str first = pruned->kind->api_version;
    struct VEC(struct str) seen = {0};
    int r = add_back_owned(w, &merged, pruned, first);
    vec_push_arena(w->arena, &seen, first);
    for (size_t i = 0; i < w->owners.n && r == 0; i++) {
        struct str version = w->owners.p[i].api_version;
        bool known = w->owners.p[i].gone;
        for (size_t k = 0; k < seen.n && !known; k++)
            known = str_eq(seen.p[k], version);
        if (known)
            continue;
        vec_push_arena(w->arena, &seen, version);
        r = add_back_owned(w, &merged, pruned, version);
    }
    return r;
}

// Takes out what self applied last time and now does not, unless somebody else owns it.
static int managed_apply_prune(struct work *w, const struct owner *last, struct seen *object)
{
    const struct api_kind *kind = managed_kind_in(w, last->api_version);
    struct seen merged = {0}, pruned = {0}, back = {0};
    if (!kind || field_set_empty(&last->set))
        return 0;
    struct field_type t = managed_type(kind);
    struct field_set items = field_set_name_members(&t, &last->set, w->arena);
    int r = see_in(w, object, kind, &merged);
    if (r == 0)
        r = remove_from(w, &merged, &items, &pruned);
    if (r == 0)
        r = add_back_all_owned(w, merged, &pruned);
    // Only what self applied may go.
    if (r == 0)
        r = see_in(w, &pruned, kind, &back);
    if (r != 0)
        return r;
    struct field_set all = named_set_of(w, &merged), left = named_set_of(w, &back);
    struct field_set drop = field_set_difference(&all, &left, w->arena);
    drop = field_set_intersection(&drop, &items, w->arena);
    r = remove_from(w, &merged, &drop, &pruned);
    return r < 0 ? r : see_in(w, &pruned, w->q->kind, object);
}

static int managed_apply_merge(struct work *w, const yyjson_val *live, const yyjson_val *config,
                               struct seen *ret)
{
    cleanup_sbuf struct sbuf text = {0};
    struct field_type t = managed_type(w->q->kind);
    int r = field_merge(&t, live, config, w->arena, &text, w->err);
    *ret = (struct seen){.kind = w->q->kind};
    return r < 0 ? r : managed_parse(w, arena_str(w->arena, sbuf_str(&text)), &ret->value);
}

// The object without managers before: everything it has belongs to the manager
// "before-first-apply".
static int managed_apply_begin(struct work *w, const yyjson_val *live)
{
    cleanup_sbuf struct sbuf text = {0};
    const yyjson_val *empty = NULL;
    if (w->owners.n)
        return 0;
    int r = managed_empty(w->q->kind, w->arena, &text, w->err);
    if (r == 0)
        r = managed_parse(w, arena_str(w->arena, sbuf_str(&text)), &empty);
    return r < 0 ? r : managed_step(w, empty, live, STR("before-first-apply"));
}

// As upstream names the object in a refusal.
static int managed_apply_check_config(struct work *w, const yyjson_val *config)
{
    const struct api_kind *kind = w->q->kind;
    struct field_type t = managed_type(kind);
    int r = field_check(&t, config, w->arena, w->err);
    if (r == 0)
        return 0;
    const yyjson_val *meta = json_get(config, STR("metadata"));
    const yyjson_val *name = meta ? json_get(meta, STR("name")) : NULL;
    const yyjson_val *space = meta ? json_get(meta, STR("namespace")) : NULL;
    return err_wrap(w->err, "failed to create typed patch object (%.*s/%.*s; %.*s/%.*s, Kind=%.*s)",
                    STR_ARG(space && json_is_string(space) ? json_str(space) : STR("")),
                    STR_ARG(name && json_is_string(name) ? json_str(name) : STR("")),
                    STR_ARG(kind->group), STR_ARG(kind->version), STR_ARG(kind->kind));
}

static int managed_apply_config(struct work *w, const yyjson_val *live, const yyjson_val *config,
                                struct managed_applied *ret)
{
    const struct managed_request *q = w->q;
    struct field_type t = managed_type(q->kind);
    struct seen object = {0};
    struct owner self = {.manager = q->manager,
                         .api_version = q->kind->api_version,
                         .subresource = q->subresource,
                         .applies = true};
    struct owner last = {0};
    struct conflict_list conflicts = {.w = w};
    struct field_set changed;
    int r = managed_apply_check_config(w, config);
    if (r == 0)
        r = managed_apply_begin(w, live);
    if (r == 0)
        r = managed_apply_merge(w, live, config, &object);
    if (r < 0)
        return r;
    self.set = field_set_of(&t, config, w->arena);
    self.set = managed_unignored(w, &self.set);
    struct owner *mine = managed_find(&w->owners, &self);
    if (mine) {
        last = *mine;
        self.time = mine->time;
        *mine = self;
    } else {
        vec_push_arena(w->arena, &w->owners, self);
        mine = vec_last(&w->owners);
    }
    if (last.api_version.n)
        r = managed_apply_prune(w, &last, &object);
    if (r == 0)
        r = managed_take_over(w, mine, live, object.value, q->force, &conflicts, &changed);
    if (r == -ERR_CONFLICT && str_eqz(q->manager, "kubectl")) {
        struct field_set allowed = managed_last_allowed(w, live);
        conflicts = (struct conflict_list){.w = w, .allowed = &allowed};
        r = managed_take_over(w, mine, live, object.value, false, &conflicts, &changed);
    }
    ret->conflicts = conflicts.found.p;
    ret->conflicts_len = conflicts.found.n;
    if (r < 0)
        return r;
    ret->changed = !json_equal(live, object.value);
    if (ret->changed) {
        struct json_writer j = {.out = &ret->object};
        mine->time = (struct api_time){q->now, true};
        json_write_value(&j, object.value);
    }
    mine->set = managed_strip(w, &mine->set);
    mine->gone = field_set_empty(&mine->set);
    return 0;
}

int managed_apply(const struct managed_request *q, const yyjson_val *live, const yyjson_val *config,
                  const struct api_managed_fields_entry_array *entries, struct arena *a,
                  struct managed_applied *ret, struct err *err)
{
    struct work w = {.q = q, .arena = a, .err = err};
    *ret = (struct managed_applied){0};
    int r = managed_decode(&w, entries);
    if (r < 0)
        r = err_wrap(err, "failed to decode managed fields");
    if (r == 0)
        r = managed_apply_config(&w, live, config, ret);
    if (r == 0)
        managed_encode(&w, &ret->entries);
    managed_work_done(&w);
    return r;
}
