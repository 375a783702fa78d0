// SPDX-License-Identifier: Apache-2.0
//
// Judging a value by a schema, in the words and with the quirks of kube-apiserver: the order of
// checks, how often an alternative of anyOf matched decides whose errors are shown, what did not
// change is not judged again.
#include <math.h>

#include "api/crd/crd_schema.h"
#include "base/map.h"
#include "base/utf8.h"
#include "cel/regex.h"

#include "base/banned.h"

struct judge {
    struct causes *causes;
    struct sbuf path;
    size_t muted; // reports are only counted: their paths need not be written
};

// How many checks a value passed: alternatives are compared by it.
static size_t crd_validate_value(struct judge *j, const struct dyn *v, const struct dyn *old,
                                 const struct crd_node *n);

static struct str crd_validate_path(const struct judge *j)
{
    return j->path.n && !j->muted ? sbuf_str(&j->path) : STR("");
}

static void crd_validate_report(struct judge *j, enum cause_type type, struct str path,
                                struct str value, struct str detail)
{
    if (path.n && path.p[0] == '.')
        path = str_from(path, 1);
    const struct path at = path_root(path.n ? path : STR("<nil>"));
    if (causes_full(j->causes))
        return;
    cause_add(j->causes, type, &at, value, detail);
}

static struct str crd_validate_quote(struct judge *j, struct str s)
{
    cleanup_sbuf struct sbuf b = {0};
    sbuf_add_quoted(&b, s);
    return arena_str(j->causes->arena, sbuf_str(&b));
}

static void crd_show_double(double d, struct sbuf *out)
{
    cleanup_sbuf struct sbuf json = {0};
    sbuf_add_json_double(&json, d);
    // JSON writes exponents from 1e21 on, %v from 1e+06 on when there are no more digits than six.
    struct str digits = sbuf_str(&json);
    bool plain = str_find_char(digits, 'e') < 0 && str_find_char(digits, '.') < 0;
    bool negative = digits.n && digits.p[0] == '-';
    struct str whole = str_from(digits, negative ? 1 : 0);
    if (!plain || whole.n <= 6 || whole.n > 21 || d == 0) {
        sbuf_add(out, digits);
        return;
    }
    size_t significant = whole.n;
    while (significant > 1 && whole.p[significant - 1] == '0')
        significant--;
    sbuf_addz(out, negative ? "-" : "");
    sbuf_addc(out, whole.p[0]);
    if (significant > 1) {
        sbuf_addc(out, '.');
        sbuf_add(out, str_make(whole.p + 1, significant - 1));
    }
    sbuf_addf(out, "e+%02zu", whole.n - 1);
}

void crd_show(const struct dyn *v, struct sbuf *out)
{
    if (v->type == DYN_STR)
        sbuf_add_quoted(out, v->text);
    else if (v->type == DYN_DOUBLE)
        crd_show_double(v->real, out);
    else
        dyn_text(v, out);
}

static struct str crd_validate_show(struct judge *j, const struct dyn *v)
{
    cleanup_sbuf struct sbuf b = {0};
    crd_show(v, &b);
    return arena_str(j->causes->arena, sbuf_str(&b));
}

#define SAY(j, ...) arena_strf((j)->causes->arena, __VA_ARGS__)

// Errors of the object as a whole.
static void crd_validate_report_whole(struct judge *j, struct str detail)
{
    crd_validate_report(j, CAUSE_INVALID, STR(""), STR("\"\""), detail);
}

static void report_many(struct judge *j, size_t have, int64_t most)
{
    crd_validate_report(j, CAUSE_TOO_MANY, crd_validate_path(j), SAY(j, "%zu", have),
                        SAY(j, "must have at most %lld item%s", (long long)most,
                            most == 1 ? "" : "s"));
}

static void report_type(struct judge *j, struct str want, struct str have)
{
    struct str value = crd_validate_quote(j, have);
    crd_validate_report(j, CAUSE_TYPE_INVALID, crd_validate_path(j), value,
                        SAY(j, "%.*s in body must be of type %.*s: %.*s",
                            STR_ARG(crd_validate_path(j)), STR_ARG(want), STR_ARG(value)));
}

// --- Types ---------------------------------------------------------------------------------------

