// SPDX-License-Identifier: Apache-2.0
//
// matches, find, findAll.
#include "base/utf8.h"
#include "cel/cost/work.h"
#include "cel/lib/lib.h"

#include "base/banned.h"

// cel_run_regex gives the compiled pattern: the call's constant one, or this one compiled now.
// NULL with an error value in *ret_error.
static const struct cel_regex *cel_run_regex(struct cel_run *run, struct cel_val pattern,
                                             struct cel_val *ret_error)
{
    if (run->call && run->call->regex)
        return run->call->regex;
    if (run->last_regex && str_eq(sbuf_str(&run->last_pattern), cel_str(pattern)))
        return run->last_regex;
    char why[256];
    struct cel_regex *re = cel_regex_new(pattern.s, pattern.n, why, sizeof(why));
    if (!re) {
        *ret_error = cel_errorf(&run->arena, "%s", why);
        return NULL;
    }
    (void)cel_work_add(run, cel_regex_size(re) * CEL_SPENDING_PER_INSTRUCTION);
    cel_regex_free(run->last_regex);
    run->last_regex = re;
    sbuf_clear(&run->last_pattern);
    sbuf_add(&run->last_pattern, cel_str(pattern));
    return re;
}

static bool lib_regex_takes_two_strings(const struct cel_val *args, unsigned n)
{
    return n >= 2 && args[0].kind == CEL_STRING && args[1].kind == CEL_STRING;
}

static struct cel_val fn_matches(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 2 || !lib_regex_takes_two_strings(args, n))
        return cel_run_mismatch(run, "matches", args, n);
    if (run->call && run->call->pattern.simple)
        return cel_bool(cel_pattern_match(&run->call->pattern, cel_str(args[0])));
    struct cel_val error;
    const struct cel_regex *re = cel_run_regex(run, args[1], &error);
    return re ? cel_bool(cel_regex_match(re, args[0].s, args[0].n)) : error;
}

static struct cel_val lib_regex_pattern_error(struct cel_run *run, struct cel_val error)
{
    return cel_errorf(&run->arena, "Illegal regex: %.*s", STR_ARG(error.error->text));
}

static struct cel_val fn_find(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 2 || !lib_regex_takes_two_strings(args, n))
        return cel_run_mismatch(run, "find", args, n);
    struct cel_val error;
    const struct cel_regex *re = cel_run_regex(run, args[1], &error);
    if (!re)
        return lib_regex_pattern_error(run, error);
    size_t from;
    size_t to;
    if (!cel_regex_find(re, args[0].s, args[0].n, 0, &from, &to))
        return cel_string(STR(""));
    return cel_string(str_make(args[0].s + from, to - from));
}

// All matches as Go finds them: an empty one right behind another does not count.
static void lib_regex_find_all(struct cel_run *run, const struct cel_regex *re, struct str s,
                               int64_t limit, struct cel_list *out)
{
    size_t pos = 0;
    size_t previous = SIZE_MAX;
    while (pos <= s.n && (limit < 0 || (int64_t)out->n < limit)) {
        size_t from;
        size_t to;
        // A short match may have been looked for up to the end.
        if (!cel_work_add(run, (s.n - pos) / 4) || !cel_regex_find(re, s.p, s.n, pos, &from, &to))
            break;
        bool accept = true;
        if (to == pos) {
            accept = from != previous;
            size_t len = 1;
            if (pos < s.n)
                (void)utf8_decode(s, pos, &len);
            pos += len;
        } else {
            pos = to;
        }
        previous = to;
        if (accept)
            cel_list_push(&run->arena, out, cel_string(str_make(s.p + from, to - from)));
    }
}

static struct cel_val fn_find_all(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n > 3 || !lib_regex_takes_two_strings(args, n) || (n == 3 && args[2].kind != CEL_INT))
        return cel_run_mismatch(run, "findAll", args, n);
    struct cel_val error;
    const struct cel_regex *re = cel_run_regex(run, args[1], &error);
    if (!re)
        return lib_regex_pattern_error(run, error);
    struct cel_list *out = cel_list_new(&run->arena, 0);
    lib_regex_find_all(run, re, cel_str(args[0]), n == 3 ? args[2].i : -1, out);
    return cel_list_value(out);
}

static const struct cel_impl table[] = {
    {"matches", fn_matches},
    {"find", fn_find},
    {"findAll", fn_find_all},
};

CEL_IMPLS(regex, table);
