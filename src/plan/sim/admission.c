// SPDX-License-Identifier: Apache-2.0
//
// Admission of plans. Rules for RuntimeClasses, LimitRanges, priorities, tolerations and disruption
// budgets exist once, in src/registry; this file runs them with dry-run requests. The registry has
// an exec of its own, so that a request can be answered while the scheduler or a controller waits.
#include "plan/sim/admission.h"

#include "api/cel_check.h"
#include "base/exec.h"
#include "plan/sim/plan_int.h"
#include "registry/registry.h"

#include "base/banned.h"

// Plans do not need service accounts, and files need not list the namespaces they use.
#define ADMISSION_OFF STR("NamespaceLifecycle,ServiceAccount")

struct admission {
    struct clock_fake clock;
    struct rng_seeded rng;
    struct exec_sim *exec;
    struct features features;
    struct api_cel_engine *cel;
    struct store *store;
    struct registry *registry;
};

static void admission_run(struct admission *a)
{
    while (exec_sim_step(a->exec))
        ;
}

static void admission_on_stored(void *arg, int code, const struct err *err)
{
    (void)arg;
    (void)code;
    (void)err;
}

void admission_put(struct admission *a, const struct api_object *object)
{
    struct arena arena = {0};
    cleanup_sbuf struct sbuf json = {0};
    struct json_writer w = {.out = &json};
    struct api_object own = {object->kind,
                             arena_alloc(&arena, object->kind->type->size, _Alignof(max_align_t))};
    memcpy(own.value, object->value, object->kind->type->size); // it shares the rest
    const struct api_object_meta *m = api_object_meta(&own);
    api_set_type_meta(&own);
    if (api_json_write(own.kind->type, own.value, &w, NULL) == 0) {
        const struct store_key key = {own.kind, m->namespace, m->name};
        const struct object *head = store_head(a->store, &key);
        struct object *o =
            object_new(&(struct object_parts){.kind = own.kind,
                                              .revision = store_next_revision(a->store),
                                              .namespace = m->namespace,
                                              .name = m->name,
                                              .uid = m->uid,
                                              .json = sbuf_str(&json)});
        (void)!store_put(a->store, o, head ? head->revision : 0, admission_on_stored, NULL, NULL);
        object_unref(o);
        admission_run(a);
    }
    arena_done(&arena);
}

// The priority classes that every cluster has.
static void admission_put_system_classes(struct admission *a)
{
    static const struct {
        struct str name;
        int32_t value;
    } system[] = {{STR_INIT("system-cluster-critical"), 2000000000},
                  {STR_INIT("system-node-critical"), 2000001000}};
    for (size_t i = 0; i < array_len(system); i++) {
        struct api_priority_class c = {.metadata.name = system[i].name, .value = system[i].value};
        admission_put(a, &(struct api_object){world_kind(&api_priority_class_type), &c});
    }
}

struct admission *admission_new(const struct features *features, int64_t wall_ns)
{
    struct admission *a = xcalloc(1, sizeof(*a));
    struct err err = {0};
    if (features)
        a->features = *features;
    else
        features_init(&a->features, FEATURES_MINOR);
    clock_fake_init(&a->clock, wall_ns);
    rng_seeded_init(&a->rng, 1);
    a->exec = exec_sim_new(&a->clock, &a->rng.rng);
    a->cel = api_cel_engine_new();
    const struct store_options so = {.exec = exec_sim_exec(a->exec), .commit_on_exec = true};
    int r = store_open(&so, &a->store, &err);
    const struct registry_options ro = {.store = a->store,
                                        .exec = exec_sim_exec(a->exec),
                                        .features = &a->features,
                                        .cel = api_cel_engine_rules(a->cel),
                                        .disable_admission = ADMISSION_OFF};
    if (r == 0)
        r = registry_new(&ro, &a->registry, &err);
    assert(r == 0); // in memory, nothing can fail
    (void)r;
    admission_run(a);
    admission_put_system_classes(a);
    return a;
}

void admission_free(struct admission *a)
{
    if (!a)
        return;
    admission_run(a);
    registry_free(a->registry);
    store_close(a->store);
    api_cel_engine_free(a->cel);
    exec_sim_free(a->exec);
    free(a);
}

// --- Requests ------------------------------------------------------------------------------------

struct admission_answer {
    struct arena *arena;
    struct api_object object; // as admitted; value NULL: none
    struct sbuf *why;
    int r;
    bool done;
};

static void admission_add_why(const struct api_status *status, struct sbuf *why)
{
    sbuf_add(why, status->message);
    for (size_t i = 0; status->details && i < status->details->causes.n; i++)
        if (str_eqz(status->details->causes.p[i].reason, "DisruptionBudget"))
            sbuf_addf(why, " %.*s", STR_ARG(status->details->causes.p[i].message));
}

static void admission_on_answer(void *arg, const struct registry_answer *answer)
{
    struct admission_answer *a = arg;
    cleanup_json_doc struct json_doc doc = {0};
    a->done = true;
    a->r = answer->code;
    if (answer->code < 0 && answer->status)
        admission_add_why(answer->status, a->why);
    else if (answer->object && json_parse(answer->object->json, NULL, &doc, NULL) == 0)
        (void)!api_decode(&doc, doc.root, a->arena, NULL, &a->object, NULL);
}

static void admission_ask(struct admission *a, const struct registry_request *q,
                          const struct api_object *body, struct admission_answer *ret)
{
    registry_create(a->registry, q, body, ret->arena, admission_on_answer, ret);
    admission_run(a);
    assert(ret->done);
}

int admission_create_pod(struct admission *a, struct api_pod *pod, struct arena *arena,
                         struct sbuf *why)
{
    struct api_pod sent;
    struct admission_answer answer = {.arena = arena, .why = why};
    const struct api_object body = {world_kind(&api_pod_type), &sent};
    api_copy(&api_pod_type, pod, &sent, arena); // the registry changes it
    sent.metadata.owner_references.n = 0;       // workloads of files have no UID to refer to
    api_set_type_meta(&body);
    admission_ask(a,
                  &(struct registry_request){.kind = body.kind,
                                             .namespace = pod->metadata.namespace,
                                             .dry_run = true,
                                             .field_validation = REGISTRY_FIELDS_IGNORE},
                  &body, &answer);
    if (answer.r < 0)
        return answer.r;
    if (answer.object.value)
        pod->spec = ((const struct api_pod *)answer.object.value)->spec;
    return 0;
}

int admission_evict_pod(struct admission *a, const struct api_pod *pod, struct sbuf *why)
{
    struct arena arena = {0};
    struct str name = pod->metadata.name, namespace = pod->metadata.namespace;
    struct api_namespace ns = {.metadata.name = namespace};
    struct api_eviction eviction = {.metadata = {.name = name, .namespace = namespace}};
    const struct api_kind *kind = world_kind(&api_pod_type);
    struct admission_answer answer = {.arena = &arena, .why = why};
    admission_put(a, &(struct api_object){world_kind(&api_namespace_type), &ns});
    admission_put(a, &(struct api_object){kind, (void *)(uintptr_t)pod});
    admission_ask(a,
                  &(struct registry_request){.kind = kind,
                                             .subresource = STR("eviction"),
                                             .namespace = namespace,
                                             .name = name,
                                             .dry_run = true},
                  &(struct api_object){api_kind_find(STR("policy/v1"), STR("Eviction")), &eviction},
                  &answer);
    arena_done(&arena);
    return answer.r;
}
