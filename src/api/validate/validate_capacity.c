// SPDX-License-Identifier: Apache-2.0
//
// The request policy of a consumable capacity: which amounts a request may name.
#include "api/validate/validate_int.h"
#include "codec/bigint.h"

#include "base/banned.h"

#define VALID_VALUES_MAX 10

static void bad_quantity(struct validator *v, const struct path *at, const struct quantity *q,
                         struct str detail)
{
    cause_invalid(v->causes, at, validate_quantity_text(q, scratch(v)), detail);
}

// "what: limit"
static void bad_bound(struct validator *v, const struct path *at, const struct quantity *q,
                      const char *what, const struct quantity *limit)
{
    bad_quantity(v, at, q,
                 arena_strf(scratch(v), "%s: %.*s", what,
                            STR_ARG(validate_quantity_text(limit, scratch(v)))));
}

// --- A list of values ----------------------------------------------------------------------------

// The number written out in full, with as many decimal places as it was given with: 1.5 and 1500m
// differ in that.
static void capacity_write_number(const struct quantity *q, struct sbuf *out)
{
    cleanup_sbuf struct sbuf digits = {0};
    if (q->big)
        bigint_write(q->big, &digits);
    else
        sbuf_add_i64(&digits, q->value);
    bool negative = digits.p[0] == '-';
    struct str d = str_from(sbuf_str(&digits), negative);
    if (negative)
        sbuf_addc(out, '-');
    if (q->scale >= 0) {
        sbuf_add(out, d);
        if (quantity_sign(q) != 0)
            sbuf_add_repeat(out, '0', (size_t)q->scale);
        return;
    }
    size_t places = (size_t) - (int64_t)q->scale;
    size_t whole = d.n > places ? d.n - places : 0;
    sbuf_add(out, whole ? str_upto(d, whole) : STR("0"));
    sbuf_addc(out, '.');
    sbuf_add_repeat(out, '0', places - (d.n - whole));
    sbuf_add(out, str_from(d, whole));
}

// Two values count as the same by their whole numbers, or with fractions allowed as they are
// written out in full.
static struct str value_key(struct validator *v, const struct quantity *q)
{
    if (!gate(v, FEATURE_DRA_FRACTIONAL_CAPACITY_RANGE))
        return arena_strf(scratch(v), "%lld", (long long)quantity_value(q));
    cleanup_sbuf struct sbuf b = {0};
    capacity_write_number(q, &b);
    return arena_str(scratch(v), sbuf_str(&b));
}

static void check_repeats(struct validator *v, const struct path *at,
                          const struct api_quantity_array *values)
{
    struct str keys[VALID_VALUES_MAX];
    for (size_t i = 0; i < values->n; i++) {
        keys[i] = value_key(v, &values->p[i]);
        struct api_str_array before = {keys, i};
        if (api_str_listed(&before, keys[i]))
            cause_duplicate(v->causes, AT_ITEM(at, i), keys[i]);
    }
}

static void validate_capacity_values(struct validator *v, const struct path *at,
                                     const struct api_device_capacity *capacity)
{
    const struct api_capacity_request_policy *policy = capacity->request_policy;
    const struct api_quantity_array *values = &policy->valid_values;
    bool found = false;
    for (size_t i = 1; i < values->n; i++) {
        if (quantity_cmp(&values->p[i - 1], &values->p[i]) > 0)
            bad_quantity(v, AT_ITEM(at, i), &values->p[i],
                         STR("values must be sorted in ascending order"));
    }
    if (validate_max_items(v, at, values->n, VALID_VALUES_MAX, OWN)) {
        for (size_t i = 0; i < values->n; i++) {
            if (quantity_cmp(&values->p[i], &capacity->value) > 0)
                bad_bound(v, AT_ITEM(at, i), &values->p[i], "option is larger than capacity value",
                          &capacity->value);
            found = found || quantity_cmp(&values->p[i], policy->default_value) == 0;
        }
        check_repeats(v, at, values);
    }
    if (!found)
        bad_quantity(v, at, policy->default_value,
                     STR("default value is not valid according to the requestPolicy"));
}

// --- A range -------------------------------------------------------------------------------------

struct range_check {
    struct validator *v;
    const struct path *at;
    const struct quantity *capacity, *fallback, *min, *max, *step;
    bool milli;
};

static const struct quantity *capacity_range_part(const struct range_check *r, size_t i,
                                                  struct str *ret_name)
{
    static const struct str names[] = {STR_INIT("default"), STR_INIT("min"), STR_INIT("max"),
                                       STR_INIT("step")};
    const struct quantity *parts[] = {r->fallback, r->min, r->max, r->step};
    *ret_name = names[i];
    return parts[i];
}

static void validate_capacity_bounds(const struct range_check *r)
{
    if (quantity_cmp(r->min, r->capacity) > 0)
        bad_bound(r->v, AT(r->at, "min"), r->min, "min is larger than capacity value", r->capacity);
    if (quantity_cmp(r->fallback, r->min) < 0)
        bad_bound(r->v, AT(r->at, "default"), r->fallback, "default is less than min", r->min);
    if (!r->max)
        return;
    if (quantity_cmp(r->min, r->max) > 0)
        bad_bound(r->v, AT(r->at, "max"), r->min, "min is larger than max", r->max);
    if (quantity_cmp(r->max, r->capacity) > 0)
        bad_bound(r->v, AT(r->at, "max"), r->max, "max is larger than capacity value", r->capacity);
    if (quantity_cmp(r->fallback, r->max) > 0)
        bad_bound(r->v, AT(r->at, "default"), r->fallback, "default is more than max", r->max);
}

