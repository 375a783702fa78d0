// SPDX-License-Identifier: Apache-2.0
//
// Changes with which a node has the devices that a pod asks for: what the allocator has proven, as
// changes of the objects that people wrote (a template, not the claim that was made of it).
#include "api/match/claim.h"
#include "sched/dra/dra_int.h"
#include "sched/explain/cure_int.h"

#include "base/banned.h"

#define STALE_TAINT  "dray.dev/stale"
#define DEVICE_CALLS UINT64_C(2000) // of the allocator's deadline, for one node
#define OFFERED_MAX  6              // of one node

// --- Objects -------------------------------------------------------------------------------------

// The entry of the pod that a claim was made for from a template; NULL: it was not.
static const struct api_pod_resource_claim *entry_of_claim(const struct api_pod *pod,
                                                           struct str name)
{
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++) {
        const struct api_pod_resource_claim *e = &pod->spec.resource_claims.p[i];
        struct str own = {0};
        bool check;
        if (claim_name_of(pod, e, &own, &check) == CLAIM_NAMED && str_eq(own, name))
            return e->resource_claim_template_name.n ? e : NULL;
    }
    return NULL;
}

// Where requests are in the object that people wrote.
struct claim_place {
    const char *object;
    struct str name;
    const char *prefix;
};

static struct claim_place place_of_claim(const struct trial *t,
                                         const struct api_resource_claim *claim)
{
    const struct api_pod_resource_claim *e = entry_of_claim(t->api, claim->metadata.name);
    if (e)
        return (struct claim_place){"ResourceClaimTemplate", e->resource_claim_template_name,
                                    "/spec/spec/devices"};
    return (struct claim_place){"ResourceClaim", claim->metadata.name, "/spec/devices"};
}

static void add_request_path(struct sbuf *out, const struct claim_place *p,
                             const struct alloc_change *c)
{
    sbuf_addf(out, "%s/requests/%u", p->prefix, c->at.request);
    if (c->at.sub == UINT32_MAX)
        sbuf_addz(out, "/exactly");
    else
        sbuf_addf(out, "/firstAvailable/%u", c->at.sub);
}

// --- Patches -------------------------------------------------------------------------------------

static void patch_begin(struct sbuf *out, const char *op, const struct claim_place *p,
                        const struct alloc_change *c)
{
    sbuf_addf(out, "%s{\"op\":\"%s\",\"path\":\"", out->n ? "," : "[", op);
    add_request_path(out, p, c);
}

static void patch_add_toleration(struct sbuf *out, const struct api_device_taint *x)
{
    sbuf_addz(out, "/tolerations/-\",\"value\":{\"key\":");
    sbuf_add_json_str(out, x->key, false);
    sbuf_addz(out, ",\"operator\":\"Equal\",\"value\":");
    sbuf_add_json_str(out, x->value, false);
    sbuf_addf(out, ",\"effect\":\"%.*s\"}}", STR_ARG(x->effect));
}

static void patch_add_selector(struct sbuf *out, const struct alloc_change *c)
{
    if (c->kind == ALLOC_CHANGE_REWRITE && c->at.place == UINT32_MAX)
        sbuf_addz(out, "/deviceClassName\",\"value\":");
    else
        sbuf_addf(out, "/selectors/%u/cel/expression\",\"value\":", c->at.place);
    sbuf_add_json_str(out, c->expression, false);
    sbuf_addc(out, '}');
}

static void patch_add_capacity(struct sbuf *out, const struct alloc_change *c)
{
    sbuf_addz(out, "/capacity/requests");
    cure_add_path(out, c->what);
    sbuf_addz(out, "\",\"value\":");
    sbuf_add_json_str(out, c->to, false);
    sbuf_addc(out, '}');
}

static void patch_rename_capacity(struct sbuf *out, const struct claim_place *p,
                                  const struct alloc_change *c)
{
    cleanup_sbuf struct sbuf base = {0};
    add_request_path(&base, p, c);
    sbuf_addz(&base, "/capacity/requests");
    sbuf_addf(out, "[{\"op\":\"move\",\"from\":\"%s", base.p);
    cure_add_path(out, c->from);
    sbuf_addf(out, "\",\"path\":\"%s", base.p);
    cure_add_path(out, c->expression);
    sbuf_addz(out, "\"}");
}

