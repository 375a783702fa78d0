// SPDX-License-Identifier: Apache-2.0
//
// The claims of a pod: which they are, what has to be allocated, whether a node can give it.
#include "alloc/fleet.h"
#include "api/match/claim.h"
#include "api/match/node.h"
#include "base/hash.h"
#include "sched/dra/dra_int.h"
#include "sched/filter/packing.h"

#include "base/banned.h"

// --- Names ---------------------------------------------------------------------------------------

// Names the first template of a pod that is not there: as long as one is missing, no claim of the
// pod gets a name. Only a list that is complete can tell.
static void dra_write_missing_template(const struct sched *s, const struct api_pod *pod,
                                       struct sbuf *why)
{
    const struct informer *templates = s->watch.informers[WATCH_TEMPLATES];
    if (!templates || informer_revision(templates) == 0)
        return;
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++) {
        struct str name = pod->spec.resource_claims.p[i].resource_claim_template_name;
        if (!name.n || informer_get(templates, pod->metadata.namespace, name))
            continue;
        sbuf_addf(why, ": ResourceClaimTemplate \"%.*s\" does not exist", STR_ARG(name));
        return;
    }
}

// The claim behind an entry. Returns 1; 0 when none is needed; -1 with the reason.
static int dra_resolve_claim(struct sched *s, const struct api_pod *pod,
                             const struct api_pod_resource_claim *entry, struct sched_claim **ret,
                             struct sbuf *why)
{
    struct str name;
    bool check_owner;
    const struct api_object_meta *m = &pod->metadata;
    enum claim_name state = claim_name_of(pod, entry, &name, &check_owner);
    if (state == CLAIM_NOT_NEEDED)
        return 0;
    if (state != CLAIM_NAMED) {
        sbuf_addf(why, "pod \"%.*s/%.*s\": ResourceClaim not created yet", STR_ARG(m->namespace),
                  STR_ARG(m->name));
        dra_write_missing_template(s, pod, why);
        return -1;
    }
    struct sched_claim *k = claims_find(&s->claims, m->namespace, name);
    const struct api_resource_claim *claim = claims_api(k);
    if (!claim) {
        sbuf_addf(why, "could not find ResourceClaim \"%.*s/%.*s\"", STR_ARG(m->namespace),
                  STR_ARG(name));
        return -1;
    }
    if (claim->metadata.deletion_timestamp.set) {
        sbuf_addf(why, "resourceclaim \"%.*s\" is being deleted", STR_ARG(name));
        return -1;
    }
    if (check_owner && !claim_is_for(claim, pod, s->config.group_claims)) {
        struct str group = s->config.group_claims ? pod_group_name(pod) : (struct str){0};
        sbuf_addf(why, "ResourceClaim %.*s/%.*s was not created for Pod %.*s/%.*s (",
                  STR_ARG(m->namespace), STR_ARG(name), STR_ARG(m->namespace), STR_ARG(m->name));
        if (group.n)
            sbuf_addf(why, "neither Pod nor PodGroup %.*s is the owner)", STR_ARG(group));
        else
            sbuf_addz(why, "Pod is not owner)");
        return -1;
    }
    *ret = k;
    return 1;
}

bool dra_gate(struct sched *s, const struct api_pod *pod, struct sbuf *why)
{
    struct sched_claim *k;
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++)
        if (dra_resolve_claim(s, pod, &pod->spec.resource_claims.p[i], &k, why) < 0)
            return false;
    return true;
}

// --- Before the nodes ----------------------------------------------------------------------------

static bool class_missing(const struct attempt *a, struct str class_name)
{
    return !index_find_class(a->s->devices, class_name);
}

