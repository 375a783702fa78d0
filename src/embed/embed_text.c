// SPDX-License-Identifier: Apache-2.0
//
// Reading what callers of libdray pass as text: manifests with objects, releases, feature gates.
#include "codec/docs.h"
#include "embed/embed_int.h"

#include "base/banned.h"

struct str embed_text_field(const yyjson_val *v, struct str key)
{
    const yyjson_val *found = json_get(v, key);
    return found && json_is_string(found) ? json_str(found) : STR("");
}

static int embed_text_split_list(const struct json_doc *doc, embed_object_fn fn, void *arg,
                                 struct err *err)
{
    const yyjson_val *items = NULL;
    if (str_ends(embed_text_field(doc->root, STR("kind")), STR("List")))
        items = json_get(doc->root, STR("items"));
    if (!items || !json_is_array(items))
        return fn(arg, doc, doc->root, err);
    int r = 0;
    json_arr_foreach(items, item) {
        if (r == 0)
            r = fn(arg, doc, item, err);
    }
    return r;
}

int embed_text_foreach(struct str text, embed_object_fn fn, void *arg, struct err *err)
{
    struct json_options options = {DRAY_FILE_BYTES_MAX, JSON_DUPLICATES_KEEP};
    cleanup_docs_reader struct docs_reader reader;
    struct json_doc doc = {0};
    docs_reader_init(&reader, text, &options);
    int r;
    while ((r = docs_next(&reader, &doc, err)) > 0) {
        r = embed_text_split_list(&doc, fn, arg, err);
        json_doc_done(&doc);
        if (r < 0)
            break;
    }
    return r;
}

int embed_text_features(const char *release, const char *gates, struct features *ret,
                        struct err *err)
{
    uint32_t minor = FEATURES_MINOR;
    int r = release ? features_parse_version(str_z(release), &minor, err) : 0;
    if (r < 0)
        return err_wrap(err, "release");
    features_init(ret, minor);
    r = gates ? features_parse(ret, str_z(gates), err) : 0;
    return r < 0 ? err_wrap(err, "feature gates") : 0;
}
