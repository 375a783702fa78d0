// SPDX-License-Identifier: Apache-2.0
//
// What tests of the store share: small objects, a store on a simulated exec, writes that remember how
// they ended.
#ifndef UNIT_STORE_UTIL_H
#define UNIT_STORE_UTIL_H

#include "base/exec.h"
#include "base/rand.h"
#include "base/vec.h"
#include "store/store.h"
#include "unit.h"

static inline const struct api_kind *claims(void)
{
    return api_kind_find(STR("resource.k8s.io/v1"), STR("ResourceClaim"));
}

static inline const struct api_kind *classes(void)
{
    return api_kind_find(STR("resource.k8s.io/v1"), STR("DeviceClass"));
}

// made makes an object with one label; text tells versions apart.
static inline struct object *made(const struct api_kind *kind, const char *namespace,
                                  const char *name, uint64_t revision, const char *text)
{
    struct sbuf json = {0};
    sbuf_addf(&json, "{\"kind\":\"%.*s\",\"apiVersion\":\"%.*s\",\"metadata\":{\"name\":\"%s\"",
              STR_ARG(kind->kind), STR_ARG(kind->api_version), name);
    if (*namespace)
        sbuf_addf(&json, ",\"namespace\":\"%s\"", namespace);
    sbuf_addf(&json, ",\"resourceVersion\":\"%llu\"},\"text\":\"%s\"}",
              (unsigned long long)revision, text);
    struct object_pair label = {STR("tier"), str_z(text)};
    struct object_pair field = {STR("metadata.name"), str_z(name)};
    struct object *o = object_new(&(struct object_parts){.kind = kind,
                                                         .revision = revision,
                                                         .namespace = str_z(namespace),
                                                         .name = str_z(name),
                                                         .uid = STR("uid-of-it"),
                                                         .json = sbuf_str(&json),
                                                         .labels = &label,
                                                         .labels_len = 1,
                                                         .fields = &field,
                                                         .fields_len = 1});
    sbuf_done(&json);
    return o;
}

struct outcome {
    int calls;
    int code;
    char text[DRAY_ERR_MSG_MAX];
};

static inline void note_outcome(void *arg, int code, const struct err *err)
{
    struct outcome *o = arg;
    o->calls++;
    o->code = code;
    (void)snprintf(o->text, sizeof(o->text), "%s", err ? err->msg : "");
}

// put accepts a version whatever the head is; NULL text deletes.
static inline int put(struct store *s, const struct api_kind *kind, const char *namespace,
                      const char *name, const char *text, struct outcome *out)
{
    struct store_key key = {kind, str_z(namespace), str_z(name)};
    const struct object *head = store_head(s, &key);
    uint64_t expect = head ? head->revision : 0;
    struct object *o = made(kind, namespace, name, store_next_revision(s), text ? text : "gone");
    struct err err;
    int r = text ? store_put(s, o, expect, out ? note_outcome : NULL, out, &err)
                 : store_delete(s, o, expect, out ? note_outcome : NULL, out, &err);
    object_unref(o);
    return r;
}

// text_of is the text an object was made with.
static inline struct str text_of(const struct object *o)
{
    struct str text = {0};
    (void)object_label(o, STR("tier"), &text);
    return text;
}

#endif
