// SPDX-License-Identifier: Apache-2.0
//
// The score of volumes: by class, how much of what is there the claims of a pod take; less is
// better. Volumes that exist count before room for new ones.
#include "sched/volume/volume_score.h"

#include <math.h>

#include "api/amounts.h"
#include "sched/volume/volume_int.h"

#include "base/banned.h"

#define TOP 100

struct class_use {
    struct str class_name;
    int64_t requested, capacity;
};

struct class_uses {
    struct class_use *p;
    size_t n;
};

static struct class_use *volume_score_class(struct class_uses *all, struct str name)
{
    for (size_t i = 0; i < all->n; i++)
        if (str_eq(all->p[i].class_name, name))
            return &all->p[i];
    all->p[all->n] = (struct class_use){.class_name = name};
    return &all->p[all->n++];
}

static int64_t volume_score_amount(const struct quantity *q)
{
    int64_t v = q ? quantity_value(q) : 0;
    return v > 0 ? v : 0;
}

static void volume_score_existing(const struct attempt *a, struct class_uses *all)
{
    for (size_t i = 0; i < a->volume.n; i++) {
        const struct pod_volume *v = &a->volume.all[i];
        if (v->bound || !v->chosen)
            continue;
        const struct api_persistent_volume *volume = v->chosen->object.value;
        struct class_use *use = volume_score_class(all, volume->spec.storage_class_name);
        use->requested =
            amount_add(use->requested, volume_score_amount(volume_match_request_of(v)));
        use->capacity =
            amount_add(use->capacity,
                       volume_score_amount(amounts_get(&volume->spec.capacity, STR("storage"))));
    }
}

static void volume_score_new(struct attempt *a, const struct api_node *node, struct class_uses *all)
{
    for (size_t i = 0; i < a->volume.n; i++) {
        struct pod_volume *v = &a->volume.all[i];
        const struct quantity *room =
            v->bound || v->chosen || !v->class ? NULL : volume_match_room(a, v, node);
        if (!room)
            continue;
        struct class_use *use = volume_score_class(all, v->class->metadata.name);
        use->requested =
            amount_add(use->requested, volume_score_amount(volume_match_request_of(v)));
        use->capacity = volume_score_amount(room); // one room for all its volumes
    }
}

int64_t volume_score(struct attempt *a, const struct sched_node *n)
{
    struct class_uses all = {0};
    int64_t sum = 0;
    if (!a->volume.open || !volume_match_node(a, n, NULL))
        return 0;
    all.p = arena_array(a->arena, struct class_use, a->volume.n);
    volume_score_existing(a, &all);
    if (all.n == 0)
        volume_score_new(a, n->api, &all);
    for (size_t i = 0; i < all.n; i++) {
        const struct class_use *u = &all.p[i];
        if (u->capacity > 0 && u->requested <= u->capacity)
            sum += TOP - (int64_t)((__int128)u->requested * TOP / u->capacity);
    }
    return all.n ? llround((double)sum / (double)all.n) : 0;
}
