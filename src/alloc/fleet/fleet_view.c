// SPDX-License-Identifier: Apache-2.0
//
// From views and claims to numbers. A unit is a device, or a counter set with all the partitions
// that draw on it. Its type is everything published about it but what names the single piece. What
// is left of a unit that is shared is the least of its capacities; of a counter set the least of
// the counters that partitions take parts of, and which partitions are open.
#include "alloc/fleet/fleet_int.h"
#include "alloc/search/search_int.h"
#include "api/api.h"
#include "base/hash.h"

#include "base/banned.h"

// --- Types ---------------------------------------------------------------------------------------

static bool fleet_view_begins_with(const char *s, const char *word)
{
    while (*word && *s == *word) {
        s++;
        word++;
    }
    return !*word;
}

// Devices are alike whatever these say: they name the piece or its place. One pass over the name,
// since every attribute of every slice comes by: most letters begin no word.
static bool names_piece(struct str key)
{
    static const char *const words[] = {"uuid",  "serial", "pci",  "numa",  "index",
                                        "minor", "addr",   "name", "parent"};
    char low[65];
    bool piece = false;
    size_t n = key.n < sizeof(low) - 1 ? key.n : sizeof(low) - 1;
    for (size_t i = 0; i < n; i++)
        low[i] = (char)(key.p[i] >= 'A' && key.p[i] <= 'Z' ? key.p[i] + 32 : key.p[i]);
    low[n] = '\0';
    for (const char *s = low; *s; s++) {
        if (!strchr("uspnima", *s))
            continue;
        if (fleet_view_begins_with(s, "productname") || fleet_view_begins_with(s, "model"))
            return false;
        for (size_t i = 0; !piece && i < array_len(words); i++)
            piece = *s == *words[i] && fleet_view_begins_with(s, words[i]);
    }
    return piece;
}

static uint64_t fleet_view_mix_hash(uint64_t a, uint64_t b)
{
    a = (a ^ b) * UINT64_C(0x9E3779B97F4A7C15);
    return a ^ (a >> 29);
}

static uint64_t fleet_view_attribute_hash(const struct api_device_attribute *a)
{
    if (a->has_string_value)
        return hash_str(a->string_value);
    if (a->has_version_value)
        return hash_str(a->version_value);
    if (a->has_int_value)
        return fleet_view_mix_hash(1, (uint64_t)a->int_value);
    return fleet_view_mix_hash(2, a->bool_value);
}

// Partitions of a GPU have these in common; the rest distinguishes them.
static bool names_product(struct str key)
{
    return str_contains(key, STR("productName")) || str_contains(key, STR("architecture"));
}

static uint64_t fleet_view_set_kind(const struct api_resource_slice_spec *slice, struct str set)
{
    uint64_t h = 3;
    for (size_t i = 0; i < slice->shared_counters.n; i++) {
        const struct api_counter_set *s = &slice->shared_counters.p[i];
        for (size_t k = 0; str_eq(s->name, set) && k < s->counters.n; k++)
            h = fleet_view_mix_hash(fleet_view_mix_hash(h, hash_str(s->counters.p[k].key)),
                                    (uint64_t)quantity_milli(&s->counters.p[k].value.value));
    }
    return h;
}

uint64_t fleet_device_kind(const struct api_device *d, const struct api_resource_slice_spec *slice)
{
    bool partition = d->consumes_counters.n > 0;
    uint64_t h = partition ? fleet_view_set_kind(slice, d->consumes_counters.p[0].counter_set) : 1;
    h = fleet_view_mix_hash(h, hash_str(slice->driver));
    for (size_t i = 0; i < d->attributes.n; i++) {
        struct str key = d->attributes.p[i].key;
        if (partition ? names_product(key) : !names_piece(key))
            h = fleet_view_mix_hash(fleet_view_mix_hash(h, hash_str(key)),
                                    fleet_view_attribute_hash(&d->attributes.p[i].value));
    }
    for (size_t i = 0; i < d->capacity.n && !partition; i++)
        h = fleet_view_mix_hash(fleet_view_mix_hash(h, hash_str(d->capacity.p[i].key)),
                                (uint64_t)quantity_milli(&d->capacity.p[i].value.value));
    return h;
}

uint64_t fleet_device_sign(const struct api_device *d)
{
    uint64_t h = d->consumes_counters.n ? 5 : 0;
    for (size_t i = 0; i < d->consumes_counters.n; i++) {
        const struct api_device_counter_consumption *c = &d->consumes_counters.p[i];
        for (size_t k = 0; k < c->counters.n; k++)
            h = fleet_view_mix_hash(fleet_view_mix_hash(h, hash_str(c->counters.p[k].key)),
                                    (uint64_t)quantity_milli(&c->counters.p[k].value.value));
    }
    for (size_t i = 0; h && i < d->attributes.n; i++)
        if (!names_piece(d->attributes.p[i].key))
            h = fleet_view_mix_hash(fleet_view_mix_hash(h, hash_str(d->attributes.p[i].key)),
                                    fleet_view_attribute_hash(&d->attributes.p[i].value));
    return h;
}

