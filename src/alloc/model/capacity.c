// SPDX-License-Identifier: Apache-2.0
//
// What a request takes of a device's capacities: rounding by request policies, with upstream's
// arithmetic (whole numbers, or thousandths when fractional ranges are on).
#include <assert.h>

#include "alloc/search/solver_int.h"

#include "base/banned.h"

#define UNREPRESENTABLE "capacity request cannot be represented in the device's range arithmetic"

static bool exact_milli(const struct quantity *q, int64_t *ret)
{
    int64_t milli = quantity_milli(q);
    struct quantity back = quantity_from_i64(milli, q->format);
    back.scale = -3;
    *ret = milli;
    return quantity_cmp(q, &back) == 0;
}

static bool in_thousandths(const struct api_capacity_request_policy_range *r, bool fractional)
{
    int64_t m;
    if (!fractional || (r->min && !exact_milli(r->min, &m)) || (r->max && !exact_milli(r->max, &m)))
        return false;
    return !r->step || (exact_milli(r->step, &m) && m >= 1);
}

static struct quantity from_milli(int64_t milli, enum quantity_format format)
{
    struct quantity q = quantity_from_i64(milli % 1000 ? milli : milli / 1000, format);
    if (milli % 1000)
        q.scale = -3;
    return q;
}

static int capacity_refuse_request(const struct quantity *request, const char *fmt, struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    quantity_write(request, &text);
    return err_set(err, ERR_INVALID, "%s: %s%.*s %s", UNREPRESENTABLE, "request ",
                   STR_ARG(sbuf_str(&text)), fmt);
}

static int refuse_rounding(const struct quantity *request, const char *range, struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    quantity_write(request, &text);
    return err_set(err, ERR_INVALID, "%s: rounding request %.*s up to the next step passes %s",
                   UNREPRESENTABLE, STR_ARG(sbuf_str(&text)), range);
}

// min + n * step, the smallest that reaches request. False when it does not fit 64 bits.
static bool next_step(int64_t request, int64_t min, int64_t step, int64_t *ret)
{
    int64_t above;
    if (__builtin_sub_overflow(request, min, &above))
        return false;
    int64_t n = above / step + (above % step != 0);
    int64_t rounded;
    return !__builtin_mul_overflow(n, step, &rounded) && !__builtin_add_overflow(rounded, min, ret);
}

static int round_up_range(const struct quantity *request,
                          const struct api_capacity_request_policy_range *r, bool fractional,
                          struct quantity *ret, struct err *err)
{
    int64_t value;
    if (quantity_cmp(request, r->min) < 0) {
        *ret = *r->min;
        return 0;
    }
    if (!r->step) {
        *ret = *request;
        return 0;
    }
    if (quantity_value(r->step) == 0 || quantity_sign(r->step) <= 0)
        return err_set(err, ERR_INVALID, "validRange.step must be greater than zero");
    if (in_thousandths(r, fractional)) {
        int64_t wanted;
        if (!exact_milli(request, &wanted))
            return capacity_refuse_request(request, "is not a representable milli value", err);
        if (!next_step(wanted, quantity_milli(r->min), quantity_milli(r->step), &value))
            return refuse_rounding(request, "the milli-value range", err);
        *ret = from_milli(value, r->step->format);
        return 0;
    }
    struct quantity most = quantity_from_i64(INT64_MAX, QUANTITY_DECIMAL_SI);
    if (quantity_cmp(request, &most) > 0)
        return capacity_refuse_request(request, "exceeds MaxInt64", err);
    if (!next_step(quantity_value(request), quantity_value(r->min), quantity_value(r->step),
                   &value))
        return refuse_rounding(request, "MaxInt64", err);
    *ret = quantity_from_i64(value, r->step->format);
    return 0;
}

// capacity_amount is what one capacity yields for a request (NULL: unspecific). Returns 0, or
// -ERR_INVALID with upstream's text. arena holds digits of large numbers.
static int capacity_amount(const struct quantity *request,
                           const struct api_device_capacity *capacity, bool fractional,
                           struct arena *arena, struct quantity *ret, struct err *err)
{
    const struct api_capacity_request_policy *p = capacity->request_policy;
    (void)arena;
    if (!request) {
        *ret = p && p->default_value ? *p->default_value : capacity->value;
        return 0;
    }
    *ret = *request;
    if (!p)
        return 0;
    if (p->valid_range && p->valid_range->step && !p->valid_range->min)
        return err_set(err, ERR_INVALID, "validRange.step needs validRange.min");
    if (p->valid_range && p->valid_range->min)
        return round_up_range(request, p->valid_range, fractional, ret, err);
    for (size_t i = 0; i < p->valid_values.n; i++)
        if (quantity_cmp(request, &p->valid_values.p[i]) <= 0) {
            *ret = p->valid_values.p[i];
            break;
        }
    return 0;
}

