// SPDX-License-Identifier: Apache-2.0
//
// The closest of some names by edit distance, for "did you mean".
#include "base/nearest.h"

#include <stdint.h>

#include "base/banned.h"

#define NAME_MAX_BYTES 128

static size_t nearest_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t nearest_distance(struct str a, struct str b)
{
    size_t rows[3][NAME_MAX_BYTES + 1];
    if (a.n > NAME_MAX_BYTES || b.n > NAME_MAX_BYTES)
        return SIZE_MAX;
    size_t *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= b.n; j++)
        last[j] = j;
    for (size_t i = 1; i <= a.n; i++) {
        now[0] = i;
        for (size_t j = 1; j <= b.n; j++) {
            bool same = a.p[i - 1] == b.p[j - 1];
            now[j] =
                nearest_min(nearest_min(last[j], now[j - 1]) + 1, last[j - 1] + (same ? 0 : 1));
            if (i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1])
                now[j] = nearest_min(now[j], before[j - 2] + 1);
        }
        size_t *spare = before;
        before = last;
        last = now;
        now = spare;
    }
    return last[b.n];
}

void nearest_try(struct nearest *n, struct str name)
{
    size_t d = nearest_distance(n->word, name);
    size_t letters = name.n < n->word.n ? n->word.n : name.n;
    bool begun = n->word.n >= 3 && str_starts(name, n->word);
    bool near = begun || d <= (letters < 6 ? 1 : letters / 3);
    if (begun)
        d = nearest_min(d, 1);
    if (!near || (n->best.n && d >= n->distance))
        return;
    n->best = name;
    n->distance = d;
}
