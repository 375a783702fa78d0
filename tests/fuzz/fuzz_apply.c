// SPDX-License-Identifier: Apache-2.0
//
// A live object with managedFields, and a configuration, both hostile: apply answers, and what it makes can be
// applied again without a change. The input is a kind's number, the object, a NUL, and the configuration.
#include <assert.h>

#include "api/managed.h"
#include "codec/json_writer.h"
#include "fuzz.h"

#include "base/banned.h"

static const struct api_kind *kind_at(uint8_t n)
{
    static const char *const kinds[][2] = {{"v1", "Pod"},
                                           {"v1", "ConfigMap"},
                                           {"apps/v1", "Deployment"},
                                           {"v1", "Service"},
                                           {"resource.k8s.io/v1", "ResourceClaim"},
                                           {"resource.k8s.io/v1beta1", "ResourceSlice"}};
    size_t i = n % (sizeof(kinds) / sizeof(kinds[0]));
    return api_kind_find(str_z(kinds[i][0]), str_z(kinds[i][1]));
}

// The object as it would be stored, and its entries.
static bool read_object(const struct api_kind *kind, struct str text, struct arena *a,
                        struct sbuf *out, struct api_managed_fields_entry_array *ret)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct api_object o;
    struct json_writer w = {.out = out};
    if (json_parse(text, NULL, &doc, NULL) < 0 ||
        api_decode_as(kind, &doc, doc.root, a, NULL, &o, NULL) < 0)
        return false;
    struct api_object_meta *meta = api_object_meta(&o);
    *ret = meta->managed_fields;
    meta->managed_fields = (struct api_managed_fields_entry_array){0};
    return api_json_write(kind->type, o.value, &w, NULL) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const struct api_kind *kind = kind_at(data[0]);
    struct str object, config, all = {(const char *)data + 1, size - 1};
    if (!str_cut(all, '\0', &object, &config))
        return 0;
    cleanup_arena struct arena a = {0};
    cleanup_sbuf struct sbuf live = {0}, next = {0};
    cleanup_json_doc struct json_doc live_doc = {0}, config_doc = {0}, next_doc = {0};
    struct api_managed_fields_entry_array entries, ignored;
    struct managed_applied applied = {0}, again = {0};
    struct managed_request q = {.kind = kind, .manager = STR("fuzz"), .force = true};
    if (!read_object(kind, object, &a, &live, &entries) ||
        json_parse(sbuf_str(&live), NULL, &live_doc, NULL) < 0 ||
        json_parse(config, NULL, &config_doc, NULL) < 0)
        return 0;
    int r = managed_apply(&q, live_doc.root, config_doc.root, &entries, &a, &applied, NULL);
    bool whole =
        r == 0 && read_object(kind, applied.changed ? sbuf_str(&applied.object) : sbuf_str(&live),
                              &a, &next, &ignored);
    if (whole) {
        assert(json_parse(sbuf_str(&next), NULL, &next_doc, NULL) == 0);
        r = managed_apply(&q, next_doc.root, config_doc.root, &applied.entries, &a, &again, NULL);
        assert(r == 0);
        cleanup_sbuf struct sbuf last = {0};
        bool same = !again.changed;
        if (again.changed && read_object(kind, sbuf_str(&again.object), &a, &last, &ignored))
            same = str_eq(sbuf_str(&last), sbuf_str(&next));
        assert(same);
    }
    sbuf_done(&applied.object);
    sbuf_done(&again.object);
    return 0;
}
