// SPDX-License-Identifier: Apache-2.0
//
// Selectors taken apart at their outermost &&, so that a refusal can name the term it is due to.
#include "alloc/explain/explain_int.h"
#include "cel/lex.h"

#include "base/banned.h"

// Expressions remembered before all are forgotten.
#define REMEMBERED_MAX 1024

struct split {
    struct str text; // in the memory's arena
    struct terms terms;
};

struct term_memory {
    struct arena arena;
    struct split_of MAP(struct split) splits;
    struct split last; // the same expression comes node after node
};

// The parentheses around a whole expression, if there are any, do not count.
static struct str without_parentheses(struct str e, struct arena *arena)
{
    while (true) {
        e = str_trim(e);
        if (e.n < 2 || e.p[0] != '(' || e.p[e.n - 1] != ')')
            return e;
        struct cel_source source;
        cel_source_init(&source, arena, e);
        struct cel_lexer l = {.source = &source};
        int depth = 0;
        for (struct cel_token t = cel_lex(&l); t.kind != CEL_TOK_EOF; t = cel_lex(&l)) {
            depth += t.kind == '(' ? 1 : t.kind == ')' ? -1 : 0;
            if (depth == 0 && t.text.p + t.text.n < e.p + e.n)
                return e; // it closes before the end
        }
        if (depth != 0)
            return e;
        e = str_make(e.p + 1, e.n - 2);
    }
}

static bool explain_terms_opens(int kind)
{
    return kind == '(' || kind == '[' || kind == '{';
}

static bool explain_terms_closes(int kind)
{
    return kind == ')' || kind == ']' || kind == '}';
}

struct terms explain_terms_split(struct str expression, struct arena *arena)
{
    struct str e = without_parentheses(expression, arena);
    struct VEC(struct str) list = {0};
    struct cel_source source;
    cel_source_init(&source, arena, e);
    struct cel_lexer l = {.source = &source};
    int depth = 0;
    bool whole = false; // || and ?: bind looser than &&
    const char *from = e.p;
    int before = 0;
    for (struct cel_token t = cel_lex(&l); t.kind != CEL_TOK_EOF; t = cel_lex(&l)) {
        depth += explain_terms_opens(t.kind) ? 1 : explain_terms_closes(t.kind) ? -1 : 0;
        bool condition = t.kind == '?' && before != '.'; // a.?b is an optional selection
        before = t.kind;
        whole |= t.kind == CEL_TOK_BAD || (depth == 0 && (t.kind == CEL_TOK_OR || condition));
        if (depth != 0 || t.kind != CEL_TOK_AND)
            continue;
        vec_push_arena(arena, &list, str_trim(str_make(from, (size_t)(t.text.p - from))));
        from = t.text.p + t.text.n;
    }
    if (whole || depth != 0 || source.issues.n || list.n == 0) {
        struct str *one = arena_one(arena, struct str);
        *one = str_trim(expression);
        return (struct terms){one, 1};
    }
    vec_push_arena(arena, &list, str_trim(str_make(from, (size_t)(e.p + e.n - from))));
    return (struct terms){list.p, list.n};
}

void explain_terms_forget(struct alloc_solver *s)
{
    if (!s->terms)
        return;
    map_done(&s->terms->splits);
    arena_done(&s->terms->arena);
    free(s->terms);
    s->terms = NULL;
}

void explain_terms_begin(struct alloc_solver *s)
{
    if (s->terms && map_len(&s->terms->splits) >= REMEMBERED_MAX)
        explain_terms_forget(s);
}

struct terms explain_terms_of(struct alloc_solver *s, struct str expression)
{
    if (!s->terms)
        s->terms = xcalloc(1, sizeof(*s->terms));
    struct term_memory *m = s->terms;
    if (m->last.text.p && str_eq(m->last.text, expression))
        return m->last.terms;
    const struct split *known = map_get(&m->splits, expression);
    if (known) {
        m->last = *known;
    } else {
        struct str kept = arena_str(&m->arena, expression);
        m->last = (struct split){kept, explain_terms_split(kept, &m->arena)};
        *map_put(&m->splits, kept) = m->last;
    }
    return m->last.terms;
}
