// SPDX-License-Identifier: Apache-2.0
//
// The conformance run: the table of checks, their order, and the namespace that they share.
#include <stdlib.h>
#include <unistd.h>

#include "base/rand.h"
#include "lab/conform/conform.h"
#include "lab/conform/session.h"

#include "base/banned.h"

#define GONE_S 120

// --- The list ------------------------------------------------------------------------------------

static int crud_class(struct session *s)
{
    return conform_check_crud(s, "DeviceClass");
}

static int crud_claim(struct session *s)
{
    return conform_check_crud(s, "ResourceClaim");
}

static int crud_template(struct session *s)
{
    return conform_check_crud(s, "ResourceClaimTemplate");
}

static int crud_slice(struct session *s)
{
    return conform_check_crud(s, "ResourceSlice");
}

static int crud_taint_rule(struct session *s)
{
    return conform_check_crud(s, "DeviceTaintRule");
}

static const struct check {
    const char *id, *title, *requirement;
    bool must;
    int (*run)(struct session *s);
} checks[] = {
    {"dra-api", "The server has resource.k8s.io/v1", "dra_support (KAR-51)", true,
     conform_check_api},
    {"crud-deviceclass", "DeviceClass can be created, read, changed and deleted",
     "dra_support (KAR-51)", true, crud_class},
    {"crud-resourceclaim", "ResourceClaim can be created, read, changed and deleted",
     "dra_support (KAR-51)", true, crud_claim},
    {"crud-resourceclaimtemplate",
     "ResourceClaimTemplate can be created, read, changed and deleted", "dra_support (KAR-51)",
     true, crud_template},
    {"crud-resourceslice", "ResourceSlice can be created, read, changed and deleted",
     "dra_support (KAR-51)", true, crud_slice},
    {"crud-devicetaintrule", "DeviceTaintRule can be created, read, changed and deleted",
     "dra_support (KAR-51)", true, crud_taint_rule},
    {"containers", "Pods run, and their logs can be read", "Kubernetes", true,
     conform_check_containers},
    {"access-with-claim", "A pod with a claim sees its device",
     "secure_accelerator_access (KAR-49)", true, conform_check_access_with_claim},
    {"access-without-claim", "A pod without a claim sees no device",
     "secure_accelerator_access (KAR-49)", true, conform_check_access_without_claim},
    {"access-two-containers", "Of two containers only the one that names the claim sees the device",
     "secure_accelerator_access (KAR-49)", true, conform_check_access_two_containers},
    {"access-other-pod", "A pod cannot reach the device of another",
     "secure_accelerator_access (KAR-49)", true, conform_check_access_other_pod},
    {"gpu-sharing", "Two pods share a device by one claim", "gpu_sharing (KAR-3)", false,
     conform_check_sharing},
    {"driver-versions", "Versions of drivers are published", "driver_runtime_management (KAR-1)",
     false, conform_check_driver_versions},
    {"accelerator-metrics", "Use and memory of each accelerator can be scraped",
     "accelerator_metrics (KAR-59)", true, conform_check_metrics},
    {"nic-in-pod", "A network device is in the pod that claims it",
     "high_performance_networking (KAR-10)", false, conform_check_nic},
    {"gang-scheduling", "Pods of a gang are placed together or not at all",
     "gang_scheduling (KAR-53)", true, conform_check_gang},
};

void conform_list(struct sbuf *out)
{
    for (size_t i = 0; i < array_len(checks); i++)
        sbuf_addf(out, "%-28s %-6s %s\n", checks[i].id, checks[i].must ? "MUST" : "SHOULD",
                  checks[i].title);
}

static bool conform_is_selected(const struct conform_options *o, const char *id)
{
    struct str rest = str_z(o->only);
    if (!o->only)
        return true;
    while (rest.n > 0) {
        struct str one;
        (void)str_cut(rest, ',', &one, &rest);
        bool star = str_ends(one, STR("*"));
        if (star ? str_starts(str_z(id), str_upto(one, one.n - 1)) : str_eqz(one, id))
            return true;
    }
    return false;
}

// --- Beginning and end ---------------------------------------------------------------------------

static int read_version(struct session *s, struct err *err)
{
    struct answer a = session_get(s, "/version");
    if (a.code != 0)
        return err_set(err, -a.code, "%.*s", STR_ARG(a.why));
    s->report->version = arena_str(s->arena, session_at(a.root, "gitVersion"));
    return 0;
}

static int conform_create_namespace(struct session *s, struct err *err)
{
    const char *name =
        s->o->namespace ? s->o->namespace : session_text(s, "dray-conformance-%s", s->run.p);
    s->namespace = arena_str(s->arena, str_z(name));
    s->report->namespace = s->namespace;
    struct answer a = session_call(
        s, "POST", "/api/v1/namespaces", NULL,
        session_text(s,
                     "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":%s,"
                     "\"labels\":{\"" CONFORM_LABEL "\":\"%s\"}}}",
                     session_json(s, name), s->run.p));
    s->namespace_is_ours = a.code == 0;
    if (a.code == 0 || (s->o->namespace && a.code == -ERR_ALREADY_EXISTS))
        return 0;
    return err_set(err, -a.code, "cannot make the namespace %s: %.*s", name, STR_ARG(a.why));
}

static void remove_labelled(struct session *s, const char *all)
{
    (void)session_call(s, "DELETE",
                       session_text(s, "%s?labelSelector=" CONFORM_LABEL "%%3D%s", all, s->run.p),
                       NULL, NULL);
}