static bool crd_validate_type_is(const struct crd_node *n, const char *type)
{
    if (n->int_or_string)
        return str_eqz(STR("integer"), type) || str_eqz(STR("string"), type);
    return str_eqz(n->type, type);
}

static bool is_whole(double d)
{
    return isfinite(d) && floor(d) == d && fabs(d) < 9223372036854775808.0;
}

// The formats that count for a type; others are ignored.
static struct str format_of(const struct crd_node *n)
{
    struct str f = n->format, none = STR("");
    if (n->int_or_string)
        return none;
    if (n->type.n == 0 || str_eqz(n->type, "string"))
        return crd_format_known(f) ? f : none;
    if (str_eqz(n->type, "integer"))
        return str_eqz(f, "int32") || str_eqz(f, "int64") ? f : none;
    if (str_eqz(n->type, "number"))
        return str_eqz(f, "float") || str_eqz(f, "double") ? f : none;
    return none;
}

static size_t judge_type(struct judge *j, const struct dyn *v, const struct crd_node *n)
{
    struct str want = n->int_or_string ? STR("integer,string") : n->type, have = dyn_type_name(v);
    struct str format = format_of(n);
    if (want.n == 0 && format.n == 0)
        return 0;
    if (v->type == DYN_NULL) {
        if (want.n == 0 || n->nullable)
            return 1;
        report_type(j, want, have);
        return 0;
    }
    bool numbers = crd_validate_type_is(n, "number") || crd_validate_type_is(n, "integer");
    bool text = v->type == DYN_STR || v->type == DYN_LIST;
    bool fits =
        (want.n && crd_validate_type_is(n, have.p)) ||
        (v->type == DYN_DOUBLE && is_whole(v->real) && crd_validate_type_is(n, "integer")) ||
        (v->type == DYN_INT && crd_validate_type_is(n, "number"));
    if (!text && format.n && !fits) {
        struct str have_format = v->type == DYN_INT      ? STR("int64")
                                 : v->type == DYN_DOUBLE ? STR("float64")
                                                         : STR("");
        report_type(j, format, have_format);
        return 1;
    }
    if (!numbers && format.n && text)
        return 2;
    if (!fits) {
        report_type(j, want, have);
        return 1;
    }
    return 2;
}

// --- Alternatives --------------------------------------------------------------------------------

// Judges apart; the causes found stay in *ret.
static size_t judge_apart(struct judge *j, const struct dyn *v, const struct dyn *old,
                          const struct crd_node *n, struct causes *ret)
{
    struct causes *outer = j->causes;
    *ret = (struct causes){.arena = outer->arena, .bytes = outer->bytes};
    j->causes = ret;
    size_t count = crd_validate_value(j, v, old, n);
    j->causes = outer;
    return count;
}

static void crd_validate_merge_causes(struct judge *j, const struct causes *from)
{
    for (size_t i = 0; i < from->n && !causes_full(j->causes); i++) {
        j->causes->bytes += from->p[i].message.n;
        vec_push_arena(j->causes->arena, j->causes, from->p[i]);
    }
}

// The result of alternatives: how many hold, and the errors of the best one.
struct verdict {
    size_t holding, count, best_count;
    struct causes best; // empty while reports are only counted
};

// Paths may be as long as the object, and most values fail some alternative: errors are put into
// words when none holds.
static struct verdict crd_validate_branches(struct judge *j, const struct dyn *v,
                                            const struct dyn *old, const struct crd_nodes *nodes,
                                            bool first)
{
    struct verdict r = {0};
    const struct crd_node *best = NULL;
    j->muted++;
    for (size_t i = 0; i < nodes->n && !(first && r.holding); i++) {
        struct causes found;
        size_t count = judge_apart(j, v, old, nodes->p[i], &found);
        if (found.n == 0) {
            r.count = r.holding++ ? r.count : count;
        } else if (r.holding == 0 && (!best || count > r.best_count)) {
            best = nodes->p[i];
            r.best_count = count;
        }
    }
    j->muted--;
    if (best && r.holding == 0 && !j->muted)
        (void)judge_apart(j, v, old, best, &r.best);
    return r;
}

