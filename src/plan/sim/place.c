// SPDX-License-Identifier: Apache-2.0
//
// Plans: the world goes into a cluster in memory, the controllers make what is missing, the
// scheduler places what has no place yet, and what came of it is read from the objects and from the
// scheduler.
#include "api/match/claim.h"
#include "api/match/node.h"
#include "plan/sim/sim.h"

#include "base/banned.h"

#define SETTLE_S 3600 // on the clock of the cluster in memory

struct placing {
    struct plan *p;
    struct sim sim;
    size_t target;                         // of plan_why; SIZE_MAX: everything
    struct told_before MAP(uint32_t) told; // step that was explained, by workload and message
};

// --- What takes part -----------------------------------------------------------------------------

// place_takes_part: of plan_why only what comes before the target, and its own group.
static bool place_takes_part(const struct placing *at, size_t number)
{
    const struct unit *u = &at->p->units.p[number];
    if (at->target == SIZE_MAX || number == at->target || u->bound)
        return true;
    const struct unit *target = &at->p->units.p[at->target];
    bool together = target->group.n && str_eq(target->group, u->group) &&
                    str_eq(target->namespace, u->namespace);
    return together || (number < at->target && !at->p->options.alone);
}

struct left_out MAP(bool);

static bool place_is_left_out(void *arg, struct str pod)
{
    const struct left_out *left = arg;
    return map_has(left, pod);
}

// --- Before the scheduler ------------------------------------------------------------------------

// place_probe puts in a pod that wants nothing but a claim that no pod names.
static void place_probe(struct placing *at, const struct unit *u)
{
    struct api_pod_resource_claim entry = {
        .name = STR("claim"), .resource_claim_name = u->claim, .has_resource_claim_name = true};
    struct api_container container = {.name = STR("none"), .image = STR("none")};
    struct api_pod pod = {.metadata = {.namespace = u->namespace, .name = u->pod},
                          .spec = {.resource_claims = {.p = &entry, .n = 1},
                                   .containers = {.p = &container, .n = 1},
                                   .scheduler_name = STR(SIM_SCHEDULER)}};
    sim_put(&at->sim, &api_pod_type, &pod);
}

// place_return gives an evicted pod back to the scheduler, as its controller creates it again,
// without what was made for it alone.
static void place_return(struct placing *at, const struct typed_object *evicted)
{
    const struct api_pod *was = evicted->object.value;
    struct api_pod pod = *was;
    for (size_t i = 0; i < was->status.resource_claim_statuses.n; i++) {
        struct str name = was->status.resource_claim_statuses.p[i].resource_claim_name;
        const struct typed_object *o = sim_claim(&at->sim, was->metadata.namespace, name);
        if (!o || !claim_is_for(o->object.value, was, false))
            continue;
        struct api_resource_claim claim = *(const struct api_resource_claim *)o->object.value;
        claim.metadata.finalizers = (struct api_str_array){0};
        claim.metadata.deletion_timestamp = claim.metadata.creation_timestamp;
        sim_put(&at->sim, &api_resource_claim_type, &claim);
    }
    pod.metadata.uid = STR("");
    pod.metadata.deletion_timestamp = (struct api_time){0};
    pod.spec.node_name = STR("");
    pod.status = (struct api_pod_status){.phase = STR("Pending")};
    sim_put(&at->sim, &api_pod_type, &pod);
}

static bool place_is_of_daemons(const struct api_object_meta *pod)
{
    const struct api_owner_reference *owner = meta_controller(pod);
    return owner && str_eqz(owner->kind, "DaemonSet");
}

// place_add_daemon makes a unit of a pod that the controller of DaemonSets has created.
static void place_add_daemon(void *arg, const struct typed_object *o)
{
    struct plan *p = arg;
    struct str name = world_full_name(&p->arena, o->meta->namespace, o->meta->name);
    if (!place_is_of_daemons(o->meta) || world_find(p->world, PLAN_POD, name))
        return;
    struct str set = meta_controller(o->meta)->name;
    vec_push(&p->units,
             ((struct unit){.is_pod = true,
                            .name = name,
                            .namespace = arena_str(&p->arena, o->meta->namespace),
                            .pod = arena_str(&p->arena, o->meta->name),
                            .alike = arena_strf(&p->arena, "%.*s/%.*s", STR_ARG(o->meta->namespace),
                                                STR_ARG(set))}));
}

