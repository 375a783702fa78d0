// SPDX-License-Identifier: Apache-2.0
//
// How large a Deployment's ReplicaSets are: in a rolling update, when it is scaled meanwhile, at
// the end.
#include <stdlib.h>

#include "ctl/workload/deploy_int.h"

#include "base/banned.h"

#define DEPLOY_MOST (2 * (int64_t)INT32_MAX)

static int64_t deploy_roll_set_size(const struct typed_object *set)
{
    return load_not_negative(as_replica_set(set)->spec.replicas);
}

static int64_t available_of(const struct typed_object *set)
{
    return load_not_negative(as_replica_set(set)->status.available_replicas);
}

int64_t deploy_count(const struct load_objects *sets)
{
    int64_t sum = 0;
    vec_foreach(sets, set)
        sum += deploy_roll_set_size(*set);
    return sum;
}

int64_t deploy_available(const struct load_objects *sets)
{
    int64_t sum = 0;
    vec_foreach(sets, set)
        sum += available_of(*set);
    return sum;
}

static bool number_is(const struct typed_object *set, const char *key, int64_t wanted)
{
    int64_t value = 0;
    return meta_map_int(&set->meta->annotations, str_z(key), &value) && value == wanted;
}

bool deploy_scale_one(const struct deploy *d, const struct typed_object *set, int64_t wanted,
                      bool forced)
{
    int64_t desired = d->wanted, most = desired + d->surge;
    int32_t was = as_replica_set(set)->spec.replicas, size = load_not_negative(wanted);
    bool marked = number_is(set, DEPLOY_DESIRED, desired) && number_is(set, DEPLOY_MAX, most);
    if (was == size && (!forced || marked))
        return false;
    struct api_replica_set changed = *as_replica_set(set);
    changed.spec.replicas = size;
    meta_map_put(&changed.metadata.annotations, STR(DEPLOY_DESIRED),
                 arena_strf(d->arena, "%lld", (long long)desired), d->arena);
    meta_map_put(&changed.metadata.annotations, STR(DEPLOY_MAX),
                 arena_strf(d->arena, "%lld", (long long)most), d->arena);
    struct str text = arena_strf(d->arena, "Scaled %s replica set %.*s from %d to %d",
                                 size > was ? "up" : "down", STR_ARG(set->meta->name), was, size);
    const struct load_event event = {"ScalingReplicaSet", text.p, NULL, NULL};
    load_update(d->l, d->key, d->o, CACHE_REPLICA_SETS, &changed, was != size ? &event : NULL);
    return true;
}

// --- Rolling -------------------------------------------------------------------------------------

static bool grow_newest(const struct deploy *d)
{
    int64_t wanted = d->wanted, size = deploy_roll_set_size(d->newest);
    if (size > wanted)
        return deploy_scale_one(d, d->newest, wanted, false);
    int64_t room = wanted + d->surge - deploy_count(&d->sets);
    int64_t more = wanted - size < room ? wanted - size : room;
    return more > 0 && deploy_scale_one(d, d->newest, size + more, false);
}

// Pods of old sets that are not available go first: they block nothing but the update.
static bool shrink_broken(const struct deploy *d, int64_t most)
{
    vec_foreach(&d->old, set) {
        int64_t broken = deploy_roll_set_size(*set) - available_of(*set);
        if (deploy_roll_set_size(*set) == 0 || broken <= 0)
            continue;
        return deploy_scale_one(
            d, *set, deploy_roll_set_size(*set) - (broken < most ? broken : most), false);
    }
    return false;
}

static bool shrink_old(const struct deploy *d)
{
    int64_t least = d->wanted - d->unavailable;
    int64_t missing = deploy_roll_set_size(d->newest) - available_of(d->newest);
    int64_t most = deploy_count(&d->sets) - least - missing;
    if (deploy_count(&d->old) == 0 || most <= 0)
        return false;
    if (shrink_broken(d, most))
        return true;
    int64_t spare = deploy_available(&d->sets) - least;
    vec_foreach(&d->old, set)
        if (spare > 0 && deploy_roll_set_size(*set) > 0)
            return deploy_scale_one(
                d, *set,
                deploy_roll_set_size(*set) > spare ? deploy_roll_set_size(*set) - spare : 0, false);
    return false;
}

// settled: the sets' own controllers have seen their sizes; before, their numbers of available pods
// mean little.
static bool deploy_roll_sets_settled(const struct load_objects *sets)
{
    vec_foreach(sets, set)
        if (as_replica_set(*set)->status.observed_generation < (*set)->meta->generation)
            return false;
    return true;
}

bool deploy_roll(const struct deploy *d)
{
    return grow_newest(d) || (deploy_roll_sets_settled(&d->old) && shrink_old(d));
}

// --- Scaling meanwhile ---------------------------------------------------------------------------