static size_t judge_any(struct judge *j, const struct dyn *v, const struct dyn *old,
                        const struct crd_node *n)
{
    if (n->any_of.n == 0)
        return 0;
    struct verdict r = crd_validate_branches(j, v, old, &n->any_of, true);
    if (r.holding)
        return r.count;
    crd_validate_report_whole(j, SAY(j, "%.*s must validate at least one schema (anyOf)",
                                     STR_ARG(crd_validate_quote(j, crd_validate_path(j)))));
    crd_validate_merge_causes(j, &r.best);
    return r.best_count;
}

static size_t judge_one(struct judge *j, const struct dyn *v, const struct dyn *old,
                        const struct crd_node *n)
{
    if (n->one_of.n == 0)
        return 0;
    struct verdict r = crd_validate_branches(j, v, old, &n->one_of, false);
    if (r.holding == 1)
        return r.count;
    struct str more =
        r.holding ? SAY(j, "Found %zu valid alternatives", r.holding) : STR("Found none valid");
    crd_validate_report_whole(j, SAY(j, "%.*s must validate one and only one schema (oneOf). %.*s",
                                     STR_ARG(crd_validate_quote(j, crd_validate_path(j))),
                                     STR_ARG(more)));
    if (r.holding == 0)
        crd_validate_merge_causes(j, &r.best);
    return r.holding ? 0 : r.best_count;
}

static size_t judge_all(struct judge *j, const struct dyn *v, const struct dyn *old,
                        const struct crd_node *n)
{
    size_t holding = 0, count = 0;
    for (size_t i = 0; i < n->all_of.n; i++) {
        struct causes found;
        count += judge_apart(j, v, old, n->all_of.p[i], &found);
        holding += found.n == 0;
        crd_validate_merge_causes(j, &found);
    }
    if (holding != n->all_of.n)
        crd_validate_report_whole(j, SAY(j, "%.*s must validate all the schemas (allOf)%s",
                                         STR_ARG(crd_validate_quote(j, crd_validate_path(j))),
                                         holding ? "" : ". None validated"));
    return count;
}

static size_t judge_alternatives(struct judge *j, const struct dyn *v, const struct dyn *old,
                                 const struct crd_node *n)
{
    size_t count = judge_any(j, v, old, n);
    count += judge_one(j, v, old, n);
    count += judge_all(j, v, old, n);
    if (n->not_) {
        struct causes found;
        j->muted++;
        (void)judge_apart(j, v, old, n->not_, &found);
        j->muted--;
        if (found.n == 0)
            crd_validate_report_whole(j, SAY(j, "%.*s must not validate the schema (not)",
                                             STR_ARG(crd_validate_quote(j, crd_validate_path(j)))));
    }
    return count + 1;
}

// --- Strings and numbers -------------------------------------------------------------------------

static void judge_text(struct judge *j, const struct dyn *v, const struct crd_node *n)
{
    int64_t length = (int64_t)utf8_count(v->text);
    if (n->max_length >= 0 && length > n->max_length) {
        crd_validate_report(j, CAUSE_TOO_LONG, crd_validate_path(j), STR(""),
                            SAY(j, "may not be more than %lld byte%s", (long long)n->max_length,
                                n->max_length == 1 ? "" : "s"));
    } else if (n->min_length >= 0 && length < n->min_length) {
        crd_validate_report(j, CAUSE_INVALID, crd_validate_path(j), crd_validate_show(j, v),
                            SAY(j, "%.*s in body should be at least %lld chars long",
                                STR_ARG(crd_validate_path(j)), (long long)n->min_length));
    } else if (n->pattern.n && n->pattern_why.n) {
        crd_validate_report(j, CAUSE_INVALID, crd_validate_path(j), crd_validate_show(j, v),
                            SAY(j, "%.*s in body should match '%.*s, but pattern is invalid: %.*s'",
                                STR_ARG(crd_validate_path(j)), STR_ARG(n->pattern),
                                STR_ARG(n->pattern_why)));
    } else if (n->regex && !cel_regex_match(n->regex, v->text.p, v->text.n)) {
        crd_validate_report(j, CAUSE_INVALID, crd_validate_path(j), crd_validate_show(j, v),
                            SAY(j, "%.*s in body should match '%.*s'",
                                STR_ARG(crd_validate_path(j)), STR_ARG(n->pattern)));
    }
    struct str format = format_of(n);
    if (format.n && crd_format_known(format) && !crd_format_holds(format, v->text))
        report_type(j, format, v->text);
}

