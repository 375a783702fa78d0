// SPDX-License-Identifier: Apache-2.0
//
// The output of `dray up`: progress on standard error, then pods with their nodes and devices.
#include "cmd/up/up_watch.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "api/match/claim.h"
#include "base/mem.h"
#include "client/informer.h"
#include "view/term.h"
#include "view/text.h"

#include "base/banned.h"

// --- Progress ------------------------------------------------------------------------------------

void up_progress(const char *fmt, ...)
{
    bool terminal = isatty(STDERR_FILENO);
    va_list args;
    (void)fputs(terminal ? "\r\033[K  " : "dray up: ", stderr);
    va_start(args, fmt);
    (void)vfprintf(stderr, fmt, args);
    va_end(args);
    (void)fputs(terminal ? " …" : "\n", stderr);
    (void)fflush(stderr);
}

void up_progress_end(void)
{
    if (isatty(STDERR_FILENO))
        (void)fputs("\r\033[K", stderr);
    (void)fflush(stderr);
}

// --- Pods ----------------------------------------------------------------------------------------

struct up_watch {
    struct informer *pods;
    struct informer *claims;
};

static void up_watch_add_devices(const struct up_watch *w, const struct api_pod *pod,
                                 struct sbuf *out)
{
    const char *before = " with ";
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++) {
        struct str name;
        bool check_owner;
        if (claim_name_of(pod, &pod->spec.resource_claims.p[i], &name, &check_owner) != CLAIM_NAMED)
            continue;
        const struct typed_object *o = informer_get(w->claims, pod->metadata.namespace, name);
        const struct api_resource_claim *claim = o ? o->object.value : NULL;
        for (size_t k = 0;
             claim && claim->status.allocation && k < claim->status.allocation->devices.results.n;
             k++) {
            const struct api_device_request_allocation_result *r =
                &claim->status.allocation->devices.results.p[k];
            sbuf_addf(out, "%s%.*s/%.*s/%.*s", before, STR_ARG(r->driver), STR_ARG(r->pool),
                      STR_ARG(r->device));
            before = ", ";
        }
    }
}

static const struct api_pod_condition *up_watch_scheduled_condition(const struct api_pod *pod)
{
    for (size_t i = 0; i < pod->status.conditions.n; i++)
        if (str_eq(pod->status.conditions.p[i].type, STR("PodScheduled")))
            return &pod->status.conditions.p[i];
    return NULL;
}

static void up_watch_pod_changed(void *arg, const struct typed_object *before,
                                 const struct typed_object *after)
{
    const struct up_watch *w = arg;
    cleanup_sbuf struct sbuf line = {0}, out = {0};
    if (!after)
        return;
    const struct api_pod *pod = after->object.value;
    const struct api_pod *old = before ? before->object.value : NULL;
    const struct api_pod_condition *now = up_watch_scheduled_condition(pod);
    const struct api_pod_condition *then = old ? up_watch_scheduled_condition(old) : NULL;
    if (pod->spec.node_name.n > 0 && (!old || old->spec.node_name.n == 0)) {
        sbuf_addf(&line, "  pod %.*s/%.*s → %.*s", STR_ARG(pod->metadata.namespace),
                  STR_ARG(pod->metadata.name), STR_ARG(pod->spec.node_name));
        up_watch_add_devices(w, pod, &line);
    } else if (now && str_eq(now->status, STR("False")) &&
               !(then && str_eq(then->message, now->message))) {
        sbuf_addf(&line, "  pod %.*s/%.*s is pending: %.*s", STR_ARG(pod->metadata.namespace),
                  STR_ARG(pod->metadata.name), STR_ARG(now->message));
    }
    view_add_wrapped(&out, sbuf_str(&line), view_term_of(STDOUT_FILENO, VIEW_AUTO).columns);
    printf("%s", out.n ? out.p : "");
    (void)fflush(stdout);
}

struct up_watch *up_watch_new(struct client *client)
{
    struct up_watch *w = xcalloc(1, sizeof(*w));
    const struct informer_options claims = {
        .client = client, .kind = api_kind_find(STR("resource.k8s.io/v1"), STR("ResourceClaim"))};
    const struct informer_options pods = {.client = client,
                                          .kind = api_kind_find(STR("v1"), STR("Pod"))};
    const struct informer_handler h = {.changed = up_watch_pod_changed, .arg = w};
    w->claims = informer_new(&claims);
    w->pods = informer_new(&pods);
    informer_add_handler(w->pods, &h);
    informer_start(w->claims);
    informer_start(w->pods);
    return w;
}

void up_watch_free(struct up_watch *w)
{
    if (!w)
        return;
    informer_free(w->pods);
    informer_free(w->claims);
    free(w);
}
