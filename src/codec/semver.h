// SPDX-License-Identifier: Apache-2.0
//
// Semantic versions 2.0.0, strict: three numbers without leading zeroes, optional pre-release and
// build. Numbers are 64 bits unsigned. Parsing keeps slices of the text: nothing is allocated and
// the text must outlive the version.
#ifndef CODEC_SEMVER_H
#define CODEC_SEMVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct semver {
    uint64_t major;
    uint64_t minor;
    uint64_t patch;
    struct str pre;   // behind '-', without it; empty when absent
    struct str build; // behind '+', without it; ignored by comparison
};

// semver_parse reads the whole of text. Returns 0 or -ERR_INVALID with the message of upstream's
// semver package.
int semver_parse(struct str text, struct semver *ret, struct err *err) MUST_USE;

// semver_normalize writes text as upstream's tolerant reading does (a leading 'v' dropped, missing
// minor and patch added, leading zeroes dropped) into out; the result need not be valid.
void semver_normalize(struct str text, struct sbuf *out);

// semver_cmp orders by precedence; build is ignored: <0, 0, >0.
int semver_cmp(const struct semver *a, const struct semver *b);

void semver_write(const struct semver *v, struct sbuf *out);

#endif
