// SPDX-License-Identifier: Apache-2.0
//
// Remedies for a pod that is not tried: a gate, a template or claim under another name, another
// scheduler. They let it be tried; what comes of that is not known yet.
#include "base/nearest.h"
#include "sched/explain/cure_int.h"

#include "base/banned.h"

// A change of the pod, without a node to prove it on.
static void gate_add(struct cures *out, const struct api_pod *pod, const char *kind, size_t weight,
                     struct str text, const struct sbuf *patch)
{
    struct cure c = {.n = 1, .weight = weight, .unproven = true};
    if (out->list.n == CURES_MAX)
        return;
    c.changes[0] =
        (struct cure_change){.kind = kind,
                             .action = CURE_PATCH,
                             .object = "Pod",
                             .namespace = arena_str(&out->arena, pod->metadata.namespace),
                             .name = arena_str(&out->arena, pod->metadata.name),
                             .patch = arena_str(&out->arena, sbuf_str(patch)),
                             .text = text,
                             .weight = weight};
    vec_push_arena(&out->arena, &out->list, c);
}

static void gate_of_name(struct cures *out, const struct api_pod *pod, size_t at,
                         const char *member, const char *kind, struct str to)
{
    cleanup_sbuf struct sbuf patch = {0};
    sbuf_addf(&patch,
              "[{\"op\":\"replace\",\"path\":\"/spec/resourceClaims/%zu/%s\",\"value\":", at,
              member);
    sbuf_add_json_str(&patch, to, false);
    sbuf_addz(&patch, "}]");
    gate_add(out, pod, "reference", CURE_WEIGHT_TYPO,
             arena_strf(&out->arena, "did you mean %s %.*s?", kind, STR_ARG(to)), &patch);
}

struct gate_names {
    struct nearest near;
    struct str namespace;
};

static void gate_show_name(void *arg, const struct typed_object *o)
{
    struct gate_names *f = arg;
    if (str_eq(o->meta->namespace, f->namespace))
        nearest_try(&f->near, o->meta->name);
}

static struct str gate_near(struct sched *s, enum watched w, struct str namespace, struct str name)
{
    struct gate_names f = {.near = {.word = name}, .namespace = namespace};
    if (s->watch.informers[w])
        informer_foreach(s->watch.informers[w], gate_show_name, &f);
    return f.near.best;
}

static void gate_of_claims(struct sched *s, const struct api_pod *pod, struct cures *out)
{
    struct str namespace = pod->metadata.namespace;
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++) {
        const struct api_pod_resource_claim *c = &pod->spec.resource_claims.p[i];
        struct str template = c->resource_claim_template_name, claim = c->resource_claim_name;
        if (template.n && s->watch.informers[WATCH_TEMPLATES] &&
            !informer_get(s->watch.informers[WATCH_TEMPLATES], namespace, template)) {
            struct str near = gate_near(s, WATCH_TEMPLATES, namespace, template);
            if (near.n)
                gate_of_name(out, pod, i, "resourceClaimTemplateName", "ResourceClaimTemplate",
                             near);
        }
        if (claim.n && !claims_api(claims_find(&s->claims, namespace, claim))) {
            struct str near = gate_near(s, WATCH_CLAIMS, namespace, claim);
            if (near.n)
                gate_of_name(out, pod, i, "resourceClaimName", "ResourceClaim", near);
        }
    }
}

void cures_of_gate(struct sched *s, const struct sched_pod *p, struct cures *out)
{
    const struct api_pod *pod = p->api;
    cleanup_sbuf struct sbuf patch = {0};
    if (pod->spec.scheduling_gates.n) {
        sbuf_addz(&patch, "[{\"op\":\"remove\",\"path\":\"/spec/schedulingGates\"}]");
        gate_add(
            out, pod, "schedulingGate", CURE_WEIGHT_MISTAKE,
            STR("the controller that set the gate has to remove it from spec.schedulingGates, or "
                "its owner"),
            &patch);
        return;
    }
    gate_of_claims(s, pod, out);
}

void cures_of_scheduler(const struct sched *s, const struct sched_pod *p, struct cures *out)
{
    cleanup_sbuf struct sbuf patch = {0};
    struct str name = s->config.names.p[0];
    sbuf_addz(&patch, "[{\"op\":\"replace\",\"path\":\"/spec/schedulerName\",\"value\":");
    sbuf_add_json_str(&patch, name, false);
    sbuf_addz(&patch, "}]");
    gate_add(out, p->api, "schedulerName", CURE_WEIGHT_MISTAKE,
             arena_strf(&out->arena, "let spec.schedulerName be %.*s, or start that scheduler",
                        STR_ARG(name)),
             &patch);
}
