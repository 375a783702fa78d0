// SPDX-License-Identifier: Apache-2.0
//
// Programs by environment and expression, the least recently used dropped first. One lock around
// a small table: a lookup is a hash and a few comparisons, compiling happens outside of it.
#include <pthread.h>

#include "base/mem.h"
#include "cel/code.h"
#include "dray/cel.h"

#include "base/banned.h"

struct entry {
    const struct cel_env *env;
    struct cel_program *program;
    uint64_t hash;
    uint64_t used; // time of last use, in lookups
};

struct cel_cache {
    pthread_mutex_t lock;
    struct entry *entries;
    size_t n, capacity;
    uint64_t clock;
};

struct cel_cache *cel_cache_new(size_t capacity)
{
    struct cel_cache *c = xcalloc(1, sizeof(*c));
    c->capacity = capacity ? capacity : 1;
    c->entries = xcalloc(c->capacity, sizeof(*c->entries));
    (void)pthread_mutex_init(&c->lock, NULL);
    return c;
}

void cel_cache_free(struct cel_cache *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->n; i++)
        cel_program_free(c->entries[i].program);
    (void)pthread_mutex_destroy(&c->lock);
    free(c->entries);
    free(c);
}

// Tells most expressions apart; the text itself decides. A word at a time, since this is a good part
// of answering a small question.
static uint64_t quick_hash(struct str s)
{
    uint64_t h = s.n * UINT64_C(0x9e3779b97f4a7c15);
    size_t i = 0;
    for (uint64_t word; i + sizeof(word) <= s.n; i += sizeof(word)) {
        memcpy(&word, s.p + i, sizeof(word));
        h = (h ^ word) * UINT64_C(0xff51afd7ed558ccd);
        h ^= h >> 32;
    }
    for (; i < s.n; i++)
        h = (h ^ (unsigned char)s.p[i]) * UINT64_C(0x100000001b3);
    return h;
}

// Called with the lock held.
static struct entry *find(struct cel_cache *c, const struct cel_env *env, struct str text,
                          uint64_t hash)
{
    for (size_t i = 0; i < c->n; i++) {
        struct entry *e = &c->entries[i];
        if (e->hash == hash && e->env == env && str_eq(e->program->source, text)) {
            e->used = ++c->clock;
            return e;
        }
    }
    return NULL;
}

static void keep(struct cel_cache *c, struct entry e)
{
    size_t at = c->n;
    if (c->n == c->capacity) {
        at = 0;
        for (size_t i = 1; i < c->n; i++)
            if (c->entries[i].used < c->entries[at].used)
                at = i;
        cel_program_free(c->entries[at].program);
    } else {
        c->n++;
    }
    e.used = ++c->clock;
    c->entries[at] = e;
}

int cel_cache_get(struct cel_cache *c, const struct cel_env *env, struct str text,
                  struct cel_program **ret, struct sbuf *issues, struct err *err)
{
    uint64_t hash = quick_hash(text);
    (void)pthread_mutex_lock(&c->lock);
    struct entry *e = find(c, env, text, hash);
    struct cel_program *p = e ? cel_program_ref(e->program) : NULL;
    (void)pthread_mutex_unlock(&c->lock);
    if (!p) {
        int r = cel_compile(env, text, &p, issues, err);
        if (r < 0)
            return r;
        (void)pthread_mutex_lock(&c->lock);
        // Another thread may have been as quick; its program then stays.
        if (!find(c, env, text, hash))
            keep(c, (struct entry){.env = env, .program = cel_program_ref(p), .hash = hash});
        (void)pthread_mutex_unlock(&c->lock);
    }
    *ret = p;
    return 0;
}
