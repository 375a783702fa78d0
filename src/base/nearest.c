// SPDX-License-Identifier: Apache-2.0
#include "base/nearest.h"

#include <stdint.h>
#include <string.h>

#include "base/banned.h"

#define LETTERS_MAX 128

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

// One row of the table of distances between all beginnings of a and of b.
struct row {
    size_t at[LETTERS_MAX + 1];
};

size_t nearest_distance(struct str a, struct str b)
{
    struct row two_up, up, row;
    if (a.n > LETTERS_MAX || b.n > LETTERS_MAX)
        return SIZE_MAX;
    for (size_t k = 0; k <= b.n; k++)
        up.at[k] = k;
    two_up = up;
    for (size_t i = 1; i <= a.n; i++) {
        row.at[0] = i;
        for (size_t k = 1; k <= b.n; k++) {
            size_t changed = up.at[k - 1] + (a.p[i - 1] != b.p[k - 1]);
            row.at[k] = min3(up.at[k] + 1, row.at[k - 1] + 1, changed);
            bool swapped = i > 1 && k > 1 && a.p[i - 1] == b.p[k - 2] && a.p[i - 2] == b.p[k - 1];
            if (swapped && two_up.at[k - 2] + 1 < row.at[k])
                row.at[k] = two_up.at[k - 2] + 1;
        }
        two_up = up;
        up = row;
    }
    return up.at[b.n];
}

void nearest_try(struct nearest *n, struct str name)
{
    size_t distance = nearest_distance(n->word, name);
    size_t letters = n->word.n > name.n ? n->word.n : name.n;
    bool begun = n->word.n > 2 && str_starts(name, n->word);
    if (distance > (letters < 6 ? 1 : letters / 3) && !begun)
        return;
    if (n->best.n && distance >= n->distance)
        return;
    n->best = name;
    n->distance = distance;
}
