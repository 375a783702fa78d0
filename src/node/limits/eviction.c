// SPDX-License-Identifier: Apache-2.0
//
// Reads thresholds, follows which are met for how long, and ranks pods.
#include "node/eviction.h"

#include <stdlib.h>

#include "base/clock.h"
#include "cel/text.h"
#include "codec/quantity.h"

#include "base/banned.h"

#define TRANSITION_DEFAULT "5m"

static const struct {
    const char *name, *resource;
    size_t condition; // the place in eviction_state.seen_ns
    bool binary;      // bytes
} eviction_rows[EVICTION_SIGNALS] = {
    [EVICTION_MEMORY] = {"memory.available", "memory", 0, true},
    [EVICTION_NODE_DISK] = {"nodefs.available", "ephemeral-storage", 1, true},
    [EVICTION_NODE_INODES] = {"nodefs.inodesFree", "inodes", 1, false},
    [EVICTION_IMAGE_DISK] = {"imagefs.available", "ephemeral-storage", 1, true},
    [EVICTION_IMAGE_INODES] = {"imagefs.inodesFree", "inodes", 1, false},
    [EVICTION_PIDS] = {"pid.available", "pids", 2, false},
};

// --- Options -------------------------------------------------------------------------------------

struct eviction_parsing {
    const char *option;
    struct eviction_config *config;
    struct err *err;
};

static int eviction_refuse(const struct eviction_parsing *p, struct str text, const char *why)
{
    return err_set(p->err, ERR_INVALID, "%s: '%.*s': %s", p->option, STR_ARG(str_upto(text, 100)),
                   why);
}

static int eviction_parse_amount(const struct eviction_parsing *p, struct str text,
                                 struct eviction_amount *ret)
{
    cleanup_arena struct arena arena = {0};
    struct quantity q;
    *ret = (struct eviction_amount){0};
    bool percent = text.n > 1 && text.p[text.n - 1] == '%';
    struct str number = percent ? str_upto(text, text.n - 1) : text;
    if (quantity_parse(number, &arena, &q, NULL) < 0 || quantity_sign(&q) < 0)
        return eviction_refuse(p, text, "neither an amount such as 100Mi nor a share such as 10%");
    if (percent)
        ret->share = quantity_as_double(&q) / 100;
    else
        ret->value = quantity_value(&q);
    return ret->share > 1 ? eviction_refuse(p, text, "more than 100%") : 0;
}

static int eviction_find_signal(const struct eviction_parsing *p, struct str name,
                                enum eviction_signal *ret)
{
    for (size_t i = 0; i < array_len(eviction_rows); i++)
        if (str_eqz(name, eviction_rows[i].name)) {
            *ret = (enum eviction_signal)i;
            return 0;
        }
    return eviction_refuse(p, name,
                           "no signal of this node; it has memory.available, nodefs.available, "
                           "nodefs.inodesFree, imagefs.available, imagefs.inodesFree and "
                           "pid.available");
}

static bool eviction_has(const struct eviction_config *c, enum eviction_signal signal, bool soft)
{
    for (size_t i = 0; i < c->thresholds_len; i++)
        if (c->thresholds[i].signal == signal && (c->thresholds[i].grace_ns != 0) == soft)
            return true;
    return false;
}

// "memory.available<100Mi"; soft ones get their grace afterwards, and -1 until then.
static int eviction_add_threshold(const struct eviction_parsing *p, struct str one, bool soft)
{
    struct str name, value;
    struct eviction_threshold t = {.grace_ns = soft ? -1 : 0};
    if (!str_cut(one, '<', &name, &value))
        return eviction_refuse(p, one, "write SIGNAL<AMOUNT");
    int r = eviction_find_signal(p, str_trim(name), &t.signal);
    if (r == 0)
        r = eviction_parse_amount(p, str_trim(value), &t.least);
    if (r < 0)
        return r;
    if (eviction_has(p->config, t.signal, soft))
        return eviction_refuse(p, one, "given twice");
    // As in kubelet, 0% and 100% switch a threshold off.
    if (str_eqz(str_trim(value), "0%") || str_eqz(str_trim(value), "100%"))
        return 0;
    if (t.least.share <= 0 && t.least.value <= 0)
        return eviction_refuse(p, one, "must be positive");
    p->config->thresholds[p->config->thresholds_len++] = t;
    return 0;
}

