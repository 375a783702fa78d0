// SPDX-License-Identifier: Apache-2.0
//
// Column generation: a revised simplex whose columns are ways to cut one device, found by a
// knapsack over the current duals. The start is one pattern a size, as many of it as fit.
#include "alloc/fleet/worth_price.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

#define ROUNDS_MAX 600
#define TINY       1e-9

// A little for the size itself, so that of two parts with one price the smaller is cheaper.
#define SIZE_SHARE 0.05

struct cutting {
    size_t m;
    uint32_t size[WORTH_SIZES];
    double wanted[WORTH_SIZES];
    double inverse[WORTH_SIZES][WORTH_SIZES]; // of the basis
    double used[WORTH_SIZES];                 // how often each pattern of the basis is cut
    double dual[WORTH_SIZES];
    double column[WORTH_SIZES]; // the pattern that enters
    double step[WORTH_SIZES];   // it, seen from the basis
    double best[WORTH_WHOLE + 1];
    int16_t taken[WORTH_WHOLE + 1]; // size that makes best, -1: what one less makes
};

static void worth_price_gather(struct cutting *c, const double demand[WORTH_WHOLE + 1])
{
    uint32_t grid = 1;
    size_t sizes = 0;
    for (uint32_t s = 1; s < WORTH_WHOLE; s++)
        sizes += demand[s] > 0;
    if (sizes > WORTH_SIZES)
        grid = WORTH_WHOLE / WORTH_SIZES + 1;
    for (uint32_t s = 1; s < WORTH_WHOLE; s++) {
        uint32_t rounded = (s + grid - 1) / grid * grid;
        if (demand[s] <= 0 || rounded >= WORTH_WHOLE)
            continue;
        if (c->m == 0 || c->size[c->m - 1] != rounded)
            c->size[c->m++] = rounded;
        c->wanted[c->m - 1] += demand[s];
    }
}

static void worth_price_begin(struct cutting *c)
{
    for (size_t i = 0; i < c->m; i++) {
        uint32_t times = WORTH_WHOLE / c->size[i];
        double fit = times;
        c->inverse[i][i] = 1 / fit;
        c->used[i] = c->wanted[i] / fit;
    }
}

static void set_duals(struct cutting *c)
{
    for (size_t k = 0; k < c->m; k++) {
        double sum = 0;
        for (size_t i = 0; i < c->m; i++)
            sum += c->inverse[i][k];
        c->dual[k] = sum;
    }
}

// The pattern of the greatest value at the present duals. False: none is worth more than a device.
static bool find_pattern(struct cutting *c)
{
    c->best[0] = 0;
    for (uint32_t room = 1; room <= WORTH_WHOLE; room++) {
        c->best[room] = c->best[room - 1];
        c->taken[room] = -1;
        for (size_t i = 0; i < c->m && c->size[i] <= room; i++) {
            double with = c->best[room - c->size[i]] + c->dual[i];
            if (with > c->best[room] + 1e-12) {
                c->best[room] = with;
                c->taken[room] = (int16_t)i;
            }
        }
    }
    if (c->best[WORTH_WHOLE] <= 1 + TINY)
        return false;
    memset(c->column, 0, sizeof(c->column));
    for (uint32_t room = WORTH_WHOLE; room > 0;) {
        int16_t i = c->taken[room];
        if (i >= 0)
            c->column[i] += 1;
        room -= i >= 0 ? c->size[i] : 1;
    }
    return true;
}

// Puts the pattern into the basis, in place of the one that runs out first. False: none does.
static bool worth_price_pivot(struct cutting *c)
{
    size_t out = SIZE_MAX;
    double least = 0;
    for (size_t i = 0; i < c->m; i++) {
        double sum = 0;
        for (size_t k = 0; k < c->m; k++)
            sum += c->inverse[i][k] * c->column[k];
        c->step[i] = sum;
        if (sum > TINY && (out == SIZE_MAX || c->used[i] / sum < least)) {
            least = c->used[i] / sum;
            out = i;
        }
    }
    if (out == SIZE_MAX)
        return false;
    for (size_t k = 0; k < c->m; k++)
        c->inverse[out][k] /= c->step[out];
    for (size_t i = 0; i < c->m; i++) {
        double by = c->step[i];
        if (i == out || by == 0)
            continue;
        c->used[i] -= least * by;
        for (size_t k = 0; k < c->m; k++)
            c->inverse[i][k] -= by * c->inverse[out][k];
    }
    c->used[out] = least;
    return true;
}

// What is left of a device is worth the best that can be cut from it.
static void set_values(const struct cutting *c, struct worth_prices *ret)
{
    for (uint32_t room = 1; room <= WORTH_WHOLE; room++) {
        double best = ret->value[room - 1];
        for (size_t i = 0; i < c->m && c->size[i] <= room; i++) {
            double with = ret->value[room - c->size[i]] + ret->price[c->size[i]];
            best = with > best ? with : best;
        }
        ret->value[room] = best;
    }
    if (ret->value[WORTH_WHOLE] < ret->price[WORTH_WHOLE])
        ret->value[WORTH_WHOLE] = ret->price[WORTH_WHOLE];
    for (uint32_t s = 1; s < WORTH_WHOLE; s++)
        if (ret->price[s] == 0)
            ret->price[s] = ret->value[s]; // not requested so far
}

void worth_price(const double demand[WORTH_WHOLE + 1], struct worth_prices *ret)
{
    struct cutting *c = xcalloc(1, sizeof(*c));
    *ret = (struct worth_prices){0};
    worth_price_gather(c, demand);
    if (c->m == 0) {
        for (uint32_t s = 1; s <= WORTH_WHOLE; s++)
            ret->price[s] = ret->value[s] = (1 + SIZE_SHARE) * s / WORTH_WHOLE;
        free(c);
        return;
    }
    worth_price_begin(c);
    for (int round = 0; round < ROUNDS_MAX; round++) {
        set_duals(c);
        if (!find_pattern(c) || !worth_price_pivot(c))
            break;
    }
    // When rounds run out, duals that are too high by one factor are prices still (Farley's bound).
    double high = c->best[WORTH_WHOLE] > 1 ? c->best[WORTH_WHOLE] : 1;
    for (size_t i = 0; i < c->m; i++)
        ret->price[c->size[i]] = c->dual[i] / high + SIZE_SHARE * c->size[i] / WORTH_WHOLE;
    ret->price[WORTH_WHOLE] = 1 + SIZE_SHARE;
    set_values(c, ret);
    free(c);
}
