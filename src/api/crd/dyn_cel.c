// SPDX-License-Identifier: Apache-2.0
//
// Values of custom resources as CEL sees them: strings with a format become times, durations or
// bytes, and names that CEL reserves are escaped.
#include "api/crd/dyn_cel.h"

#include "cel/text.h"
#include "codec/base64.h"

#include "base/banned.h"

bool dyn_cel_escape(struct str name, struct arena *a, struct str *ret)
{
    static const char *const reserved[] = {"true",  "false",    "null",      "in",   "as",
                                           "break", "const",    "continue",  "else", "for",
                                           "if",    "function", "import",    "let",  "return",
                                           "loop",  "package",  "namespace", "var",  "void",
                                           "while"};
    if (name.n == 0 || (name.p[0] >= '0' && name.p[0] <= '9'))
        return false;
    for (size_t i = 0; i < array_len(reserved); i++)
        if (str_eqz(name, reserved[i])) {
            *ret = arena_strf(a, "__%.*s__", STR_ARG(name));
            return true;
        }
    cleanup_sbuf struct sbuf b = {0};
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        bool two = c == '_' && i + 1 < name.n && name.p[i + 1] == '_';
        bool plain =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
        if (two) {
            sbuf_addz(&b, "__underscores__");
            i++;
        } else if (plain) {
            sbuf_addc(&b, c);
        } else if (c == '.' || c == '-' || c == '/') {
            sbuf_addz(&b, c == '.' ? "__dot__" : c == '-' ? "__dash__" : "__slash__");
        } else {
            return false;
        }
    }
    *ret = b.n == name.n ? name : arena_str(a, sbuf_str(&b));
    return true;
}

static struct cel_val dyn_cel_bytes_of(struct str text, struct arena *a)
{
    cleanup_sbuf struct sbuf b = {0};
    if (base64_decode(text, BASE64_STD, &b, NULL) < 0)
        return cel_errorf(a, "error converting formatted string %.*s to bytes", STR_ARG(text));
    return cel_bytes(arena_str(a, sbuf_str(&b)));
}

static struct cel_val dyn_cel_text_of(struct str text, const struct crd_node *n, struct arena *a)
{
    struct str format = n && str_eqz(n->type, "string") ? n->format : STR("");
    int64_t seconds = 0;
    uint32_t nanos = 0;
    int offset = 0;
    if (str_eqz(format, "byte"))
        return dyn_cel_bytes_of(text, a);
    if (str_eqz(format, "duration")) {
        if (cel_text_read_duration(text, &seconds))
            return cel_duration(seconds);
        return cel_errorf(a, "invalid duration %.*s", STR_ARG(text));
    }
    if (str_eqz(format, "date"))
        text = arena_strf(a, "%.*sT00:00:00Z", STR_ARG(text));
    if (str_eqz(format, "date") || str_eqz(format, "date-time")) {
        if (!cel_text_read_timestamp(text, &seconds, &nanos, &offset))
            return cel_errorf(a, "invalid date-time %.*s", STR_ARG(text));
        struct cel_val v = cel_timestamp(seconds, nanos);
        v.spare = (int16_t)offset;
        return v;
    }
    return cel_string(text);
}

static struct cel_val dyn_cel_list_of(const struct dyn *v, const struct crd_node *n,
                                      struct arena *a)
{
    struct cel_list *l = cel_list_new(a, v->items_len);
    for (size_t i = 0; i < v->items_len; i++)
        cel_list_push(a, l, dyn_cel(&v->items[i], n ? n->items : NULL, a));
    return cel_list_value(l);
}

static struct cel_val dyn_cel_map_of(const struct dyn *v, const struct crd_node *n, struct arena *a)
{
    struct cel_map *m = cel_map_new(a, v->members_len);
    bool fields = n && !n->additional;
    for (size_t i = 0; i < v->members_len; i++) {
        struct str key = v->members[i].key;
        if (fields && !dyn_cel_escape(key, a, &key))
            continue;
        (void)cel_map_set(a, m, cel_string(key),
                          dyn_cel(&v->members[i].value, crd_node_below(n, v->members[i].key), a));
    }
    return cel_map_value(m);
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
struct cel_val dyn_cel(const struct dyn *v, const struct crd_node *n, struct arena *a)
{
    switch (v->type) {
    case DYN_NULL:
        break;
    case DYN_BOOL:
        return cel_bool(v->truth);
    case DYN_INT:
        return n && str_eqz(n->type, "number") ? cel_double((double)v->number) : cel_int(v->number);
    case DYN_DOUBLE:
        return n && str_eqz(n->type, "integer") ? cel_int((int64_t)v->real) : cel_double(v->real);
    case DYN_STR:
        return dyn_cel_text_of(v->text, n, a);
    case DYN_LIST:
        return dyn_cel_list_of(v, n, a);
    case DYN_OBJECT:
        return dyn_cel_map_of(v, n, a);
    }
    return cel_null;
}
