// SPDX-License-Identifier: Apache-2.0
//
// Entry point of preparation: resets what users may not set, dispatches to the kind's own rules,
// and drops fields whose feature gate is off unless the stored object has them.
#include <assert.h>

#include "api/custom.h"
#include "api/prepare/prepare_int.h"
#include "api/type/extension.h"

#include "base/banned.h"

void prepare_meta_for_status(struct api_object_meta *meta, const struct api_object_meta *old)
{
    meta->deletion_timestamp = old->deletion_timestamp;
    meta->generation = old->generation;
    meta->self_link = old->self_link;
    meta->labels = old->labels;
    meta->annotations = old->annotations;
    meta->finalizers = old->finalizers;
    meta->owner_references = old->owner_references;
    // managedFields stay: they tell of the status update itself.
}

// --- DeviceClass ---------------------------------------------------------------------------------

static void prepare_class(const struct preparer *p, struct api_device_class *class_,
                          const struct api_device_class *old)
{
    if (!gate_on(p, FEATURE_DRA_EXTENDED_RESOURCE) &&
        !(old && old->spec.has_extended_resource_name)) {
        class_->spec.has_extended_resource_name = false;
        class_->spec.extended_resource_name = STR("");
    }
    if (!old)
        class_->metadata.generation = 1;
    else if (!api_equal(&api_device_class_spec_type, &class_->spec, &old->spec))
        class_->metadata.generation = old->metadata.generation + 1;
}

// --- DeviceTaintRule -----------------------------------------------------------------------------

static bool prepare_time_equal(const struct api_time *a, const struct api_time *b)
{
    return a->set == b->set && (!a->set || (a->at.sec == b->at.sec && a->at.nsec == b->at.nsec));
}

static void prepare_rule_update(const struct preparer *p, struct api_device_taint_rule *rule,
                                const struct api_device_taint_rule *old)
{
    struct api_device_taint *taint = &rule->spec.taint;
    rule->status = old->status;
    // Another effect begins now, unless the user sets a time.
    if (!str_eq(taint->effect, old->spec.taint.effect) &&
        prepare_time_equal(&taint->time_added, &old->spec.taint.time_added) && p->rules->now.set) {
        taint->time_added = p->rules->now;
        taint->time_added.at.nsec = 0;
    }
    if (!api_equal(&api_device_taint_rule_spec_type, &rule->spec, &old->spec))
        rule->metadata.generation = old->metadata.generation + 1;
}

static void prepare_rule(const struct preparer *p, struct api_device_taint_rule *rule,
                         const struct api_device_taint_rule *old)
{
    assert(old || p->op == API_CREATE);
    switch (p->op) {
    case API_CREATE:
        rule->status = (struct api_device_taint_rule_status){0};
        rule->metadata.generation = 1;
        break;
    case API_UPDATE:
        prepare_rule_update(p, rule, old);
        break;
    case API_STATUS_UPDATE:
        rule->spec = old->spec;
        prepare_meta_for_status(&rule->metadata, &old->metadata);
        break;
    }
}

// --- ResourcePoolStatusRequest -------------------------------------------------------------------

static void drop_partition_type(const struct preparer *p,
                                struct api_resource_pool_status_request *request,
                                const struct api_resource_pool_status_request *old)
{
    if (gate_on(p, FEATURE_DRA_PARTITIONABLE_DEVICES_TYPE) ||
        (old && old->spec.has_default_partition_type_attribute))
        return;
    request->spec.has_default_partition_type_attribute = false;
    request->spec.default_partition_type_attribute = STR("");
}

static void prepare_pool_status(const struct preparer *p,
                                struct api_resource_pool_status_request *request,
                                const struct api_resource_pool_status_request *old)
{
    assert(old || p->op == API_CREATE);
    switch (p->op) {
    case API_CREATE:
        request->status = NULL;
        drop_partition_type(p, request, NULL);
        break;
    case API_UPDATE:
        request->status = old->status;
        drop_partition_type(p, request, old);
        break;
    case API_STATUS_UPDATE:
        request->spec = old->spec;
        prepare_meta_for_status(&request->metadata, &old->metadata);
        break;
    }
}

// --- All kinds -----------------------------------------------------------------------------------

static void prepare_kind(const struct preparer *p, const struct api_object *object,
                         const struct api_object *before)
{
    const struct api_type *t = object->kind->type;
    void *value = object->value;
    const void *old = before ? before->value : NULL;
    if (t == &api_resource_claim_type)
        prepare_claim(p, value, old);
    else if (t == &api_resource_claim_template_type)
        prepare_template(p, value, old);
    else if (t == &api_resource_slice_type)
        prepare_slice(p, value, old);
    else if (t == &api_device_class_type)
        prepare_class(p, value, old);
    else if (t == &api_device_taint_rule_type)
        prepare_rule(p, value, old);
    else if (t == &api_resource_pool_status_request_type)
        prepare_pool_status(p, value, old);
    else
        prepare_core(p, object, before);
}

// What a request cannot change in an object that exists.
static void keep_system_fields(struct api_object_meta *meta, const struct api_object_meta *old)
{
    if (meta->uid.n == 0)
        meta->uid = old->uid;
    if (old->creation_timestamp.set)
        meta->creation_timestamp = old->creation_timestamp;
    if (old->deletion_timestamp.set)
        meta->deletion_timestamp = old->deletion_timestamp;
    if (old->has_deletion_grace_period_seconds && !meta->has_deletion_grace_period_seconds) {
        meta->has_deletion_grace_period_seconds = true;
        meta->deletion_grace_period_seconds = old->deletion_grace_period_seconds;
    }
}

void api_prepare(enum api_op op, const struct api_object *object, const struct api_object *old,
                 const struct api_rules *rules, struct arena *arena)
{
    struct preparer p = {.op = op, .rules = rules, .arena = arena};
    struct api_object_meta *meta = api_object_meta(object);
    const struct api_object_meta *old_meta = old ? api_object_meta(old) : NULL;
    if (meta && old_meta)
        meta->generation = old_meta->generation;
    if (object->kind->custom)
        custom_prepare(op, object, old, rules->version, arena);
    else if (!extension_prepare(&p, object, old))
        prepare_kind(&p, object, old);
    if (meta && old_meta)
        keep_system_fields(meta, old_meta);
}
