// SPDX-License-Identifier: Apache-2.0
//
// Pod Security Admission (PodSecurity): pods, and templates of pods, against the levels that the
// labels of their namespace choose. Runs behind validation. Kinds without pods cost a test of a
// flag; pods in a namespace without labels cost one lookup.
#include <stdlib.h>

#include "registry/podsec/podsec_int.h"

#include "base/banned.h"

#define NOTE_PREFIX "pod-security.kubernetes.io/"

// --- Configuration -------------------------------------------------------------------------------

static void podsec_read_list(struct podsec *p, struct str list, struct texts *out)
{
    while (list.n) {
        struct str name;
        str_cut(list, ',', &name, &list);
        if (name.n)
            vec_push_arena(&p->arena, out, arena_str(&p->arena, name));
    }
}

// MODE=LEVEL[:VERSION], by commas.
static int podsec_read_defaults(struct str list, struct podsec_policy *ret, struct err *err)
{
    while (list.n) {
        struct str one, mode, standard;
        str_cut(list, ',', &one, &list);
        str_cut(one, '=', &mode, &standard);
        struct podsec_standard *to = str_eqz(mode, "enforce") ? &ret->enforce
                                     : str_eqz(mode, "audit") ? &ret->audit
                                     : str_eqz(mode, "warn")  ? &ret->warn
                                                              : NULL;
        if (!to)
            return err_set(err, ERR_INVALID,
                           "default Pod Security level \"%.*s\": unknown mode; write "
                           "enforce=LEVEL, audit=LEVEL or warn=LEVEL",
                           STR_ARG(one));
        int r = podsec_standard_parse(standard, to, err);
        if (r < 0)
            return err_wrap(err, "default Pod Security level %.*s", STR_ARG(mode));
    }
    return 0;
}

int podsec_start(struct registry *reg, const struct registry_podsec *options, struct err *err)
{
    if (!admit_runs(reg, "PodSecurity"))
        return 0;
    struct podsec *p = xcalloc(1, sizeof(*p));
    reg->podsec = p;
    list_init(&p->scans);
    p->evaluations = xcalloc(PODSEC_EVALUATIONS, sizeof(*p->evaluations));
    p->defaults = podsec_unlabelled;
    podsec_read_list(p, options->exempt_users, &p->users);
    podsec_read_list(p, options->exempt_runtime_classes, &p->runtimes);
    podsec_read_list(p, options->exempt_namespaces, &p->namespaces);
    return podsec_read_defaults(options->defaults, &p->defaults, err);
}

void podsec_stop(struct registry *reg)
{
    if (reg->podsec)
        podsec_scans_stop(reg);
}

void podsec_done(struct registry *reg)
{
    struct podsec *p = reg->podsec;
    if (!p)
        return;
    free(p->evaluations);
    arena_done(&p->arena);
    free(p);
    reg->podsec = NULL;
}

// --- The policy of a namespace -------------------------------------------------------------------

// podsec_of_namespace reads the labels of a stored namespace; only those of Pod Security are
// copied.
static void podsec_of_namespace(struct op *op, struct causes *causes, struct podsec_policy *ret)
{
    const struct podsec *p = op->reg->podsec;
    const struct store_key key = {op->reg->kinds.namespace, STR(""), op->request->namespace};
    const struct object *ns = store_head(op->reg->store, &key);
    struct api_str_map labels = {0};
    for (size_t i = 0; ns && i < ns->labels_len; i++) {
        if (!str_starts(ns->labels[i].key, STR(NOTE_PREFIX)))
            continue;
        if (!labels.p)
            labels.p = arena_array(op->arena, struct api_str_entry, ns->labels_len);
        labels.p[labels.n++] = (struct api_str_entry){ns->labels[i].key, ns->labels[i].value};
    }
    if (labels.n)
        podsec_policy_of(&labels, &p->defaults, causes, ret);
    else
        *ret = p->defaults;
}

// podsec_show_causes writes a list of errors as Go prints an aggregate.
static struct str podsec_show_causes(struct op *op, const struct causes *causes)
{
    cleanup_sbuf struct sbuf text = {0};
    for (size_t i = 0; i < causes->n; i++)
        sbuf_addf(&text, "%s%.*s: %.*s", i ? ", " : "", STR_ARG(causes->p[i].field),
                  STR_ARG(causes->p[i].message));
    return causes->n == 1 ? arena_str(op->arena, sbuf_str(&text))
                          : arena_strf(op->arena, "[%.*s]", STR_ARG(sbuf_str(&text)));
}

// --- Evaluation ----------------------------------------------------------------------------------

// A pod, or the template of one, in a request.
struct podsec_subject {
    const struct api_object *object;
    const struct api_object_meta *meta;
    const struct api_pod_spec *spec;
    struct podsec_attributes attributes;
};

static bool podsec_exempt(struct op *op, const struct texts *list, struct str name,
                          struct podsec_attributes a, const char *why)
{
    if (!podsec_exempts(list, name))
        return false;
    op->reg->podsec->exemptions[podsec_attributes_index(a)]++;
    op_note(op, STR(NOTE_PREFIX "exempt"), str_z(why));
    return true;
}

static bool podsec_exempts_request(struct op *op, struct podsec_attributes a)
{
    const struct podsec *p = op->reg->podsec;
    const struct registry_user *user = op->request->user;
    return podsec_exempt(op, &p->namespaces, op->request->namespace, a, "namespace") ||
           podsec_exempt(op, &p->users, user ? user->name : STR(""), a, "user");
}

// Results by standard: modes often have the same.
struct podsec_memo {
    struct podsec_standard standard;
    struct podsec_verdict verdict;
};