static double as_double(const struct dyn *v)
{
    return v->type == DYN_INT ? (double)v->number : v->real;
}

// Whether a number fits type and format; if not, and what is set, that is reported.
static bool in_range(struct judge *j, const struct crd_node *n, const struct dyn *v,
                     const char *what)
{
    struct str format = format_of(n);
    bool integer = !n->int_or_string && str_eqz(n->type, "integer"), fits = true;
    double d = as_double(v);
    if (integer && str_eqz(format, "int32"))
        fits = is_whole(d) && d >= -2147483648.0 && d <= 2147483647.0;
    else if (integer)
        fits = v->type == DYN_INT || is_whole(d);
    else if (str_eqz(format, "float"))
        fits = fabs(d) <= 3.4028234663852886e38;
    if (fits)
        return true;
    if (format.n)
        crd_validate_report_whole(
            j, SAY(j, "%s value must be of type %.*s with format %.*s in %.*s", what,
                   STR_ARG(n->type), STR_ARG(format), STR_ARG(crd_validate_path(j))));
    else
        crd_validate_report_whole(j,
                                  SAY(j, "%s value must be of type %.*s (default format) in %.*s",
                                      what, STR_ARG(n->type), STR_ARG(crd_validate_path(j))));
    return false;
}

// A bound as error texts show it.
static struct str bound_text(struct judge *j, double bound, bool whole)
{
    cleanup_sbuf struct sbuf b = {0};
    if (whole)
        sbuf_add_i64(&b, (int64_t)bound);
    else
        crd_show_double(bound, &b);
    return arena_str(j->causes->arena, sbuf_str(&b));
}

static void judge_bound(struct judge *j, const struct dyn *v, const struct crd_node *n, bool upper)
{
    double bound = upper ? n->maximum : n->minimum, d = as_double(v);
    bool exclusive = upper ? n->exclusive_maximum : n->exclusive_minimum, holds;
    const struct dyn as_value = {.type = DYN_DOUBLE, .real = bound};
    bool whole = in_range(j, n, &as_value, upper ? "Maximum boundary" : "Minimum boundary") &&
                 v->type == DYN_INT && fabs(bound) < 9223372036854775808.0;
    if (whole) {
        int64_t limit = (int64_t)bound, have = v->number;
        holds = upper ? have < limit : have > limit;
        holds |= !exclusive && have == limit;
    } else {
        holds = upper ? d < bound : d > bound;
        holds |= !exclusive && d == bound;
    }
    if (holds)
        return;
    const char *relation = upper ? "less than" : "greater than";
    crd_validate_report(j, CAUSE_INVALID, crd_validate_path(j), crd_validate_show(j, v),
                        SAY(j, "%.*s in body should be %s%s %.*s", STR_ARG(crd_validate_path(j)),
                            relation, exclusive ? "" : " or equal to",
                            STR_ARG(bound_text(j, bound, whole))));
}

static void judge_multiple(struct judge *j, const struct dyn *v, const struct crd_node *n)
{
    double factor = n->multiple_of, d = as_double(v);
    const struct dyn as_value = {.type = DYN_DOUBLE, .real = factor};
    bool whole = in_range(j, n, &as_value, "MultipleOf") && v->type == DYN_INT &&
                 fabs(factor) < 9223372036854775808.0;
    if (whole ? (int64_t)factor <= 0 : factor <= 0) {
        struct str text = bound_text(j, factor, whole);
        crd_validate_report(j, CAUSE_INVALID, crd_validate_path(j), text,
                            SAY(j, "factor MultipleOf declared for %.*s must be positive: %.*s",
                                STR_ARG(crd_validate_path(j)), STR_ARG(text)));
        return;
    }
    bool holds;
    if (whole)
        holds = v->number % (int64_t)factor == 0;
    else
        holds = is_whole(factor < 1 ? 1 / factor * d : d / factor);
    if (!holds)
        crd_validate_report(j, CAUSE_INVALID, crd_validate_path(j), crd_validate_show(j, v),
                            SAY(j, "%.*s in body should be a multiple of %.*s",
                                STR_ARG(crd_validate_path(j)),
                                STR_ARG(bound_text(j, factor, whole))));
}