// "SIGNAL=VALUE" of the two options that complete thresholds.
static int eviction_complete(const struct eviction_parsing *p, struct str one, bool grace)
{
    struct str name, value;
    enum eviction_signal signal;
    struct eviction_amount reclaim = {0};
    int64_t ns = 0;
    if (!str_cut(one, '=', &name, &value))
        return eviction_refuse(p, one, "write SIGNAL=VALUE");
    int r = eviction_find_signal(p, str_trim(name), &signal);
    if (r == 0 && grace && (!cel_text_read_duration(str_trim(value), &ns) || ns <= 0))
        r = eviction_refuse(p, one, "not a duration such as 1m30s");
    if (r == 0 && !grace)
        r = eviction_parse_amount(p, str_trim(value), &reclaim);
    for (size_t i = 0; r == 0 && i < p->config->thresholds_len; i++) {
        struct eviction_threshold *t = &p->config->thresholds[i];
        if (t->signal == signal && grace && t->grace_ns != 0)
            t->grace_ns = ns;
        if (t->signal == signal && !grace)
            t->reclaim = reclaim;
    }
    return r;
}

enum eviction_list { LIST_HARD, LIST_SOFT, LIST_GRACE, LIST_RECLAIM };

static int eviction_parse_list(const struct eviction_parsing *p, const char *text,
                               enum eviction_list list)
{
    struct str rest = str_z(text), one;
    int r = 0;
    while (r == 0 && rest.n > 0) {
        (void)str_cut(rest, ',', &one, &rest);
        r = list <= LIST_SOFT ? eviction_add_threshold(p, one, list == LIST_SOFT)
                              : eviction_complete(p, one, list == LIST_GRACE);
    }
    return r;
}

int eviction_config_parse(const struct eviction_texts *t, struct eviction_config *ret,
                          struct err *err)
{
    const struct {
        const char *option, *text;
    } lists[] = {
        [LIST_HARD] = {"--eviction-hard", t->hard ? t->hard : EVICTION_HARD_DEFAULT},
        [LIST_SOFT] = {"--eviction-soft", t->soft},
        [LIST_GRACE] = {"--eviction-soft-grace-period", t->soft_grace},
        [LIST_RECLAIM] = {"--eviction-minimum-reclaim", t->reclaim},
    };
    const char *transition = t->transition ? t->transition : TRANSITION_DEFAULT;
    *ret = (struct eviction_config){.pod_grace_ns_max = t->pod_grace_s_max * CLOCK_NS_PER_SEC};
    for (size_t i = 0; i < array_len(lists); i++) {
        const struct eviction_parsing p = {lists[i].option, ret, err};
        int r = eviction_parse_list(&p, lists[i].text ? lists[i].text : "", (enum eviction_list)i);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < ret->thresholds_len; i++)
        if (ret->thresholds[i].grace_ns < 0)
            return err_set(err, ERR_INVALID,
                           "--eviction-soft: %s needs a grace in --eviction-soft-grace-period",
                           eviction_rows[ret->thresholds[i].signal].name);
    if (!cel_text_read_duration(str_z(transition), &ret->transition_ns) || ret->transition_ns < 0)
        return err_set(err, ERR_INVALID,
                       "--eviction-pressure-transition-period: '%s' is not a duration such as 5m",
                       transition);
    return 0;
}

// --- State ---------------------------------------------------------------------------------------

static int64_t eviction_quantity(const struct eviction_amount *a, int64_t capacity)
{
    return a->share > 0 ? (int64_t)(a->share * (double)capacity) : a->value;
}

int64_t eviction_reserved(const struct eviction_config *c, enum eviction_signal signal,
                          int64_t capacity)
{
    for (size_t i = 0; i < c->thresholds_len; i++)
        if (c->thresholds[i].signal == signal && c->thresholds[i].grace_ns == 0)
            return eviction_quantity(&c->thresholds[i].least, capacity);
    return 0;
}

static bool eviction_is_met(const struct eviction_threshold *t, const struct eviction_facts *facts,
                            bool with_reclaim)
{
    const struct eviction_observation *o = &facts->of[t->signal];
    int64_t reclaim = with_reclaim ? eviction_quantity(&t->reclaim, o->capacity) : 0;
    int64_t least = eviction_quantity(&t->least, o->capacity);
    return o->known && o->available < (least > INT64_MAX - reclaim ? INT64_MAX : least + reclaim);
}

