// SPDX-License-Identifier: Apache-2.0
//
// ValidatingAdmissionPolicies: asked last, about an object that is prepared and valid, or about a
// deletion. Policies and bindings are few; they are compiled again when one of them has changed.
// Policies do not apply to the registry's own writes, nor to policies and bindings.
#include <stdlib.h>

#include "api/match/label_selector.h"
#include "api/policy.h"
#include "codec/json_writer.h"
#include "registry/stage_int.h"

#include "base/banned.h"

// A policy that is bound, compiled. Typed objects are in its arena.
struct bound {
    struct policy *policy;
    const struct api_validating_admission_policy *definition;
    const struct api_validating_admission_policy_binding *binding;
};

struct policies {
    struct registry *reg;
    bool current; // what is compiled is what is stored
    struct arena arena;
    struct VEC(struct bound) all;
    const struct api_kind *policy_kind, *binding_kind;
    struct store_watch watch_policies, watch_bindings;
};

static void policies_drop_all(struct policies *p)
{
    vec_foreach(&p->all, b)
        policy_free(b->policy);
    vec_done(&p->all);
    arena_done(&p->arena);
    p->arena = (struct arena){0};
    p->current = false;
}

static void policies_on_event(void *arg, const struct store_event *e)
{
    (void)e;
    policies_drop_all(arg);
}

int policies_start(struct registry *reg, struct err *err)
{
    struct policies *p = xcalloc(1, sizeof(*p));
    p->reg = reg;
    p->policy_kind =
        api_kind_find(STR("admissionregistration.k8s.io/v1"), STR("ValidatingAdmissionPolicy"));
    p->binding_kind = api_kind_find(STR("admissionregistration.k8s.io/v1"),
                                    STR("ValidatingAdmissionPolicyBinding"));
    uint64_t now = store_revision(reg->store);
    p->watch_policies = (struct store_watch){
        .kind = p->policy_kind, .seen = now, .event = policies_on_event, .arg = p};
    p->watch_bindings = (struct store_watch){
        .kind = p->binding_kind, .seen = now, .event = policies_on_event, .arg = p};
    int r = store_watch_start(reg->store, &p->watch_policies, err);
    if (r == 0 && (r = store_watch_start(reg->store, &p->watch_bindings, err)) < 0)
        store_watch_stop(reg->store, &p->watch_policies);
    if (r < 0) {
        free(p);
        return r;
    }
    reg->policies = p;
    return 0;
}

void policies_stop(struct registry *reg)
{
    struct policies *p = reg->policies;
    if (!p)
        return;
    store_watch_stop(reg->store, &p->watch_policies);
    store_watch_stop(reg->store, &p->watch_bindings);
    policies_drop_all(p);
    free(p);
    reg->policies = NULL;
}

// --- Compiling -----------------------------------------------------------------------------------

static void policies_add_binding(struct policies *p, const struct object *o)
{
    static const struct api_time unknown;
    struct api_object binding = {0}, definition = {0};
    if (encode_read_stored(o, &unknown, &p->arena, &binding, NULL) < 0)
        return;
    const struct api_validating_admission_policy_binding *b = binding.value;
    const struct store_key key = {p->policy_kind, STR(""), b->spec.policy_name};
    const struct object *policy = store_get(p->reg->store, &key);
    if (!policy || encode_read_stored(policy, &unknown, &p->arena, &definition, NULL) < 0)
        return;
    const struct api_validating_admission_policy *d = definition.value;
    vec_push(&p->all, (struct bound){policy_new(&d->spec), d, b});
}

static void policies_refresh_cache(struct policies *p)
{
    struct store_walk walk = {.kind = p->binding_kind};
    if (p->current || store_walk_start(p->reg->store, &walk, NULL) < 0)
        return;
    for (const struct object *o; (o = store_walk_next(p->reg->store, &walk));)
        policies_add_binding(p, o);
    store_walk_done(&walk);
    p->current = true;
}

// --- Which requests are meant --------------------------------------------------------------------

// The objects as expressions see them, in the version that was used last: most policies use
// for the same.
struct sight {
    const struct api_kind *as;
    struct dyn *object, *old;
};

// What is asked about, found once a request.
struct question {
    struct op *op;
    const char *operation;
    const struct api_object *object, *old; // in the stored version
    const struct object *namespace;        // NULL: none
    struct sight *sight;
};

static bool policies_list_has(const struct api_str_array *list, struct str text)
{
    for (size_t i = 0; i < list->n; i++)
        if (str_eqz(list->p[i], "*") || str_eq(list->p[i], text))
            return true;
    return false;
}

