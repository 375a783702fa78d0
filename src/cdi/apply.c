// SPDX-License-Identifier: Apache-2.0
//
// The document is copied into yyjson's editable form, edited kind by kind in upstream's order, and
// written out.
#include "cdi/apply.h"

#include <stdlib.h>

#include "base/map.h"
#include "cdi/apply_int.h"

#include "base/banned.h"

// --- Members -------------------------------------------------------------------------------------

static yyjson_mut_val *oci_member(struct oci *o, yyjson_mut_val *in, const char *key, bool list)
{
    yyjson_mut_val *v = yyjson_mut_obj_get(in, key);
    if (v && (list ? yyjson_mut_is_arr(v) : yyjson_mut_is_obj(v)))
        return v;
    if (v && !yyjson_mut_is_null(v)) {
        (void)err_set(o->err, ERR_INVALID, "\"%s\" of the container's configuration must be %s",
                      key, list ? "a list" : "an object");
        return NULL;
    }
    yyjson_mut_val *made = list ? yyjson_mut_arr(o->doc) : yyjson_mut_obj(o->doc);
    (void)yyjson_mut_obj_put(in, yyjson_mut_str(o->doc, key), made);
    return made;
}

yyjson_mut_val *oci_object(struct oci *o, yyjson_mut_val *in, const char *key)
{
    return oci_member(o, in, key, false);
}

yyjson_mut_val *oci_list(struct oci *o, yyjson_mut_val *in, const char *key)
{
    return oci_member(o, in, key, true);
}

static yyjson_mut_val *text_value(struct oci *o, struct str s)
{
    return yyjson_mut_strn(o->doc, s.n ? s.p : "", s.n);
}

void oci_add_text(struct oci *o, yyjson_mut_val *to, const char *key, struct str text)
{
    if (text.n)
        (void)yyjson_mut_obj_add_val(o->doc, to, key, text_value(o, text));
}

static yyjson_mut_val *int_value(struct oci *o, int64_t number)
{
    return number < 0 ? yyjson_mut_sint(o->doc, number) : yyjson_mut_uint(o->doc, (uint64_t)number);
}

void oci_add_int(struct oci *o, yyjson_mut_val *to, const char *key, int64_t number)
{
    (void)yyjson_mut_obj_add_val(o->doc, to, key, int_value(o, number));
}

void oci_add_texts(struct oci *o, yyjson_mut_val *to, const char *key,
                   const struct cdi_texts *texts)
{
    if (texts->n == 0)
        return;
    yyjson_mut_val *list = yyjson_mut_obj_add_arr(o->doc, to, key);
    vec_foreach(texts, t)
        (void)yyjson_mut_arr_append(list, text_value(o, *t));
}

static struct str oci_text_of(yyjson_mut_val *v)
{
    return yyjson_mut_is_str(v) ? str_make(yyjson_mut_get_str(v), yyjson_mut_get_len(v)) : STR("");
}

struct str oci_text(yyjson_mut_val *in, const char *key)
{
    return oci_text_of(yyjson_mut_obj_get(in, key));
}

void oci_drop(yyjson_mut_val *list, const char *key, struct str text)
{
    yyjson_mut_arr_iter it;
    (void)yyjson_mut_arr_iter_init(list, &it);
    for (yyjson_mut_val *v = yyjson_mut_arr_iter_next(&it); v; v = yyjson_mut_arr_iter_next(&it)) {
        yyjson_mut_val *is = yyjson_mut_obj_get(v, key);
        if (yyjson_mut_is_str(is) && str_eq(oci_text_of(is), text))
            (void)yyjson_mut_arr_iter_remove(&it);
    }
}

// --- Edits ---------------------------------------------------------------------------------------

struct env_places MAP(yyjson_mut_val *);

static struct str env_name(struct str text)
{
    struct str name, value;
    (void)str_cut(text, '=', &name, &value);
    return name;
}

static int apply_env(struct oci *o, const struct cdi_texts *env)
{
    if (env->n == 0)
        return 0;
    yyjson_mut_val *process = oci_object(o, o->doc->root, "process");
    yyjson_mut_val *list = process ? oci_list(o, process, "env") : NULL;
    if (!list)
        return -ERR_INVALID;
    struct env_places places = {0};
    yyjson_mut_arr_iter it;
    (void)yyjson_mut_arr_iter_init(list, &it);
    for (yyjson_mut_val *v = yyjson_mut_arr_iter_next(&it); v; v = yyjson_mut_arr_iter_next(&it))
        if (yyjson_mut_is_str(v))
            *map_put(&places, env_name(oci_text_of(v))) = v;
    vec_foreach(env, e) {
        yyjson_mut_val **place = map_put(&places, env_name(*e));
        if (*place) {
            (void)yyjson_mut_set_strn(*place, e->n ? e->p : "", e->n);
        } else {
            *place = text_value(o, *e);
            (void)yyjson_mut_arr_append(list, *place);
        }
    }
    map_done(&places);
    return 0;
}

static int apply_net_devices(struct oci *o, const struct cdi_net_devices *devices)
{
    if (devices->n == 0)
        return 0;
    yyjson_mut_val *linux_part = oci_object(o, o->doc->root, "linux");
    yyjson_mut_val *all = linux_part ? oci_object(o, linux_part, "netDevices") : NULL;
    if (!all)
        return -ERR_INVALID;
    vec_foreach(devices, d) {
        yyjson_mut_val *made = yyjson_mut_obj(o->doc);
        oci_add_text(o, made, "name", d->name);
        (void)yyjson_mut_obj_put(all, text_value(o, d->host_interface_name), made);
    }
    return 0;
}

