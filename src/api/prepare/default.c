// SPDX-License-Identifier: Apache-2.0
//
// Defaults: those of the schema by walking the tables, and those of resource.k8s.io that depend on
// other fields.
#include "api/prepare/default.h"

#include <assert.h>

#include "api/custom.h"
#include "api/type/extension.h"

#include "base/banned.h"

static void default_count_devices(struct str *mode, int64_t *count)
{
    if (mode->n == 0)
        *mode = STR("ExactCount");
    if (str_eqz(*mode, "ExactCount") && *count == 0)
        *count = 1;
}

static void default_exact_request(struct defaulter *d, void *value)
{
    (void)d;
    struct api_exact_device_request *request = value;
    default_count_devices(&request->allocation_mode, &request->count);
}

static void default_sub_request(struct defaulter *d, void *value)
{
    (void)d;
    struct api_device_sub_request *request = value;
    default_count_devices(&request->allocation_mode, &request->count);
}

static void default_v1beta1_request(struct defaulter *d, void *value)
{
    (void)d;
    struct api_v1beta1_device_request *request = value;
    // Without a class the request has alternatives, and these two must stay empty.
    if (request->device_class_name.n)
        default_count_devices(&request->allocation_mode, &request->count);
}

static void default_v1beta1_sub_request(struct defaulter *d, void *value)
{
    (void)d;
    struct api_v1beta1_device_sub_request *request = value;
    default_count_devices(&request->allocation_mode, &request->count);
}

static void default_taint(struct defaulter *d, void *value)
{
    struct api_device_taint *taint = value;
    if (!taint->time_added.set && d->options && d->options->now.set) {
        taint->time_added = d->options->now;
        taint->time_added.at.nsec = 0;
    }
}

static default_hook *find_hook(const struct api_type *t)
{
    if (t == &api_exact_device_request_type)
        return default_exact_request;
    if (t == &api_device_sub_request_type)
        return default_sub_request;
    if (t == &api_device_taint_type)
        return default_taint;
    if (t == &api_v1beta1_device_request_type)
        return default_v1beta1_request;
    if (t == &api_v1beta1_device_sub_request_type)
        return default_v1beta1_sub_request;
    default_hook *extension = extension_default_hook(t);
    if (extension)
        return extension;
    return default_core_hook(t);
}

// set_json fills a struct member from a default written as JSON.
static void set_json(struct defaulter *d, const struct api_field *f, void *out)
{
    cleanup_json_doc struct json_doc doc = {0};
    int r = json_parse(str_z(f->info->default_text), NULL, &doc, NULL);
    assert(r == 0);
    r = api_json_read(f->sub, &doc, doc.root, out, d->arena, NULL, NULL);
    assert(r == 0);
}

static void default_set_int_or_string(struct str text, struct api_int_or_string *out)
{
    int64_t number;
    if (str_to_i64(text, &number) == 0)
        out->number = (int32_t)number;
    else
        *out = (struct api_int_or_string){.text = text, .is_text = true};
}

static void default_set_elem(struct defaulter *d, const struct api_field *f, void *out)
{
    struct str text = str_z(f->info->default_text);
    int64_t number = 0;
    if (f->elem == API_STR) {
        *(struct str *)out = text;
    } else if (f->elem == API_BOOL) {
        *(bool *)out = str_eqz(text, "true");
    } else if (f->elem == API_INTSTR) {
        default_set_int_or_string(text, out);
    } else if (f->elem == API_STRUCT) {
        set_json(d, f, out);
    } else {
        assert(f->elem == API_I32 || f->elem == API_I64);
        int r = str_to_i64(text, &number);
        assert(r == 0);
        if (f->elem == API_I32)
            *(int32_t *)out = (int32_t)number;
        else
            *(int64_t *)out = number;
    }
}

static void default_set_default(struct defaulter *d, const struct api_field *f, void *owner)
{
    void *member = api_member(f, owner);
    if (api_field_present(f, owner))
        return;
    if (api_field_is_pointer(f)) {
        void **target = member;
        *target = arena_alloc(d->arena, api_elem_size(f), _Alignof(max_align_t));
        member = *target;
    }
    default_set_elem(d, f, member);
    if (f->has_offset)
        *(bool *)((char *)owner + f->has_offset) = true;
}

static void default_struct(struct defaulter *d, const struct api_type *t, void *value);

static void default_below(struct defaulter *d, const struct api_field *f, void *owner)
{
    void *member = api_member(f, owner);
    if (f->shape == API_LIST || f->shape == API_MAP) {
        const struct api_span *span = member;
        if (span->n == 0)
            return;
        size_t size = f->shape == API_MAP ? api_entry_size(f) : api_elem_size(f);
        char *item = (char *)span->p + (f->shape == API_MAP ? API_ENTRY_VALUE : 0);
        for (size_t i = 0; i < span->n; i++, item += size)
            default_struct(d, f->sub, item);
        return;
    }
    if (api_field_is_pointer(f))
        member = *(void **)member;
    if (member)
        default_struct(d, f->sub, member);
}

static void default_struct(struct defaulter *d, const struct api_type *t, void *value)
{
    default_hook *hook = find_hook(t);
    if (hook)
        hook(d, value);
    for (size_t i = 0; i < t->fields_len; i++) {
        const struct api_field *f = &t->fields[i];
        if (f->info->default_text)
            default_set_default(d, f, value);
        if (f->elem == API_STRUCT && f->sub->defaults)
            default_below(d, f, value);
    }
}

void api_default(const struct api_type *t, void *value, const struct api_default_options *options,
                 struct arena *arena)
{
    struct defaulter d = {options, arena};
    if (t->custom)
        custom_default(t->custom, value, arena);
    if (t->defaults)
        default_struct(&d, t, value);
}