static void place_add_daemons(struct placing *at)
{
    struct plan *p = at->p;
    memory_foreach(at->sim.memory, world_kind(&api_pod_type), place_add_daemon, p);
    world_foreach(p->world, PLAN_OTHER, o)
    {
        struct str why =
            o->type == &api_daemon_set_type ? sim_refusal(&at->sim, o->name) : (struct str){0};
        if (why.n)
            world_note(p->world, "pods of DaemonSet %.*s are not admitted: %.*s", STR_ARG(o->name),
                       STR_ARG(why));
    }
}

static void place_return_evicted(struct placing *at)
{
    struct plan *p = at->p;
    struct sim *s = &at->sim;
    size_t n = s->evictions.n;
    for (size_t i = 0; i < n; i++) {
        const struct typed_object *pod = s->evictions.p[i].pod;
        bool again = place_is_of_daemons(pod->meta); // by the controller
        if (!again)
            place_return(at, pod);
        for (size_t k = 0; k < p->units.n; k++)
            if (p->units.p[k].is_pod && str_eq(p->units.p[k].pod, pod->meta->name) &&
                str_eq(p->units.p[k].namespace, pod->meta->namespace)) {
                p->units.p[k].bound = false;
                p->units.p[k].gone = again;
            }
    }
}

// place_admit_claims creates the claims of files, as far as quotas allow.
static void place_admit_claims(struct placing *at)
{
    world_foreach(at->p->world, PLAN_CLAIM, o)
    {
        struct api_resource_claim own = *(const struct api_resource_claim *)o->value;
        if (units_is_new_claim(o))
            (void)!sim_admit_claim(&at->sim, &own); // a refusal is reported later
    }
}

static void place_prepare(struct placing *at)
{
    struct plan *p = at->p;
    struct left_out left = {0};
    const struct clock *clock = p->options.clock;
    sim_start(&at->sim, p->options.features, clock ? clock_wall_ns(clock) : SIM_FIXED_WALL_NS);
    for (size_t i = 0; i < p->units.n; i++)
        if (!place_takes_part(at, i))
            *map_put(&left, p->units.p[i].name) = true;
    sim_load_world(p, &at->sim, place_is_left_out, &left);
    map_done(&left);
    if (p->world->evicts)
        sim_evict(&at->sim);
    sim_control(&at->sim);
    sim_settle(&at->sim, SETTLE_S); // reservations of pods that are gone go
    place_return_evicted(at);
    place_add_daemons(at);
    place_admit_claims(at);
    for (size_t i = 0; i < p->units.n; i++) {
        const struct unit *u = &p->units.p[i];
        if (u->fresh && place_takes_part(at, i))
            (void)!sim_admit_pod(&at->sim, u->fresh); // a refusal is reported later
    }
    sim_settle(&at->sim, SETTLE_S);
}

// --- What came of it -----------------------------------------------------------------------------

static void place_take_claim(struct placing *at, struct step *step, struct str name)
{
    const struct typed_object *o = sim_claim(&at->sim, step->unit->namespace, name);
    if (o)
        vec_push(&step->claims, typed_object_ref(o));
}

static void place_take_claims(struct placing *at, struct step *step, const struct api_pod *pod)
{
    if (!step->unit->is_pod) {
        place_take_claim(at, step, step->unit->claim);
        return;
    }
    for (size_t i = 0; pod && i < pod->spec.resource_claims.n; i++) {
        struct str name;
        bool check;
        if (claim_name_of(pod, &pod->spec.resource_claims.p[i], &name, &check) == CLAIM_NAMED)
            place_take_claim(at, step, name);
    }
    if (pod && pod->status.extended_resource_claim_status)
        place_take_claim(at, step, pod->status.extended_resource_claim_status->resource_claim_name);
}