static bool resource_matches(struct str pattern, struct str resource, struct str sub)
{
    struct str want, want_sub;
    bool slash = str_cut(pattern, '/', &want, &want_sub);
    if (!str_eqz(want, "*") && !str_eq(want, resource))
        return false;
    return slash ? str_eqz(want_sub, "*") || str_eq(want_sub, sub) : sub.n == 0;
}

static bool policies_rule_matches(const struct question *q,
                                  const struct api_named_rule_with_operations *named, bool exact)
{
    const struct registry_request *request = q->op->request;
    const struct api_rule_with_operations *r = &named->rule_with_operations;
    const struct api_kind *kind = request->kind;
    struct str name = request->name;
    bool resource = false, listed = named->resource_names.n == 0;
    if (name.n == 0 && q->object)
        name = api_object_meta(q->object)->name;
    for (size_t i = 0; i < r->rule.resources.n; i++)
        resource |= resource_matches(r->rule.resources.p[i], kind->plural, request->subresource);
    for (size_t i = 0; i < named->resource_names.n; i++)
        listed |= str_eq(named->resource_names.p[i], name);
    bool scope = !r->rule.has_scope || str_eqz(r->rule.scope, "*") ||
                 str_eqz(r->rule.scope, kind->namespaced ? "Namespaced" : "Cluster");
    return resource && listed && scope && policies_list_has(&r->operations, str_z(q->operation)) &&
           policies_list_has(&r->rule.api_groups, kind->group) &&
           (!exact || policies_list_has(&r->rule.api_versions, kind->version));
}

static bool policies_labels_match(const struct label_selector *s, const struct api_object *o)
{
    return o && label_selector_matches(s, &api_object_meta(o)->labels);
}

static bool selectors_match(const struct question *q, const struct api_match_resources *m)
{
    struct label_selector objects, namespaces;
    struct arena *a = q->op->arena;
    if (m->object_selector && label_selector_of(m->object_selector, a, &objects, NULL) == 0 &&
        !label_selector_everything(&objects) && !policies_labels_match(&objects, q->object) &&
        !policies_labels_match(&objects, q->old))
        return false;
    if (!m->namespace_selector ||
        label_selector_of(m->namespace_selector, a, &namespaces, NULL) < 0 ||
        label_selector_everything(&namespaces))
        return true;
    if (q->op->stored == q->op->reg->kinds.namespace)
        return policies_labels_match(&namespaces, q->object ? q->object : q->old);
    if (!q->namespace)
        return !q->op->stored->namespaced;
    struct api_object ns = {0};
    return encode_read_stored(q->namespace, &q->op->now, a, &ns, NULL) == 0 &&
           policies_labels_match(&namespaces, &ns);
}

static bool any_rule(const struct question *q,
                     const struct api_named_rule_with_operations_array *rules, bool exact,
                     const struct api_named_rule_with_operations **ret)
{
    for (size_t i = 0; i < rules->n; i++)
        if (policies_rule_matches(q, &rules->p[i], exact)) {
            *ret = &rules->p[i];
            return true;
        }
    return false;
}

// The version in which a policy wants to see an object whose own version no rule names.
static const struct api_kind *wanted_version(const struct question *q,
                                             const struct api_named_rule_with_operations *rule)
{
    const struct api_kind *kind = q->op->request->kind;
    const struct api_str_array *versions = &rule->rule_with_operations.rule.api_versions;
    for (size_t i = 0; i < versions->n; i++) {
        struct str version = versions->p[i];
        const struct api_kind *k =
            kind->custom
                ? custom_version_of(kind, arena_strf(q->op->arena, "%.*s/%.*s",
                                                     STR_ARG(kind->group), STR_ARG(version)))
                : api_kind_of_resource(kind->group, version, kind->plural);
        if (k)
            return k;
    }
    return NULL;
}

// The version a policy sees; NULL: the request is not meant.
static const struct api_kind *policies_match_kind(const struct question *q,
                                                  const struct api_match_resources *m)
{
    const struct api_named_rule_with_operations *rule = NULL;
    const struct api_kind *kind = q->op->request->kind;
    bool equivalent = !str_eqz(m->match_policy, "Exact");
    if (!selectors_match(q, m) || any_rule(q, &m->exclude_resource_rules, !equivalent, &rule))
        return NULL;
    if (any_rule(q, &m->resource_rules, true, &rule))
        return kind;
    return equivalent && any_rule(q, &m->resource_rules, false, &rule) ? wanted_version(q, rule)
                                                                       : NULL;
}

// --- What expressions see ------------------------------------------------------------------------