static void judge_number(struct judge *j, const struct dyn *v, const struct crd_node *n)
{
    (void)in_range(j, n, v, "Checked");
    if (n->has_multiple_of)
        judge_multiple(j, v, n);
    if (n->has_minimum)
        judge_bound(j, v, n, false);
    if (n->has_maximum)
        judge_bound(j, v, n, true);
}

// --- Enumerations --------------------------------------------------------------------------------

static bool same_enum(const struct dyn *v, const struct dyn *e)
{
    if (v->type == DYN_INT && e->type == DYN_DOUBLE)
        return (double)v->number == e->real;
    if (v->type == DYN_DOUBLE && e->type == DYN_INT)
        return fabs(v->real) < 9223372036854775808.0 && (int64_t)v->real == e->number;
    return v->type != DYN_NULL && dyn_equal(v, e);
}

static void judge_enum(struct judge *j, const struct dyn *v, const struct crd_node *n)
{
    if (n->enum_values.items_len == 0)
        return;
    cleanup_sbuf struct sbuf detail = {0};
    for (size_t i = 0; i < n->enum_values.items_len; i++) {
        const struct dyn *e = &n->enum_values.items[i];
        if (same_enum(v, e))
            return;
        cleanup_sbuf struct sbuf text = {0};
        if (e->type == DYN_STR)
            sbuf_add(&text, e->text);
        else
            dyn_text(e, &text);
        sbuf_addz(&detail, i ? ", " : "supported values: ");
        sbuf_add_quoted(&detail, sbuf_str(&text));
    }
    crd_validate_report(j, CAUSE_NOT_SUPPORTED, crd_validate_path(j), crd_validate_show(j, v),
                        sbuf_str(&detail));
}

// --- Lists and objects ---------------------------------------------------------------------------

static size_t judge_below(struct judge *j, const struct dyn *v, const struct dyn *old,
                          const struct crd_node *n)
{
    struct causes found;
    struct arena_mark mark = arena_mark(j->causes->arena);
    size_t count = judge_apart(j, v, old, n, &found);
    // What did not change may stay as bad as it was.
    if (found.n && !(old && dyn_equal(v, old)))
        crd_validate_merge_causes(j, &found);
    else
        arena_rewind(j->causes->arena, mark); // what alternatives that did not hold had to say
    return count;
}

static size_t judge_list(struct judge *j, const struct dyn *v, const struct dyn *old,
                         const struct crd_node *n)
{
    size_t count = 0;
    cleanup_crd_before struct crd_before earlier = {
        .old = old, .node = n, .arena = j->causes->arena};
    for (size_t i = 0; n->items && i < v->items_len && !causes_full(j->causes); i++) {
        size_t mark = j->path.n;
        sbuf_addf(&j->path, "[%zu]", i);
        count += judge_below(j, &v->items[i], crd_before_find(&earlier, &v->items[i]), n->items);
        sbuf_truncate(&j->path, mark);
    }
    if (n->min_items >= 0 && (int64_t)v->items_len < n->min_items)
        crd_validate_report(j, CAUSE_INVALID, crd_validate_path(j), SAY(j, "%zu", v->items_len),
                            SAY(j, "%.*s in body should have at least %lld items",
                                STR_ARG(crd_validate_path(j)), (long long)n->min_items));
    if (n->max_items >= 0 && (int64_t)v->items_len > n->max_items)
        report_many(j, v->items_len, n->max_items);
    return count + 1;
}

static size_t judge_member(struct judge *j, const struct dyn_member *m, const struct dyn *old,
                           const struct crd_node *n, bool property)
{
    size_t mark = j->path.n;
    bool type_meta = mark == 0 && (str_eqz(m->key, "kind") || str_eqz(m->key, "apiVersion"));
    if (mark || !property)
        sbuf_addc(&j->path, '.');
    sbuf_add(&j->path, m->key);
    size_t count = judge_below(j, &m->value, type_meta ? NULL : dyn_get(old, m->key), n);
    sbuf_truncate(&j->path, mark);
    return count;
}