static const struct api_allocation_result *place_allocation(const struct typed_object *claim)
{
    return ((const struct api_resource_claim *)claim->object.value)->status.allocation;
}

// "; gpu: ", with the claim's name, short of the pod's, where there are several claims.
static void place_begin_request(const struct step *step, size_t claim, struct str request,
                                struct sbuf *out)
{
    sbuf_addz(out, out->n ? "; " : "");
    if (step->claims.n > 1) {
        struct str name = step->claims.p[claim]->meta->name;
        struct str pod = step->unit->pod;
        if (str_starts(name, pod) && name.n > pod.n + 1)
            name = str_from(name, pod.n + 1);
        sbuf_addf(out, "%.*s/", STR_ARG(name));
    }
    sbuf_addf(out, "%.*s: ", STR_ARG(request));
}

static void place_add_device(const struct api_device_request_allocation_result *r, struct str node,
                             struct sbuf *out)
{
    if (!str_eq(r->pool, node))
        sbuf_addf(out, "%.*s/", STR_ARG(r->pool));
    sbuf_add(out, r->device);
    for (size_t m = 0; m < r->consumed_capacity.n; m++) {
        sbuf_addf(out, "%s%.*s=", m ? "," : "(", STR_ARG(r->consumed_capacity.p[m].key));
        quantity_write(&r->consumed_capacity.p[m].value, out);
    }
    if (r->consumed_capacity.n)
        sbuf_addc(out, ')');
}

// "gpu: gpu-0, gpu-1; nic: rdma-0"; the pool is named where it is not the node's name.
static struct str place_devices_text(struct plan *p, const struct step *step)
{
    cleanup_sbuf struct sbuf b = {0};
    for (size_t i = 0; i < step->claims.n; i++) {
        const struct api_allocation_result *a = place_allocation(step->claims.p[i]);
        struct str last = {0};
        for (size_t k = 0; a && k < a->devices.results.n; k++) {
            const struct api_device_request_allocation_result *r = &a->devices.results.p[k];
            if (last.p && str_eq(last, r->request))
                sbuf_addz(&b, ", ");
            else
                place_begin_request(step, i, r->request, &b);
            last = r->request;
            place_add_device(r, step->pub.node, &b);
        }
    }
    return arena_str(&p->arena, sbuf_str(&b));
}

static bool place_usable_on(const struct typed_object *claim, const struct api_node *node)
{
    const struct api_node_selector *s = place_allocation(claim)->node_selector;
    return !s || node_matches(node, STR(""), false, s, NULL) > 0;
}

// place_node_of_claim is the one node where an allocated claim can be used.
static struct str place_node_of_claim(const struct plan *p, const struct typed_object *claim)
{
    struct str only = {0};
    for (size_t i = 0; i < p->nodes.n; i++) {
        if (!place_usable_on(claim, p->nodes.p[i]))
            continue;
        if (only.n)
            return STR("(several)");
        only = p->nodes.p[i]->metadata.name;
    }
    return only;
}

// --- Why not -------------------------------------------------------------------------------------

static struct str place_text_of(struct arena *arena, const yyjson_val *v, const char *key)
{
    return arena_str(arena, json_get_str(v, key));
}

static struct str place_json_of(struct arena *arena, const yyjson_val *v, const char *key)
{
    cleanup_sbuf struct sbuf b = {0};
    struct json_writer w = {.out = &b};
    const yyjson_val *t = v ? json_get(v, str_z(key)) : NULL;
    if (t)
        json_write_value(&w, t);
    return arena_str(arena, sbuf_str(&b));
}

static void place_add_advice(const yyjson_val *root, struct sbuf *text)
{
    const yyjson_val *advice = json_get(root, STR("advice"));
    if (!advice || !json_is_array(advice))
        return;
    json_arr_foreach(advice, line)
        if (json_is_string(line))
            sbuf_addf(text, "What would help: %.*s\n", STR_ARG(json_str(line)));
}