static bool has_fraction(const struct quantity *q)
{
    return q && !quantity_is_whole_in(q, 0);
}

// Whether every part is exact and in range in thousandths.
static bool check_milli(const struct range_check *r)
{
    bool good = true;
    for (size_t i = 0; i < 4; i++) {
        struct str name;
        const struct quantity *q = capacity_range_part(r, i, &name);
        if (!q)
            continue;
        struct quantity milli = {.value = quantity_milli(q), .scale = -3, .format = q->format};
        if (quantity_cmp(q, &milli) != 0) {
            bad_quantity(r->v, AT_NAME(r->at, name), q,
                         STR("value cannot be represented as a milli value"));
            good = false;
        }
    }
    return good;
}

// Whether every part can be reckoned with as a 64-bit number.
static bool check_whole(const struct range_check *r)
{
    const struct quantity most = quantity_from_i64(INT64_MAX, QUANTITY_DECIMAL_SI);
    bool good = true;
    for (size_t i = 0; i < 4; i++) {
        struct str name;
        const struct quantity *q = capacity_range_part(r, i, &name);
        if (!q)
            continue;
        if (quantity_sign(q) < 0)
            bad_quantity(r->v, AT_NAME(r->at, name), q, STR("must be greater than or equal to 0"));
        else if (quantity_cmp(q, &most) > 0)
            bad_quantity(r->v, AT_NAME(r->at, name), q,
                         STR("must not be larger than 9223372036854775807"));
        else
            continue;
        good = false;
    }
    return good;
}

static void check_on_grid(const struct range_check *r, const struct path *at,
                          const struct quantity *value)
{
    int32_t scale = r->milli ? -3 : 0;
    // As upstream, in 64 bits that wrap; both ends are in range, so the distance is what it seems.
    uint64_t from = (uint64_t)quantity_scaled(r->min, scale);
    int64_t distance = (int64_t)((uint64_t)quantity_scaled(value, scale) - from);
    int64_t step = quantity_scaled(r->step, scale);
    if (step == -1 || distance % step == 0)
        return;
    bad_quantity(r->v, at, value,
                 arena_strf(scratch(r->v),
                            "value is not a multiple of a given step (%.*s) from (%.*s)",
                            STR_ARG(validate_quantity_text(r->step, scratch(r->v))),
                            STR_ARG(validate_quantity_text(r->min, scratch(r->v)))));
}

static void check_step(const struct range_check *r)
{
    const struct path *at = AT(r->at, "step");
    if (quantity_sign(r->step) <= 0) {
        bad_quantity(r->v, at, r->step, STR("must be greater than zero"));
        return;
    }
    struct quantity sum;
    quantity_add(&sum, r->min, r->step, scratch(r->v));
    if (quantity_cmp(&sum, r->capacity) > 0)
        bad_quantity(r->v, at, r->step,
                     arena_strf(scratch(r->v), "one step %.*s is larger than capacity value: %.*s",
                                STR_ARG(validate_quantity_text(&sum, scratch(r->v))),
                                STR_ARG(validate_quantity_text(r->capacity, scratch(r->v)))));
    if (!r->milli && !check_whole(r))
        return;
    check_on_grid(r, at, r->fallback);
    if (r->max)
        check_on_grid(r, at, r->max);
}

static void validate_capacity_range(struct validator *v, const struct path *at,
                                    const struct api_device_capacity *capacity)
{
    const struct api_capacity_request_policy_range *range = capacity->request_policy->valid_range;
    struct path min = path_field(at, STR("min"));
    if (!range->min) {
        cause_required(v->causes, &min, STR("required when validRange is defined"));
        return;
    }
    struct range_check r = {
        .v = v,
        .at = at,
        .capacity = &capacity->value,
        .fallback = capacity->request_policy->default_value,
        .min = range->min,
        .max = range->max,
        .step = range->step,
    };
    r.milli = gate(v, FEATURE_DRA_FRACTIONAL_CAPACITY_RANGE) &&
              (has_fraction(r.fallback) || has_fraction(r.min) || has_fraction(r.max) ||
               has_fraction(r.step));
    validate_capacity_bounds(&r);
    if (r.milli && !check_milli(&r))
        return;
    if (r.step)
        check_step(&r);
}

void validate_request_policy(struct validator *v, const struct path *at,
                             const struct api_device_capacity *capacity)
{
    const struct api_capacity_request_policy *policy = capacity->request_policy;
    if (policy->valid_values.n && policy->valid_range) {
        cause_forbidden(v->causes, at,
                        STR("exactly one policy can be specified, cannot specify \"validValues\" "
                            "and \"validRange\" at the same time"));
    } else if (policy->valid_values.n) {
        if (policy->default_value)
            validate_capacity_values(v, AT(at, "validValues"), capacity);
        else
            cause_required(v->causes, AT(at, "default"),
                           STR("required when validValues is defined"));
    } else if (policy->valid_range) {
        if (policy->default_value)
            validate_capacity_range(v, AT(at, "validRange"), capacity);
        else
            cause_required(v->causes, AT(at, "default"),
                           STR("required when validRange is defined"));
    }
}
