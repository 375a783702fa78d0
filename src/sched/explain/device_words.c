// SPDX-License-Identifier: Apache-2.0
//
// References to attributes and capacities in the text of an expression. A text that only looks like
// one does no harm: whoever uses it tries it.
#include "sched/explain/device_words.h"

#include "base/banned.h"

static bool device_words_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Takes what stands between quotes and brackets; *end is behind them.
static bool cut_quoted(struct str s, size_t at, struct str *ret, size_t *end)
{
    if (s.n < at + 4 || s.p[at] != '[' || (s.p[at + 1] != '"' && s.p[at + 1] != '\''))
        return false;
    ptrdiff_t n = str_find_char(str_from(s, at + 2), s.p[at + 1]);
    if (n < 0 || at + 3 + (size_t)n >= s.n || s.p[at + 3 + (size_t)n] != ']')
        return false;
    *ret = str_upto(str_from(s, at + 2), (size_t)n);
    *end = at + 4 + (size_t)n;
    return true;
}

static bool cut_key(struct str s, size_t at, struct device_reference *ret)
{
    if (cut_quoted(s, at, &ret->key, &ret->end)) {
        ret->key_at = at + 2;
        return true;
    }
    if (at + 1 >= s.n || s.p[at] != '.')
        return false;
    size_t begin = at + 1 + (s.p[at + 1] == '?'); // an optional field
    size_t end = begin;
    while (end < s.n && device_words_is_letter(s.p[end]))
        end++;
    ret->key = str_upto(str_from(s, begin), end - begin);
    ret->key_at = begin;
    ret->end = end;
    return end > begin;
}

bool device_reference_find(struct str expression, size_t from, struct device_reference *ret)
{
    static const struct str sorts[] = {STR_INIT(".attributes"), STR_INIT(".capacity")};
    for (size_t i = from; i < expression.n; i++)
        for (size_t k = 0; expression.p[i] == '.' && k < array_len(sorts); k++) {
            struct device_reference r = {.capacity = k == 1, .sort_at = i + 1};
            size_t rest;
            if (!str_starts(str_from(expression, i), sorts[k]) ||
                !cut_quoted(expression, i + sorts[k].n, &r.domain, &rest) ||
                !cut_key(expression, rest, &r))
                continue;
            r.domain_at = i + sorts[k].n + 2;
            *ret = r;
            return true;
        }
    return false;
}

// The next text in quotes at *at or later.
static bool next_quoted(struct str e, size_t *at, struct str *ret)
{
    for (; *at < e.n; (*at)++) {
        if (e.p[*at] != '"' && e.p[*at] != '\'')
            continue;
        ptrdiff_t n = str_find_char(str_from(e, *at + 1), e.p[*at]);
        if (n < 0)
            return false;
        *ret = str_upto(str_from(e, *at + 1), (size_t)n);
        *at += (size_t)n + 2;
        return true;
    }
    return false;
}

static bool selectors_have(const struct api_device_class *c, struct str text, bool in)
{
    for (size_t i = 0; i < c->spec.selectors.n; i++) {
        struct str e =
            c->spec.selectors.p[i].cel ? c->spec.selectors.p[i].cel->expression : STR("");
        struct str word;
        for (size_t at = 0; next_quoted(e, &at, &word);)
            if (in ? word.n && str_contains(text, word) : str_eq(word, text))
                return true;
    }
    return c->spec.selectors.n == 0;
}

bool device_words_mention(const struct api_device_class *c, struct str text)
{
    return selectors_have(c, text, false);
}

bool device_words_mentioned_in(const struct api_device_class *c, struct str text)
{
    return selectors_have(c, text, true);
}