static bool off_step(const struct quantity *value,
                     const struct api_capacity_request_policy_range *r, bool fractional)
{
    int64_t have;
    int64_t step;
    int64_t min;
    if (in_thousandths(r, fractional)) {
        if (!exact_milli(value, &have))
            return true;
        step = quantity_milli(r->step);
        min = quantity_milli(r->min);
    } else {
        have = quantity_value(value);
        step = quantity_value(r->step);
        min = quantity_value(r->min);
    }
    int64_t above;
    if (step <= 0 || __builtin_sub_overflow(have, min, &above))
        return true;
    return above % step != 0;
}

// Upstream compares two Go structs here: the same number written in another way is not the same.
static bool same_spelling(const struct quantity *a, const struct quantity *b)
{
    return !a->decimal && !b->decimal && a->value == b->value && a->scale == b->scale &&
           a->format == b->format;
}

// capacity_violates reports whether an amount breaks the capacity's policy.
static bool capacity_violates(const struct quantity *value,
                              const struct api_capacity_request_policy *p, bool fractional)
{
    if (!p || (p->default_value && same_spelling(value, p->default_value)))
        return false;
    if (p->valid_range) {
        const struct api_capacity_request_policy_range *r = p->valid_range;
        if (r->max && quantity_cmp(value, r->max) > 0)
            return true;
        return r->step && (!r->min || off_step(value, r, fractional));
    }
    for (size_t i = 0; i < p->valid_values.n; i++)
        if (quantity_cmp(value, &p->valid_values.p[i]) == 0)
            return false;
    return p->valid_values.n > 0;
}

static const struct quantity *capacity_find_request(const struct api_capacity_requirements *r,
                                                    struct str name)
{
    for (size_t i = 0; r && i < r->requests.n; i++)
        if (str_eq(r->requests.p[i].key, name))
            return &r->requests.p[i].value;
    return NULL;
}

static bool asks_unknown(const struct api_capacity_requirements *r,
                         const struct api_device_capacity_map *have)
{
    for (size_t i = 0; r && i < r->requests.n; i++) {
        size_t j = 0;
        while (j < have->n && !str_eq(have->p[j].key, r->requests.p[i].key))
            j++;
        if (j == have->n)
            return true;
    }
    return false;
}

enum need_state capacity_need(const struct api_device *device,
                              const struct api_capacity_requirements *request, bool fractional,
                              amount *ret_need, struct arena *arena, struct err *err)
{
    const struct api_device_capacity_map *have = &device->capacity;
    bool violated = false;
    if (asks_unknown(request, have))
        return NEED_SKIP;
    // Errors of any capacity come before what merely makes the device unfit.
    for (size_t i = 0; i < have->n; i++) {
        struct quantity q;
        const struct api_device_capacity *c = &have->p[i].value;
        int r = capacity_amount(capacity_find_request(request, have->p[i].key), c, fractional,
                                arena, &q, err);
        if (r == 0 && quantity_sign(&q) < 0)
            r = err_set(err, ERR_INVALID, "capacity value is negative");
        if (r < 0) {
            (void)err_wrap(err, "capacity \"%.*s\"", STR_ARG(have->p[i].key));
            return NEED_ERROR;
        }
        ret_need[i] = amount_from_quantity(&q);
        violated |= capacity_violates(&q, c->request_policy, fractional);
    }
    return violated ? NEED_SKIP : NEED_OK;
}

// --- The common cases without quantities ---------------------------------------------------------

#define NANO_PER_UNIT  INT64_C(1000000000)
#define NANO_PER_MILLI INT64_C(1000000)

// A number of units, -1 when it is negative, not whole or too large.
static int64_t in_units(const struct quantity *q, bool milli)
{
    int64_t n = milli ? quantity_milli(q) : quantity_value(q);
    struct quantity back = quantity_from_i64(n, q->format);
    back.scale = milli ? -3 : 0;
    return n >= 0 && quantity_cmp(q, &back) == 0 ? n : -1;
}

void capacity_rounding(struct vw_cap *c, bool fractional)
{
    const struct api_capacity_request_policy *p = c->api->value.request_policy;
    if (!p) {
        c->rounding = CAP_PLAIN;
        return;
    }
    const struct api_capacity_request_policy_range *r = p->valid_range;
    if (!r || !r->min)
        return;
    c->milli = in_thousandths(r, fractional);
    c->min = in_units(r->min, c->milli);
    c->max = r->max ? in_units(r->max, c->milli) : 0;
    c->step = r->step ? in_units(r->step, c->milli) : 0;
    if (c->min >= 0 && c->max >= 0 && c->step >= 0 && !(r->step && c->step == 0) &&
        !(r->max && c->max == 0))
        c->rounding = CAP_RANGE;
}

