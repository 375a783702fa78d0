// SPDX-License-Identifier: Apache-2.0
//
// Carrying out a remedy. A remedy is changes of objects; objects whose fields cannot change are
// deleted and created again, pods of a controller are changed in its template.
#include "cmd/why/why_fix.h"

#include <stdio.h>
#include <unistd.h>

#include "client/remote.h"
#include "cmd/common.h"
#include "cmd/objects/objects.h"
#include "cmd/verb.h"
#include "cmd/why/why_step.h"
#include "view/text.h"

#include "base/banned.h"

// --- Kinds ---------------------------------------------------------------------------------------

#define RESOURCE_GROUP "/apis/resource.k8s.io/v1"

static const struct why_kind kinds[] = {
    {"Pod", "/api/v1", "pods", true},
    {"Node", "/api/v1", "nodes", false},
    {"Namespace", "/api/v1", "namespaces", false},
    {"ConfigMap", "/api/v1", "configmaps", true},
    {"Secret", "/api/v1", "secrets", true},
    {"ResourceClaim", RESOURCE_GROUP, "resourceclaims", true},
    {"ResourceClaimTemplate", RESOURCE_GROUP, "resourceclaimtemplates", true},
    {"DeviceTaintRule", RESOURCE_GROUP, "devicetaintrules", false},
    {"DeviceTaintRule", RESOURCE_GROUP "beta2", "devicetaintrules", false},
    {"DeviceTaintRule", RESOURCE_GROUP "alpha3", "devicetaintrules", false},
    {"Deployment", "/apis/apps/v1", "deployments", true},
    {"ReplicaSet", "/apis/apps/v1", "replicasets", true},
    {"StatefulSet", "/apis/apps/v1", "statefulsets", true},
    {"DaemonSet", "/apis/apps/v1", "daemonsets", true},
    {"Job", "/apis/batch/v1", "jobs", true},
};

const struct why_kind *why_kind_find(struct str kind, const struct why_kind *after)
{
    for (size_t i = after ? (size_t)(after - kinds) + 1 : 0; i < array_len(kinds); i++)
        if (str_eqz(kind, kinds[i].kind))
            return &kinds[i];
    return NULL;
}

void why_kind_add_path(struct sbuf *out, const struct why_kind *k, struct str namespace,
                       struct str name)
{
    sbuf_addz(out, k->group);
    if (k->namespaced) {
        sbuf_addz(out, "/namespaces/");
        client_escape(out, namespace);
    }
    sbuf_addf(out, "/%s/", k->plural);
    client_escape(out, name);
}

// --- Which remedy --------------------------------------------------------------------------------

static const yyjson_val *fix_find(const yyjson_val *explanation, int64_t n)
{
    const yyjson_val *all = objects_list(explanation, "remedies");
    if (all)
        json_arr_foreach(all, r) {
            int64_t number = 0;
            const yyjson_val *v = json_get(r, STR("fix"));
            if (v && json_to_i64(v, &number, NULL) == 0 && number == n)
                return r;
        }
    return NULL;
}

// A remedy that no request can carry out is refused with what it would take.
static int fix_check(const yyjson_val *explanation, const yyjson_val *remedy, int64_t n,
                     struct err *err)
{
    const yyjson_val *all = objects_list(explanation, "remedies");
    const yyjson_val *changes = objects_list(remedy, "changes");
    if (!remedy || !changes)
        return err_set(err, ERR_INVALID, "there is no remedy %lld, but %zu: see dray why",
                       (long long)n, all ? json_len(all) : 0);
    json_arr_foreach(changes, c)
        if (str_eqz(json_get_str(c, "action"), "manual"))
            return err_set(err, ERR_INVALID,
                           "remedy %lld cannot be carried out from here: %.*s; do it by hand",
                           (long long)n, STR_ARG(json_get_str(c, "text")));
    return 0;
}

// --- Confirmation --------------------------------------------------------------------------------

static bool fix_is_confirmed(bool yes)
{
    char answer[16] = "";
    if (yes || isatty(STDIN_FILENO) != 1)
        return true;
    printf("Carry it out? [y/N] ");
    (void)fflush(stdout);
    if (!fgets(answer, sizeof(answer), stdin))
        return false;
    return answer[0] == 'y' || answer[0] == 'Y';
}

static void fix_show(const yyjson_val *remedy, int64_t n, const struct why_steps *steps)
{
    const char *before = "";
    const yyjson_val *changes = objects_list(remedy, "changes");
    cleanup_sbuf struct sbuf line = {0}, out = {0};
    sbuf_addf(&line, "Remedy %lld: ", (long long)n);
    json_arr_foreach(changes, c) {
        sbuf_addf(&line, "%s%.*s", before, STR_ARG(json_get_str(c, "text")));
        before = " and ";
    }
    sbuf_addc(&line, '\n');
    for (size_t i = 0; i < steps->n; i++)
        sbuf_addf(&line, "  %.*s\n", STR_ARG(steps->p[i].text));
    view_add_wrapped(&out, sbuf_str(&line), 0); // texts of tenants must not move the cursor
    (void)fwrite(out.p, 1, out.n, stdout);
    (void)fflush(stdout);
}

int why_fix(struct cluster *c, const yyjson_val *explanation, int64_t n, bool yes)
{
    const yyjson_val *remedy = fix_find(explanation, n);
    struct err err = {0};
    struct why_plan plan = {.c = c, .explanation = explanation};
    int r = fix_check(explanation, remedy, n, &err);
    if (r == 0)
        r = why_plan_make(&plan, remedy, &err);
    if (r == 0) {
        fix_show(remedy, n, &plan.steps);
        if (fix_is_confirmed(yes))
            r = why_plan_run(&plan, &err);
        else
            r = err_set(&err, ERR_INVALID, "nothing was changed");
    }
    why_plan_done(&plan);
    if (r < 0)
        return common_fail("why", &err);
    printf("done; 'dray why' shows what became of it\n");
    return VERB_OK;
}