// Every class must exist. Also counts the devices that are needed at least.
static bool dra_check_requests(struct attempt *a, const struct api_resource_claim *claim)
{
    for (size_t i = 0; i < claim->spec.devices.requests.n; i++) {
        const struct api_device_request *r = &claim->spec.devices.requests.p[i];
        if (r->exactly) {
            if (class_missing(a, r->exactly->device_class_name)) {
                sbuf_addf(&a->text, "request %.*s: device class %.*s does not exist",
                          STR_ARG(r->name), STR_ARG(r->exactly->device_class_name));
                return false;
            }
            bool all = str_eqz(r->exactly->allocation_mode, "All");
            if (!(r->exactly->has_admin_access && r->exactly->admin_access))
                a->need += all || r->exactly->count < 0 ? 1 : (size_t)r->exactly->count;
            continue;
        }
        if (!r->first_available.n) {
            sbuf_addf(&a->text, "request %.*s: unknown request type", STR_ARG(r->name));
            return false;
        }
        size_t least = SIZE_MAX;
        for (size_t k = 0; k < r->first_available.n; k++) {
            const struct api_device_sub_request *sub = &r->first_available.p[k];
            if (class_missing(a, sub->device_class_name)) {
                sbuf_addf(&a->text, "request %.*s/%.*s: device class %.*s does not exist",
                          STR_ARG(r->name), STR_ARG(sub->name), STR_ARG(sub->device_class_name));
                return false;
            }
            size_t n =
                str_eqz(sub->allocation_mode, "All") || sub->count < 0 ? 1 : (size_t)sub->count;
            least = n < least ? n : least;
        }
        a->need += least;
    }
    return true;
}

static void dra_narrow_nodes(struct attempt *a, const struct api_node_selector *selector)
{
    struct str only = node_only_name(selector);
    if (only.n && !a->nodes.only.n)
        a->nodes.only = only;
}

static enum dra_begin begin_claim(struct attempt *a, struct want *w)
{
    const struct flight *flight = w->entry->flight;
    // Pods of one group cycle share what is in flight for one of them.
    w->allocation = w->claim->status.allocation;
    w->pending = !w->allocation && flight && flight->gang && flight->gang == a->s->turn.gang_now;
    if (w->pending)
        w->allocation = flight->allocation;
    w->allocated = w->allocation != NULL;
    if (w->allocated) {
        dra_narrow_nodes(a, w->allocation->node_selector);
        return DRA_OK;
    }
    if (flight) {
        sbuf_addf(&a->text, "resource claim %.*s is in the process of being allocated",
                  STR_ARG(w->entry->key));
        return DRA_WAIT;
    }
    if (!dra_check_requests(a, w->claim))
        return DRA_REFUSED;
    a->open[a->open_len++] = w->claim;
    return DRA_OK;
}

bool dra_is_special(const struct api_resource_claim *claim, const struct api_pod *pod)
{
    if (claim->metadata.deletion_timestamp.set && !claim->status.allocation)
        return false; // it holds nothing, and goes
    return claim_is_extended(&claim->metadata) && claim_is_for(claim, pod, false);
}

// The claim that an earlier attempt created for the pod's extended resources, if it still exists.
static struct sched_claim *find_special(struct sched *s, const struct sched_pod *p)
{
    const struct api_pod_extended_resource_claim_status *st =
        p->api->status.extended_resource_claim_status;
    if (st) {
        struct sched_claim *k =
            claims_find(&s->claims, p->api->metadata.namespace, st->resource_claim_name);
        const struct api_resource_claim *claim = claims_api(k);
        if (claim && dra_is_special(claim, p->api))
            return k;
    }
    for (size_t i = 0; i < p->claims_len; i++) {
        struct sched_claim **k = map_get(&s->claims.by_key, p->claims[i]);
        const struct api_resource_claim *claim = k ? claims_api(*k) : NULL;
        if (claim && dra_is_special(claim, p->api))
            return *k;
    }
    return NULL;
}

static void begin_special(struct attempt *a)
{
    struct sched *s = a->s;
    if (!extended_wanted(s, a->pod))
        return;
    struct want *w = &a->wants[a->wants_len++];
    w->special = true;
    a->special.want = w;
    w->entry = find_special(s, a->pod);
    if (w->entry) {
        w->object = typed_object_ref(w->entry->latest);
        w->claim = w->object->object.value;
        w->stale = true;
    }
}

static void dra_write_questions(const struct api_resource_claim *const *claims, size_t n,
                                struct sbuf *out)
{
    for (size_t i = 0; i < n; i++) {
        api_proto_write(&api_device_claim_type, &claims[i]->spec.devices, out);
        sbuf_addc(out, '\0');
    }
}

size_t dra_claims_of(struct sched *s, const struct api_pod *pod, struct arena *arena,
                     const struct api_resource_claim *const **ret, uint64_t *ret_hash)
{
    cleanup_sbuf struct sbuf bytes = {0}, unused = {0};
    size_t n = 0;
    const struct api_resource_claim **claims =
        arena_array(arena, const struct api_resource_claim *, pod->spec.resource_claims.n + 1);
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++) {
        struct sched_claim *k = NULL;
        if (dra_resolve_claim(s, pod, &pod->spec.resource_claims.p[i], &k, &unused) > 0)
            claims[n++] = k->latest->object.value;
    }
    dra_write_questions(claims, n, &bytes);
    *ret_hash = hash_str(sbuf_str(&bytes));
    *ret = claims;
    return n;
}

