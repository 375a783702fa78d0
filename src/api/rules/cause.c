// SPDX-License-Identifier: Apache-2.0
//
// Causes of invalid objects in upstream's words, and field paths as upstream prints them. A list
// of causes is bounded, because an object may be wrong in very many places.
#include "api/cause.h"

#include "base/vec.h"

#include "base/banned.h"

void path_write(const struct path *p, struct sbuf *out)
{
    if (!p)
        return;
    path_write(p->parent, out);
    switch (p->kind) {
    case PATH_FIELD:
        if (p->parent && p->name.n)
            sbuf_addc(out, '.');
        if (p->name.n)
            sbuf_add(out, p->name);
        else
            sbuf_addz(out, "[]"); // as upstream, for which no name means an index
        break;
    case PATH_INDEX:
        sbuf_addf(out, "[%zu]", p->index);
        break;
    case PATH_KEY:
        sbuf_addc(out, '[');
        sbuf_add(out, p->name);
        sbuf_addc(out, ']');
        break;
    }
}

static const struct {
    const char *reason, *title;
} types[] = {
    [CAUSE_NOT_FOUND] = {"FieldValueNotFound", "Not found"},
    [CAUSE_REQUIRED] = {"FieldValueRequired", "Required value"},
    [CAUSE_DUPLICATE] = {"FieldValueDuplicate", "Duplicate value"},
    [CAUSE_INVALID] = {"FieldValueInvalid", "Invalid value"},
    [CAUSE_NOT_SUPPORTED] = {"FieldValueNotSupported", "Unsupported value"},
    [CAUSE_FORBIDDEN] = {"FieldValueForbidden", "Forbidden"},
    [CAUSE_TOO_LONG] = {"FieldValueTooLong", "Too long"},
    [CAUSE_TOO_MANY] = {"FieldValueTooMany", "Too many"},
    [CAUSE_TOO_FEW] = {"FieldValueTooFew", "Too few"},
    [CAUSE_INTERNAL] = {"InternalError", "Internal error"},
    [CAUSE_TYPE_INVALID] = {"FieldValueTypeInvalid", "Invalid value"},
    [CAUSE_TOO_SHORT] = {"FieldValueTooShort", "Too short"},
};

const char *cause_reason(enum cause_type type)
{
    return types[type].reason;
}

// "Title: value: detail", leaving out what is empty. value is shown as it stands.
size_t cause_add(struct causes *c, enum cause_type type, const struct path *at, struct str value,
                 struct str detail)
{
    cleanup_sbuf struct sbuf field = {0}, message = {0};
    if (causes_full(c) && c->n)
        return c->n - 1;
    path_write(at, &field);
    sbuf_addz(&message, types[type].title);
    if (value.n) {
        sbuf_addz(&message, ": ");
        sbuf_add(&message, value);
    }
    if (detail.n) {
        sbuf_addz(&message, ": ");
        sbuf_add(&message, detail);
    }
    struct cause cause = {
        .type = type,
        .field = arena_str(c->arena, sbuf_str(&field)),
        .message = arena_str(c->arena, sbuf_str(&message)),
    };
    c->bytes += field.n + message.n + sizeof(cause);
    vec_push_arena(c->arena, c, cause);
    return c->n - 1;
}

static size_t add_quoted(struct causes *c, enum cause_type type, const struct path *at,
                         struct str value, struct str detail)
{
    cleanup_sbuf struct sbuf quoted = {0};
    sbuf_add_quoted(&quoted, value);
    return cause_add(c, type, at, sbuf_str(&quoted), detail);
}

static const struct str none;

size_t cause_required(struct causes *c, const struct path *at, struct str detail)
{
    return cause_add(c, CAUSE_REQUIRED, at, none, detail);
}

size_t cause_forbidden(struct causes *c, const struct path *at, struct str detail)
{
    return cause_add(c, CAUSE_FORBIDDEN, at, none, detail);
}

size_t cause_internal(struct causes *c, const struct path *at, struct str detail)
{
    return cause_add(c, CAUSE_INTERNAL, at, none, detail);
}

size_t cause_too_long(struct causes *c, const struct path *at, size_t most_bytes)
{
    const char *unit = most_bytes == 1 ? "byte" : "bytes";
    return cause_add(c, CAUSE_TOO_LONG, at, none,
                     arena_strf(c->arena, "may not be more than %zu %s", most_bytes, unit));
}

size_t cause_too_long_characters(struct causes *c, const struct path *at, size_t most)
{
    const char *unit = most == 1 ? "character" : "characters";
    return cause_add(c, CAUSE_TOO_LONG, at, none,
                     arena_strf(c->arena, "may not be more than %zu %s", most, unit));
}

size_t cause_too_many(struct causes *c, const struct path *at, size_t have, size_t most)
{
    const char *unit = most == 1 ? "item" : "items";
    return cause_add(c, CAUSE_TOO_MANY, at, arena_strf(c->arena, "%zu", have),
                     arena_strf(c->arena, "must have at most %zu %s", most, unit));
}

size_t cause_invalid(struct causes *c, const struct path *at, struct str value, struct str detail)
{
    return add_quoted(c, CAUSE_INVALID, at, value, detail);
}

size_t cause_invalid_json(struct causes *c, const struct path *at, struct str json,
                          struct str detail)
{
    return cause_add(c, CAUSE_INVALID, at, json, detail);
}

size_t cause_invalid_i64(struct causes *c, const struct path *at, int64_t value, struct str detail)
{
    return cause_add(c, CAUSE_INVALID, at, arena_strf(c->arena, "%lld", (long long)value), detail);
}

size_t cause_invalid_bool(struct causes *c, const struct path *at, bool value, struct str detail)
{
    return cause_add(c, CAUSE_INVALID, at, value ? STR("true") : STR("false"), detail);
}

size_t cause_invalid_plain(struct causes *c, const struct path *at, struct str detail)
{
    return cause_add(c, CAUSE_INVALID, at, none, detail);
}

size_t cause_duplicate(struct causes *c, const struct path *at, struct str value)
{
    return add_quoted(c, CAUSE_DUPLICATE, at, value, none);
}

size_t cause_duplicate_json(struct causes *c, const struct path *at, struct str json)
{
    return cause_add(c, CAUSE_DUPLICATE, at, json, none);
}

size_t cause_not_found(struct causes *c, const struct path *at, struct str value)
{
    return add_quoted(c, CAUSE_NOT_FOUND, at, value, none);
}

size_t cause_not_found_because(struct causes *c, const struct path *at, struct str value,
                               struct str detail)
{
    return add_quoted(c, CAUSE_NOT_FOUND, at, value, detail);
}

size_t cause_not_supported(struct causes *c, const struct path *at, struct str value,
                           const struct str *supported, size_t supported_n)
{
    cleanup_sbuf struct sbuf detail = {0};
    for (size_t i = 0; i < supported_n; i++) {
        sbuf_addz(&detail, i ? ", " : "supported values: ");
        sbuf_add_quoted(&detail, supported[i]);
    }
    return add_quoted(c, CAUSE_NOT_SUPPORTED, at, value, sbuf_str(&detail));
}

void causes_mark(struct causes *c, size_t from, cause_origin origin, bool covered)
{
    for (size_t i = from; i < c->n; i++) {
        if (origin)
            c->p[i].origin = origin;
        c->p[i].covered |= covered;
    }
}