static struct dyn *policies_show_object(const struct api_object *object, const struct api_kind *as,
                                        struct arena *a)
{
    struct api_object out = *object;
    cleanup_sbuf struct sbuf text = {0};
    cleanup_json_doc struct json_doc doc = {0};
    struct json_writer w = {.out = &text};
    struct err err = {0};
    if (as->type != object->kind->type && api_convert(object, as, a, &out, &err) < 0)
        return NULL;
    out.kind = as;
    if (api_json_write(as->type, out.value, &w, &err) < 0 ||
        json_parse(sbuf_str(&text), &(struct json_options){.max_bytes = SIZE_MAX}, &doc, &err) < 0)
        return NULL;
    struct dyn *d = arena_one(a, struct dyn);
    *d = dyn_of(doc.root, a);
    dyn_set(d, STR("apiVersion"), dyn_str(as->api_version), a);
    dyn_set(d, STR("kind"), dyn_str(as->kind), a);
    return d;
}

static const struct sight *policies_find_view(const struct question *q, const struct api_kind *as)
{
    struct arena *a = q->op->arena;
    if (q->sight->as != as)
        *q->sight =
            (struct sight){.as = as,
                           .object = q->object ? policies_show_object(q->object, as, a) : NULL,
                           .old = q->old ? policies_show_object(q->old, as, a) : NULL};
    return q->sight;
}

static struct dyn policies_make_list(struct arena *a, const struct str *p, size_t n)
{
    struct dyn list = {.type = DYN_LIST, .items = arena_array(a, struct dyn, n + 1)};
    for (size_t i = 0; i < n; i++)
        list.items[list.items_len++] = dyn_str(p[i]);
    return list;
}

static struct dyn user_info(const struct registry_user *u, struct arena *a)
{
    struct dyn o = {.type = DYN_OBJECT}, extra = {.type = DYN_OBJECT};
    for (size_t i = 0; i < u->extra_len; i++)
        dyn_set(&extra, u->extra[i].key,
                policies_make_list(a, u->extra[i].values, u->extra[i].values_len), a);
    dyn_set(&o, STR("username"), dyn_str(u->name), a);
    dyn_set(&o, STR("uid"), dyn_str(u->uid), a);
    dyn_set(&o, STR("groups"), policies_make_list(a, u->groups, u->groups_len), a);
    dyn_set(&o, STR("extra"), extra, a);
    return o;
}

static struct dyn policies_make_kind(struct arena *a, const struct api_kind *k, const char *third,
                                     struct str value)
{
    struct dyn o = {.type = DYN_OBJECT};
    dyn_set(&o, STR("group"), dyn_str(k->group), a);
    dyn_set(&o, STR("version"), dyn_str(k->version), a);
    dyn_set(&o, str_z(third), dyn_str(value), a);
    return o;
}

static struct dyn policies_request_of(const struct question *q, const struct api_kind *as)
{
    struct op *op = q->op;
    struct arena *a = op->arena;
    const struct registry_request *r = op->request;
    const struct api_kind *kind = r->kind;
    struct str name = r->name;
    if (name.n == 0 && q->object)
        name = api_object_meta(q->object)->name;
    struct dyn o = {.type = DYN_OBJECT};
    dyn_set(&o, STR("kind"), policies_make_kind(a, as, "kind", as->kind), a);
    dyn_set(&o, STR("resource"), policies_make_kind(a, as, "resource", as->plural), a);
    dyn_set(&o, STR("subResource"), dyn_str(r->subresource), a);
    dyn_set(&o, STR("requestKind"), policies_make_kind(a, kind, "kind", kind->kind), a);
    dyn_set(&o, STR("requestResource"), policies_make_kind(a, kind, "resource", kind->plural), a);
    dyn_set(&o, STR("requestSubResource"), dyn_str(r->subresource), a);
    dyn_set(&o, STR("name"), dyn_str(name), a);
    dyn_set(&o, STR("namespace"), dyn_str(r->namespace), a);
    dyn_set(&o, STR("operation"), dyn_str(str_z(q->operation)), a);
    dyn_set(&o, STR("userInfo"), user_info(r->user, a), a);
    dyn_set(&o, STR("dryRun"), (struct dyn){.type = DYN_BOOL, .truth = op->dry_run}, a);
    dyn_set(&o, STR("options"), (struct dyn){.type = DYN_OBJECT}, a);
    return o;
}

// --- Parameters ----------------------------------------------------------------------------------

// Objects, by reference: they may be many and large, and are read one after the other.
struct params {
    const struct api_kind *kind;
    struct VEC(const struct object *) all;
};

static void params_done(struct params *p)
{
    vec_foreach(&p->all, o)
        object_unref(*o);
    vec_done(&p->all);
}
#define cleanup_params cleanup_with(params_done)

