// SPDX-License-Identifier: Apache-2.0
//
// Explanations as text that a person reads in ten seconds, and as JSON.
#include "alloc/explain/explain_int.h"
#include "codec/json_writer.h"

#include "base/banned.h"

#define REASONS_SHOWN 3   // of a row
#define TERM_SHOWN    160 // bytes of a selector's term
#define OWNERS_LISTED 20  // in JSON

// --- Rows ----------------------------------------------------------------------------------------

struct row_name {
    size_t offset;
    const char *key;
    const char *words;
};

static const struct row_name rows[] = {
    [ALLOC_ROW_CLASS] = {offsetof(struct alloc_funnel, class_refused), "classRefused",
                         "not of the class"},
    [ALLOC_ROW_SELECTOR] = {offsetof(struct alloc_funnel, selector_refused), "selectorRefused",
                            "refused by the selector"},
    [ALLOC_ROW_SELECTOR_FAILED] = {offsetof(struct alloc_funnel, selector_failed), "selectorFailed",
                                   "the selector fails on them"},
    [ALLOC_ROW_NODE] = {offsetof(struct alloc_funnel, node_refused), "nodeRefused",
                        "for other nodes"},
    [ALLOC_ROW_UNSUPPORTED] = {offsetof(struct alloc_funnel, not_supported), "notSupported",
                               "need what is not on here"},
    [ALLOC_ROW_TAINTED] = {offsetof(struct alloc_funnel, tainted), "tainted", "tainted"},
    [ALLOC_ROW_IN_USE] = {offsetof(struct alloc_funnel, in_use), "inUse", "in use"},
    [ALLOC_ROW_CAPACITY] = {offsetof(struct alloc_funnel, capacity_short), "capacityShort",
                            "short of capacity"},
    [ALLOC_ROW_COUNTERS] = {offsetof(struct alloc_funnel, counters_short), "countersShort",
                            "short of shared counters"},
    [ALLOC_ROW_ATTRIBUTE] = {offsetof(struct alloc_funnel, attribute_missing), "attributeMissing",
                             "without an attribute that a constraint needs"},
};

size_t explain_funnel_row(const struct alloc_funnel *f, enum alloc_row row)
{
    return *(const size_t *)(const void *)((const char *)f + rows[row].offset);
}

const char *explain_row_key(enum alloc_row row)
{
    return rows[row].key;
}

const char *explain_row_words(enum alloc_row row)
{
    return rows[row].words;
}

// --- Names ---------------------------------------------------------------------------------------

// The common beginning up to the last '-' or '/'; at least a namespace.
static size_t common_beginning(const struct str *names, size_t n)
{
    size_t len = names[0].n;
    for (size_t i = 1; i < n; i++) {
        size_t k = 0;
        while (k < len && k < names[i].n && names[i].p[k] == names[0].p[k])
            k++;
        len = k;
    }
    while (len && names[0].p[len - 1] != '-' && names[0].p[len - 1] != '/')
        len--;
    return len;
}

static struct str namespace_of(struct str name)
{
    ptrdiff_t slash = str_find_char(name, '/');
    return str_upto(name, slash < 0 ? 0 : (size_t)slash);
}

#define NAMESPACES_SHOWN 2

// Names of one namespace: one or two of them, or what they begin with.
static void add_run(struct sbuf *out, const struct str *names, size_t n)
{
    size_t common = n > 2 ? common_beginning(names, n) : 0;
    if (common)
        sbuf_addf(out, "%.*s* (%zu claims)", STR_ARG(str_upto(names[0], common)), n);
    else if (n > 2)
        sbuf_addf(out, "%.*s and %zu more", STR_ARG(names[0]), n - 1);
    else
        for (size_t i = 0; i < n; i++)
            sbuf_addf(out, "%s%.*s", i ? ", " : "", STR_ARG(names[i]));
}

// A claim on devices that many nodes reach is found on each of them.
static size_t drop_repeated(struct str *sorted, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || !str_eq(sorted[i], sorted[kept - 1]))
            sorted[kept++] = sorted[i];
    return kept;
}