static uint64_t family_hash(const struct vw_device *d)
{
    return hash_str(d->cl->slice->spec.driver);
}

// --- Units ---------------------------------------------------------------------------------------

static uint16_t part_left(amount left, amount all)
{
    if (left <= 0 || all <= 0)
        return 0;
    amount part = left >= all ? WORTH_WHOLE : left * WORTH_WHOLE / all;
    return (uint16_t)part;
}

static void fleet_view_read_device(const struct alloc_view *v, const struct vw_device *d,
                                   struct worth_unit *u)
{
    u->left = d->exclusive_use || d->refused || (!d->shared && d->shared_use) ? 0 : WORTH_WHOLE;
    for (uint32_t i = 0; d->shared && i < d->caps_len && u->left; i++) {
        const struct vw_cap *c = &v->caps[d->first_cap + i];
        uint16_t left = part_left(c->value - c->used, c->value);
        u->loose |= c->value > 0 && (c->value - c->used) * WORTH_WHOLE % c->value != 0;
        u->left = left < u->left ? left : u->left;
    }
}

// What is left of a counter set: the least of its counters that partitions take parts of. Those
// that are one or nothing, such as slices of memory, say nothing about size.
static uint16_t set_left(const struct alloc_view *v, const struct vw_device *d)
{
    uint16_t least = WORTH_WHOLE;
    for (uint16_t i = 0; i < d->counters_len; i++) {
        const struct counter_use *c = &v->counter_uses[d->first_counter + i];
        uint16_t left =
            part_left(v->counters.available[c->counter], v->counters.totals[c->counter]);
        if (c->value > 0 && c->value < v->counters.totals[c->counter] && left < least)
            least = left;
    }
    return least;
}

// --- Geometry ------------------------------------------------------------------------------------

// The places of partitions in a counter set, whatever is in use. One with more than can be
// distinguished has no geometry: what is left of it is all that is known then.
static void learn_geometry(struct fleet *f, uint8_t type, const struct alloc_view *v, uint32_t set)
{
    const struct vw_set *s = &v->sets[set - 1];
    struct worth_geometry g = {.n = s->n};
    _Static_assert(VIEW_SET_MEMBERS <= WORTH_SLOTS, "slots are members of a set");
    if (worth_geometry_of(fleet_model(f), type) || s->n < 2 || s->n == VIEW_SET_MEMBERS)
        return;
    for (uint32_t i = 0; i < s->n; i++) {
        const struct vw_device *a = &v->devices[s->members[i]];
        g.sign[i] = a->cl->sign;
        g.excludes[i] = UINT64_C(1) << i;
        for (uint32_t k = 0; k < s->n; k++)
            if (!rank_beside(v, a, &v->devices[s->members[k]], v->counters.totals))
                g.excludes[i] |= UINT64_C(1) << k;
    }
    worth_set_geometry(fleet_model(f), type, &g);
}

// The slot of a device; most sets are published in the same order.
static uint8_t fleet_view_slot_of(const struct worth_geometry *g, const struct alloc_view *v,
                                  uint32_t device)
{
    uint64_t sign = v->devices[device].cl->sign;
    uint8_t local = v->ranks[device].local;
    if (local < g->n && g->sign[local] == sign)
        return local;
    for (uint8_t i = 0; i < g->n; i++)
        if (g->sign[i] == sign)
            return i;
    return FLEET_NO_SLOT;
}

static void read_partition(struct fleet *f, struct fleet_units *n, const struct alloc_view *v,
                           uint32_t device)
{
    struct worth_unit *u = &n->units[n->unit_of[device]];
    const struct worth_geometry *g = worth_geometry_of(fleet_model(f), u->type);
    const struct vw_rank *r = &v->ranks[device];
    uint8_t slot = g ? fleet_view_slot_of(g, v, device) : FLEET_NO_SLOT;
    n->slot_of[device] = slot;
    if (slot != FLEET_NO_SLOT && r->local < VIEW_SET_MEMBERS &&
        v->sets_now[r->set - 1].fits >> r->local & 1)
        u->fits |= UINT64_C(1) << slot;
    if (slot != FLEET_NO_SLOT &&
        (v->devices[device].exclusive_use || v->devices[device].shared_use))
        u->taken |= UINT64_C(1) << slot;
    if (u->left != WORTH_WHOLE && g)
        return; // what is left is known already
    uint16_t left = set_left(v, &v->devices[device]);
    u->left = left < u->left ? left : u->left;
}

