// SPDX-License-Identifier: Apache-2.0
//
// Selectors of workloads, and what their templates must be for them: a workload that does not
// select its own pods would make new ones for ever.
#include "api/match/label_selector.h"
#include "api/validate/validate_core.h"

#include "base/banned.h"

// What the rules need of a workload.
struct selector_case {
    const struct api_label_selector *selector, *old; // old: before the update
    const struct api_pod_template_spec *template;
    const char *empty;    // what an empty selector is told; NULL: it is allowed
    const char *unusable; // what one that cannot be used is told; NULL: nothing
    const char *deadline; // what a deadline of pods is told; NULL: it is allowed
    bool required;
    bool always;         // pods are restarted
    bool failure_policy; // of a job
};

static struct str selector_show_labels(const struct api_str_map *labels, struct arena *arena)
{
    cleanup_sbuf struct sbuf b = {0};
    if (!labels->p)
        return STR("null");
    struct json_writer w = {.out = &b, .html = true};
    json_write_object_begin(&w);
    for (size_t i = 0; i < labels->n; i++) {
        json_write_key(&w, labels->p[i].key);
        json_write_str(&w, labels->p[i].value);
    }
    json_write_object_end(&w);
    return arena_str(arena, sbuf_str(&b));
}

static struct str selector_show(struct validator *v, const struct api_label_selector *selector)
{
    return selector ? validate_show_json(&api_label_selector_type, selector, scratch(v))
                    : STR("null");
}

static void selector_check_match(struct validator *v, const struct selector_case *c)
{
    struct label_selector s = {0};
    const struct path *spec = AT(NULL, "spec");
    if (label_selector_of(c->selector, scratch(v), &s, NULL) < 0) {
        if (c->unusable)
            cause_invalid_json(v->causes, AT(spec, "selector"), selector_show(v, c->selector),
                               str_z(c->unusable));
        return;
    }
    if (!label_selector_everything(&s) &&
        !label_selector_matches(&s, &c->template->metadata.labels))
        cause_invalid_json(v->causes, AT(AT(AT(spec, "template"), "metadata"), "labels"),
                           selector_show_labels(&c->template->metadata.labels, scratch(v)),
                           STR("`selector` does not match template `labels`"));
}

// Always is the default of pods, so it stands for a policy that is missing.
static void selector_check_job_policy(struct validator *v, const struct path *at, struct str policy,
                                      bool has_failure_policy)
{
    static const struct str policies[] = {STR_INIT("OnFailure"), STR_INIT("Never")};
    if (str_eqz(policy, "Always"))
        cause_required(v->causes, at, STR("valid values: \"OnFailure\", \"Never\""));
    else if (has_failure_policy && str_eqz(policy, "OnFailure"))
        cause_invalid(v->causes, at, policy,
                      STR("only \"Never\" is supported when podFailurePolicy is specified"));
    else
        validate_choice(v, at, policy, CHOICES(policies));
}

static void selector_check_template(struct validator *v, const struct selector_case *c)
{
    static const struct str policies[] = {STR_INIT("Always")};
    const struct path *at = AT(AT(AT(NULL, "spec"), "template"), "spec");
    if (c->always)
        validate_choice(v, AT(at, "restartPolicy"), c->template->spec.restart_policy,
                        CHOICES(policies));
    if (!c->always)
        selector_check_job_policy(v, AT(at, "restartPolicy"), c->template->spec.restart_policy,
                                  c->failure_policy);
    if (c->deadline && c->template->spec.has_active_deadline_seconds)
        cause_forbidden(v->causes, AT(at, "activeDeadlineSeconds"), str_z(c->deadline));
}

static bool selector_is_same(const struct api_label_selector *a, const struct api_label_selector *b)
{
    return a && b ? api_equal(&api_label_selector_type, a, b) : a == b;
}

static void selector_check(struct validator *v, const struct selector_case *c)
{
    const struct api_label_selector *s = c->selector;
    const struct path *at = AT(AT(NULL, "spec"), "selector");
    if (v->op == API_UPDATE && !selector_is_same(s, c->old))
        cause_invalid_json(v->causes, at, selector_show(v, s), STR("field is immutable"));
    if (!s && c->required)
        cause_required(v->causes, at, STR(""));
    validate_label_selector(v, at, s);
    if (s && c->empty && s->match_labels.n + s->match_expressions.n == 0)
        cause_invalid_json(v->causes, at, selector_show(v, s), str_z(c->empty));
    selector_check_match(v, c);
    selector_check_template(v, c);
}

// selector_check_cron_job: the template of a job gets its selector when the job is made.
static void selector_check_cron_job(struct validator *v, const struct api_job_spec *s)
{
    const struct path *at = AT(AT(AT(NULL, "spec"), "jobTemplate"), "spec");
    selector_check_job_policy(v, AT(AT(AT(at, "template"), "spec"), "restartPolicy"),
                              s->template.spec.restart_policy, s->pod_failure_policy != NULL);
    if (s->selector)
        cause_invalid_json(v->causes, AT(at, "selector"), selector_show(v, s->selector),
                           STR("`selector` will be auto-generated"));
    if (s->has_manual_selector && s->manual_selector)
        (void)cause_add(v->causes, CAUSE_NOT_SUPPORTED, AT(at, "manualSelector"), STR("true"),
                        STR("supported values: \"nil\", \"false\""));
}

// The kinds have a selector and a template at the same places.
#define SELECTOR_OF(type)                                              \
    (struct selector_case)                                             \
    {                                                                  \
        .selector = ((const struct type *)value)->spec.selector,       \
        .old = old ? ((const struct type *)old)->spec.selector : NULL, \
        .template = &((const struct type *)value)->spec.template       \
    }

void validate_selector(struct validator *v, const struct api_type *t, const void *value,
                       const void *old)
{
    struct selector_case c;
    if (t == &api_deployment_type || t == &api_replica_set_type) {
        c = t == &api_deployment_type ? SELECTOR_OF(api_deployment) : SELECTOR_OF(api_replica_set);
        c.empty = "empty selector is invalid for deployment";
        c.unusable = "invalid label selector";
        c.deadline = "activeDeadlineSeconds in ReplicaSet is not Supported";
    } else if (t == &api_daemon_set_type) {
        c = SELECTOR_OF(api_daemon_set);
        c.empty = "empty selector is invalid for daemonset";
        c.deadline = "activeDeadlineSeconds in DaemonSet is not Supported";
    } else if (t == &api_stateful_set_type) {
        c = SELECTOR_OF(api_stateful_set);
        c.empty = "empty selector is invalid for statefulset";
        c.unusable = "";
        c.deadline = "activeDeadlineSeconds in StatefulSet is not Supported";
    } else if (t == &api_job_type) {
        c = SELECTOR_OF(api_job);
        c.failure_policy = ((const struct api_job *)value)->spec.pod_failure_policy != NULL;
    } else {
        if (t == &api_cron_job_type)
            selector_check_cron_job(v,
                                    &((const struct api_cron_job *)value)->spec.job_template.spec);
        return;
    }
    c.required = t != &api_daemon_set_type;
    c.always = t != &api_job_type;
    selector_check(v, &c);
}