static bool list_has(yyjson_mut_val *list, yyjson_mut_val *wanted)
{
    yyjson_mut_arr_iter it;
    (void)yyjson_mut_arr_iter_init(list, &it);
    for (yyjson_mut_val *v = yyjson_mut_arr_iter_next(&it); v; v = yyjson_mut_arr_iter_next(&it))
        if (yyjson_mut_equals(v, wanted))
            return true;
    return false;
}

static int apply_hook(struct oci *o, const struct cdi_hook *h)
{
    yyjson_mut_val *hooks = oci_object(o, o->doc->root, "hooks");
    struct str stage = arena_str(o->arena, h->hook_name);
    yyjson_mut_val *list = hooks ? oci_list(o, hooks, stage.p) : NULL;
    if (!list)
        return -ERR_INVALID;
    yyjson_mut_val *made = yyjson_mut_obj(o->doc);
    oci_add_text(o, made, "path", h->path);
    oci_add_texts(o, made, "args", &h->args);
    oci_add_texts(o, made, "env", &h->env);
    if (h->timeout.set)
        oci_add_int(o, made, "timeout", h->timeout.value);
    if (!list_has(list, made))
        (void)yyjson_mut_arr_append(list, made);
    return 0;
}

static int apply_rdt(struct oci *o, const struct cdi_intel_rdt *rdt)
{
    yyjson_mut_val *linux_part = oci_object(o, o->doc->root, "linux");
    if (!linux_part)
        return -ERR_INVALID;
    yyjson_mut_val *made = yyjson_mut_obj(o->doc);
    oci_add_text(o, made, "closID", rdt->clos_id);
    oci_add_texts(o, made, "schemata", &rdt->schemata);
    oci_add_text(o, made, "l3CacheSchema", rdt->l3_cache_schema);
    oci_add_text(o, made, "memBwSchema", rdt->mem_bw_schema);
    if (rdt->enable_monitoring)
        (void)yyjson_mut_obj_add_bool(o->doc, made, "enableMonitoring", true);
    (void)yyjson_mut_obj_put(linux_part, yyjson_mut_str(o->doc, "intelRdt"), made);
    return 0;
}

static int apply_gids(struct oci *o, const struct cdi_gids *gids)
{
    vec_foreach(gids, gid) {
        if (*gid == 0) // would give the container root's group
            continue;
        yyjson_mut_val *process = oci_object(o, o->doc->root, "process");
        yyjson_mut_val *user = process ? oci_object(o, process, "user") : NULL;
        yyjson_mut_val *list = user ? oci_list(o, user, "additionalGids") : NULL;
        if (!list)
            return -ERR_INVALID;
        yyjson_mut_val *made = int_value(o, *gid);
        if (!list_has(list, made))
            (void)yyjson_mut_arr_append(list, made);
    }
    return 0;
}

static int apply_all(struct oci *o, const struct cdi_edits *edits)
{
    int r = apply_env(o, &edits->env);
    for (size_t i = 0; r == 0 && i < edits->device_nodes.n; i++)
        r = oci_device_node(o, &edits->device_nodes.p[i]);
    if (r == 0)
        r = apply_net_devices(o, &edits->net_devices);
    if (r == 0)
        r = oci_mounts(o, &edits->mounts);
    for (size_t i = 0; r == 0 && i < edits->hooks.n; i++)
        r = apply_hook(o, &edits->hooks.p[i]);
    if (r == 0 && edits->intel_rdt)
        r = apply_rdt(o, edits->intel_rdt);
    return r == 0 ? apply_gids(o, &edits->additional_gids) : r;
}

// --- Memory --------------------------------------------------------------------------------------

static void *alc_malloc(void *context, size_t size)
{
    return arena_alloc(context, size, _Alignof(max_align_t));
}

static void *alc_realloc(void *context, void *p, size_t old_size, size_t size)
{
    void *made = arena_alloc(context, size, _Alignof(max_align_t));
    memcpy(made, p, old_size < size ? old_size : size);
    return made;
}

static void alc_free(void *context, void *p)
{
    (void)context;
    (void)p;
}

int cdi_apply(const struct cdi_edits *edits, const yyjson_val *oci, const struct cdi_host *host,
              struct json_writer *w, struct err *err)
{
    if (!json_is_object(oci))
        return err_set(err, ERR_INVALID, "a container's configuration must be an object");
    if (edits->device_nodes.n > CDI_EDITS_MAX || edits->mounts.n > CDI_EDITS_MAX ||
        edits->hooks.n > CDI_EDITS_MAX || edits->additional_gids.n > CDI_EDITS_MAX ||
        edits->net_devices.n > CDI_EDITS_MAX)
        return err_set(err, ERR_TOO_LARGE,
                       "more than %d device nodes, mounts, hooks, groups or net devices",
                       CDI_EDITS_MAX);
    cleanup_arena struct arena arena = {0};
    const yyjson_alc alc = {alc_malloc, alc_realloc, alc_free, &arena};
    struct oci o = {.doc = yyjson_mut_doc_new(&alc), .host = host, .arena = &arena, .err = err};
    // yyjson only reads it.
    yyjson_mut_doc_set_root(o.doc,
                            yyjson_val_mut_copy(o.doc, (yyjson_val *)(uintptr_t)(const void *)oci));
    int r = apply_all(&o, edits);
    if (r != 0)
        return r;
    yyjson_doc *done = yyjson_mut_doc_imut_copy(o.doc, &alc);
    json_write_value(w, yyjson_doc_get_root(done));
    return 0;
}
