// SPDX-License-Identifier: Apache-2.0
//
// Pod Security Admission of namespaces: labels that cannot be read are refused, and a stricter
// level warns of the pods that already exist.
#include "registry/podsec/podsec_int.h"

#include "base/banned.h"

static bool namespace_same_causes(const struct causes *a, const struct causes *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++)
        same = str_eq(a->p[i].field, b->p[i].field) && str_eq(a->p[i].message, b->p[i].message);
    return same;
}

// namespace_warn_exempt: labels of an exempt namespace have no effect, and say so.
static void namespace_warn_exempt(struct op *op, const struct api_object_meta *meta,
                                  const struct podsec_policy *policy)
{
    const struct podsec_policy *defaults = &op->reg->podsec->defaults;
    const struct {
        const char *name;
        const struct podsec_standard *now, *usual;
    } modes[] = {{"enforce", &policy->enforce, &defaults->enforce},
                 {"audit", &policy->audit, &defaults->audit},
                 {"warn", &policy->warn, &defaults->warn}};
    bool privileged = true, usual = true;
    cleanup_sbuf struct sbuf text = {0};
    for (size_t i = 0; i < array_len(modes); i++) {
        bool open = modes[i].now->level == PODSEC_PRIVILEGED;
        privileged &= open;
        usual &= podsec_equivalent(modes[i].now, modes[i].usual);
        if (open || !podsec_has_label(&meta->labels, modes[i].name))
            continue;
        sbuf_addf(&text, "%s%s=", text.n ? ", " : "", modes[i].name);
        podsec_write(modes[i].now, &text);
    }
    if (!privileged && !usual)
        op_warn(op, arena_strf(op->arena,
                               "namespace \"%.*s\" is exempt from Pod Security, and the policy "
                               "(%.*s) will be ignored",
                               STR_ARG(meta->name), STR_ARG(sbuf_str(&text))));
}

int podsec_admit_namespace(struct op *op, const struct api_object *object,
                           const struct api_object *old)
{
    const struct podsec *p = op->reg->podsec;
    const struct api_object_meta *meta = api_object_meta(object);
    struct causes wrong = {.arena = op->arena}, wrong_before = {.arena = op->arena};
    struct podsec_policy now, before = p->defaults;
    bool exempt = podsec_exempts(&p->namespaces, meta->name);
    if (op->request->subresource.n)
        return 0;
    podsec_policy_of(&meta->labels, &p->defaults, &wrong, &now);
    if (old)
        podsec_policy_of(&api_object_meta(old)->labels, &p->defaults, &wrong_before, &before);
    if (wrong.n && !namespace_same_causes(&wrong, &wrong_before))
        return fail_invalid(op, (struct status_subject){STR(""), STR("Namespace"), meta->name},
                            &wrong);
    bool stricter =
        old && !podsec_same(&now.enforce, &before.enforce) &&
        now.enforce.level != PODSEC_PRIVILEGED &&
        !(now.enforce.minor == before.enforce.minor && now.enforce.level <= before.enforce.level);
    if (exempt && (!old || stricter))
        namespace_warn_exempt(op, meta, &now);
    else if (stricter)
        podsec_scan_start(op, meta->name, &now.enforce);
    return 0;
}