static struct podsec_verdict podsec_verdict_of(struct op *op, const struct podsec_subject *s,
                                               const struct podsec_standard *standard,
                                               struct podsec_memo *memo, size_t *memo_len)
{
    for (size_t i = 0; i < *memo_len; i++)
        if (podsec_same(&memo[i].standard, standard))
            return memo[i].verdict;
    struct podsec_verdict v = podsec_judge(standard, s->meta, s->spec, op->arena);
    memo[(*memo_len)++] = (struct podsec_memo){*standard, v};
    return v;
}

static struct str podsec_would_violate(struct op *op, const struct podsec_standard *s,
                                       const struct podsec_verdict *v)
{
    return arena_strf(op->arena, "would violate PodSecurity \"%.*s\": %.*s",
                      STR_ARG(podsec_text(s, op->arena)), STR_ARG(v->details));
}

static int podsec_evaluate(struct op *op, const struct podsec_subject *s,
                           const struct podsec_policy *policy, const struct causes *causes)
{
    struct podsec *p = op->reg->podsec;
    struct podsec_memo memo[3];
    size_t known = 0;
    int r = 0;
    if (podsec_exempt(op, &p->runtimes, s->spec->runtime_class_name, s->attributes, "runtimeClass"))
        return 0;
    if (causes->n) {
        op_note(op, STR(NOTE_PREFIX "error"),
                arena_strf(op->arena, "Failed to parse policy: %.*s",
                           STR_ARG(podsec_show_causes(op, causes))));
        p->errors[podsec_attributes_index(s->attributes)]++;
    }
    if (!s->attributes.workload) {
        struct str text = podsec_text(&policy->enforce, op->arena);
        struct podsec_verdict v = podsec_verdict_of(op, s, &policy->enforce, memo, &known);
        op_note(op, STR(NOTE_PREFIX "enforce-policy"), text);
        podsec_count_evaluation(p, v.allowed ? PODSEC_ALLOW : PODSEC_DENY, &policy->enforce,
                                PODSEC_ENFORCE, s->attributes);
        if (!v.allowed)
            r = fail_forbidden(op, admit_about(op, s->object),
                               "violates PodSecurity \"%.*s\": %.*s", STR_ARG(text),
                               STR_ARG(v.details));
    }
    struct podsec_verdict audit = podsec_verdict_of(op, s, &policy->audit, memo, &known);
    if (!audit.allowed) {
        op_note(op, STR(NOTE_PREFIX "audit-violations"),
                podsec_would_violate(op, &policy->audit, &audit));
        podsec_count_evaluation(p, PODSEC_DENY, &policy->audit, PODSEC_AUDIT, s->attributes);
    }
    if (r < 0) // no warnings beside the refusal
        return r;
    struct podsec_verdict warn = podsec_verdict_of(op, s, &policy->warn, memo, &known);
    if (!warn.allowed) {
        op_warn(op, podsec_would_violate(op, &policy->warn, &warn));
        podsec_count_evaluation(p, PODSEC_DENY, &policy->warn, PODSEC_WARN, s->attributes);
    }
    return 0;
}

// --- Requests ------------------------------------------------------------------------------------

static int podsec_admit_pod(struct op *op, const struct api_object *object,
                            const struct api_object *old)
{
    struct podsec *p = op->reg->podsec;
    const struct api_pod *pod = object->value;
    struct str sub = op->request->subresource;
    struct podsec_subject s = {.object = object, .meta = &pod->metadata, .spec = &pod->spec};
    s.attributes.update = old != NULL;
    if (str_eqz(sub, "resize"))
        s.attributes.part = PODSEC_RESIZE;
    else if (str_eqz(sub, "ephemeralcontainers"))
        s.attributes.part = PODSEC_DEBUGGERS;
    else if (sub.n)
        return 0;
    if (podsec_exempts_request(op, s.attributes))
        return 0;
    struct causes causes = {.arena = op->arena};
    struct podsec_policy policy;
    podsec_of_namespace(op, &causes, &policy);
    if (causes.n == 0 && policy.enforce.level == PODSEC_PRIVILEGED &&
        policy.audit.level == PODSEC_PRIVILEGED && policy.warn.level == PODSEC_PRIVILEGED) {
        podsec_count_evaluation(p, PODSEC_ALLOW, &policy.enforce, PODSEC_ENFORCE, s.attributes);
        op_note(op, STR(NOTE_PREFIX "enforce-policy"), STR("privileged:latest"));
        return 0;
    }
    if (old && !podsec_update_matters(s.spec, &((const struct api_pod *)old->value)->spec))
        return 0;
    return podsec_evaluate(op, &s, &policy, &causes);
}

static int podsec_admit_workload(struct op *op, const struct api_object *object,
                                 const struct api_object *old)
{
    struct podsec_subject s = {.object = object,
                               .attributes = {.update = old != NULL, .workload = true}};
    if (op->request->subresource.n || podsec_exempts_request(op, s.attributes))
        return 0;
    struct causes causes = {.arena = op->arena};
    struct podsec_policy policy;
    podsec_of_namespace(op, &causes, &policy);
    if (causes.n == 0 && policy.audit.level == PODSEC_PRIVILEGED &&
        policy.warn.level == PODSEC_PRIVILEGED)
        return 0;
    return podsec_template(object, &s.meta, &s.spec) ? podsec_evaluate(op, &s, &policy, &causes)
                                                     : 0;
}

int podsec_admit(struct op *op, const struct api_object *object, const struct api_object *old)
{
    if (!op->reg->podsec)
        return 0;
    if (object->kind->type == &api_pod_type)
        return podsec_admit_pod(op, object, old);
    if (object->kind->type == &api_namespace_type)
        return podsec_admit_namespace(op, object, old);
    return podsec_admit_workload(op, object, old);
}
