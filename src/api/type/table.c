// SPDX-License-Identifier: Apache-2.0
//
// The tables of types: sizes, presence and lookup of fields. Codecs, defaults and validation walk
// the tables by these functions.
#include "api/table.h"

#include <string.h>

#include "api/api.h"

#include "base/banned.h"

static const size_t elem_sizes[API_ELEMS] = {
    [API_STR] = sizeof(struct str),
    [API_BOOL] = sizeof(bool),
    [API_I32] = sizeof(int32_t),
    [API_I64] = sizeof(int64_t),
    [API_QUANTITY] = sizeof(struct quantity),
    [API_TIME] = sizeof(struct api_time),
    [API_MICROTIME] = sizeof(struct api_time),
    [API_INTSTR] = sizeof(struct api_int_or_string),
    [API_RAW] = sizeof(struct str),
    [API_FIELDS] = sizeof(struct str),
    [API_BYTES] = sizeof(struct str),
    [API_STRLIST] = sizeof(struct api_str_array),
};

size_t api_elem_size(const struct api_field *f)
{
    return f->elem == API_STRUCT ? f->sub->size : elem_sizes[f->elem];
}

// Entries are {struct str key; T value}: both parts aligned to at most that of a pointer.
_Static_assert(_Alignof(struct str) == sizeof(void *), "an entry's value follows its key directly");

size_t api_entry_size(const struct api_field *f)
{
    size_t align = _Alignof(struct str);
    return API_ENTRY_VALUE + (api_elem_size(f) + align - 1) / align * align;
}

static bool one_present(const struct api_field *f, const void *member)
{
    switch (f->elem) {
    case API_STR:
        return ((const struct str *)member)->n > 0;
    case API_BOOL:
        return *(const bool *)member;
    case API_I32:
        return *(const int32_t *)member != 0;
    case API_I64:
        return *(const int64_t *)member != 0;
    case API_TIME:
    case API_MICROTIME:
        return ((const struct api_time *)member)->set;
    case API_RAW:
    case API_FIELDS:
    case API_BYTES:
        return ((const struct str *)member)->p != NULL;
    case API_STRLIST:
        return ((const struct api_str_array *)member)->p != NULL;
    case API_QUANTITY:
    case API_INTSTR:
    case API_STRUCT:
    case API_ELEMS:
        break;
    }
    return true;
}

bool api_field_present(const struct api_field *f, const void *owner)
{
    const void *member = api_member_const(f, owner);
    switch (f->shape) {
    case API_LIST:
    case API_MAP:
        return ((const struct api_span *)member)->p != NULL;
    case API_OPT:
        if (api_field_is_pointer(f))
            return *(void *const *)member != NULL;
        if (f->has_offset)
            return *(const bool *)((const char *)owner + f->has_offset);
        return one_present(f, member);
    case API_ONE:
        return one_present(f, member);
    case API_INLINE:
        break;
    }
    return true;
}

void api_field_clear(const struct api_field *f, void *owner)
{
    void *member = api_member(f, owner);
    if (f->shape == API_LIST || f->shape == API_MAP)
        *(struct api_span *)member = (struct api_span){NULL, 0};
    else if (api_field_is_pointer(f))
        *(void **)member = NULL;
    else
        memset(member, 0, api_elem_size(f));
    if (f->has_offset)
        *(bool *)((char *)owner + f->has_offset) = false;
}

const struct api_field *api_type_field(const struct api_type *t, struct str name)
{
    for (size_t i = 0; i < t->json_len; i++)
        if (str_eq(t->json[i].name, name))
            return &t->json[i];
    return NULL;
}