static void names_short(struct sbuf *out, const struct str *names, size_t n)
{
    if (n == 0)
        return;
    struct str *sorted = xcalloc(n, sizeof(*sorted));
    size_t runs = 0;
    size_t rest = 0;
    memcpy(sorted, names, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), str_cmp_elements);
    n = drop_repeated(sorted, n);
    for (size_t i = 0; i < n;) {
        size_t end = i;
        while (end < n && str_eq(namespace_of(sorted[end]), namespace_of(sorted[i])))
            end++;
        if (runs++ < NAMESPACES_SHOWN) {
            sbuf_addz(out, runs > 1 ? ", " : "");
            add_run(out, sorted + i, end - i);
        } else {
            rest += end - i;
        }
        i = end;
    }
    if (rest)
        sbuf_addf(out, " and %zu more", rest);
    free(sorted);
}

// Claims that hold what a request could use, in short.
static void add_holding(struct sbuf *out, const struct alloc_funnel *f)
{
    struct VEC(struct str) names = {0};
    for (size_t i = 0; i < f->reasons_len; i++)
        if (f->reasons[i].row == ALLOC_ROW_IN_USE)
            vec_push(&names, f->reasons[i].what);
    if (names.n)
        sbuf_addz(out, ", held by ");
    names_short(out, names.p, names.n);
    vec_done(&names);
}

static void conflict_text(const struct alloc_conflict *c, struct sbuf *b)
{
    const char *more = c->values_all > c->values_len ? ", …" : "";
    switch (c->kind) {
    case ALLOC_CONFLICT_MATCH:
        sbuf_addf(b, "%.*s: %zu devices must have the same %.*s, at most %zu do",
                  STR_ARG(c->requests), c->needed, STR_ARG(c->what), c->best);
        break;
    case ALLOC_CONFLICT_DISTINCT:
        sbuf_addf(b, "%.*s: %zu devices must differ in %.*s, which has %zu value%s",
                  STR_ARG(c->requests), c->needed, STR_ARG(c->what), c->best,
                  c->best == 1 ? "" : "s");
        break;
    case ALLOC_CONFLICT_DEVICES:
        sbuf_addf(b, "%.*s: %zu devices wanted by them together, %zu usable", STR_ARG(c->requests),
                  c->needed, c->best);
        break;
    case ALLOC_CONFLICT_COUNTERS:
        sbuf_addf(b, "%.*s: %zu devices wanted, shared counters carry %zu of them at once",
                  STR_ARG(c->requests), c->needed, c->best);
        break;
    case ALLOC_CONFLICT_TOGETHER:
        sbuf_addz(b, "each request could be satisfied alone, but not all of them together");
        break;
    }
    for (size_t i = 0; i < c->values_len; i++)
        sbuf_addf(b, "%s%.*s: %.*s", i ? "; " : " (", STR_ARG(c->values[i].value),
                  STR_ARG(c->values[i].devices));
    if (c->values_len)
        sbuf_addf(b, "%s)", more);
}

// --- Text ----------------------------------------------------------------------------------------

// Where a long term is cut: after an operand of its outermost ||, else between words.
static size_t cut_at(struct str e)
{
    size_t operand = 0;
    size_t word = 0;
    int depth = 0;
    char quote = 0;
    for (size_t i = 0; i < TERM_SHOWN; i++) {
        char c = e.p[i];
        if (quote || c == '"' || c == '\'') {
            quote = !quote ? c : c == quote && e.p[i - 1] != '\\' ? 0 : quote;
            continue;
        }
        depth += c == '(' || c == '[' || c == '{' ? 1 : c == ')' || c == ']' || c == '}' ? -1 : 0;
        if (c == ' ')
            word = i;
        if (depth == 0 && str_starts(str_from(e, i), STR(" || ")))
            operand = i + strlen(" ||");
    }
    if (operand || word)
        return operand ? operand : word;
    size_t at = TERM_SHOWN;
    while (at && ((unsigned char)e.p[at] & 0xC0) == 0x80)
        at--;
    return at;
}

// One line, without the blanks of the source: whole, unless it is very long.
static void add_term(struct sbuf *out, struct str what)
{
    cleanup_sbuf struct sbuf line = {0};
    bool blank = true;
    what = str_trim(what);
    for (size_t i = 0; i < what.n; i++) {
        bool space = what.p[i] == ' ' || what.p[i] == '\n' || what.p[i] == '\t';
        if (!space || !blank)
            sbuf_addc(&line, space ? ' ' : what.p[i]);
        blank = space;
    }
    size_t n = line.n <= TERM_SHOWN ? line.n : cut_at(sbuf_str(&line));
    sbuf_add(out, str_upto(sbuf_str(&line), n));
    sbuf_addz(out, n < line.n ? " …" : "");
}