// What open claims ask for, as a number.
static void hash_questions(struct attempt *a)
{
    cleanup_sbuf struct sbuf bytes = {0};
    dra_write_questions(a->open, a->open_len, &bytes);
    if (a->special.want)
        for (size_t i = 0; i < a->pod->needs_len; i++)
            sbuf_addf(&bytes, "%u=%lld,", a->pod->needs[i].res, (long long)a->pod->needs[i].amount);
    a->devices_hash = hash_str(sbuf_str(&bytes));
}

enum dra_begin dra_begin(struct attempt *a)
{
    const struct api_pod *pod = a->api;
    size_t most = pod->spec.resource_claims.n + 1;
    uint64_t number = ++a->s->turn.begun;
    a->wants = arena_array(a->arena, struct want, most);
    a->open = arena_array(a->arena, const struct api_resource_claim *, most);
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++) {
        struct sched_claim *k = NULL;
        int r = dra_resolve_claim(a->s, pod, &pod->spec.resource_claims.p[i], &k, &a->text);
        if (r < 0)
            return DRA_GATED;
        if (r == 0 || k->wanted == number)
            continue; // a claim that is named twice is wanted once
        k->wanted = number;
        struct want *w = &a->wants[a->wants_len++];
        w->group = a->s->config.group_claims && a->pod->group &&
                   pod_entry_is_of_group(a->pod->group->api, &pod->spec.resource_claims.p[i]);
        w->entry = k;
        w->object = typed_object_ref(k->latest);
        w->claim = w->object->object.value;
    }
    begin_special(a);
    for (size_t i = 0; i < a->wants_len; i++) {
        if (a->wants[i].special)
            continue;
        enum dra_begin r = begin_claim(a, &a->wants[i]);
        if (r != DRA_OK)
            return r;
    }
    if (cost_has_too_many(a))
        return DRA_REFUSED;
    hash_questions(a);
    cost_learn_again(a);
    return DRA_OK;
}

// --- Binding conditions --------------------------------------------------------------------------

bool dra_has_conditions(const struct api_allocation_result *allocation)
{
    for (size_t i = 0; i < allocation->devices.results.n; i++)
        if (allocation->devices.results.p[i].binding_conditions.n)
            return true;
    return false;
}

static bool dra_condition_is_true(const struct api_condition *c)
{
    return c && str_eqz(c->status, "True");
}

const struct api_device_request_allocation_result *dra_unready(
    const struct api_resource_claim *claim)
{
    const struct api_device_request_allocation_result *late = NULL;
    const struct api_device_request_allocation_result_array *all =
        &claim->status.allocation->devices.results;
    for (size_t i = 0; i < all->n; i++) {
        const struct api_device_request_allocation_result *r = &all->p[i];
        for (size_t k = 0; k < r->binding_failure_conditions.n; k++)
            if (dra_condition_is_true(
                    claim_device_condition(claim, r, r->binding_failure_conditions.p[k])))
                return r;
        for (size_t k = 0; k < r->binding_conditions.n && !late; k++)
            if (!dra_condition_is_true(
                    claim_device_condition(claim, r, r->binding_conditions.p[k])))
                late = r;
    }
    return late;
}

// Years that nanoseconds cannot count are as far away as they can.
static int64_t ns_of(const struct moment *at)
{
    const int64_t most = INT64_MAX / CLOCK_NS_PER_SEC / 2;
    int64_t sec = at->sec > most ? most : at->sec < -most ? -most : at->sec;
    return sec * CLOCK_NS_PER_SEC;
}