bool eviction_is_relieved(const struct eviction_config *c, const struct eviction_facts *facts)
{
    for (size_t i = 0; i < c->thresholds_len; i++)
        if (eviction_is_met(&c->thresholds[i], facts, true))
            return false;
    return true;
}

void eviction_state_init(struct eviction_state *s)
{
    *s = (struct eviction_state){0};
    for (size_t i = 0; i < array_len(s->first_ns); i++)
        s->first_ns[i] = -1;
    for (size_t i = 0; i < array_len(s->seen_ns); i++)
        s->seen_ns[i] = -1;
}

// A threshold that was due stays met until its minimum is reclaimed.
static void eviction_follow(struct eviction_state *s, const struct eviction_config *c, size_t i,
                            const struct eviction_facts *facts, int64_t now_ns)
{
    const struct eviction_threshold *t = &c->thresholds[i];
    if (!eviction_is_met(t, facts, s->due[i])) {
        s->first_ns[i] = -1;
        s->due[i] = false;
        return;
    }
    if (s->first_ns[i] < 0)
        s->first_ns[i] = now_ns;
    s->seen_ns[eviction_rows[t->signal].condition] = now_ns;
    s->due[i] = now_ns - s->first_ns[i] >= t->grace_ns;
}

static bool eviction_was_seen(const struct eviction_state *s, size_t condition,
                              const struct eviction_config *c, int64_t now_ns)
{
    int64_t at = s->seen_ns[condition];
    return at >= 0 && (at == now_ns || now_ns - at < c->transition_ns);
}

const struct eviction_threshold *eviction_state_update(struct eviction_state *s,
                                                       const struct eviction_config *c,
                                                       const struct eviction_facts *facts,
                                                       int64_t now_ns)
{
    const struct eviction_threshold *first = NULL;
    for (size_t i = 0; i < c->thresholds_len; i++) {
        const struct eviction_threshold *t = &c->thresholds[i];
        eviction_follow(s, c, i, facts, now_ns);
        if (s->due[i] &&
            (!first || (t->signal == EVICTION_MEMORY && first->signal != EVICTION_MEMORY)))
            first = t;
    }
    s->conditions = (struct eviction_conditions){.memory = eviction_was_seen(s, 0, c, now_ns),
                                                 .disk = eviction_was_seen(s, 1, c, now_ns),
                                                 .pids = eviction_was_seen(s, 2, c, now_ns)};
    return first;
}

const char *eviction_resource(enum eviction_signal signal)
{
    return eviction_rows[signal].resource;
}

bool eviction_is_disk(enum eviction_signal signal)
{
    return eviction_rows[signal].condition == 1;
}

void eviction_write_facts(const struct eviction_threshold *t, const struct eviction_facts *facts,
                          struct sbuf *out)
{
    const struct eviction_observation *o = &facts->of[t->signal];
    enum quantity_format format =
        eviction_rows[t->signal].binary ? QUANTITY_BINARY_SI : QUANTITY_DECIMAL_SI;
    struct quantity least = quantity_from_i64(eviction_quantity(&t->least, o->capacity), format);
    struct quantity left = quantity_from_i64(o->available, format);
    sbuf_addz(out, "Threshold quantity: ");
    quantity_write(&least, out);
    sbuf_addz(out, ", available: ");
    quantity_write(&left, out);
    sbuf_addz(out, ". ");
}

// --- Order of pods -------------------------------------------------------------------------------

static int eviction_compare(const void *a, const void *b)
{
    const struct eviction_candidate *x = a, *y = b;
    bool x_over = x->usage > x->request, y_over = y->usage > y->request;
    int64_t x_more = x->usage - x->request, y_more = y->usage - y->request;
    if (x_over != y_over)
        return x_over ? -1 : 1;
    if (x->priority != y->priority)
        return x->priority < y->priority ? -1 : 1;
    return x_more != y_more ? (x_more > y_more ? -1 : 1) : 0;
}

static int eviction_compare_processes(const void *a, const void *b)
{
    const struct eviction_candidate *x = a, *y = b;
    if (x->priority != y->priority)
        return x->priority < y->priority ? -1 : 1;
    return x->usage != y->usage ? (x->usage > y->usage ? -1 : 1) : 0;
}

void eviction_rank(enum eviction_signal signal, struct eviction_candidate *all, size_t n)
{
    if (n > 1)
        qsort(all, n, sizeof(*all),
              signal == EVICTION_PIDS ? eviction_compare_processes : eviction_compare);
}