static void explain_text_add_reason(struct sbuf *out, const struct alloc_reason *r)
{
    add_term(out, r->what);
    if (r->shortage == ALLOC_SHORT_UNKNOWN)
        sbuf_addz(out, ": they have no such capacity");
    if (r->shortage == ALLOC_SHORT_POLICY && r->needs.n) {
        sbuf_addf(out, ": needs %.*s, the policy allows at most %.*s", STR_ARG(r->needs),
                  STR_ARG(r->has));
        return;
    }
    if (r->needs.n)
        sbuf_addf(out, ": needs %.*s, has %.*s", STR_ARG(r->needs), STR_ARG(r->has));
    if (r->whole.n)
        sbuf_addf(out, " (%.*s in all)", STR_ARG(r->whole));
    if (r->error.n)
        sbuf_addf(out, ": %.*s", STR_ARG(r->error));
}

// The same counter in several sets is shown once.
static bool same_counter(const struct alloc_reason *a, const struct alloc_reason *b)
{
    struct str set, x, y;
    return a->row == ALLOC_ROW_COUNTERS && b->row == a->row && str_cut(a->what, '/', &set, &x) &&
           str_cut(b->what, '/', &set, &y) && str_eq(x, y) && str_eq(a->needs, b->needs) &&
           str_eq(a->has, b->has);
}

static bool explain_text_is_repeated(const struct alloc_funnel *f, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (same_counter(&f->reasons[i], &f->reasons[at]))
            return true;
    return false;
}

// A reason with those that are shown with it.
static void add_with_equals(struct sbuf *out, const struct alloc_funnel *f, size_t at)
{
    size_t devices = f->reasons[at].devices;
    size_t sets = 1;
    for (size_t i = at + 1; i < f->reasons_len; i++)
        if (same_counter(&f->reasons[at], &f->reasons[i])) {
            devices += f->reasons[i].devices;
            sets++;
        }
    struct alloc_reason told = f->reasons[at];
    if (sets > 1) {
        struct str set;
        (void)str_cut(told.what, '/', &set, &told.what);
    }
    cleanup_sbuf struct sbuf one = {0};
    explain_text_add_reason(&one, &told);
    if (sets > 1)
        sbuf_addf(&one, " in %zu counter sets", sets);
    if (devices != explain_funnel_row(f, told.row))
        sbuf_addf(out, "%zu: ", devices);
    sbuf_add(out, sbuf_str(&one));
}

// "4 refused by the selector (3: …; 1: …)"
static void explain_text_add_row(struct sbuf *out, const struct alloc_funnel *f, enum alloc_row row)
{
    size_t shown = 0;
    size_t more = 0;
    sbuf_addf(out, "%zu %s", explain_funnel_row(f, row), explain_row_words(row));
    for (size_t i = 0; row != ALLOC_ROW_IN_USE && i < f->reasons_len; i++) {
        if (f->reasons[i].row != row || explain_text_is_repeated(f, i))
            continue;
        if (shown++ >= REASONS_SHOWN) {
            more++;
            continue;
        }
        sbuf_addz(out, shown == 1 ? " (" : "; ");
        add_with_equals(out, f, i);
    }
    if (more)
        sbuf_addf(out, "; %zu more", more);
    if (shown)
        sbuf_addc(out, ')');
}

static void add_funnel(struct sbuf *out, const struct alloc_funnel *f, bool claim,
                       const char *indent)
{
    sbuf_addz(out, indent);
    if (claim)
        sbuf_addf(out, "claim %.*s, ", STR_ARG(f->claim));
    sbuf_addf(out, "request %.*s: wants %s%zu, %zu of %zu usable", STR_ARG(f->request),
              f->all ? "all " : "", f->wanted, f->usable, f->published);
    if (f->published == 0)
        sbuf_addz(out, " (no device is published for this node)");
    sbuf_addc(out, '\n');
    for (int row = 0; row <= ALLOC_ROW_ATTRIBUTE; row++) {
        if (!explain_funnel_row(f, (enum alloc_row)row))
            continue;
        sbuf_addf(out, "%s    ", indent);
        explain_text_add_row(out, f, (enum alloc_row)row);
        bool holding = row == ALLOC_ROW_IN_USE || row == ALLOC_ROW_CAPACITY ||
                       (row == ALLOC_ROW_COUNTERS && f->in_use == 0);
        if (holding)
            add_holding(out, f);
        sbuf_addc(out, '\n');
    }
    if (f->all && f->wanted == 0)
        sbuf_addf(out, "%s    asks for all matching devices, and none matches\n", indent);
}