enum binding_state dra_binding_state(const struct sched *s, const struct api_resource_claim *claim,
                                     struct sbuf *why)
{
    const struct api_allocation_result *a = claim->status.allocation;
    bool ready = true;
    for (size_t i = 0; i < a->devices.results.n; i++) {
        const struct api_device_request_allocation_result *r = &a->devices.results.p[i];
        for (size_t k = 0; k < r->binding_failure_conditions.n; k++) {
            const struct api_condition *c =
                claim_device_condition(claim, r, r->binding_failure_conditions.p[k]);
            if (!dra_condition_is_true(c))
                continue;
            if (why)
                sbuf_addf(why,
                          "device binding failed: claim=%.*s/%.*s, reason=%.*s, message=\"%.*s\"",
                          STR_ARG(claim->metadata.namespace), STR_ARG(claim->metadata.name),
                          STR_ARG(c->reason), STR_ARG(c->message));
            return BINDING_FAILED;
        }
        for (size_t k = 0; k < r->binding_conditions.n; k++)
            ready &=
                dra_condition_is_true(claim_device_condition(claim, r, r->binding_conditions.p[k]));
    }
    if (ready)
        return BINDING_READY;
    int64_t since =
        a->allocation_timestamp.set ? ns_of(&a->allocation_timestamp.at) : exec_wall_ns(s->exec);
    if (exec_wall_ns(s->exec) - since < s->config.binding_timeout_ns)
        return BINDING_WAITS;
    if (why)
        sbuf_addf(why, "device binding timeout: claim %.*s/%.*s",
                  STR_ARG(claim->metadata.namespace), STR_ARG(claim->metadata.name));
    return BINDING_LATE;
}

// --- One node ------------------------------------------------------------------------------------

static bool dra_node_declares(const struct api_node *node, const char *feature)
{
    for (size_t i = 0; i < node->status.declared_features.n; i++)
        if (str_eqz(node->status.declared_features.p[i], feature))
            return true;
    return false;
}

// Can the node use what is allocated already?
static bool allocated_fits(const struct attempt *a, const struct want *w,
                           const struct api_node *node)
{
    const struct sched *s = a->s;
    const struct api_allocation_result *r = w->allocation;
    if (r->node_selector && node_selector_match(r->node_selector, node) <= 0)
        return false;
    if (features_on(&s->config.features, FEATURE_DRA_OPTIONAL_NODE_OPERATIONS))
        for (size_t i = 0; i < r->devices.results.n; i++)
            if (r->devices.results.p[i].skip_node_operations.n &&
                !dra_node_declares(node, "DRAOptionalNodeOperations"))
                return false;
    if (!features_on(&s->config.features, FEATURE_DRA_DEVICE_BINDING_CONDITIONS) ||
        !dra_has_conditions(r))
        return true;
    // A claim that is being bound for another pod is not late yet.
    return w->pending || dra_binding_state(s, w->claim, NULL) >= BINDING_WAITS;
}

static void why_add(struct attempt *a, struct refusals *why, enum refusal_code code)
{
    refusal_add(a, why, (struct refusal){.code = code});
}

static void why_add_text(struct attempt *a, struct refusals *why, struct str text)
{
    if (why)
        refusal_add(a, why,
                    (struct refusal){.code = REFUSED_DEVICES, .detail = arena_str(a->arena, text)});
}

static enum why read_verdict(struct attempt *a, const struct sched_node *n, struct refusals *why)
{
    switch (a->last.answer.verdict) {
    case ALLOC_ALLOCATED:
        return WHY_NONE;
    case ALLOC_UNSATISFIABLE:
        why_add(a, why, REFUSED_CLAIMS);
        return WHY_DEVICES;
    case ALLOC_TIMEOUT:
        a->failed = true;
        sbuf_clear(&a->text);
        sbuf_addf(&a->text, "node %.*s: timed out trying to allocate devices", STR_ARG(n->name));
        return WHY_DEVICES;
    case ALLOC_POSTPONED: // a->s->cost records it
        a->failed = true;
        return WHY_DEVICES;
    case ALLOC_NODE_ERROR:
        why_add_text(a, why, a->last.answer.error);
        return WHY_DEVICES;
    case ALLOC_ERROR:
        a->failed = true;
        sbuf_clear(&a->text);
        sbuf_add(&a->text, a->last.answer.error);
        return WHY_DEVICES;
    }
    return WHY_DEVICES;
}

// What upstream's filterTimeout is for, counted instead of timed so that a run can be repeated.
#define SOLVE_CALLS_MAX UINT64_C(20000)