// place_read_answer takes over the scheduler's explanation of a pod that waits.
static void place_read_answer(struct placing *at, struct step *step, const yyjson_val *root,
                              struct sbuf *text)
{
    struct arena *arena = &at->p->arena;
    const yyjson_val *now = json_get(root, STR("now"));
    struct str cause = place_text_of(arena, root, "cause");
    struct str state = place_text_of(arena, root, "state");
    step->pub.node = place_text_of(arena, root, "node");
    if (str_eqz(state, "binding") && step->pub.node.n) {
        step->pub.status = PLAN_PLACED; // what it still waits for is not here: drivers, storage
        return;
    }
    step->pub.node = STR("");
    step->pub.status = now || !at->p->nodes.n ? PLAN_NO : PLAN_ERROR;
    step->pub.summary = now ? place_text_of(arena, now, "summary") : cause;
    step->explanation_json = place_json_of(arena, now, "report");
    step->remedies_json = place_json_of(arena, now, "remedies");
    if (!text->n)
        sbuf_addf(text, "%.*s\n", STR_ARG(cause));
    place_add_advice(root, text);
    step->explanation = arena_str(arena, sbuf_str(text));
}

static void place_explain(struct placing *at, struct step *step)
{
    const struct unit *u = step->unit;
    cleanup_sbuf struct sbuf json = {0}, text = {0};
    cleanup_json_doc struct json_doc doc = {0};
    const struct json_options whole = {.max_bytes = SIZE_MAX};
    struct err err = {0};
    if (!u->is_pod) { // as a claim that no pod uses
        (void)memory_delete(at->sim.memory,
                            &(struct client_key){api_kind_find(STR("v1"), STR("Pod")), u->namespace,
                                                 u->pod});
        sim_settle(&at->sim, 0);
    }
    int r = sched_explain_text(at->sim.sched, u->is_pod ? STR("Pod") : STR("ResourceClaim"),
                               u->namespace, u->is_pod ? u->pod : u->claim, &json, &text, &err);
    if (r == 0)
        r = json_parse(sbuf_str(&json), &whole, &doc, &err);
    if (r < 0) {
        step->pub.status = PLAN_ERROR;
        step->pub.summary = arena_str(&at->p->arena, str_z(err.msg));
        return;
    }
    step->pub.why = arena_str(&at->p->arena, sbuf_str(&json));
    place_read_answer(at, step, doc.root, &text);
}

static struct str place_condition(const struct api_pod *pod)
{
    for (size_t i = 0; i < pod->status.conditions.n; i++)
        if (str_eqz(pod->status.conditions.p[i].type, "PodScheduled"))
            return pod->status.conditions.p[i].message;
    return (struct str){0};
}

// place_explain_once explains one of many replicas with the same condition.
static void place_explain_once(struct placing *at, struct step *step, const struct api_pod *pod)
{
    struct plan *p = at->p;
    if (p->options.only_verdict)
        return;
    if (!step->unit->alike.n || !pod) {
        place_explain(at, step);
        return;
    }
    bool is_new = false;
    struct str key = arena_strf(&p->arena, "%.*s\n%.*s", STR_ARG(step->unit->alike),
                                STR_ARG(place_condition(pod)));
    uint32_t *known = map_put_new(&at->told, key, &is_new);
    if (is_new) {
        *known = (uint32_t)p->steps.n;
        place_explain(at, step);
        return;
    }
    const struct step *first = &p->steps.p[*known];
    step->pub.status = first->pub.status;
    step->pub.node = first->pub.node;
    step->pub.summary = first->pub.summary;
    step->explanation = first->explanation;
    step->explanation_json = first->explanation_json;
    step->remedies_json = first->remedies_json;
}

static void place_refused(struct placing *at, struct step *step, struct str why)
{
    cleanup_sbuf struct sbuf json = {0};
    struct json_writer w = {.out = &json};
    step->pub.summary = why;
    step->explanation = arena_strf(&at->p->arena, "%.*s\n", STR_ARG(why));
    json_write_object_begin(&w);
    json_write_key(&w, STR("kind"));
    json_write_str(&w, STR("Pod"));
    json_write_key(&w, STR("name"));
    json_write_str(&w, step->unit->name);
    json_write_key(&w, STR("cause"));
    json_write_str(&w, why);
    json_write_object_end(&w);
    step->pub.why = arena_str(&at->p->arena, sbuf_str(&json));
}

