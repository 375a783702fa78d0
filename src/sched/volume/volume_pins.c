// SPDX-License-Identifier: Apache-2.0
//
// Volumes by the label that a node must have to reach them. Of local volumes each has its node; to
// look at all of them for every node would take nodes times volumes.
#include <stdlib.h>

#include "api/match/label.h"
#include "sched/volume/volume_int.h"

#include "base/banned.h"

// A requirement that has to be met, and by one value of its label only.
static const struct api_node_selector_requirement *sole_value(const struct typed_object *volume)
{
    const struct api_persistent_volume *v = volume->object.value;
    const struct api_node_selector *s =
        v->spec.node_affinity ? v->spec.node_affinity->required : NULL;
    if (!s || s->node_selector_terms.n != 1)
        return NULL;
    const struct api_node_selector_term *t = &s->node_selector_terms.p[0];
    for (size_t i = 0; i < t->match_expressions.n; i++)
        if (str_eqz(t->match_expressions.p[i].operator, "In") &&
            t->match_expressions.p[i].values.n == 1)
            return &t->match_expressions.p[i];
    return NULL;
}

static int pin_order(const void *x, const void *y)
{
    const struct volume_pin *a = x, *b = y;
    int order = str_cmp(a->key, b->key);
    if (order == 0)
        order = str_cmp(a->value, b->value);
    return order ? order : (a->rank > b->rank) - (a->rank < b->rank);
}

void volume_pins_make(struct arena *arena, const struct typed_object *const *volumes, size_t n,
                      struct volume_pins *ret)
{
    *ret = (struct volume_pins){arena_array(arena, struct volume_pin, n), n};
    for (size_t i = 0; i < n; i++) {
        const struct api_node_selector_requirement *r = sole_value(volumes[i]);
        ret->p[i] = (struct volume_pin){.volume = volumes[i], .rank = i};
        if (r) {
            ret->p[i].key = r->key;
            ret->p[i].value = r->values.p[0];
        }
    }
    if (n > 1)
        qsort(ret->p, n, sizeof(*ret->p), pin_order);
}

// The place of the first with this label and value or behind; value NULL: behind all with this
// label.
static size_t volume_pins_place(const struct volume_pins *all, struct str key,
                                const struct str *value)
{
    size_t low = 0, high = all->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = str_cmp(all->p[middle].key, key);
        if (order == 0)
            order = value ? str_cmp(all->p[middle].value, *value) : -1;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct typed_object *volume_pins_best(const struct volume_pins *all,
                                            const struct api_node *node, volume_free_fn is_free,
                                            const void *arg)
{
    static const struct str none = {0};
    const struct volume_pin *best = NULL;
    for (size_t at = 0; at < all->n; at = volume_pins_place(all, all->p[at].key, NULL)) {
        struct str key = all->p[at].key;
        const struct str *value = key.n ? api_map_find(&node->metadata.labels, key) : &none;
        for (size_t i = value ? volume_pins_place(all, key, value) : all->n;
             i < all->n && str_eq(all->p[i].key, key) && str_eq(all->p[i].value, *value); i++) {
            const struct volume_pin *p = &all->p[i];
            if (best && best->rank < p->rank)
                break;
            if (volume_reaches(p->volume->object.value, node) && is_free(arg, p->volume)) {
                best = p;
                break;
            }
        }
    }
    return best ? best->volume : NULL;
}
