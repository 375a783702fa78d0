// SPDX-License-Identifier: Apache-2.0
//
// Existing pods against a level that a namespace is about to enforce. As upstream: at most 3,000
// pods and a second, one pod of each controller before its others, one warning for all pods that
// are refused for the same reasons. Some pods are checked in each turn of the loop, of one scan at
// a time however many there are, so that others are served meanwhile; the answer to the request
// waits.
#include <stdlib.h>

#include "api/meta.h"
#include "registry/podsec/podsec_int.h"

#include "base/banned.h"

#define SCAN_PODS_MAX  3000
#define SCAN_TIME_NS   CLOCK_NS_PER_SEC
#define SCAN_TURN_PODS 64
#define SCAN_TURN_NS   (5 * CLOCK_NS_PER_MS)

// Pods that are refused for the same reasons.
struct scan_finding {
    struct str first; // the first of their names by letter
    size_t pods;
};
struct scan_findings MAP(struct scan_finding);
struct scan_owners MAP(bool);
struct scan_pods VEC(const struct object *);

struct podsec_scan {
    struct list_node node; // in the registry's
    struct op *op;
    struct str namespace;
    struct podsec_standard enforce;
    struct store_walk walk;
    int64_t started_ns;
    struct scan_owners owners; // controllers of which a pod was checked
    struct scan_pods others;   // their other pods, referenced, for the end
    size_t others_next;
    size_t checked, exempt;
    struct scan_findings findings; // by reasons
    struct arena texts;
    struct arena arena; // of one pod
};

// --- Output --------------------------------------------------------------------------------------

// scan_write_warnings decorates reasons with pods and adds them sorted.
static void scan_write_warnings(struct podsec_scan *s)
{
    struct op *op = s->op;
    struct texts texts = {0};
    map_foreach(&s->findings, at) {
        const struct scan_finding *f = map_value(&s->findings, at);
        struct str reasons = map_key(&s->findings, at);
        cleanup_sbuf struct sbuf text = {0};
        sbuf_add(&text, f->first);
        if (f->pods == 2)
            sbuf_addz(&text, " (and 1 other pod)");
        else if (f->pods > 2)
            sbuf_addf(&text, " (and %zu other pods)", f->pods - 1);
        sbuf_addf(&text, ": %.*s", STR_ARG(reasons));
        vec_push_arena(op->arena, &texts, arena_str(op->arena, sbuf_str(&text)));
    }
    if (texts.n > 1)
        qsort(texts.p, texts.n, sizeof(*texts.p), str_cmp_elements);
    for (size_t i = 0; i < texts.n; i++)
        op_warn(op, texts.p[i]);
}

static void scan_end(struct podsec_scan *s)
{
    struct op *op = s->op;
    size_t total = store_count(op->reg->store, op->reg->kinds.pod, s->namespace);
    total -= s->exempt < total ? s->exempt : total;
    if (s->checked < total)
        op_warn(op, arena_strf(op->arena,
                               "new PodSecurity enforce level only checked against the first %zu "
                               "of %zu existing pods",
                               s->checked, total));
    if (map_len(&s->findings))
        op_warn(op,
                arena_strf(op->arena,
                           "existing pods in namespace \"%.*s\" violate the new PodSecurity "
                           "enforce level \"%.*s\"",
                           STR_ARG(s->namespace), STR_ARG(podsec_text(&s->enforce, op->arena))));
    scan_write_warnings(s);
    if (list_linked(&s->node))
        list_remove(&s->node);
    store_walk_done(&s->walk);
    for (size_t i = s->others_next; i < s->others.n; i++)
        object_unref(s->others.p[i]);
    vec_done(&s->others);
    map_done(&s->owners);
    map_done(&s->findings);
    arena_done(&s->texts);
    arena_done(&s->arena);
    free(s);
    op_release(op);
}

// --- Pods ----------------------------------------------------------------------------------------

static void scan_judge_pod(struct podsec_scan *s, const struct api_pod *pod)
{
    struct podsec_verdict v = podsec_judge(&s->enforce, &pod->metadata, &pod->spec, &s->arena);
    s->checked++;
    if (v.allowed)
        return;
    bool added = false;
    struct scan_finding *f = map_get(&s->findings, v.reasons);
    if (!f)
        f = map_put_new(&s->findings, arena_str(&s->texts, v.reasons), &added);
    if (added || str_cmp(pod->metadata.name, f->first) < 0)
        f->first = arena_str(&s->texts, pod->metadata.name);
    f->pods++;
}