static void place_take_step(struct placing *at, const struct unit *u)
{
    struct plan *p = at->p;
    struct step step = {.unit = u, .pub = {.status = PLAN_NO}};
    const struct typed_object *o = u->pod.n ? sim_pod(&at->sim, u->namespace, u->pod) : NULL;
    const struct api_pod *pod = o ? o->object.value : NULL;
    struct str refusal =
        sim_refusal(&at->sim, u->is_pod
                                  ? u->name
                                  : arena_strf(&p->arena, SIM_CLAIM_KEY "%.*s", STR_ARG(u->name)));
    step.pub.name = arena_strf(&p->arena, "%s %.*s", u->is_pod ? "pod" : "claim", STR_ARG(u->name));
    if (u->staying.n) {
        step.pub.node = arena_str(&p->arena, pod ? pod->spec.node_name : STR(""));
        place_refused(at, &step, u->staying);
    } else if (u->bound || (pod && pod->spec.node_name.n)) {
        step.pub.status = u->bound ? PLAN_RUNNING : PLAN_PLACED;
        step.pub.node = arena_str(&p->arena, pod ? pod->spec.node_name : STR(""));
    } else if (refusal.n) {
        place_refused(at, &step, arena_str(&p->arena, refusal));
    } else {
        place_explain_once(at, &step, pod);
        o = u->pod.n ? sim_pod(&at->sim, u->namespace, u->pod) : NULL;
        pod = o ? o->object.value : NULL;
    }
    place_take_claims(at, &step, pod);
    if (!pod && !step.pub.node.n && u->bound && step.claims.n)
        step.pub.node = place_node_of_claim(p, step.claims.p[0]);
    step.pub.devices = place_devices_text(p, &step);
    vec_push(&p->steps, step);
}

// --- Whole plans ---------------------------------------------------------------------------------

static int place_begin(struct plan_world *w, const struct plan_options *options, struct plan **ret,
                       struct err *err)
{
    bool known = !options->node.n;
    world_foreach(w, PLAN_NODE, o) known = known || str_eq(o->name, options->node);
    world_foreach(w, PLAN_SLICE, o) known =
        known ||
        str_eq(((const struct api_resource_slice *)o->value)->spec.node_name, options->node);
    if (!known)
        return err_set(err, ERR_NOT_FOUND, "there is no node %.*s in the files",
                       STR_ARG(options->node));
    struct plan *p = xcalloc(1, sizeof(*p));
    p->world = w;
    p->options = *options;
    units_collect(p);
    *ret = p;
    return 0;
}

static void place_take_steps(struct placing *at, bool pods)
{
    for (size_t i = 0; i < at->p->units.n; i++)
        if (at->p->units.p[i].is_pod == pods && !at->p->units.p[i].gone &&
            (at->target == SIZE_MAX || i == at->target))
            place_take_step(at, &at->p->units.p[i]);
}

static void place_run(struct plan *p, size_t target)
{
    struct placing at = {.p = p, .target = target};
    place_prepare(&at);
    sim_schedule(&at.sim, p->options.policy);
    sim_settle(&at.sim, SETTLE_S);
    place_take_steps(&at, true);
    // Claims that no pod names come last, after the pods were explained.
    for (size_t i = 0; i < p->units.n; i++) {
        const struct unit *u = &p->units.p[i];
        if (!u->is_pod && !u->bound && place_takes_part(&at, i))
            place_probe(&at, u);
    }
    sim_settle(&at.sim, SETTLE_S);
    place_take_steps(&at, false);
    sim_end(&at.sim);
    map_done(&at.told);
}

int plan_make(struct plan_world *w, const struct plan_options *options, struct plan **ret,
              struct err *err)
{
    int r = place_begin(w, options, ret, err);
    if (r == 0)
        place_run(*ret, SIZE_MAX);
    return r;
}