static bool is_selected(const struct object *o, const struct api_kind *kind,
                        const struct label_selector *selector)
{
    cleanup_arena struct arena arena = {0};
    struct api_object object = {0};
    return registry_decode(o, kind, &arena, &object, NULL) == 0 &&
           label_selector_matches(selector, &api_object_meta(&object)->labels);
}

static int find_params(const struct question *q, const struct bound *b, struct params *out)
{
    struct op *op = q->op;
    const struct api_param_kind *want = b->definition->spec.param_kind;
    const struct api_param_ref *ref = b->binding->spec.param_ref;
    const struct api_kind *kind = api_kind_find(want->api_version, want->kind);
    if (!kind)
        kind = custom_find(op->reg->customs, want->api_version, want->kind);
    if (!kind)
        return fail_internal(op,
                             "the policy %.*s takes parameters of the kind %.*s %.*s, which is "
                             "not served",
                             STR_ARG(b->definition->metadata.name), STR_ARG(want->api_version),
                             STR_ARG(want->kind));
    const struct api_kind *stored = registry_stored_kind(kind);
    struct str where = STR("");
    out->kind = kind;
    if (kind->namespaced)
        where = ref->namespace.n ? ref->namespace : op->request->namespace;
    if (ref->name.n) {
        const struct store_key key = {stored, where, ref->name};
        const struct object *o = store_get(op->reg->store, &key);
        if (o)
            vec_push(&out->all, object_ref(o));
        return 0;
    }
    struct label_selector selector;
    struct store_walk walk = {.kind = stored, .one_namespace = where.n > 0, .namespace = where};
    if (label_selector_of(ref->selector, op->arena, &selector, NULL) < 0 ||
        store_walk_start(op->reg->store, &walk, NULL) < 0)
        return 0;
    for (const struct object *o; (o = store_walk_next(op->reg->store, &walk));)
        if (is_selected(o, kind, &selector))
            vec_push(&out->all, object_ref(o));
    store_walk_done(&walk);
    return 0;
}

// --- Verdicts ------------------------------------------------------------------------------------

static struct status_subject policies_describe_subject(const struct question *q)
{
    return q->object ? admit_about(q->op, q->object) : op_subject(q->op, q->op->request->name);
}

static int policies_refuse_request(const struct question *q, const struct bound *b,
                                   const struct policy_verdict *v)
{
    static const struct {
        const char *reason;
        int32_t code;
    } codes[] = {{"Forbidden", 403},
                 {"Unauthorized", 401},
                 {"RequestEntityTooLarge", 413},
                 {"Invalid", 422}};
    struct op *op = q->op;
    struct str why =
        arena_strf(op->arena,
                   "ValidatingAdmissionPolicy '%.*s' with binding '%.*s' denied request: %.*s",
                   STR_ARG(b->definition->metadata.name), STR_ARG(b->binding->metadata.name),
                   STR_ARG(v->message));
    int r = fail_forbidden(op, policies_describe_subject(q), "%.*s", STR_ARG(why));
    // The policy may be gone when the answer leaves.
    op->status->reason = v->reason.n ? arena_str(op->arena, v->reason) : STR("Invalid");
    op->status->code = 422;
    for (size_t i = 0; i < array_len(codes); i++)
        if (str_eqz(op->status->reason, codes[i].reason))
            op->status->code = codes[i].code;
    fail_cause(op, STR(""), why, STR(""));
    return r;
}

// policies_note_failure adds to the list in the audit annotation that upstream writes.
static void policies_note_failure(const struct question *q, const struct bound *b,
                                  const struct policy_verdict *v)
{
    struct op *op = q->op;
    if (!op->request->audited)
        return;
    const struct api_str_array *actions = &b->binding->spec.validation_actions;
    cleanup_sbuf struct sbuf text = {0};
    struct json_writer w = {.out = &text};
    json_write_object_begin(&w);
    json_write_text(&w, "message", v->message);
    json_write_text(&w, "policy", b->definition->metadata.name);
    json_write_text(&w, "binding", b->binding->metadata.name);
    json_write_number(&w, "expressionIndex", (int64_t)v->rule);
    json_write_array_in(&w, "validationActions");
    for (size_t i = 0; i < actions->n; i++)
        json_write_str(&w, actions->p[i]);
    json_write_array_end(&w);
    json_write_object_end(&w);
    op_note_listed(op, STR("validation.policy.admission.k8s.io/validation_failure"),
                   sbuf_str(&text));
}