static void add_explanation(struct sbuf *out, const struct alloc_explanation *e, const char *indent)
{
    bool several = false;
    for (size_t i = 1; i < e->funnels_len; i++)
        several |= !str_eq(e->funnels[i].claim, e->funnels[0].claim);
    for (size_t i = 0; i < e->funnels_len; i++)
        if (!e->funnels[i].satisfied || e->enough_each)
            add_funnel(out, &e->funnels[i], several, indent);
    for (size_t i = 0; i < e->conflicts_len; i++) {
        sbuf_addz(out, indent);
        conflict_text(&e->conflicts[i], out);
        sbuf_addc(out, '\n');
    }
    if (e->pools.n)
        sbuf_addf(out, "%s%.*s\n", indent, STR_ARG(e->pools));
}

void alloc_explain_text(const struct alloc_explanation *e, struct sbuf *out)
{
    add_explanation(out, e, "");
}

static void explain_text_add_names(struct sbuf *out, const struct alloc_group *g)
{
    sbuf_addf(out, "%zu node%s (", g->nodes, g->nodes == 1 ? "" : "s");
    for (size_t i = 0; i < g->names_len; i++)
        sbuf_addf(out, "%s%.*s", i ? ", " : "", STR_ARG(g->names[i]));
    sbuf_addz(out, g->nodes > g->names_len ? ", …)" : ")");
}

// How near a group is, in a few words.
static void add_nearest(struct sbuf *out, const struct alloc_group *g)
{
    const struct alloc_explanation *e = &g->explanation;
    sbuf_addz(out, "Nearest: ");
    explain_text_add_names(out, g);
    if (e->nearest == SIZE_MAX) {
        sbuf_addz(out, ": each request has enough devices, but not all of them together.\n");
        return;
    }
    const struct alloc_funnel *f = &e->funnels[e->nearest];
    size_t lacks = f->wanted > f->usable ? f->wanted - f->usable : 0;
    sbuf_addf(out, ": request %.*s lacks %zu of %zu.\n", STR_ARG(f->request), lacks, f->wanted);
}

#define GROUPS_SHOWN 4

void alloc_report_text(struct alloc_report *r, struct sbuf *out)
{
    size_t n = 0;
    const struct alloc_group *g = alloc_report_finish(r, &n);
    size_t others = 0, explained = 0;
    for (size_t i = 0; i < n; i++) {
        explained += g[i].view != NULL;
        if (g[i].view && explained > GROUPS_SHOWN) {
            others += g[i].nodes;
            continue;
        }
        explain_text_add_names(out, &g[i]);
        if (g[i].refused.n) {
            sbuf_addf(out, ": %.*s\n", STR_ARG(g[i].refused));
            continue;
        }
        sbuf_addz(out, ":\n");
        add_explanation(out, &g[i].explanation, "  ");
    }
    if (others)
        sbuf_addf(out, "%zu more nodes in %zu other states, further from fitting.\n", others,
                  explained - GROUPS_SHOWN);
    if (explained > 1)
        add_nearest(out, &g[0]);
}

// --- Summary -------------------------------------------------------------------------------------

#define SUMMARY_CAUSES 6

struct cause {
    bool preferred;
    int rank; // 0: nodes that have such devices; 1: that were not asked; 2: that have none
    size_t nodes;
    struct str text;
    struct names_in VEC(struct str) holders; // in the arena; shown where devices are in use
    struct names_in hidden;                  // of other namespaces: only counted
};