static bool place_is_called(struct str full, struct str name)
{
    struct str namespace, rest;
    return str_eq(full, name) || (str_cut(full, '/', &namespace, &rest) &&
                                  str_eqz(namespace, "default") && str_eq(rest, name));
}

// place_uses_claim: a pod names the claim, or one would be made for it under that name.
static bool place_uses_claim(const struct plan *p, const struct unit *u, struct str name)
{
    const struct plan_object *o = u->fresh ? NULL : world_find(p->world, PLAN_POD, u->name);
    const struct api_pod *pod = u->fresh ? u->fresh : o ? o->value : NULL;
    struct arena tmp = {0};
    bool uses = false;
    for (size_t i = 0; pod && i < pod->spec.resource_claims.n && !uses; i++) {
        const struct api_pod_resource_claim *entry = &pod->spec.resource_claims.p[i];
        struct str claim;
        bool check;
        if (claim_name_of(pod, entry, &claim, &check) != CLAIM_NAMED)
            claim = arena_strf(&tmp, "%.*s-%.*s", STR_ARG(u->pod), STR_ARG(entry->name));
        uses = place_is_called(world_full_name(&tmp, u->namespace, claim), name);
    }
    arena_done(&tmp);
    return uses;
}

// place_unit_named finds the unit that a name means, SIZE_MAX: none. A claim of a pod means the
// pod.
static size_t place_unit_named(const struct plan *p, struct str name)
{
    bool pods = true;
    bool claims = true;
    if (str_starts(name, STR("pod/")) || str_starts(name, STR("claim/"))) {
        pods = name.p[0] == 'p';
        claims = !pods;
        (void)str_cut(name, '/', &(struct str){0}, &name);
    }
    for (size_t i = 0; i < p->units.n; i++) {
        const struct unit *u = &p->units.p[i];
        if ((u->is_pod ? pods : claims) && place_is_called(u->name, name))
            return i;
        if (claims && u->is_pod && place_uses_claim(p, u, name))
            return i;
    }
    return SIZE_MAX;
}

static int place_no_unit(const struct plan *p, struct str name, struct err *err)
{
    cleanup_sbuf struct sbuf b = {0};
    for (size_t i = 0; i < p->units.n && i < 6; i++)
        sbuf_addf(&b, "%s%s %.*s", i ? ", " : "", p->units.p[i].is_pod ? "pod" : "claim",
                  STR_ARG(p->units.p[i].name));
    if (b.n == 0)
        return err_set(err, ERR_NOT_FOUND, "no pod or claim %.*s: the files have none at all",
                       STR_ARG(name));
    return err_set(err, ERR_NOT_FOUND, "no pod or claim %.*s in the files; there are %.*s%s",
                   STR_ARG(name), STR_ARG(sbuf_str(&b)), p->units.n > 6 ? ", …" : "");
}

int plan_why(struct plan_world *w, struct str name, const struct plan_options *options,
             struct plan **ret, struct err *err)
{
    int r = place_begin(w, options, ret, err);
    if (r < 0)
        return r;
    struct plan *p = *ret;
    size_t target = place_unit_named(p, name);
    if (target == SIZE_MAX) {
        r = place_no_unit(p, name, err);
        plan_free(p);
        *ret = NULL;
        return r;
    }
    p->why = true;
    place_run(p, target);
    return 0;
}

void plan_free(struct plan *p)
{
    if (!p)
        return;
    vec_foreach(&p->steps, s) {
        for (size_t i = 0; i < s->claims.n; i++)
            typed_object_unref(s->claims.p[i]);
        vec_done(&s->claims);
    }
    vec_done(&p->units);
    vec_done(&p->nodes);
    vec_done(&p->steps);
    arena_done(&p->arena);
    free(p);
}

bool plan_complete(const struct plan *p)
{
    for (size_t i = 0; i < p->steps.n; i++)
        if (p->steps.p[i].pub.status == PLAN_NO || p->steps.p[i].pub.status == PLAN_ERROR)
            return false;
    return true;
}

size_t plan_steps(const struct plan *p)
{
    return p->steps.n;
}

struct plan_step plan_step_at(const struct plan *p, size_t i)
{
    return p->steps.p[i].pub;
}