// scan_next finds a pod: of the namespace while there are more, then those that were put off.
// *ret_first: it may be put off in turn. The caller releases it.
static const struct object *scan_next(struct podsec_scan *s, bool *ret_first)
{
    const struct object *o = store_walk_next(s->op->reg->store, &s->walk);
    *ret_first = o != NULL;
    if (o)
        return object_ref(o);
    return s->others_next < s->others.n ? s->others.p[s->others_next++] : NULL;
}

static void scan_look_at(struct podsec_scan *s, const struct object *o, bool first)
{
    struct api_object decoded = {0};
    arena_reset(&s->arena);
    if (encode_read_stored(o, &s->op->now, &s->arena, &decoded, NULL) < 0)
        return;
    const struct api_pod *pod = decoded.value;
    if (podsec_exempts(&s->op->reg->podsec->runtimes, pod->spec.runtime_class_name)) {
        s->exempt++;
        return;
    }
    const struct api_owner_reference *owner = meta_controller(&pod->metadata);
    if (first && owner && map_has(&s->owners, owner->uid)) {
        if (s->others.n < SCAN_PODS_MAX)
            vec_push(&s->others, object_ref(o));
        return;
    }
    if (first && owner)
        *map_put(&s->owners, arena_str(&s->texts, owner->uid)) = true;
    scan_judge_pod(s, pod);
}

// scan_go_on checks some pods. False: it is over.
static bool scan_go_on(struct podsec_scan *s, struct exec *exec)
{
    int64_t began = exec_now_ns(exec);
    for (size_t i = 0; i < SCAN_TURN_PODS && exec_now_ns(exec) - began < SCAN_TURN_NS; i++) {
        bool first;
        const struct object *o = s->checked < SCAN_PODS_MAX ? scan_next(s, &first) : NULL;
        if (!o || exec_now_ns(exec) - s->started_ns > SCAN_TIME_NS) {
            object_unref(o);
            return false;
        }
        scan_look_at(s, o, first);
        object_unref(o);
    }
    return true;
}

static void scan_turn(void *arg);

static void scan_await_turn(struct registry *reg)
{
    struct podsec *p = reg->podsec;
    p->scan_turn.fn = scan_turn;
    p->scan_turn.arg = reg;
    if (!list_empty(&p->scans) && !exec_timer_armed(&p->scan_turn))
        exec_timer_start(reg->exec, &p->scan_turn, 0);
}

// scan_turn serves the scan that has waited longest.
static void scan_turn(void *arg)
{
    struct registry *reg = arg;
    struct podsec *p = reg->podsec;
    struct podsec_scan *s = list_entry(list_pop_front(&p->scans), struct podsec_scan, node);
    if (scan_go_on(s, reg->exec))
        list_push_back(&p->scans, &s->node);
    else
        scan_end(s);
    scan_await_turn(reg);
}

void podsec_scan_start(struct op *op, struct str namespace, const struct podsec_standard *enforce)
{
    struct podsec_scan *s = xcalloc(1, sizeof(*s));
    s->op = op;
    s->namespace = arena_str(&s->texts, namespace);
    s->enforce = *enforce;
    s->started_ns = exec_now_ns(op->reg->exec);
    s->walk = (struct store_walk){
        .kind = op->reg->kinds.pod, .one_namespace = true, .namespace = s->namespace};
    if (store_walk_start(op->reg->store, &s->walk, NULL) < 0) {
        op_warn(op, STR("failed to list pods while checking new PodSecurity enforce level"));
        arena_done(&s->texts);
        free(s);
        return;
    }
    op_hold(op);
    list_push_back(&op->reg->podsec->scans, &s->node);
    scan_await_turn(op->reg);
}

void podsec_scans_stop(struct registry *reg)
{
    struct podsec *p = reg->podsec;
    exec_timer_stop(reg->exec, &p->scan_turn);
    for (struct list_node *node; (node = list_pop_front(&p->scans));)
        scan_end(list_entry(node, struct podsec_scan, node));
}
