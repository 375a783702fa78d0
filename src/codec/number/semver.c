// SPDX-License-Identifier: Apache-2.0
//
// Semantic versions: the strict reading with the errors of github.com/blang/semver, and the
// tolerant reading of the CEL library.
#include "codec/semver.h"

#include <stdio.h>

#include "base/banned.h"

static bool semver_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool all_digits(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!semver_is_digit(s.p[i]))
            return false;
    return true;
}

static bool all_identifier(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (!semver_is_digit(c) && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && c != '-')
            return false;
    }
    return true;
}

static bool semver_has_leading_zero(struct str s)
{
    return s.n > 1 && s.p[0] == '0';
}

// "PREFIX QUOTED" as the error.
static int semver_fail(struct err *err, const char *prefix, struct str what)
{
    cleanup_sbuf struct sbuf quoted = {0};
    sbuf_add_quoted(&quoted, what);
    return err_set(err, ERR_INVALID, "%s %s", prefix, quoted.p);
}

static int parse_digits(struct str s, uint64_t *ret, struct err *err)
{
    int r = str_to_u64(s, ret);
    if (r == 0)
        return 0;
    cleanup_sbuf struct sbuf quoted = {0};
    sbuf_add_quoted(&quoted, s);
    return err_set(err, ERR_INVALID, "strconv.ParseUint: parsing %s: %s", quoted.p,
                   r == -ERANGE ? "value out of range" : "invalid syntax");
}

static int semver_parse_number(struct str s, const char *name, const char *title, uint64_t *ret,
                               struct err *err)
{
    char prefix[80];
    if (!all_digits(s)) {
        (void)snprintf(prefix, sizeof(prefix), "Invalid character(s) found in %s number", name);
        return semver_fail(err, prefix, s);
    }
    if (semver_has_leading_zero(s)) {
        (void)snprintf(prefix, sizeof(prefix), "%s number must not contain leading zeroes", title);
        return semver_fail(err, prefix, s);
    }
    return parse_digits(s, ret, err);
}

static int check_pre_part(struct str part, struct err *err)
{
    if (part.n == 0)
        return err_set(err, ERR_INVALID, "Prerelease is empty");
    if (!all_digits(part))
        return all_identifier(part)
                   ? 0
                   : semver_fail(err, "Invalid character(s) found in prerelease", part);
    if (semver_has_leading_zero(part))
        return semver_fail(err, "Numeric PreRelease version must not contain leading zeroes", part);
    uint64_t ignored;
    return parse_digits(part, &ignored, err);
}

static int check_build_part(struct str part, struct err *err)
{
    if (part.n == 0)
        return err_set(err, ERR_INVALID, "Build meta data is empty");
    if (!all_identifier(part))
        return semver_fail(err, "Invalid character(s) found in build meta data", part);
    return 0;
}

// Runs check over the dot-separated parts of s; an empty s has one empty part.
static int semver_each_part(struct str s, int (*check)(struct str part, struct err *err),
                            struct err *err)
{
    for (bool more = true; more;) {
        struct str part;
        more = str_cut(s, '.', &part, &s);
        int r = check(part, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int semver_parse(struct str text, struct semver *ret, struct err *err)
{
    struct semver v = {0};
    struct str major, minor, patch, rest;
    if (text.n == 0)
        return err_set(err, ERR_INVALID, "Version string empty");
    if (!str_cut(text, '.', &major, &rest) || !str_cut(rest, '.', &minor, &patch))
        return err_set(err, ERR_INVALID, "No Major.Minor.Patch elements found");
    bool has_build = str_cut(patch, '+', &patch, &v.build);
    bool has_pre = str_cut(patch, '-', &patch, &v.pre);
    int r = semver_parse_number(major, "major", "Major", &v.major, err);
    if (r == 0)
        r = semver_parse_number(minor, "minor", "Minor", &v.minor, err);
    if (r == 0)
        r = semver_parse_number(patch, "patch", "Patch", &v.patch, err);
    if (r == 0 && has_pre)
        r = semver_each_part(v.pre, check_pre_part, err);
    if (r == 0 && has_build)
        r = semver_each_part(v.build, check_build_part, err);
    if (r == 0)
        *ret = v;
    return r;
}

// Drops leading zeroes but leaves a part that starts with a digit.
static void add_without_zeroes(struct str part, struct sbuf *out)
{
    if (part.n > 1) {
        while (part.n && part.p[0] == '0')
            part = str_from(part, 1);
        if (part.n == 0 || !semver_is_digit(part.p[0]))
            sbuf_addc(out, '0');
    }
    sbuf_add(out, part);
}

int semver_parse_tolerant(struct str text, struct arena *arena, struct semver *ret, struct err *err)
{
    if (str_starts(text, STR("v")))
        text = str_from(text, 1);
    struct str parts[3] = {0};
    size_t n = 1;
    parts[0] = text;
    while (n < 3 && str_cut(parts[n - 1], '.', &parts[n - 1], &parts[n]))
        n++;
    const struct str last = parts[n - 1];
    if (n < 3 && (str_find_char(last, '+') >= 0 || str_find_char(last, '-') >= 0))
        return err_set(err, ERR_INVALID, "short version cannot contain PreRelease/Build meta data");
    cleanup_sbuf struct sbuf normal = {0};
    for (size_t i = 0; i < 3; i++) {
        if (i > 0)
            sbuf_addc(&normal, '.');
        if (i < n)
            add_without_zeroes(parts[i], &normal);
        else
            sbuf_addc(&normal, '0');
    }
    return semver_parse(arena_str(arena, sbuf_str(&normal)), ret, err);
}

static int cmp_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

// Numbers sort before names; numbers by value, names by bytes. Leading zeroes are not allowed in
// numbers, so the longer one is the larger.
static int cmp_identifier(struct str a, struct str b)
{
    bool a_number = all_digits(a), b_number = all_digits(b);
    if (a_number != b_number)
        return a_number ? -1 : 1;
    if (a_number && a.n != b.n)
        return cmp_u64(a.n, b.n);
    int c = str_cmp(a, b);
    return (c > 0) - (c < 0);
}

static int cmp_pre(struct str a, struct str b)
{
    if (a.n == 0 || b.n == 0) // a version without pre-release is the higher one
        return (a.n == 0) - (b.n == 0);
    for (;;) {
        struct str part_a, part_b;
        bool more_a = str_cut(a, '.', &part_a, &a);
        bool more_b = str_cut(b, '.', &part_b, &b);
        int c = cmp_identifier(part_a, part_b);
        if (c != 0)
            return c;
        if (!more_a || !more_b)
            return (int)more_a - (int)more_b;
    }
}

int semver_cmp(const struct semver *a, const struct semver *b)
{
    int c = cmp_u64(a->major, b->major);
    if (c == 0)
        c = cmp_u64(a->minor, b->minor);
    if (c == 0)
        c = cmp_u64(a->patch, b->patch);
    return c ? c : cmp_pre(a->pre, b->pre);
}

void semver_write(const struct semver *v, struct sbuf *out)
{
    sbuf_add_u64(out, v->major);
    sbuf_addc(out, '.');
    sbuf_add_u64(out, v->minor);
    sbuf_addc(out, '.');
    sbuf_add_u64(out, v->patch);
    if (v->pre.n) {
        sbuf_addc(out, '-');
        sbuf_add(out, v->pre);
    }
    if (v->build.n) {
        sbuf_addc(out, '+');
        sbuf_add(out, v->build);
    }
}
