// SPDX-License-Identifier: Apache-2.0
//
// What the explanation's files share: terms of selectors, reasons while they are gathered, states
// of nodes that can be compared.
#ifndef ALLOC_EXPLAIN_EXPLAIN_INT_H
#define ALLOC_EXPLAIN_EXPLAIN_INT_H

#include "alloc/search/solver_int.h"

// --- Terms ---------------------------------------------------------------------------------------

// The operands of the outermost && of an expression, as slices of it.
struct terms {
    struct str *p;
    size_t n;
};

// explain_terms_split takes an expression apart. One that is no conjunction, or no CEL, is one
// term.
struct terms explain_terms_split(struct str expression, struct arena *arena);

// explain_terms_forget frees the terms that a solver remembers.
void explain_terms_forget(struct alloc_solver *s);

// explain_terms_begin makes room in the solver's memory of terms. explain_terms_of is
// explain_terms_split with that memory; its slices live until the next explain_terms_begin.
void explain_terms_begin(struct alloc_solver *s);
struct terms explain_terms_of(struct alloc_solver *s, struct str expression);

// --- One node ------------------------------------------------------------------------------------

// A reason while it is gathered. Texts are borrowed from the view or the claims.
struct draft_reason {
    enum alloc_row row;
    struct str what, value, effect; // value and effect: of a taint
    const struct quantity *unit;    // whose format amounts are shown in
    amount needs, has;
    amount whole; // capacity: what the largest of them has when it is unused
    bool amounts;
    enum alloc_shortage shortage; // of a capacity
    uint32_t device;              // the first, to ask again for an error
    uint16_t term;                // of a selector's term: its place
    size_t devices;
};

// A selector's term on the devices of a view.
struct flat_term {
    struct str text;
    size_t selector;
    struct cel_program *program;
    bool whole; // it is all of the selector, whose answers it shares
    bool kept;  // answers of the selector are kept, so those of the term may be
};

// Class and selectors of a set of requests, judged device by device.
struct judged_set {
    struct answer_set **answers; // of the selectors; NULL: not all are kept
    struct flat_term *terms;
    size_t terms_len;
    uint8_t *match;    // enum match_state by device
    uint16_t *refuser; // by device: the term that is false, or failed
};

struct drafts_of VEC(struct draft_reason);

// One request or alternative while it is explained.
struct draft_funnel {
    struct alloc_funnel f;
    struct drafts_of reasons;
    uint8_t *rows; // by device: 0 usable, else enum alloc_row and one
};

// How many devices each claim holds of those that matter to a request.
struct holders {
    struct holder_counts MAP(size_t) counts;
    struct str last; // claims hold devices in a row
    size_t *last_count;
};

// A conflict while it is gathered; explain_conflict.c knows the rest.
struct draft_conflict {
    struct alloc_conflict c;
    struct scope *scope;
    struct run *runs;
    size_t runs_len;
    uint32_t a, b; // requests; equal: all
};

// Compiled terms of one cluster, which must live as long.
struct kept_program {
    struct str text;
    struct cel_program *program;
};

struct kept_programs {
    const struct alloc_cluster *cluster;
    struct VEC(struct kept_program) list;
};

void explain_programs_done(struct kept_programs *k);

struct explainer {
    struct alloc_solver *s;
    struct kept_programs *kept;
    struct judged_set *sets; // by selset
    struct draft_funnel *funnels;
    struct alloc_funnel *finished; // of explain_finish
    struct draft_conflict *conflicts;
    size_t conflicts_len;
};

// explain_begin reads the question and counts; what it makes lives in the solver's arena. kept, if
// not NULL, holds compiled terms between nodes of one cluster. False when the question has an
// error. End with explain_end in any case.
bool explain_begin(struct explainer *x, struct alloc_solver *s, const struct alloc_view *view,
                   const struct api_resource_claim *const *claims, size_t claims_len,
                   struct kept_programs *kept);
void explain_end(struct explainer *x);

// explain_judge_set judges devices by the class and selectors of a set. False: the meter has
// nothing left. explain_term_answers is where the answers of a term are kept; NULL: nowhere.
bool explain_judge_set(struct explainer *x, uint32_t index);
struct answer_set *explain_term_answers(const struct explainer *x, const struct flat_term *t);

// explain_hash is a hash of everything that makes groups of nodes.
uint64_t explain_hash(const struct explainer *x);

// explain_finish turns what was counted into texts in arena.
void explain_finish(struct explainer *x, struct arena *arena, struct alloc_explanation *ret);

// explain_conflicts finds what keeps requests from being satisfied together.
void explain_conflicts(struct explainer *x);

// explain_conflict_texts copies conflicts and their texts into arena.
void explain_conflict_texts(struct explainer *x, struct arena *arena,
                            struct alloc_explanation *ret);

// explain_holders counts what claims hold that the i-th request or alternative could use: devices
// it would match, and devices that draw on the counters it lacks.
void explain_holders(struct explainer *x, size_t i, struct holders *out);

// explain_name_holders adds them to a funnel as reasons, in arena.
void explain_name_holders(struct alloc_funnel *f, const struct holders *h, struct arena *arena);

// explain_missing_feature names what a refused or unsupported device needs and cannot have.
struct str explain_missing_feature(const struct alloc_view *v, const struct vw_device *d);

// explain_counters_short reports whether what a device draws from shared counters, or the group it
// is of, keeps it from being had; *ret is what is short.
bool explain_counters_short(const struct alloc_view *v, const struct vw_device *d,
                            struct draft_reason *ret);

// explain_amount_text shows an amount in the format of a quantity.
struct str explain_amount_text(struct arena *arena, amount v, const struct quantity *like);

// state_text is a quick hash of a text, good enough to tell states apart.
static inline uint64_t state_text(struct str s)
{
    uint64_t h = s.n;
    while (s.n >= 8) {
        uint64_t word;
        memcpy(&word, s.p, 8);
        h = (h ^ word) * UINT64_C(0x9fb21c651e98df25);
        h ^= h >> 29;
        s = str_from(s, 8);
    }
    for (size_t i = 0; i < s.n; i++)
        h = (h ^ (unsigned char)s.p[i]) * UINT64_C(0x100000001b3);
    return h ^ h >> 32;
}

// state_mix adds to a hash; the order of calls matters.
static inline uint64_t state_mix(uint64_t h, uint64_t v)
{
    h ^= v + UINT64_C(0x9e3779b97f4a7c15) + (h << 12) + (h >> 4);
    h *= UINT64_C(0xff51afd7ed558ccd);
    return h ^ h >> 32;
}

// --- Reports -------------------------------------------------------------------------------------

struct report_group {
    struct alloc_group pub;
    struct holders *in_use; // by funnel; NULL for refused nodes
    size_t order;           // of the first node
};

struct alloc_report {
    struct arena arena;
    struct VEC(struct report_group) groups;
    struct group_at MAP(uint32_t) by_state;
    struct alloc_group *sorted;
    const struct api_resource_claim *const *claims;
    size_t claims_len;
    size_t nodes;
    size_t last;           // group that the node added last went to
    struct arena remedies; // of the last search
    bool quiet;            // see alloc_report_set_quiet
    struct kept_programs kept;
};

// What text and JSON of reports share.
const char *explain_row_key(enum alloc_row row);
const char *explain_row_words(enum alloc_row row);
size_t explain_funnel_row(const struct alloc_funnel *f, enum alloc_row row);

#endif