void fleet_units_supply(struct fleet *f, const struct fleet_units *u, int64_t sign)
{
    for (uint32_t i = 0; i < u->n; i++)
        worth_supply(fleet_model(f), u->units[i].group, sign);
}

static void set_groups(struct fleet *f, struct fleet_units *n)
{
    for (uint32_t i = 0; i < n->n; i++) {
        uint32_t same = 0;
        for (uint32_t k = 0; k < n->n; k++)
            same += n->units[k].type == n->units[i].type;
        n->units[i].group = worth_group(fleet_model(f), n->units[i].type, same);
    }
}

static void take_device(struct fleet *f, struct fleet_units *n, const struct alloc_view *v,
                        uint32_t i, uint8_t *unit_of_set)
{
    const struct vw_device *d = &v->devices[i];
    uint32_t set = d->counters_len ? v->ranks[i].set : 0;
    uint8_t at = set ? unit_of_set[set] : FLEET_NO_UNIT;
    if (at == FLEET_NO_UNIT && n->n == WORTH_UNITS) {
        n->partial = true;
        n->unit_of[i] = FLEET_NO_UNIT;
        n->slot_of[i] = FLEET_NO_SLOT;
        return;
    }
    if (at == FLEET_NO_UNIT) {
        at = (uint8_t)n->n++;
        n->units[at] =
            (struct worth_unit){.type = worth_type(fleet_model(f), d->cl->kind, family_hash(d)),
                                .loose = set != 0,
                                .left = WORTH_WHOLE};
        if (set) {
            unit_of_set[set] = at;
            learn_geometry(f, n->units[at].type, v, set);
        }
    }
    n->unit_of[i] = at;
    n->slot_of[i] = FLEET_NO_SLOT;
    if (set)
        read_partition(f, n, v, i);
    else
        fleet_view_read_device(v, d, &n->units[at]);
}

struct fleet_units *fleet_units_read(struct fleet *f, const struct alloc_view *view)
{
    struct fleet_units *n = xcalloc(1, sizeof(*n));
    n->devices = view ? (uint32_t)view->devices_len : 0;
    n->unit_of = xcalloc(n->devices + 1U, 1);
    n->slot_of = xcalloc(n->devices + 1U, 1);
    uint8_t *unit_of_set = xmalloc((view ? view->sets_len : 0) + 1);
    memset(unit_of_set, FLEET_NO_UNIT, (view ? view->sets_len : 0) + 1);
    for (uint32_t i = 0; i < n->devices; i++)
        take_device(f, n, view, i, unit_of_set);
    free(unit_of_set);
    set_groups(f, n);
    return n;
}

void fleet_units_free(struct fleet_units *u)
{
    if (!u)
        return;
    free(u->unit_of);
    free(u->slot_of);
    free(u);
}

// --- Requests ------------------------------------------------------------------------------------

uint64_t fleet_hash(const struct api_resource_claim *const *claims, size_t claims_len)
{
    cleanup_sbuf struct sbuf bytes = {0};
    for (size_t i = 0; i < claims_len; i++) {
        api_proto_write(&api_device_claim_type, &claims[i]->spec.devices, &bytes);
        sbuf_addc(&bytes, '\0');
    }
    return hash_str(sbuf_str(&bytes));
}

struct spec {
    struct str class_name;
    const struct api_device_selector_array *selectors;
    const struct api_capacity_requirements *capacity;
};

static enum match_state fleet_judge(struct fleet *f, const struct alloc_cluster *c,
                                    const struct cl_device *d,
                                    const struct api_device_selector *selector)
{
    struct cel_program *p = NULL;
    if (!selector->cel)
        return MATCH_ERROR;
    struct answer_set *answers = answer_set_of(c, selector->cel->expression);
    enum match_state m = answer_find(answers, d);
    if (m != MATCH_UNKNOWN)
        return m;
    if (cel_cache_get(c->kit.cache, c->kit.env, selector->cel->expression, &p, NULL, NULL) < 0)
        return MATCH_ERROR;
    m = answer_make(c, answers, d, &(struct evaluator){fleet_run(f), p, fleet_meter(f)});
    cel_program_free(p);
    return m;
}

// Does class and selectors take the device? What cannot be judged here is for the allocator to say.
static bool fleet_view_is_selected(struct fleet *f, const struct alloc_view *v,
                                   const struct vw_device *d, const struct spec *s, bool *loose)
{
    const struct alloc_cluster *c = v->cluster;
    const uint32_t *at = map_get(&c->class_names, s->class_name);
    enum match_state match = MATCH_ERROR;
    if (at && cluster_judge_class(c, &c->classes[*at], fleet_run(f), fleet_meter(f)))
        match = (enum match_state)c->classes[*at].match[d->cl_index];
    for (size_t i = 0; match == MATCH_YES && i < s->selectors->n; i++)
        match = fleet_judge(f, c, d->cl, &s->selectors->p[i]);
    *loose |= match == MATCH_ERROR;
    return match == MATCH_YES;
}

