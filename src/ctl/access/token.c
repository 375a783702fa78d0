// SPDX-License-Identifier: Apache-2.0
//
// Bootstrap tokens: each that may signs the ConfigMap cluster-info, and goes when it has expired.
#include <stdlib.h>

#include "api/meta.h"
#include "client/cluster_info.h"
#include "ctl/core/ctl_int.h"

#include "base/banned.h"

// The key of the ConfigMap among those of the tokens, which are Secrets' names.
#define SIGN_KEY "/"

struct token_ctl {
    struct ctl *ctl;
    struct work *work;
    struct list calls;
    bool sign, clean;
};

// --- Cleaning ------------------------------------------------------------------------------------

static void remove_token(struct token_ctl *t, const struct typed_object *o)
{
    struct api_preconditions same = {.uid = o->meta->uid, .has_uid = true};
    const struct api_delete_options options = {.preconditions = &same};
    const struct client_key key = {
        .kind = ctl_kind(CACHE_TOKENS), .namespace = o->meta->namespace, .name = o->meta->name};
    client_delete(t->ctl->client, &key, &options, ctl_call_done,
                  ctl_call_new(&t->calls, t->work, o->meta->name, CACHE_TOKENS));
}

static void look_at_token(struct token_ctl *t, struct str key)
{
    const struct typed_object *o = ctl_find(t->ctl, CACHE_TOKENS, STR(BOOTSTRAP_NAMESPACE), key);
    cleanup_arena struct arena arena = {0};
    struct bootstrap_secret s = {0};
    int64_t now = ctl_now(t->ctl).at.sec;
    if (!o || !t->clean || bootstrap_secret_read(o->object.value, &arena, &s, NULL) < 0 ||
        !s.expires)
        work_done(t->work, key);
    else if (bootstrap_expired(&s, now))
        remove_token(t, o);
    else
        work_again_in(t->work, key, s.expires - now);
}

// --- Signing -------------------------------------------------------------------------------------

struct signing {
    struct token_ctl *ctl;
    struct arena arena;
    struct str text;
    struct api_str_map data; // what the ConfigMap is to hold
};

static void add_signature(void *arg, const struct typed_object *o)
{
    struct signing *g = arg;
    struct bootstrap_secret s = {0};
    if (o->meta->deletion_timestamp.set ||
        bootstrap_secret_read(o->object.value, &g->arena, &s, NULL) < 0 || !s.signs ||
        bootstrap_expired(&s, ctl_now(g->ctl->ctl).at.sec))
        return;
    cleanup_sbuf struct sbuf signature = {0};
    cluster_info_sign(g->text, &s.token, &signature);
    meta_map_put(&g->data,
                 arena_strf(&g->arena, CLUSTER_INFO_SIGNATURE "%.*s", STR_ARG(s.token.id)),
                 arena_str(&g->arena, sbuf_str(&signature)), &g->arena);
}

static bool token_same_data(const struct api_str_map *a, const struct api_str_map *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++)
        same = str_eq(a->p[i].key, b->p[i].key) && str_eq(a->p[i].value, b->p[i].value);
    return same;
}

static void sign_info(struct token_ctl *t, struct str key)
{
    const struct typed_object *o =
        ctl_find(t->ctl, CACHE_CLUSTER_INFO, STR(CLUSTER_INFO_NAMESPACE), STR(CLUSTER_INFO_NAME));
    if (!o || !t->sign) {
        work_done(t->work, key);
        return;
    }
    const struct api_config_map *map = o->object.value;
    const struct str *text = api_map_find(&map->data, STR(CLUSTER_INFO_TEXT));
    struct signing g = {.ctl = t, .text = text ? *text : STR("")};
    for (size_t i = 0; i < map->data.n; i++)
        if (!str_starts(map->data.p[i].key, STR(CLUSTER_INFO_SIGNATURE)))
            meta_map_put(&g.data, map->data.p[i].key, map->data.p[i].value, &g.arena);
    if (text)
        informer_foreach(t->ctl->caches[CACHE_TOKENS], add_signature, &g);
    if (token_same_data(&g.data, &map->data)) {
        work_done(t->work, key);
    } else {
        struct api_config_map now = *map;
        now.data = g.data;
        const struct api_object object = {ctl_kind(CACHE_CLUSTER_INFO), &now};
        client_update(t->ctl->client, &object, NULL, ctl_call_done,
                      ctl_call_new(&t->calls, t->work, key, CACHE_CLUSTER_INFO));
    }
    arena_done(&g.arena);
}

static void token_step_key(void *arg, struct str key)
{
    struct token_ctl *t = arg;
    if (!ctl_synced(t->ctl))
        work_retry(t->work, key);
    else if (str_eqz(key, SIGN_KEY))
        sign_info(t, key);
    else
        look_at_token(t, key);
}

static void token_changed(void *arg, const struct typed_object *before,
                          const struct typed_object *after)
{
    struct token_ctl *t = arg;
    work_add(t->work, (after ? after : before)->meta->name);
    work_add(t->work, STR(SIGN_KEY));
}

static void info_changed(void *arg, const struct typed_object *before,
                         const struct typed_object *after)
{
    struct token_ctl *t = arg;
    (void)before;
    (void)after;
    work_add(t->work, STR(SIGN_KEY));
}

struct token_ctl *token_ctl_new(struct ctl *ctl)
{
    struct token_ctl *t = xcalloc(1, sizeof(*t));
    t->ctl = ctl;
    t->sign = !ctl->off[CTL_BOOTSTRAP_SIGNER];
    t->clean = !ctl->off[CTL_TOKEN_CLEANER];
    t->work = ctl_work(ctl, "bootstrap_signer_queue", token_step_key, t);
    list_init(&t->calls);
    ctl_watch(ctl, CACHE_TOKENS, token_changed, t, t->work);
    ctl_watch(ctl, CACHE_CLUSTER_INFO, info_changed, t, t->work);
    return t;
}

void token_ctl_free(struct token_ctl *t)
{
    if (!t)
        return;
    ctl_calls_drop(&t->calls);
    work_free(t->work);
    free(t);
}