// The row that matters most: the last that, were it lifted, would leave enough; else the fullest.
static int main_row(const struct alloc_funnel *f)
{
    int fullest = -1;
    for (int row = ALLOC_ROW_ATTRIBUTE; row >= 0; row--) {
        size_t n = explain_funnel_row(f, (enum alloc_row)row);
        if (n && f->usable + n >= f->wanted)
            return row;
        if (n && (fullest < 0 || n > explain_funnel_row(f, (enum alloc_row)fullest)))
            fullest = row;
    }
    return fullest;
}

// The reason that matters most in a row, by the same rule: devices that a later term refuses passed
// those before it. Reasons come with the most devices first.
static const struct alloc_reason *main_reason(const struct alloc_funnel *f, int row)
{
    const struct alloc_reason *best = NULL;
    bool enough = false;
    for (size_t i = 0; i < f->reasons_len; i++) {
        const struct alloc_reason *r = &f->reasons[i];
        bool leaves = f->usable + r->devices >= f->wanted;
        if ((int)r->row != row)
            continue;
        if (!best || (leaves && (!enough || r->term > best->term)))
            best = r;
        enough |= leaves;
    }
    return best;
}

// Rows that end when a claim goes.
static bool explain_text_is_held(int row)
{
    return row == ALLOC_ROW_IN_USE || row == ALLOC_ROW_CAPACITY || row == ALLOC_ROW_COUNTERS;
}

// "have no free device", "have fewer than 2 devices". Only what the request wants counts, not how
// many there are: nodes that differ in nothing else are shown together.
static void add_lack(struct sbuf *out, const struct alloc_funnel *f, const char *which)
{
    if (f->wanted <= 1)
        sbuf_addf(out, "have no %sdevice", which);
    else
        sbuf_addf(out, "have fewer than %zu %sdevices", f->wanted, which);
}

// What falls short.
static void add_amounts(struct sbuf *out, const struct alloc_funnel *f, int row,
                        const struct alloc_reason *r)
{
    struct str set, name = r->what;
    if (row == ALLOC_ROW_COUNTERS)
        (void)str_cut(r->what, '/', &set, &name);
    add_lack(out, f, "");
    sbuf_addf(out, " with %s%.*s ≥ %.*s%s for request %.*s",
              row == ALLOC_ROW_COUNTERS ? "shared " : "", STR_ARG(name), STR_ARG(r->needs),
              r->whole.n ? "" : " free", STR_ARG(f->request));
    if (r->shortage == ALLOC_SHORT_POLICY)
        sbuf_addf(out, ", their policy allows a share of at most %.*s", STR_ARG(r->has));
    else if (r->whole.n)
        sbuf_addf(out, ", they have at most %.*s in all", STR_ARG(r->whole));
}

static void explain_text_add_cause(struct sbuf *out, const struct alloc_funnel *f)
{
    int row = main_row(f);
    const struct alloc_reason *r = main_reason(f, row);
    if (r && r->needs.n && explain_text_is_held(row)) {
        add_amounts(out, f, row, r);
        return;
    }
    add_lack(out, f, row == ALLOC_ROW_IN_USE ? "free " : "");
    if (row == ALLOC_ROW_CLASS && r)
        sbuf_addf(out, " of class %.*s", STR_ARG(r->what));
    sbuf_addf(out, " for request %.*s", STR_ARG(f->request));
    switch (row) {
    case ALLOC_ROW_SELECTOR:
        sbuf_addz(out, " where ");
        break;
    case ALLOC_ROW_SELECTOR_FAILED:
        sbuf_addz(out, ": the selector fails: ");
        break;
    case ALLOC_ROW_NODE:
        sbuf_addz(out, ": those that match are for other nodes");
        return;
    case ALLOC_ROW_UNSUPPORTED:
        sbuf_addz(out, ": those that match need what is not on here: ");
        break;
    case ALLOC_ROW_TAINTED:
        sbuf_addz(out, " without taint ");
        break;
    case ALLOC_ROW_ATTRIBUTE:
        sbuf_addz(out, " with attribute ");
        break;
    case ALLOC_ROW_CAPACITY:
        sbuf_addz(out, r && r->shortage == ALLOC_SHORT_UNKNOWN ? " with a capacity "
                                                               : ": the share is of ");
        break;
    default:
        return;
    }
    if (r)
        add_term(out, r->what);
    if (r && r->error.n)
        sbuf_addf(out, ": %.*s", STR_ARG(r->error));
    if (row == ALLOC_ROW_ATTRIBUTE)
        sbuf_addz(out, ", which a constraint compares");
}