// Writes the JSON patch of a change of a claim.
static void write_claim_patch(struct sbuf *out, const struct claim_place *p,
                              const struct alloc_change *c)
{
    switch (c->kind) {
    case ALLOC_CHANGE_TOLERATION:
        patch_begin(out, "add", p, c);
        patch_add_toleration(out, c->taint);
        break;
    case ALLOC_CHANGE_CAPACITY:
        patch_begin(out, "add", p, c);
        patch_add_capacity(out, c);
        break;
    case ALLOC_CHANGE_COUNT:
        if (str_eqz(c->from, "all")) {
            patch_begin(out, "add", p, c);
            sbuf_addz(out, "/allocationMode\",\"value\":\"ExactCount\"}");
        }
        patch_begin(out, "add", p, c);
        sbuf_addf(out, "/count\",\"value\":%.*s}", STR_ARG(c->to));
        break;
    case ALLOC_CHANGE_SELECTOR:
    case ALLOC_CHANGE_REWRITE:
        if (c->at.place != UINT32_MAX && c->at.place > ALLOC_REWRITE_NAMES) {
            patch_rename_capacity(out, p, c);
        } else if (c->expression.n) {
            patch_begin(out, "replace", p, c);
            patch_add_selector(out, c);
        } else {
            patch_begin(out, "remove", p, c);
            sbuf_addf(out, "/selectors/%u\"}", c->at.place);
        }
        break;
    case ALLOC_CHANGE_CONSTRAINT:
        sbuf_addf(out, "[{\"op\":\"remove\",\"path\":\"%s/constraints/%u\"}", p->prefix,
                  c->at.place);
        break;
    case ALLOC_CHANGE_HOLDER:
    case ALLOC_CHANGE_NODE:
        return;
    }
    sbuf_addc(out, ']');
}

// --- Weights -------------------------------------------------------------------------------------

// Are there devices anywhere that classes and selectors match? Then these are no mistake.
static bool request_is_granted(const struct trial *t)
{
    return t->out->class_seen && t->out->selectors_seen;
}

static struct str namespace_of_key(struct str key)
{
    ptrdiff_t slash = str_find_char(key, '/');
    return str_upto(key, slash < 0 ? 0 : (size_t)slash);
}

static size_t weight_of_change(const struct trial *t, const struct alloc_change *c)
{
    int64_t from = 0, to = 0;
    switch (c->kind) {
    case ALLOC_CHANGE_TOLERATION:
        return CURE_WEIGHT_UNTAINT + 2;
    case ALLOC_CHANGE_CAPACITY:
        return CURE_WEIGHT_CAPACITY;
    case ALLOC_CHANGE_COUNT:
        if (str_to_i64(c->from, &from) < 0 || str_to_i64(c->to, &to) < 0)
            return CURE_WEIGHT_LESS;
        return CURE_WEIGHT_LESS + (size_t)(from - to > 60 ? 60 : from - to);
    case ALLOC_CHANGE_SELECTOR:
        return request_is_granted(t) ? CURE_WEIGHT_WISH : CURE_WEIGHT_SELECTOR;
    case ALLOC_CHANGE_REWRITE:
        return request_is_granted(t) && c->weight < CURE_WEIGHT_WISH ? CURE_WEIGHT_WISH - 1
                                                                     : c->weight;
    case ALLOC_CHANGE_CONSTRAINT:
        return CURE_WEIGHT_CONSTRAINT;
    case ALLOC_CHANGE_HOLDER:
        return str_eq(namespace_of_key(c->what), t->api->metadata.namespace) ? CURE_WEIGHT_HOLDER
                                                                             : CURE_WEIGHT_OTHERS;
    case ALLOC_CHANGE_NODE:
        return CURE_WEIGHT_NODE;
    }
    return CURE_WEIGHT_NODE;
}

// --- Changes -------------------------------------------------------------------------------------

// The pods that use a claim, in words.
static void holder_add_users(struct sbuf *out, const struct api_resource_claim *claim)
{
    size_t n = claim ? claim->status.reserved_for.n : 0;
    for (size_t i = 0; i < n && i < 3; i++)
        sbuf_addf(out, "%s%.*s",
                  i        ? ", "
                  : n == 1 ? ": pod "
                           : ": pods ",
                  STR_ARG(claim->status.reserved_for.p[i].name));
    if (n)
        sbuf_addf(out, "%s use%s it", n > 3 ? ", …" : "", n == 1 ? "s" : "");
}