static const struct typed_object *active_or_latest(const struct deploy *d)
{
    const struct typed_object *active = NULL;
    size_t n = 0;
    vec_foreach(&d->sets, set)
        if (deploy_roll_set_size(*set) > 0) {
            active = *set;
            n++;
        }
    if (n > 1)
        return NULL;
    if (active)
        return active;
    if (d->newest)
        return d->newest;
    return d->old.n > 0 ? d->old.p[d->old.n - 1] : NULL;
}

static bool is_saturated(const struct deploy *d)
{
    int64_t wanted = d->wanted;
    return d->newest && deploy_roll_set_size(d->newest) == wanted &&
           number_is(d->newest, DEPLOY_DESIRED, wanted) && available_of(d->newest) == wanted;
}

struct share {
    const struct typed_object *set;
    int64_t size;
    bool growing;
};

static int by_size(const void *x, const void *y)
{
    const struct share *a = x, *b = y;
    if (a->size != b->size)
        return a->size > b->size ? -1 : 1;
    int64_t s = a->set->meta->creation_timestamp.at.sec;
    int64_t t = b->set->meta->creation_timestamp.at.sec;
    int age = s != t ? (s > t) - (s < t) : str_cmp(a->set->meta->name, b->set->meta->name);
    return a->growing ? -age : age;
}

// A set's part of what is added to (or taken from) all of them.
static int64_t deploy_roll_set_share(const struct deploy *d, const struct typed_object *set,
                                     int64_t left)
{
    int64_t size = deploy_roll_set_size(set);
    int64_t before = 0;
    if (left == 0)
        return 0;
    int64_t part = -size;
    if (d->wanted > 0) {
        if (!meta_map_int(&set->meta->annotations, STR(DEPLOY_MAX), &before) || before <= 0)
            before = d->d->status.replicas;
        if (before <= 0)
            return 0;
        // More than two of the largest sizes together is no former maximum; products fit 128 bits.
        before = before > DEPLOY_MOST ? DEPLOY_MOST : before;
        __int128 now = (__int128)(d->wanted + d->surge) * size;
        part = (int64_t)((2 * now + before) / (2 * before)) - size; // rounded
    }
    bool over = left > 0 ? part > left : part < left;
    return over ? left : part;
}

static bool scale_shares(const struct deploy *d)
{
    struct share *shares = arena_array(d->arena, struct share, d->sets.n + 1);
    size_t n = 0;
    int64_t allowed = d->wanted > 0 ? d->wanted + d->surge : 0;
    int64_t left = allowed - deploy_count(&d->sets);
    vec_foreach(&d->sets, set)
        if (deploy_roll_set_size(*set) > 0)
            shares[n++] = (struct share){*set, deploy_roll_set_size(*set), left > 0};
    qsort(shares, n, sizeof(*shares), by_size);
    for (size_t i = 0; i < n; i++) {
        int64_t part = deploy_roll_set_share(d, shares[i].set, left);
        shares[i].size += part;
        left -= part;
    }
    if (n > 0)
        shares[0].size = shares[0].size + left > 0 ? shares[0].size + left : 0;
    for (size_t i = 0; i < n; i++)
        if (deploy_scale_one(d, shares[i].set, shares[i].size, true))
            return true;
    return false;
}

bool deploy_scale(const struct deploy *d)
{
    const struct typed_object *one = active_or_latest(d);
    if (one)
        return deploy_scale_one(d, one, d->wanted, true);
    if (is_saturated(d)) {
        vec_foreach(&d->old, set)
            if (deploy_scale_one(d, *set, 0, false))
                return true;
        return false;
    }
    return !str_eqz(d->d->spec.strategy.type, "Recreate") && scale_shares(d);
}

// --- History -------------------------------------------------------------------------------------

static int64_t deploy_roll_set_revision(const struct typed_object *set)
{
    int64_t revision = 0;
    return meta_map_int(&set->meta->annotations, STR(DEPLOY_REVISION), &revision) ? revision : 0;
}

// deploy_trim deletes the set of the oldest revision when there are more than the history keeps.
bool deploy_trim(const struct deploy *d)
{
    size_t alive = 0;
    const struct typed_object *oldest = NULL;
    vec_foreach(&d->old, set) {
        const struct api_replica_set *s = as_replica_set(*set);
        if (s->metadata.deletion_timestamp.set)
            continue;
        alive++;
        bool empty = s->spec.replicas == 0 && s->status.replicas == 0 &&
                     s->status.observed_generation >= s->metadata.generation;
        if (empty && (!oldest || deploy_roll_set_revision(*set) < deploy_roll_set_revision(oldest)))
            oldest = *set;
    }
    if (!oldest || alive <= (size_t)load_not_negative(d->d->spec.revision_history_limit))
        return false;
    load_delete(d->l, d->key, d->o, CACHE_REPLICA_SETS, oldest, NULL);
    return true;
}
