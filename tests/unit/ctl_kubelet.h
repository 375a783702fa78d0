// SPDX-License-Identifier: Apache-2.0
//
// What kubelets would do to the pods of a world with controllers.
#ifndef UNIT_CTL_KUBELET_H
#define UNIT_CTL_KUBELET_H

#include "ctl_world.h"

// The names of a kind's objects in the namespace default, in order; in the world's arena.
struct names {
    const char *p[256];
    size_t n;
};

static inline struct names names_of(struct ctl_world *c, const char *api_version, const char *kind)
{
    struct err err = {0};
    struct names names = {0};
    struct store_walk walk = {.kind = api_kind_find(str_z(api_version), str_z(kind)),
                              .one_namespace = true,
                              .namespace = STR("default")};
    assert_int_equal(store_walk_start(c->w->store, &walk, &err), 0);
    for (const struct object *o; names.n < 256 && (o = store_walk_next(c->w->store, &walk));)
        names.p[names.n++] = arena_str(&c->w->arena, o->name).p;
    store_walk_done(&walk);
    return names;
}

static inline struct names pods_of(struct ctl_world *c)
{
    return names_of(c, "v1", "Pod");
}

static inline void set_pod_status(struct ctl_world *c, const char *pod, const char *status)
{
    const char *patch = arena_strf(&c->w->arena, "{\"status\":%s}", status).p;
    assert_ok(do_patch(c->w, POD_STATUS(pod), REGISTRY_PATCH_STRATEGIC, patch));
}

static inline void make_ready(struct ctl_world *c, const char *pod)
{
    struct sbuf now = {0};
    rfc3339_write_seconds((struct moment){.sec = c->w->clock.wall / CLOCK_NS_PER_SEC}, &now);
    set_pod_status(c, pod,
                   arena_strf(&c->w->arena,
                              "{\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\","
                              "\"status\":\"True\",\"lastTransitionTime\":\"%s\"}]}",
                              now.p)
                       .p);
    sbuf_done(&now);
}

// plant changes a stored object behind the rules, as an older server may have left it: the first
// occurrence of each text of changes (from, to, …, NULL) is replaced.
static inline void plant(struct ctl_world *c, struct target t, const char *const *changes)
{
    struct store_key key = {api_kind_find(str_z(t.api_version), str_z(t.kind)), str_z(t.namespace),
                            str_z(t.name)};
    const struct object *head = store_head(c->w->store, &key);
    assert_non_null(head);
    uint64_t next = store_next_revision(c->w->store);
    struct sbuf json = {0}, version = {0}, was = {0};
    struct err err;
    sbuf_addf(&was, "\"resourceVersion\":\"%llu\"", (unsigned long long)head->revision);
    sbuf_addf(&version, "\"resourceVersion\":\"%llu\"", (unsigned long long)next);
    struct str text = arena_str(&c->w->arena, head->json);
    for (const char *const *at = changes; at; at = *at ? at + 2 : NULL) {
        struct str from = *at ? str_z(*at) : sbuf_str(&was);
        struct str to = *at ? str_z(at[1]) : sbuf_str(&version);
        ptrdiff_t found = str_find(text, from);
        assert_true(found >= 0);
        sbuf_truncate(&json, 0);
        sbuf_addf(&json, "%.*s%.*s%.*s", STR_ARG(str_upto(text, (size_t)found)), STR_ARG(to),
                  STR_ARG(str_from(text, (size_t)found + from.n)));
        text = arena_str(&c->w->arena, sbuf_str(&json));
    }
    struct object *o = object_new(&(struct object_parts){.kind = key.kind,
                                                         .revision = next,
                                                         .namespace = key.namespace,
                                                         .name = key.name,
                                                         .uid = head->uid,
                                                         .json = text});
    assert_int_equal(store_put(c->w->store, o, head->revision, NULL, NULL, &err), 0);
    object_unref(o);
    sbuf_done(&json);
    sbuf_done(&version);
    sbuf_done(&was);
    settle(c);
}

// run_pods makes every pod that is still pending ready, and lets the controllers see it.
static inline void run_pods(struct ctl_world *c)
{
    struct names names = pods_of(c);
    for (size_t i = 0; i < names.n; i++) {
        (void)do_get(c->w, POD(names.p[i]));
        if (strcmp(reply_field(c->w, "status.phase"), "Pending") == 0)
            make_ready(c, names.p[i]);
    }
    settle(c);
}

static inline void end_pod(struct ctl_world *c, const char *pod, const char *phase)
{
    set_pod_status(c, pod, arena_strf(&c->w->arena, "{\"phase\":\"%s\"}", phase).p);
}

// count_events counts events with a reason.
static inline size_t count_events(struct ctl_world *c, const char *reason)
{
    struct names names = names_of(c, "v1", "Event");
    size_t n = 0;
    for (size_t i = 0; i < names.n; i++) {
        (void)do_get(c->w, (struct target){"v1", "Event", "", "default", names.p[i]});
        if (strcmp(reply_field(c->w, "reason"), reason) == 0)
            n++;
    }
    return n;
}

#endif