static bool add_holder(struct trial *t, const struct alloc_change *c)
{
    struct str namespace, name;
    cleanup_sbuf struct sbuf users = {0};
    if (!str_cut(c->what, '/', &namespace, &name))
        return false;
    holder_add_users(&users, claims_api(claims_find(&t->s->claims, namespace, name)));
    struct cure_change *x =
        cure_add(t, alloc_change_word(c->kind), weight_of_change(t, c), "claim %.*s gone%.*s",
                 STR_ARG(c->what), STR_ARG(sbuf_str(&users)));
    if (!x)
        return false;
    x->admin = x->weight >= CURE_WEIGHT_OTHERS;
    x->what = arena_str(&t->out->arena, c->what);
    cure_point(t, x, CURE_RELEASE, "ResourceClaim", namespace, name);
    return true;
}

// Devices of a driver that is gone: neither a toleration nor an end of the rule brings it back.
static bool add_stale(struct trial *t, const struct alloc_change *c)
{
    struct cure_change *x = cure_add(
        t, "startDriver", CURE_WEIGHT_REPAIR,
        "start the driver again whose devices request %.*s could have: it gives no sign of life "
        "(taint %.*s)",
        STR_ARG(c->request), STR_ARG(c->what));
    if (x)
        x->admin = true;
    return x != NULL;
}

// A request for extended resources stands in the pod.
static bool add_special(struct trial *t, struct attempt *a, const struct alloc_change *c)
{
    if (c->kind != ALLOC_CHANGE_COUNT || !a->special.claim)
        return false;
    struct str request = a->special.claim->spec.devices.requests.p[c->at.request].name;
    for (size_t i = 0; i < a->special.mappings.n; i++) {
        const struct api_container_extended_resource_request *m = &a->special.mappings.p[i];
        if (!str_eq(m->request_name, request))
            continue;
        for (size_t k = 0; k < t->api->spec.containers.n; k++) {
            if (!str_eq(t->api->spec.containers.p[k].name, m->container_name))
                continue;
            struct cure_change *x =
                cure_add(t, "request", weight_of_change(t, c),
                         "lower the limit of the extended resource to %.*s (%.*s, instead of %.*s)",
                         STR_ARG(c->to), STR_ARG(m->resource_name), STR_ARG(c->from));
            cleanup_sbuf struct sbuf path = {0};
            if (!x)
                return false;
            cure_add_path(&path, m->resource_name);
            cure_point(t, x, CURE_PATCH, "Pod", t->api->metadata.namespace, t->api->metadata.name);
            x->patch = arena_strf(
                &t->out->arena,
                "[{\"op\":\"add\",\"path\":\"/spec/containers/%zu/resources/limits%s\",\"value\":"
                "\"%.*s\"},{\"op\":\"add\",\"path\":\"/spec/containers/%zu/resources/requests%s\","
                "\"value\":\"%.*s\"}]",
                k, path.p, STR_ARG(c->to), k, path.p, STR_ARG(c->to));
            return true;
        }
    }
    return false;
}

static bool add_of_claim(struct trial *t, struct attempt *a, const struct alloc_change *c)
{
    cleanup_sbuf struct sbuf patch = {0};
    const struct api_resource_claim *claim = a->open[c->at.claim];
    struct claim_place p = place_of_claim(t, claim);
    struct cure_change *x =
        cure_add(t, alloc_change_word(c->kind), weight_of_change(t, c), "%.*s", STR_ARG(c->text));
    if (!x)
        return false;
    struct arena *arena = &t->out->arena;
    write_claim_patch(&patch, &p, c);
    cure_point(t, x, CURE_PATCH, p.object, t->api->metadata.namespace, p.name);
    x->patch = arena_str(arena, sbuf_str(&patch));
    x->claim = arena_str(arena, c->claim);
    x->request = arena_str(arena, c->request);
    x->what = arena_str(arena, c->what);
    x->from = arena_str(arena, c->from);
    x->to = arena_str(arena, c->to);
    return true;
}

static bool add_change(struct trial *t, struct attempt *a, const struct alloc_change *c)
{
    if (c->kind == ALLOC_CHANGE_HOLDER)
        return add_holder(t, c);
    if (c->kind == ALLOC_CHANGE_NODE)
        return cure_add(t, alloc_change_word(c->kind), CURE_WEIGHT_NODE, "%.*s",
                        STR_ARG(c->text)) != NULL;
    if (c->kind == ALLOC_CHANGE_TOLERATION && str_starts(c->what, STR(STALE_TAINT)))
        return add_stale(t, c);
    if (c->at.claim >= a->open_len)
        return add_special(t, a, c);
    return add_of_claim(t, a, c);
}