static void cause_of(const struct alloc_group *g, struct sbuf *out)
{
    const struct alloc_explanation *e = &g->explanation;
    if (g->refused.n) {
        sbuf_add(out, g->refused);
    } else if (e->nearest != SIZE_MAX) {
        explain_text_add_cause(out, &e->funnels[e->nearest]);
        // The whole explanation names the pool: nodes that lack the same are shown together.
        if (e->pools_unusable)
            sbuf_addf(out, " (%zu incomplete pool%s left out)", e->pools_unusable,
                      e->pools_unusable == 1 ? "" : "s");
    } else if (e->conflicts_len) {
        sbuf_addz(out, "do not fit: ");
        conflict_text(&e->conflicts[0], out);
    } else {
        sbuf_addz(out, "do not fit");
    }
}

// A reader of a summary may have access to one namespace only: holders in others are not named.
// own is empty when the reader has no namespace.
static void add_holders(struct cause *c, const struct alloc_group *g, struct str own,
                        struct arena *tmp)
{
    const struct alloc_explanation *e = &g->explanation;
    const struct alloc_funnel *f =
        g->view && e->nearest != SIZE_MAX ? &e->funnels[e->nearest] : NULL;
    if (!f || !explain_text_is_held(main_row(f)))
        return;
    for (size_t i = 0; i < f->reasons_len; i++)
        if (f->reasons[i].row == ALLOC_ROW_IN_USE) {
            bool told = own.n == 0 || str_eq(namespace_of(f->reasons[i].what), own);
            struct names_in *list = told ? &c->holders : &c->hidden;
            vec_push_arena(tmp, list, f->reasons[i].what);
        }
}

static void holders_short(struct sbuf *out, const struct cause *c)
{
    size_t others = 0;
    if (!c->holders.n && !c->hidden.n)
        return;
    sbuf_addz(out, ", held by ");
    names_short(out, c->holders.p, c->holders.n);
    if (c->hidden.n)
        qsort(c->hidden.p, c->hidden.n, sizeof(*c->hidden.p), str_cmp_elements);
    for (size_t i = 0; i < c->hidden.n; i++)
        others += i == 0 || !str_eq(c->hidden.p[i], c->hidden.p[i - 1]);
    if (others)
        sbuf_addf(out, "%s%zu claim%s of other namespaces", c->holders.n ? " and " : "", others,
                  others == 1 ? "" : "s");
}

static struct str own_namespace(const struct alloc_report *r)
{
    return r->claims_len ? r->claims[0]->metadata.namespace : STR("");
}

// Nodes without any device of the class are of no interest where others have some.
static int cause_rank(const struct alloc_group *g)
{
    const struct alloc_explanation *e = &g->explanation;
    if (!g->view)
        return 1;
    if (e->nearest == SIZE_MAX || e->pools_unusable)
        return 0;
    const struct alloc_funnel *f = &e->funnels[e->nearest];
    return f->class_refused == f->published ? 2 : 0;
}

// Causes, equal ones together. Returns how many there are.
static size_t gather_causes(struct alloc_report *r, struct arena *tmp, struct cause **ret)
{
    size_t groups = 0;
    size_t n = 0;
    const struct alloc_group *g = alloc_report_finish(r, &groups);
    struct str own = own_namespace(r);
    struct cause *cs = arena_array(tmp, struct cause, groups + 1);
    for (size_t i = 0; i < groups; i++) {
        cleanup_sbuf struct sbuf b = {0};
        size_t k = 0;
        cause_of(&g[i], &b);
        while (k < n && !str_eq(cs[k].text, sbuf_str(&b)))
            k++;
        if (k == n)
            cs[n++] =
                (struct cause){.text = arena_str(tmp, sbuf_str(&b)), .rank = cause_rank(&g[i])};
        cs[k].nodes += g[i].nodes;
        cs[k].preferred |= g[i].preferred;
        add_holders(&cs[k], &g[i], own, tmp);
    }
    *ret = cs;
    return n;
}

static int cause_cmp(const void *x, const void *y)
{
    const struct cause *a = x;
    const struct cause *b = y;
    if (a->preferred != b->preferred)
        return a->preferred ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->nodes != b->nodes)
        return a->nodes > b->nodes ? -1 : 1;
    return str_cmp(a->text, b->text);
}

