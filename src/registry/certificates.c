// SPDX-License-Identifier: Apache-2.0
//
// Requests for certificates: the server records the requester; a decision has its own subresource
// (approval), which changes nothing else.
#include "pki/csr.h"
#include "registry/stage_int.h"

#include "base/banned.h"

static struct api_strlist_map extra_of(struct op *op, const struct registry_user *user)
{
    struct api_strlist_map map = {
        arena_array(op->arena, struct api_strlist_entry, user->extra_len + 1), 0};
    for (size_t i = 0; i < user->extra_len; i++) {
        const struct registry_extra *e = &user->extra[i];
        struct str *values = arena_array(op->arena, struct str, e->values_len + 1);
        for (size_t j = 0; j < e->values_len; j++)
            values[j] = e->values[j];
        size_t at = map.n++;
        for (; at > 0 && str_cmp(map.p[at - 1].key, e->key) > 0; at--)
            map.p[at] = map.p[at - 1];
        map.p[at] = (struct api_strlist_entry){e->key, {values, e->values_len}};
    }
    return map;
}

int certificates_admit(struct op *op, const struct api_object *object, const struct api_object *old)
{
    if (object->kind->type != &api_certificate_signing_request_type)
        return 0;
    struct api_certificate_signing_request *now = object->value;
    if (old) {
        now->spec = ((const struct api_certificate_signing_request *)old->value)->spec;
        return 0;
    }
    static const struct registry_user none;
    const struct registry_user *user = op->request->user ? op->request->user : &none;
    struct api_certificate_signing_request_spec *spec = &now->spec;
    struct str *groups = arena_array(op->arena, struct str, user->groups_len + 1);
    for (size_t i = 0; i < user->groups_len; i++)
        groups[i] = user->groups[i];
    spec->username = user->name;
    spec->uid = user->uid;
    spec->groups = (struct api_str_array){groups, user->groups_len};
    spec->extra = extra_of(op, user);
    return 0;
}

// certificates_stamp_conditions gives conditions that are new, or have changed, their times.
static void certificates_stamp_conditions(struct op *op,
                                          struct api_certificate_signing_request *now,
                                          const struct api_certificate_signing_request *old)
{
    for (size_t i = 0; i < now->status.conditions.n; i++) {
        struct api_certificate_signing_request_condition *c = &now->status.conditions.p[i];
        struct api_time changed = op->now;
        for (size_t j = 0; j < old->status.conditions.n; j++)
            if (str_eq(old->status.conditions.p[j].type, c->type) &&
                str_eq(old->status.conditions.p[j].status, c->status))
                changed = old->status.conditions.p[j].last_transition_time;
        if (!c->last_update_time.set)
            c->last_update_time = op->now;
        if (!c->last_transition_time.set)
            c->last_transition_time = changed;
    }
}

// What stands in PEM: a request with the signature of its own key, certificates and nothing else.
void certificates_check_texts(struct op *op, const struct api_object *object,
                              const struct api_object *old, struct causes *causes)
{
    if (object->kind->type != &api_certificate_signing_request_type)
        return;
    const struct api_certificate_signing_request *now = object->value;
    const struct api_certificate_signing_request *before = old ? old->value : NULL;
    struct path spec = path_root(STR("spec")), request = path_field(&spec, STR("request"));
    struct path status = path_root(STR("status")),
                certificate = path_field(&status, STR("certificate"));
    struct csr_request parsed;
    struct err err = {0};
    if (!before && csr_parse(now->spec.request, op->arena, &parsed, &err) < 0)
        cause_invalid(causes, &request, STR("<request data>"),
                      arena_str(op->arena, str_z(err.msg)));
    if (now->status.certificate.n &&
        !(before && str_eq(before->status.certificate, now->status.certificate)) &&
        csr_check_chain(now->status.certificate, &err) < 0)
        cause_invalid(causes, &certificate, STR("<certificate data>"),
                      arena_str(op->arena, str_z(err.msg)));
}

int certificates_decide(struct op *op, const struct api_object *object,
                        const struct api_object *old)
{
    struct api_certificate_signing_request *now = object->value;
    const struct api_certificate_signing_request *before = old->value;
    const struct api_certificate_signing_request_condition_array decided = now->status.conditions;
    now->spec = before->spec;
    int r = create_check_valid(op, API_UPDATE, object, old); // which puts the old status back
    if (r < 0)
        return r;
    now->status.conditions = decided;
    certificates_stamp_conditions(op, now, before);
    return create_check_prepared(op, API_STATUS_UPDATE, object, old);
}
