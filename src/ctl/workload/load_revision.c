// SPDX-License-Identifier: Apache-2.0
//
// ControllerRevisions: the templates that DaemonSets and StatefulSets had, as patches that bring
// them back.
#include <stdlib.h>

#include "ctl/workload/load.h"

#include "base/banned.h"

static struct str data_of(const struct api_pod_template_spec *template, struct arena *arena)
{
    cleanup_sbuf struct sbuf text = {0};
    struct json_writer w = {.out = &text};
    struct err err;
    sbuf_addz(&text, "{\"spec\":{\"template\":");
    (void)!api_json_write(&api_pod_template_spec_type, template, &w, &err);
    // The template is an object that is never empty: the mark of a patch that replaces goes to its
    // end.
    sbuf_truncate(&text, text.n - 1);
    sbuf_addz(&text, ",\"$patch\":\"replace\"}}}");
    return arena_str(arena, sbuf_str(&text));
}

bool load_revision_template(const struct typed_object *revision, struct arena *arena,
                            struct api_pod_template_spec *ret)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct err err;
    if (json_parse(as_revision(revision)->data, NULL, &doc, &err) < 0)
        return false;
    const yyjson_val *template = json_at_path(doc.root, STR("spec.template"), NULL);
    *ret = (struct api_pod_template_spec){0};
    return api_json_read(&api_pod_template_spec_type, &doc, template, ret, arena, NULL, &err) == 0;
}

static bool same_template(const struct typed_object *revision, struct str data,
                          const struct api_pod_template_spec *template, struct arena *arena)
{
    struct api_pod_template_spec theirs;
    return str_eq(as_revision(revision)->data, data) ||
           (load_revision_template(revision, arena, &theirs) &&
            api_equal(&api_pod_template_spec_type, &theirs, template));
}

static int load_revision_compare_number(const void *x, const void *y)
{
    const struct typed_object *a = *(const struct typed_object *const *)x;
    const struct typed_object *b = *(const struct typed_object *const *)y;
    int64_t m = as_revision(a)->revision, n = as_revision(b)->revision;
    return m != n ? (m > n) - (m < n) : str_cmp(a->meta->name, b->meta->name);
}

static void create_revision(struct load *l, struct str key, const struct typed_object *o,
                            const struct api_pod_template_spec *template, struct str data,
                            int64_t number, struct arena *arena)
{
    struct api_controller_revision revision = {
        .metadata = {.namespace = o->meta->namespace, .labels = template->metadata.labels},
        .data = data,
        .revision = number,
    };
    struct str hash;
    for (int32_t clash = 0;; clash++) { // a name that is somebody else's is not taken
        hash = load_template_hash(template, clash > 0, clash, arena);
        revision.metadata.name =
            arena_strf(arena, "%.*s-%.*s", STR_ARG(o->meta->name), STR_ARG(hash));
        if (!ctl_find(l->ctl, CACHE_REVISIONS, o->meta->namespace, revision.metadata.name))
            break;
    }
    meta_map_put(&revision.metadata.labels, STR(LOAD_REVISION_LABEL), hash, arena);
    meta_own(&revision.metadata, ctl_kind(l->cache), o->meta, true, arena);
    load_create(l, key, o, CACHE_REVISIONS, &revision, NULL);
}

bool load_revision_sync(struct load *l, struct str key, const struct typed_object *o,
                        const struct api_pod_template_spec *template,
                        const struct api_label_selector *selector, struct arena *arena,
                        struct load_revisions *ret)
{
    *ret = (struct load_revisions){.data = data_of(template, arena)};
    if (load_claim(l, key, o, CACHE_REVISIONS, selector))
        return true;
    ret->all = load_owned(l, CACHE_REVISIONS, o, arena);
    if (ret->all.n > 0)
        qsort(ret->all.p, ret->all.n, sizeof(*ret->all.p), load_revision_compare_number);
    vec_foreach(&ret->all, revision)
        if (same_template(*revision, ret->data, template, arena))
            ret->current = *revision;
    int64_t highest = ret->all.n > 0 ? as_revision(*vec_last(&ret->all))->revision : 0;
    if (o->meta->deletion_timestamp.set)
        return false;
    if (!ret->current) {
        create_revision(l, key, o, template, ret->data, load_next(highest), arena);
        return true;
    }
    if (as_revision(ret->current)->revision == highest)
        return false;
    struct api_controller_revision changed = *as_revision(ret->current);
    changed.revision = load_next(highest);
    load_update(l, key, o, CACHE_REVISIONS, &changed, NULL);
    return true;
}

struct str load_pod_revision(const struct api_pod *pod)
{
    const struct str *hash = api_map_find(&pod->metadata.labels, STR(LOAD_REVISION_LABEL));
    return hash ? *hash : STR("");
}

static bool load_revision_is_used(const struct load_objects *pods, struct str hash)
{
    vec_foreach(pods, pod)
        if (str_eq(load_pod_revision(as_pod(*pod)), hash))
            return true;
    return false;
}

bool load_revision_trim(struct load *l, struct str key, const struct typed_object *o,
                        const struct load_revisions *revisions, const struct load_objects *pods,
                        struct str keep, int32_t limit)
{
    const struct typed_object *oldest = NULL;
    int32_t old = 0;
    vec_foreach(&revisions->all, revision) {
        const struct str *hash = api_map_find(&(*revision)->meta->labels, STR(LOAD_REVISION_LABEL));
        if (*revision == revisions->current || (*revision)->meta->deletion_timestamp.set ||
            str_eq((*revision)->meta->name, keep) || (hash && load_revision_is_used(pods, *hash)))
            continue;
        old++;
        if (!oldest)
            oldest = *revision;
    }
    if (old <= load_not_negative(limit))
        return false;
    load_delete(l, key, o, CACHE_REVISIONS, oldest, NULL);
    return true;
}