// --- Taint rules ---------------------------------------------------------------------------------

struct rule_of_taint {
    struct trial *t;
    const struct api_device_taint *taint;
    struct str rule;
};

static void rule_matches(void *arg, const struct typed_object *o)
{
    struct rule_of_taint *f = arg;
    const struct api_device_taint *x =
        &((const struct api_device_taint_rule *)o->object.value)->spec.taint;
    if (!f->rule.n && str_eq(x->key, f->taint->key) && str_eq(x->value, f->taint->value) &&
        str_eq(x->effect, f->taint->effect))
        f->rule = o->meta->name;
}

// A taint that an administrator has set by a rule ends with the rule.
static void offer_rule(struct trial *t, const struct alloc_change *c)
{
    struct rule_of_taint f = {.t = t, .taint = c->taint};
    const struct cure kept = t->cure;
    if (!c->taint || str_eqz(c->taint->key, STALE_TAINT) || !t->s->watch.informers[WATCH_RULES])
        return;
    informer_foreach(t->s->watch.informers[WATCH_RULES], rule_matches, &f);
    struct cure_change *x =
        f.rule.n ? cure_add(t, "deleteRule", CURE_WEIGHT_UNTAINT + 1,
                            "delete DeviceTaintRule %.*s, which taints them", STR_ARG(f.rule))
                 : NULL;
    if (x) {
        x->admin = true;
        cure_point(t, x, CURE_DELETE, "DeviceTaintRule", STR(""), f.rule);
        x->command =
            arena_strf(&t->out->arena, "kubectl delete devicetaintrule %.*s", STR_ARG(f.rule));
        cure_offer(t);
    }
    t->cure = kept;
}

// --- All -----------------------------------------------------------------------------------------

// Do both change the text of one selector? Their patches would undo each other.
static bool is_one_text(const struct alloc_change *a, const struct alloc_change *b)
{
    bool texts = (a->kind == ALLOC_CHANGE_SELECTOR || a->kind == ALLOC_CHANGE_REWRITE) &&
                 (b->kind == ALLOC_CHANGE_SELECTOR || b->kind == ALLOC_CHANGE_REWRITE);
    return texts && a->at.claim == b->at.claim && a->at.request == b->at.request &&
           a->at.sub == b->at.sub && a->at.place == b->at.place;
}

static void offer_remedy(struct trial *t, struct attempt *a, const struct alloc_remedy *m)
{
    const struct cure kept = t->cure;
    bool ok = m->changes_len < 2 || !is_one_text(&m->changes[0], &m->changes[1]);
    if (m->changes_len == 1 && m->changes[0].kind == ALLOC_CHANGE_TOLERATION)
        offer_rule(t, &m->changes[0]);
    for (size_t i = 0; i < m->changes_len; i++)
        ok = ok && add_change(t, a, &m->changes[i]);
    if (ok)
        cure_offer(t);
    t->cure = kept;
}

void cure_devices(struct trial *t, struct attempt *a)
{
    struct sched *s = t->s;
    struct err err;
    const struct alloc_view *view = index_view(s->devices, t->node->index, &err);
    size_t n = a->open_len + a->special.used;
    struct alloc_remedies found = {0};
    struct cure_rewrites *words = &t->out->words;
    if (!view || !n)
        return;
    if (!t->out->words_known)
        cure_find_words(s, a->open, a->open_len, &t->out->arena, words);
    t->out->words_known = true;
    const struct alloc_remedy_ask ask = {.views = &view,
                                         .views_len = 1,
                                         .claims = a->open,
                                         .claims_len = n,
                                         .rewrites = words->p,
                                         .rewrites_len = words->n,
                                         .arena = &t->arena};
    s->cost.expire_calls = DEVICE_CALLS;
    alloc_remedies_ask(s->solver, &ask, &found);
    for (size_t i = 0; i < found.remedies_len && i < OFFERED_MAX; i++)
        offer_remedy(t, a, &found.remedies[i]);
    cleanup_sbuf struct sbuf core = {0};
    s->cost.expire_calls = DEVICE_CALLS;
    if (!t->out->core.n && !t->cure.n && n && !a->special.used &&
        alloc_conflict_core(s->solver, view, a->open, n, &core))
        t->out->core = arena_str(&t->out->arena, sbuf_str(&core));
}