static const char *const cluster_kinds[] = {"/apis/resource.k8s.io/v1/deviceclasses",
                                            "/apis/resource.k8s.io/v1/resourceslices",
                                            "/apis/resource.k8s.io/v1/devicetaintrules",
                                            "/apis/resource.k8s.io/v1beta2/devicetaintrules",
                                            "/apis/resource.k8s.io/v1alpha3/devicetaintrules"};

static void await_end(struct session *s, const char *path)
{
    int64_t until = clock_mono_ns(clock_system()) + GONE_S * CLOCK_NS_PER_SEC;
    while (clock_mono_ns(clock_system()) < until) {
        struct answer a = session_get(s, path);
        const yyjson_val *items = a.root ? json_get(a.root, STR("items")) : NULL;
        if (a.code == -ERR_NOT_FOUND || (items && json_is_array(items) && json_len(items) == 0))
            return;
        (void)session_pause(s, 200);
    }
    s->report->leftover = str_z(path);
}

static void clean_up(struct session *s)
{
    s->cleaning = true;
    s->outcome = NULL;
    if (s->o->keep || s->namespace.n == 0)
        return;
    const char *in = session_text(s, "/api/v1/namespaces/%s", s->namespace.p);
    const char *pods = session_text(s, "%s/pods", in);
    const char *claims = session_text(s, "/apis/resource.k8s.io/v1/namespaces/%s", s->namespace.p);
    remove_labelled(s, pods);
    remove_labelled(s, session_text(s, "%s/resourceclaimtemplates", claims));
    remove_labelled(s, session_text(s, "%s/resourceclaims", claims));
    for (size_t i = 0; i < array_len(cluster_kinds); i++)
        remove_labelled(s, cluster_kinds[i]);
    if (s->namespace_is_ours) {
        (void)session_call(s, "DELETE", in, NULL, NULL);
        await_end(s, in);
    } else {
        await_end(s, session_text(s, "%s?labelSelector=" CONFORM_LABEL "%%3D%s", pods, s->run.p));
    }
}

// --- Running -------------------------------------------------------------------------------------

static void conform_report_progress(const struct conform_options *o, const char *id,
                                    const enum conform_result *result, const char *why)
{
    if (o->progress)
        o->progress(o->arg, id, result, why);
}

static void run_check(struct session *s, const struct check *c)
{
    const struct conform_outcome begin = {.id = c->id,
                                          .title = c->title,
                                          .requirement = c->requirement,
                                          .must = c->must,
                                          .started_ns = session_now_ns()};
    conform_report_progress(s->o, c->id, NULL, "");
    vec_push_arena(s->arena, &s->report->outcomes, begin);
    s->outcome = vec_last(&s->report->outcomes);
    int64_t start = clock_mono_ns(clock_system());
    if (session_pause(s, 0))
        (void)c->run(s);
    // What an interrupt cut short is no result about the cluster.
    if (!session_pause(s, 0) && (s->outcome->result != CONFORM_PASS || s->outcome->why.n == 0))
        (void)session_skip(s, "interrupted");
    s->outcome->took_ns = clock_mono_ns(clock_system()) - start;
    conform_report_progress(s->o, c->id, &s->outcome->result, s->outcome->why.p);
    s->outcome = NULL;
}

static struct str random_run(struct arena *a)
{
    static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";
    uint64_t seed[2] = {(uint64_t)session_now_ns(), (uint64_t)getpid()};
    uint64_t x = seed[0] * UINT64_C(0x9e3779b97f4a7c15) ^ seed[1] * UINT64_C(0xbf58476d1ce4e5b9);
    char text[6];
    for (size_t i = 0; i < 5; i++, x = x / 27 ^ (x << 7))
        text[i] = letters[(x >> 11) % 27];
    return arena_str(a, str_make(text, 5));
}

int conform_run(const struct conform_options *options, struct conform_report *ret, struct err *err)
{
    *ret = (struct conform_report){.started_ns = session_now_ns()};
    struct session s = {.o = options, .arena = &ret->arena, .report = ret};
    int64_t start = clock_mono_ns(clock_system());
    s.run = random_run(&ret->arena);
    // Room for all, so that what points to an outcome stays good.
    ret->outcomes.p = arena_array(&ret->arena, struct conform_outcome, array_len(checks));
    ret->outcomes.cap = array_len(checks);
    // Checks that need containers may be selected alone.
    s.containers = options->only && !conform_is_selected(options, "containers");
    int r = session_open(&s, err);
    if (r == 0)
        r = read_version(&s, err);
    if (r == 0)
        r = conform_create_namespace(&s, err);
    for (size_t i = 0; r == 0 && i < array_len(checks); i++)
        if (conform_is_selected(options, checks[i].id))
            run_check(&s, &checks[i]);
    ret->interrupted = !session_pause(&s, 0);
    if (r == 0)
        clean_up(&s);
    session_close(&s);
    ret->took_ns = clock_mono_ns(clock_system()) - start;
    return r;
}

void conform_report_done(struct conform_report *r)
{
    vec_foreach(&r->docs, d)
        json_doc_done(d);
    vec_done(&r->docs);
    arena_done(&r->arena);
}

size_t conform_count(const struct conform_report *r, enum conform_result result, bool must_only)
{
    size_t n = 0;
    vec_foreach(&r->outcomes, o)
        n += o->result == result && (o->must || !must_only);
    return n;
}
