// SPDX-License-Identifier: Apache-2.0
//
// Programs by environment and expression, the least recently used dropped first. One lock around
// a small table: a lookup is a hash and a few comparisons, compiling happens outside of it.
#include <pthread.h>

#include "base/list.h"
#include "base/mem.h"
#include "cel/cel.h"
#include "cel/code/code.h"

#include "base/banned.h"

struct entry {
    struct list_node lru;
    struct entry *next; // of those with the same end of the hash
    const struct cel_env *env;
    struct cel_program *program;
    uint64_t hash;
};

struct cel_cache {
    pthread_mutex_t lock;
    struct entry *entries;
    size_t n, capacity;
    struct entry **heads; // by the end of the hash
    uint64_t mask;
    struct list lru; // the one used last is first
};

struct cel_cache *cel_cache_new(size_t capacity)
{
    struct cel_cache *c = xcalloc(1, sizeof(*c));
    c->capacity = capacity ? capacity : 1;
    c->entries = xcalloc(c->capacity, sizeof(*c->entries));
    size_t heads = 1;
    while (heads < c->capacity)
        heads *= 2;
    c->heads = xcalloc(heads, sizeof(struct entry *));
    c->mask = heads - 1;
    list_init(&c->lru);
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
    free((void *)c->heads);
    free(c->entries);
    free(c);
}

// Distinguishes most expressions; the text itself decides. A word at a time, since this is a good
// part of answering a small question.
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
static struct entry *cache_find_entry(struct cel_cache *c, const struct cel_env *env,
                                      struct str text, uint64_t hash)
{
    for (struct entry *e = c->heads[hash & c->mask]; e; e = e->next) {
        if (e->hash != hash || e->env != env || !str_eq(e->program->source, text))
            continue;
        list_remove(&e->lru);
        list_push_front(&c->lru, &e->lru);
        return e;
    }
    return NULL;
}

// cache_drop takes the one that was used longest ago out.
static struct entry *cache_drop(struct cel_cache *c)
{
    struct entry *e = list_entry(c->lru.head.prev, struct entry, lru);
    struct entry **at = &c->heads[e->hash & c->mask];
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    list_remove(&e->lru);
    cel_program_free(e->program);
    return e;
}

static void cache_insert_program(struct cel_cache *c, const struct cel_env *env,
                                 struct cel_program *p, uint64_t hash)
{
    struct entry *e = c->n < c->capacity ? &c->entries[c->n++] : cache_drop(c);
    struct entry **head = &c->heads[hash & c->mask];
    *e = (struct entry){.next = *head, .env = env, .program = p, .hash = hash};
    *head = e;
    list_push_front(&c->lru, &e->lru);
}

int cel_cache_get(struct cel_cache *c, const struct cel_env *env, struct str text,
                  struct cel_program **ret, struct sbuf *issues, struct err *err)
{
    uint64_t hash = quick_hash(text);
    (void)pthread_mutex_lock(&c->lock);
    struct entry *e = cache_find_entry(c, env, text, hash);
    struct cel_program *p = e ? cel_program_ref(e->program) : NULL;
    (void)pthread_mutex_unlock(&c->lock);
    if (!p) {
        int r = cel_compile(env, text, &p, issues, err);
        if (r < 0)
            return r;
        (void)pthread_mutex_lock(&c->lock);
        // Another thread may have been as quick; its program then stays.
        if (!cache_find_entry(c, env, text, hash))
            cache_insert_program(c, env, cel_program_ref(p), hash);
        (void)pthread_mutex_unlock(&c->lock);
    }
    *ret = p;
    return 0;
}