static int policies_take_action(const struct question *q, const struct bound *b,
                                const struct policy_verdict *v)
{
    struct op *op = q->op;
    const struct api_str_array *actions = &b->binding->spec.validation_actions;
    for (size_t i = 0; i < actions->n; i++) {
        if (str_eqz(actions->p[i], "Deny"))
            return policies_refuse_request(q, b, v);
        if (str_eqz(actions->p[i], "Audit"))
            policies_note_failure(q, b, v);
        if (str_eqz(actions->p[i], "Warn"))
            op_warn(op, arena_strf(op->arena,
                                   "Validation failed for ValidatingAdmissionPolicy '%.*s' with "
                                   "binding '%.*s': %.*s",
                                   STR_ARG(b->definition->metadata.name),
                                   STR_ARG(b->binding->metadata.name), STR_ARG(v->message)));
    }
    return 0;
}

static int policies_evaluate_binding(const struct question *q, const struct bound *b,
                                     const struct policy_request *request)
{
    // What a policy makes of the object is as large as that: it is given back before the next one
    // is asked.
    cleanup_arena struct arena arena = {0};
    struct policy_verdict *verdicts = NULL;
    int n = policy_ask(b->policy, request, &arena, &verdicts), r = 0;
    for (int i = 0; r == 0 && i < n; i++)
        r = policies_take_action(q, b, &verdicts[i]);
    return r;
}

// ask_with asks about a request beside one of the parameters.
static int ask_with(const struct question *q, const struct bound *b, struct policy_request asked,
                    const struct object *param, const struct api_kind *kind)
{
    cleanup_arena struct arena arena = {0};
    struct api_object object = {0};
    struct err err = {0};
    if (registry_decode(param, kind, &arena, &object, &err) < 0)
        return fail_internal(q->op, "a parameter of the policy %.*s cannot be read: %s",
                             STR_ARG(b->definition->metadata.name), err.msg);
    asked.params = policies_show_object(&object, kind, &arena);
    return policies_evaluate_binding(q, b, &asked);
}

static int ask_bound(const struct question *q, const struct bound *b)
{
    struct op *op = q->op;
    const struct api_match_resources *constraints = b->definition->spec.match_constraints;
    const struct api_match_resources *narrower = b->binding->spec.match_resources;
    const struct api_kind *as = constraints ? policies_match_kind(q, constraints) : NULL;
    if (!as || (narrower && narrower->resource_rules.n && !policies_match_kind(q, narrower)) ||
        (narrower && !selectors_match(q, narrower)))
        return 0;
    struct dyn request = policies_request_of(q, as), *ns = NULL;
    struct api_object namespace = {0};
    if (q->namespace &&
        encode_read_stored(q->namespace, &op->now, op->arena, &namespace, NULL) == 0)
        ns = policies_show_object(&namespace, op->reg->kinds.namespace, op->arena);
    const struct sight *sight = policies_find_view(q, as);
    struct policy_request asked = {
        .object = sight->object, .old = sight->old, .request = &request, .namespace_object = ns};
    if (!b->definition->spec.param_kind || !b->binding->spec.param_ref)
        return policies_evaluate_binding(q, b, &asked);
    cleanup_params struct params params = {0};
    int r = find_params(q, b, &params);
    bool deny = str_eqz(b->binding->spec.param_ref->parameter_not_found_action, "Deny");
    if (r == 0 && params.all.n == 0 && deny)
        return policies_take_action(
            q, b,
            &(struct policy_verdict){
                .refused = true,
                .message = STR("failed to configure binding: no params found for policy binding "
                               "with `Deny` parameterNotFoundAction")});
    for (size_t i = 0; r == 0 && i < params.all.n; i++)
        r = ask_with(q, b, asked, params.all.p[i], params.kind);
    return r;
}

int policies_admit(struct op *op, const struct api_object *object, const struct api_object *old)
{
    struct policies *p = op->reg->policies;
    if (!p || !op->request->user || op->stored == p->policy_kind || op->stored == p->binding_kind)
        return 0;
    policies_refresh_cache(p);
    if (p->all.n == 0)
        return 0;
    const struct store_key key = {op->reg->kinds.namespace, STR(""), op->request->namespace};
    struct sight sight = {0};
    const struct question q = {
        .op = op,
        .sight = &sight,
        .operation = !object ? "DELETE"
                     : old   ? "UPDATE"
                             : "CREATE",
        .object = object,
        .old = old,
        .namespace = op->stored->namespaced ? store_head(op->reg->store, &key) : NULL,
    };
    int r = 0;
    for (size_t i = 0; r == 0 && i < p->all.n; i++)
        r = ask_bound(&q, &p->all.p[i]);
    return r;
}
