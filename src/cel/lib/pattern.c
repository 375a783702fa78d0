// SPDX-License-Identifier: Apache-2.0
//
// Simple constant patterns without RE2: literals with ^, $ and .* at the ends are substring
// searches.
#include "cel/lib/pattern.h"

#include "base/banned.h"

struct cel_pattern cel_pattern_of(struct str pattern)
{
    struct cel_pattern p = {0};
    struct str s = pattern;
    p.from_start = str_starts(s, STR("^"));
    s = str_from(s, p.from_start ? 1 : 0);
    p.to_end = str_ends(s, STR("$"));
    s = str_upto(s, s.n - (p.to_end ? 1 : 0));
    p.any_before = str_starts(s, STR(".*"));
    s = str_from(s, p.any_before ? 2 : 0);
    p.any_behind = str_ends(s, STR(".*"));
    s = str_upto(s, s.n - (p.any_behind ? 2 : 0));
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < ' ' || strchr("\\.+*?()|[]{}^$", s.p[i]))
            return p;
    p.text = s;
    p.simple = true;
    return p;
}

bool cel_pattern_match(const struct cel_pattern *p, struct str s)
{
    // A dot is no line break: behind ^.* the text must be in the first line, before .*$ in the
    // last.
    size_t lo = 0;
    size_t hi = s.n;
    if (p->from_start && p->any_before) {
        ptrdiff_t at = str_find_char(s, '\n');
        hi = at < 0 ? s.n : (size_t)at;
    }
    if (p->to_end && p->any_behind)
        lo = (size_t)(str_rfind_char(s, '\n') + 1);
    if (lo > hi)
        return false;
    struct str part = {s.p + lo, hi - lo};
    bool at_start = p->from_start && !p->any_before;
    bool at_end = p->to_end && !p->any_behind;
    if ((at_start && lo != 0) || (at_end && hi != s.n))
        return false;
    if (at_start && at_end)
        return str_eq(part, p->text);
    if (at_start)
        return str_starts(part, p->text);
    return at_end ? str_ends(part, p->text) : str_contains(part, p->text);
}