static enum why dra_solve_node(struct attempt *a, struct sched_node *n, size_t open_len,
                               struct refusals *why)
{
    struct sched *s = a->s;
    struct err err;
    const struct alloc_view *view = index_view(s->devices, n->index, &err);
    if (!view) {
        why_add_text(a, why, str_z(err.msg));
        return WHY_DEVICES;
    }
    s->stats.solves++;
    s->cost.expire_calls = SOLVE_CALLS_MAX;
    if (s->packing)
        fleet_at(packing_fleet(s->packing), a->by_worth ? n->index : UINT32_MAX);
    int64_t began_ns = exec_now_ns(s->exec);
    alloc_solve(s->solver, view, a->open, open_len, &a->last.answer);
    meter_solve(s, began_ns, a->last.answer.verdict);
    return read_verdict(a, n, why);
}

// Names the first claim that the node cannot use, and where it can be used.
static void refuse_elsewhere(struct attempt *a, struct refusals *why)
{
    struct refusal r = {.code = REFUSED_CLAIM_ELSEWHERE};
    for (size_t i = 0; why && i < a->wants_len; i++) {
        const struct want *w = &a->wants[i];
        if (!w->unavailable || !w->allocation || !w->entry)
            continue;
        struct str at = node_only_name(w->allocation->node_selector);
        if (at.n)
            r.detail = arena_strf(a->arena, ": %.*s is allocated on %.*s", STR_ARG(w->entry->key),
                                  STR_ARG(at));
        break;
    }
    refusal_add(a, why, r);
}

enum why dra_filter(struct attempt *a, struct sched_node *n, struct refusals *why)
{
    size_t open_len = a->open_len;
    bool unavailable = false;
    a->last.answer = (struct alloc_answer){.verdict = ALLOC_ALLOCATED};
    a->special.used = false;
    a->last.statuses.n = 0;
    a->last.node = n;
    if (!a->wants_len)
        return WHY_NONE;
    if (a->special.want) {
        int r = a->special.want->stale ? -2 : extended_on_node(a, n);
        if (r < 0) {
            a->special.want->unavailable |= r == -2;
            why_add(a, why, r == -2 ? REFUSED_EXTENDED_CLAIM : REFUSED_EXTENDED);
            return WHY_DEVICES;
        }
        a->special.used = r > 0;
        if (r > 0)
            a->open[open_len++] = a->special.claim;
    }
    for (size_t i = 0; i < a->wants_len; i++) {
        struct want *w = &a->wants[i];
        if (!w->allocated || w->special || allocated_fits(a, w, n->api))
            continue;
        w->unavailable = true;
        w->entry->unavailable = a->s->turn.gang_now;
        unavailable = true;
    }
    if (open_len) {
        enum why r = dra_solve_node(a, n, open_len, why);
        if (r != WHY_NONE)
            return r;
    }
    if (unavailable) {
        refuse_elsewhere(a, why);
        return WHY_DEVICES;
    }
    if (features_on(&a->s->config.features, FEATURE_DRA_NODE_ALLOCATABLE_RESOURCES))
        return nodealloc_filter(a, n, why);
    return WHY_NONE;
}

// --- Rank ----------------------------------------------------------------------------------------

#define ALTERNATIVES_MAX 8

static int64_t dra_request_rank(const struct api_resource_claim *claim, struct str request)
{
    struct str name;
    struct str sub;
    if (!str_cut(request, '/', &name, &sub))
        return 0;
    for (size_t i = 0; i < claim->spec.devices.requests.n; i++) {
        const struct api_device_request *r = &claim->spec.devices.requests.p[i];
        if (!str_eq(r->name, name))
            continue;
        for (size_t k = 0; k < r->first_available.n; k++)
            if (str_eq(r->first_available.p[k].name, sub))
                return ALTERNATIVES_MAX - (int64_t)k;
    }
    return 0;
}

// One alternative counts once, however many devices it has.
static int64_t dra_sum_ranks(const struct api_resource_claim *claim,
                             const struct api_device_request_allocation_result_array *rs)
{
    int64_t sum = 0;
    for (size_t i = 0; i < rs->n; i++)
        if (i == 0 || !str_eq(rs->p[i].request, rs->p[i - 1].request))
            sum += dra_request_rank(claim, rs->p[i].request);
    return sum;
}

int64_t dra_rank(const struct attempt *a)
{
    int64_t sum = 0;
    for (size_t c = 0; c < a->last.answer.results_len; c++)
        sum += dra_sum_ranks(a->open[c], &a->last.answer.results[c].devices.results);
    for (size_t i = 0; i < a->wants_len; i++) {
        const struct want *w = &a->wants[i];
        if (w->allocated && w->allocation)
            sum += dra_sum_ranks(w->claim, &w->allocation->devices.results);
    }
    return sum;
}