static uint16_t fleet_view_part_of(amount need, amount all, bool *loose)
{
    if (all <= 0 || need <= 0)
        return 1;
    *loose |= need * WORTH_WHOLE % all != 0;
    amount part = (need * WORTH_WHOLE + all - 1) / all;
    return part > WORTH_WHOLE ? WORTH_WHOLE : part < 1 ? 1 : (uint16_t)part;
}

static uint16_t shared_part(const struct alloc_view *v, const struct vw_device *d,
                            const struct spec *s, bool *loose)
{
    cleanup_arena struct arena arena = {0};
    struct err err = {0};
    amount *need = arena_array(&arena, amount, d->caps_len + 1U);
    uint16_t most = 1;
    enum need_state n =
        capacity_need(d->cl->api, s->capacity, v->cluster->features.fractional_capacity_range, need,
                      &arena, &err);
    *loose |= n == NEED_ERROR;
    if (n != NEED_OK)
        return 0;
    for (uint32_t i = 0; i < d->caps_len; i++) {
        uint16_t part = fleet_view_part_of(need[i], v->caps[d->first_cap + i].value, loose);
        most = part > most ? part : most;
    }
    return most;
}

static uint16_t partition_part(const struct alloc_view *v, const struct vw_device *d)
{
    bool loose = false;
    uint16_t most = 0;
    for (uint16_t i = 0; i < d->counters_len; i++) {
        const struct counter_use *c = &v->counter_uses[d->first_counter + i];
        uint16_t part = fleet_view_part_of(c->value, v->counters.totals[c->counter], &loose);
        if (c->value > 0 && c->value < v->counters.totals[c->counter] && part > most)
            most = part;
    }
    return most ? most : WORTH_WHOLE;
}

// Slots and part of a request on the unit that a device belongs to: of the partitions that it
// selects the smallest counts.
static uint16_t slots_part(struct fleet *f, const struct alloc_view *v, uint32_t set,
                           const struct spec *s, uint64_t *ret_slots, bool *loose)
{
    const struct vw_set *members = &v->sets[set - 1];
    uint16_t least = 0;
    *ret_slots = 0;
    for (uint32_t i = 0; i < members->n; i++) {
        const struct vw_device *d = &v->devices[members->members[i]];
        uint8_t type = worth_type(fleet_model(f), d->cl->kind, family_hash(d));
        const struct worth_geometry *g = worth_geometry_of(fleet_model(f), type);
        if (!fleet_view_is_selected(f, v, d, s, loose))
            continue;
        uint8_t slot = g ? fleet_view_slot_of(g, v, members->members[i]) : FLEET_NO_SLOT;
        uint16_t part = partition_part(v, d);
        *ret_slots |= slot == FLEET_NO_SLOT ? 0 : UINT64_C(1) << slot;
        least = least && least < part ? least : part;
    }
    return least;
}

static uint16_t unit_part(struct fleet *f, const struct alloc_view *v, uint8_t type,
                          const struct spec *s, uint64_t *ret_slots, bool *loose)
{
    for (uint32_t i = 0; i < v->devices_len; i++) {
        const struct vw_device *d = &v->devices[i];
        if (worth_type(fleet_model(f), d->cl->kind, family_hash(d)) != type)
            continue;
        if (d->counters_len)
            return slots_part(f, v, v->ranks[i].set, s, ret_slots, loose);
        if (fleet_view_is_selected(f, v, d, s, loose))
            return d->shared ? shared_part(v, d, s, loose) : WORTH_WHOLE;
    }
    return 0;
}

uint16_t fleet_units_part(struct fleet *f, const struct alloc_view *view, uint8_t type,
                          const struct api_device_request *r, uint64_t *ret_slots, bool *loose)
{
    *ret_slots = 0;
    if (r->exactly) {
        const struct api_exact_device_request *e = r->exactly;
        struct spec s = {e->device_class_name, &e->selectors, e->capacity};
        return unit_part(f, view, type, &s, ret_slots, loose);
    }
    *loose = true;
    for (size_t i = 0; i < r->first_available.n; i++) {
        const struct api_device_sub_request *e = &r->first_available.p[i];
        struct spec s = {e->device_class_name, &e->selectors, e->capacity};
        uint16_t part = unit_part(f, view, type, &s, ret_slots, loose);
        if (part)
            return part;
    }
    return 0;
}