// A cause begins with what several nodes do; one does it, too.
static void explain_text_add_count(struct sbuf *out, size_t nodes, struct str text)
{
    static const struct {
        struct str many, one;
    } verbs[] = {
        {STR_INIT("have "), STR_INIT("has ")},        {STR_INIT("are "), STR_INIT("is ")},
        {STR_INIT("do not "), STR_INIT("does not ")}, {STR_INIT("carry "), STR_INIT("carries ")},
        {STR_INIT("exceed "), STR_INIT("exceeds ")},
    };
    sbuf_addf(out, "%zu ", nodes);
    for (size_t i = 0; nodes == 1 && i < array_len(verbs); i++)
        if (str_starts(text, verbs[i].many)) {
            sbuf_add(out, verbs[i].one);
            text = str_from(text, verbs[i].many.n);
            break;
        }
    sbuf_add(out, text);
}

void alloc_report_summary(struct alloc_report *r, const struct alloc_remedies *remedies,
                          struct sbuf *out)
{
    struct arena tmp = {0};
    struct cause *cs = NULL;
    size_t n = gather_causes(r, &tmp, &cs);
    size_t rest = 0;
    qsort(cs, n, sizeof(*cs), cause_cmp);
    sbuf_addf(out, "0/%zu nodes: ", r->nodes);
    for (size_t i = 0; i < n; i++) {
        if (i >= SUMMARY_CAUSES) {
            rest += cs[i].nodes;
            continue;
        }
        sbuf_addz(out, i ? "; " : "");
        explain_text_add_count(out, cs[i].nodes, cs[i].text);
        holders_short(out, &cs[i]);
    }
    if (rest)
        sbuf_addf(out, "; %zu for other reasons", rest);
    if (n == 0)
        sbuf_addz(out, "there are no nodes");
    if (remedies && remedies->remedies_len) {
        const struct alloc_remedy *best = &remedies->remedies[0];
        sbuf_addz(out, "; would fit with ");
        for (size_t i = 0; i < best->changes_len; i++) {
            const struct alloc_change *c = &best->changes[i];
            bool hidden = c->kind == ALLOC_CHANGE_HOLDER && own_namespace(r).n &&
                          !str_eq(namespace_of(c->what), own_namespace(r));
            sbuf_addf(out, "%s%.*s", i ? " and " : "",
                      STR_ARG(hidden ? STR("a claim of another namespace gone") : c->text));
        }
    }
    arena_done(&tmp);
}

// --- JSON ----------------------------------------------------------------------------------------

static void write_size(struct json_writer *w, const char *key, size_t v)
{
    json_write_key(w, str_z(key));
    json_write_u64(w, v);
}

static void write_bool(struct json_writer *w, const char *key, bool v)
{
    json_write_key(w, str_z(key));
    json_write_bool(w, v);
}

static void write_reasons(struct json_writer *w, const struct alloc_funnel *f)
{
    size_t owners = 0;
    json_write_key(w, STR("reasons"));
    json_write_array_begin(w);
    for (size_t i = 0; i < f->reasons_len; i++) {
        const struct alloc_reason *r = &f->reasons[i];
        if (r->row == ALLOC_ROW_IN_USE && ++owners > OWNERS_LISTED)
            continue;
        json_write_object_begin(w);
        json_write_text_if(w, "row", str_z(explain_row_key(r->row)));
        json_write_text_if(w, r->row == ALLOC_ROW_IN_USE ? "claim" : "what", r->what);
        write_size(w, "devices", r->devices);
        json_write_text_if(w, "needs", r->needs);
        json_write_text_if(w, "has", r->has);
        json_write_text_if(w, "whole", r->whole);
        if (r->shortage != ALLOC_SHORT_LEFT)
            json_write_text_if(w, "shortage",
                               r->shortage == ALLOC_SHORT_POLICY ? STR("policy") : STR("unknown"));
        json_write_text_if(w, "error", r->error);
        json_write_object_end(w);
    }
    json_write_array_end(w);
    if (owners)
        write_size(w, "holders", owners);
}