static void judge_required(struct judge *j, const struct dyn *v, const struct crd_node *n)
{
    for (size_t i = 0; i < n->required.n; i++) {
        if (dyn_get(v, n->required.p[i]))
            continue;
        size_t mark = j->path.n;
        sbuf_addc(&j->path, '.');
        sbuf_add(&j->path, n->required.p[i]);
        crd_validate_report(j, CAUSE_REQUIRED, crd_validate_path(j), STR(""), STR(""));
        sbuf_truncate(&j->path, mark);
    }
}

static size_t crd_validate_object(struct judge *j, const struct dyn *v, const struct dyn *old,
                                  const struct crd_node *n)
{
    size_t count = 0;
    if (n->min_properties >= 0 && (int64_t)v->members_len < n->min_properties)
        crd_validate_report(j, CAUSE_INVALID, crd_validate_path(j), SAY(j, "%zu", v->members_len),
                            SAY(j, "%.*s in body should have at least %lld properties",
                                STR_ARG(crd_validate_path(j)), (long long)n->min_properties));
    if (n->max_properties >= 0 && (int64_t)v->members_len > n->max_properties)
        report_many(j, v->members_len, n->max_properties);
    for (size_t i = 0; i < v->members_len && !causes_full(j->causes); i++) {
        const struct dyn_member *m = &v->members[i];
        if (crd_property(n, m->key))
            continue;
        if (n->has_additional && !n->additional_allows)
            crd_validate_report(j, CAUSE_INVALID, crd_validate_path(j), STR("\"\""),
                                SAY(j, "%.*s.%.*s in body is a forbidden property",
                                    STR_ARG(crd_validate_path(j)), STR_ARG(m->key)));
        else if (n->additional)
            count += judge_member(j, m, old, n->additional, false);
    }
    for (size_t i = 0; i < v->members_len && !causes_full(j->causes); i++) {
        const struct crd_node *property = crd_property(n, v->members[i].key);
        if (property)
            count += judge_member(j, &v->members[i], old, property, true);
    }
    judge_required(j, v, n);
    return count;
}

// --- All of it -----------------------------------------------------------------------------------

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document
static size_t crd_validate_value(struct judge *j, const struct dyn *v, const struct dyn *old,
                                 const struct crd_node *n)
{
    size_t count = judge_type(j, v, n);
    if (v->type == DYN_NULL) {
        judge_enum(j, v, n);
        return count;
    }
    if (n->type.n || n->int_or_string || format_of(n).n)
        count++;
    count += judge_alternatives(j, v, old, n) + 1;
    if (v->type == DYN_STR) {
        judge_text(j, v, n);
        count += format_of(n).n ? 2 : 1;
    }
    if (dyn_is_number(v)) {
        judge_number(j, v, n);
        count += 2;
    }
    if (v->type == DYN_LIST)
        count += judge_list(j, v, old, n) + 1;
    judge_enum(j, v, n);
    if (v->type == DYN_OBJECT)
        count += crd_validate_object(j, v, old, n) + 1;
    return count + 2;
}

// crd_validate_drop_repeated: what was found more than once is reported once, as upstream.
static void crd_validate_drop_repeated(struct causes *c, size_t from)
{
    struct MAP(bool) seen = {0};
    size_t kept = from;
    for (size_t i = 0; i < c->n; i++) {
        const struct cause cause = c->p[i];
        bool fresh = false;
        (void)map_put_new(&seen,
                          arena_strf(c->arena, "%d,%zu,%.*s%.*s", (int)cause.type, cause.field.n,
                                     STR_ARG(cause.field), STR_ARG(cause.message)),
                          &fresh);
        if (i >= from && fresh)
            c->p[kept++] = cause;
    }
    c->n = kept;
    map_done(&seen);
}

void crd_validate(const struct dyn *v, const struct dyn *old, const struct crd_node *n,
                  struct causes *causes)
{
    struct judge j = {.causes = causes};
    size_t from = causes->n;
    (void)judge_below(&j, v, old, n);
    sbuf_done(&j.path);
    crd_validate_drop_repeated(causes, from);
}

// --- Doubles -------------------------------------------------------------------------------------
