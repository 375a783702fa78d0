// SPDX-License-Identifier: Apache-2.0
//
// Queries of URLs, read as Go's net/url and apimachinery's conversion of parameters read them.
#include "net/query.h"

#include "codec/percent.h"

#include "base/banned.h"

void query_parse(struct str text, struct arena *arena, struct query *ret)
{
    *ret = (struct query){0};
    while (text.n && ret->n < QUERY_PAIRS_MAX) {
        struct str pair, name, value;
        struct query_pair decoded = {0};
        str_cut(text, '&', &pair, &text);
        if (pair.n == 0 || str_find_char(pair, ';') >= 0)
            continue;
        str_cut(pair, '=', &name, &value);
        if (percent_decode(name, true, arena, &decoded.name) &&
            percent_decode(value, true, arena, &decoded.value))
            vec_push_arena(arena, ret, decoded);
    }
}

bool query_get(const struct query *q, struct str name, struct str *ret)
{
    vec_foreach(q, pair) {
        if (str_eq(pair->name, name)) {
            *ret = pair->value;
            return true;
        }
    }
    return false;
}

struct str query_str(const struct query *q, struct str name)
{
    struct str v = {0};
    return query_get(q, name, &v) ? v : (struct str){0};
}

static bool equals_false(struct str v)
{
    static const char word[] = "false";
    if (v.n != sizeof(word) - 1)
        return false;
    for (size_t i = 0; i < v.n; i++)
        if ((v.p[i] | 0x20) != word[i])
            return false;
    return true;
}

enum query_flag query_flag(const struct query *q, struct str name)
{
    struct str v;
    if (!query_get(q, name, &v))
        return QUERY_ABSENT;
    return str_eq(v, STR("0")) || equals_false(v) ? QUERY_FALSE : QUERY_TRUE;
}

bool query_bool(const struct query *q, struct str name)
{
    return query_flag(q, name) == QUERY_TRUE;
}

void query_escape(struct str text, struct sbuf *out)
{
    percent_encode(text, percent_unreserved, out);
}

int query_i64(const struct query *q, struct str name, int64_t *ret, struct err *err)
{
    struct str v;
    if (!query_get(q, name, &v))
        return 0;
    struct str digits = v.n && v.p[0] == '+' ? str_from(v, 1) : v;
    int r = str_to_i64(digits, ret);
    if (r == 0)
        return 1;
    cleanup_sbuf struct sbuf shown = {0};
    sbuf_add_quoted(&shown, str_upto(v, 100));
    return err_set(err, ERR_BAD_REQUEST, "strconv.ParseInt: parsing %s: %s", shown.p,
                   r == -ERANGE ? "value out of range" : "invalid syntax");
}