static void write_funnel(struct json_writer *w, const struct alloc_funnel *f)
{
    json_write_object_begin(w);
    json_write_text_if(w, "claim", f->claim);
    json_write_text_if(w, "request", f->request);
    write_size(w, "wanted", f->wanted);
    if (f->all)
        write_bool(w, "all", true);
    write_size(w, "published", f->published);
    for (int row = 0; row <= ALLOC_ROW_ATTRIBUTE; row++)
        if (explain_funnel_row(f, (enum alloc_row)row))
            write_size(w, explain_row_key((enum alloc_row)row),
                       explain_funnel_row(f, (enum alloc_row)row));
    write_size(w, "usable", f->usable);
    write_bool(w, "satisfied", f->satisfied);
    write_reasons(w, f);
    json_write_object_end(w);
}

static const char *const conflict_kinds[] = {
    [ALLOC_CONFLICT_MATCH] = "matchAttribute", [ALLOC_CONFLICT_DISTINCT] = "distinctAttribute",
    [ALLOC_CONFLICT_DEVICES] = "sameDevices",  [ALLOC_CONFLICT_COUNTERS] = "sharedCounters",
    [ALLOC_CONFLICT_TOGETHER] = "together",
};

static void write_conflict(struct json_writer *w, const struct alloc_conflict *c)
{
    json_write_object_begin(w);
    json_write_text_if(w, "kind", str_z(conflict_kinds[c->kind]));
    json_write_text_if(w, "claim", c->claim);
    json_write_text_if(w, "requests", c->requests);
    json_write_text_if(w, "attribute", c->what);
    write_size(w, "needed", c->needed);
    write_size(w, "best", c->best);
    if (c->values_len) {
        json_write_key(w, STR("values"));
        json_write_array_begin(w);
        for (size_t i = 0; i < c->values_len; i++) {
            json_write_object_begin(w);
            json_write_text_if(w, "value", c->values[i].value);
            json_write_text_if(w, "devices", c->values[i].devices);
            json_write_object_end(w);
        }
        json_write_array_end(w);
        write_size(w, "valuesInAll", c->values_all);
    }
    cleanup_sbuf struct sbuf text = {0};
    conflict_text(c, &text);
    json_write_text_if(w, "text", sbuf_str(&text));
    json_write_object_end(w);
}

static void write_explanation(struct json_writer *w, const struct alloc_explanation *e)
{
    json_write_key(w, STR("requests"));
    json_write_array_begin(w);
    for (size_t i = 0; i < e->funnels_len; i++)
        write_funnel(w, &e->funnels[i]);
    json_write_array_end(w);
    if (e->conflicts_len) {
        json_write_key(w, STR("conflicts"));
        json_write_array_begin(w);
        for (size_t i = 0; i < e->conflicts_len; i++)
            write_conflict(w, &e->conflicts[i]);
        json_write_array_end(w);
    }
    json_write_text_if(w, "pools", e->pools);
    if (e->nearest != SIZE_MAX)
        write_size(w, "nearest", e->nearest);
    write_bool(w, "enoughEach", e->enough_each);
}

void alloc_explain_json(const struct alloc_explanation *e, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    json_write_object_begin(&w);
    write_explanation(&w, e);
    json_write_object_end(&w);
}

void alloc_report_json(struct alloc_report *r, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    cleanup_sbuf struct sbuf summary = {0};
    size_t n = 0;
    const struct alloc_group *g = alloc_report_finish(r, &n);
    alloc_report_summary(r, NULL, &summary);
    json_write_object_begin(&w);
    json_write_text_if(&w, "summary", sbuf_str(&summary));
    write_size(&w, "nodes", r->nodes);
    json_write_key(&w, STR("groups"));
    json_write_array_begin(&w);
    for (size_t i = 0; i < n; i++) {
        json_write_object_begin(&w);
        write_size(&w, "nodes", g[i].nodes);
        json_write_key(&w, STR("names"));
        json_write_array_begin(&w);
        for (size_t k = 0; k < g[i].names_len; k++)
            json_write_str(&w, g[i].names[k]);
        json_write_array_end(&w);
        json_write_text_if(&w, "refused", g[i].refused);
        if (g[i].view)
            write_explanation(&w, &g[i].explanation);
        json_write_object_end(&w);
    }
    json_write_array_end(&w);
    json_write_object_end(&w);
}