void capacity_asked(const struct api_capacity_requirements *r, struct asked_amount *ret)
{
    for (size_t i = 0; i < r->requests.n; i++) {
        const struct quantity *q = &r->requests.p[i].value;
        int64_t whole = -1;
        int64_t milli = -1;
        if (!q->big && q->scale >= 0 && q->scale <= 9 && q->value >= 0) {
            if (__builtin_mul_overflow(q->value, amount_powers[q->scale], &whole))
                whole = -1;
            if (__builtin_mul_overflow(q->value, amount_powers[q->scale + 3], &milli))
                milli = -1;
            ret[i] = (struct asked_amount){amount_from_quantity(q), whole, milli};
        } else {
            ret[i] = (struct asked_amount){amount_from_quantity(q), in_units(q, false),
                                           in_units(q, true)};
        }
    }
}

// False when quantities have to decide, also about whether the policy is violated.
static bool round_fast(const struct vw_cap *c, const struct asked_amount *a, amount *ret)
{
    if (c->rounding == CAP_PLAIN) {
        *ret = a->value;
        return a->value >= 0;
    }
    int64_t units = c->milli ? a->milli : a->whole;
    if (c->rounding != CAP_RANGE || units < 0)
        return false;
    if (units < c->min)
        units = c->min;
    else if (c->step && !next_step(units, c->min, c->step, &units))
        return false;
    if (c->max && units > c->max)
        return false;
    *ret = (amount)units * (c->milli ? NANO_PER_MILLI : NANO_PER_UNIT);
    return true;
}

static size_t asked_index(const struct api_capacity_requirements *r, struct str name)
{
    size_t i = 0;
    while (i < r->requests.n && !str_eq(r->requests.p[i].key, name))
        i++;
    return i;
}

static bool need_fast(const struct alloc_solver *s, struct capreq *c, const struct vw_device *d)
{
    size_t found = 0;
    for (uint32_t i = 0; i < d->caps_len; i++) {
        const struct vw_cap *cap = &s->view->caps[d->first_cap + i];
        size_t k = asked_index(c->api, cap->api->key);
        if (k == c->api->requests.n) {
            if (d->default_need != NEED_OK)
                return false;
            c->need[d->first_cap + i] = cap->default_need;
        } else if (!round_fast(cap, &c->asked[k], &c->need[d->first_cap + i])) {
            return false;
        } else {
            found++;
        }
    }
    return found == c->api->requests.n;
}

void capacity_taken(struct alloc_solver *s, const struct alternative *a, uint32_t cap,
                    struct quantity *ret)
{
    const struct vw_cap *c = &s->view->caps[cap];
    const struct api_capacity_request_policy *p = c->api->value.request_policy;
    const struct quantity *asked = capacity_find_request(a->capacity, c->api->key);
    amount need = need_amount(s, a, cap);
    int64_t unit = c->milli ? NANO_PER_MILLI : NANO_PER_UNIT;
    if (asked && c->rounding == CAP_RANGE && c->step && need > (amount)c->min * unit &&
        need <= (amount)INT64_MAX) {
        int64_t n = (int64_t)need / unit;
        bool parts = c->milli && n % 1000;
        ret->value = c->milli && !parts ? n / 1000 : n;
        ret->scale = parts ? -3 : 0;
        ret->format = p->valid_range->step->format;
        return;
    }
    int r =
        capacity_amount(asked, &c->api->value, s->view->cluster->features.fractional_capacity_range,
                        &s->arena, ret, NULL);
    assert(r == 0); // it was placed, so it has an amount
    (void)r;
}

// --- By device -----------------------------------------------------------------------------------

enum need_state capacity_need_of(struct alloc_solver *s, const struct alternative *a,
                                 uint32_t device)
{
    const struct vw_device *d = &s->view->devices[device];
    if (a->capreq == 0)
        return (enum need_state)d->default_need;
    struct capreq *c = &s->p.capreqs[a->capreq];
    if (c->state[device] == NEED_UNKNOWN && need_fast(s, c, d))
        c->state[device] = NEED_OK;
    if (c->state[device] == NEED_UNKNOWN)
        c->state[device] =
            (uint8_t)capacity_need(d->cl->api, c->api,
                                   s->view->cluster->features.fractional_capacity_range,
                                   c->need + d->first_cap, &s->arena, NULL);
    return (enum need_state)c->state[device];
}

void capacity_need_error(struct alloc_solver *s, const struct alternative *a, uint32_t device,
                         bool short_name)
{
    const struct vw_device *d = &s->view->devices[device];
    struct err err = {0};
    amount *need = arena_array(&s->arena, amount, d->caps_len + 1);
    cleanup_sbuf struct sbuf name = {0};
    cleanup_sbuf struct sbuf claim = {0};
    (void)capacity_need(d->cl->api, a->capacity,
                        s->view->cluster->features.fractional_capacity_range, need, &s->arena,
                        &err);
    if (short_name)
        sbuf_add(&name, d->cl->api->name);
    else
        solver_device_name(&name, d);
    solver_claim_name(&claim, s->p.claims[a->claim].api);
    solver_fail(s, "claim %.*s, request %.*s: checking capacity for device %.*s: %s",
                STR_ARG(sbuf_str(&claim)), STR_ARG(a->name), STR_ARG(sbuf_str(&name)), err.msg);
}
