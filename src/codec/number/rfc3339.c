// SPDX-License-Identifier: Apache-2.0
//
// Times as RFC 3339 texts: what Go reads is read, and UTC is written.
#include "codec/rfc3339.h"

#include "base/civil.h"

#include "base/banned.h"

#define SECONDS_PER_DAY INT64_C(86400)
#define NS_PER_SEC      INT64_C(1000000000)

static int rfc3339_fail(struct str text, const char *why, struct err *err)
{
    return err_set(err, ERR_INVALID,
                   "cannot read \"%.*s\" as a time: %s (want the form 2006-01-02T15:04:05Z)",
                   (int)(text.n < 80 ? text.n : 80), text.p ? text.p : "", why);
}

// Reads exactly n digits at *at.
static bool rfc3339_take_number(struct str s, size_t *at, size_t n, int *ret)
{
    int v = 0;
    if (s.n - *at < n)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = s.p[*at + i];
        if (c < '0' || c > '9')
            return false;
        v = v * 10 + (c - '0');
    }
    *at += n;
    *ret = v;
    return true;
}

static bool rfc3339_take_char(struct str s, size_t *at, char c)
{
    if (*at >= s.n || s.p[*at] != c)
        return false;
    ++*at;
    return true;
}

// An optional fraction behind '.' or ','; at least one digit, nine count.
static bool take_fraction(struct str s, size_t *at, int32_t *ret)
{
    *ret = 0;
    if (*at >= s.n || (s.p[*at] != '.' && s.p[*at] != ','))
        return true;
    size_t from = ++*at;
    int32_t unit = (int32_t)(NS_PER_SEC / 10);
    for (; *at < s.n && s.p[*at] >= '0' && s.p[*at] <= '9'; ++*at, unit /= 10)
        *ret += unit * (s.p[*at] - '0');
    return *at > from;
}

// Z or +hh:mm or -hh:mm, in seconds east of UTC.
static bool take_offset(struct str s, size_t *at, int *ret)
{
    int hours, minutes;
    *ret = 0;
    if (rfc3339_take_char(s, at, 'Z'))
        return true;
    bool west = rfc3339_take_char(s, at, '-');
    if (!west && !rfc3339_take_char(s, at, '+'))
        return false;
    if (!rfc3339_take_number(s, at, 2, &hours) || !rfc3339_take_char(s, at, ':') ||
        !rfc3339_take_number(s, at, 2, &minutes))
        return false;
    if (hours > 24 || minutes > 60) // Go's bounds
        return false;
    *ret = (west ? -1 : 1) * (hours * 3600 + minutes * 60);
    return true;
}

int rfc3339_parse(struct str text, struct moment *ret, struct err *err)
{
    int year, month, day, hour, minute, second, offset;
    int32_t nsec;
    size_t at = 0;
    if (!rfc3339_take_number(text, &at, 4, &year) || !rfc3339_take_char(text, &at, '-') ||
        !rfc3339_take_number(text, &at, 2, &month) || !rfc3339_take_char(text, &at, '-') ||
        !rfc3339_take_number(text, &at, 2, &day))
        return rfc3339_fail(text, "no date in front", err);
    if (!rfc3339_take_char(text, &at, 'T'))
        return rfc3339_fail(text, "no T behind the date", err);
    if (!rfc3339_take_number(text, &at, 2, &hour) || !rfc3339_take_char(text, &at, ':') ||
        !rfc3339_take_number(text, &at, 2, &minute) || !rfc3339_take_char(text, &at, ':') ||
        !rfc3339_take_number(text, &at, 2, &second) || !take_fraction(text, &at, &nsec))
        return rfc3339_fail(text, "no time of day behind the T", err);
    if (!take_offset(text, &at, &offset) || at != text.n)
        return rfc3339_fail(text, "no Z or offset at the end", err);
    struct civil_date date = {year, month, day};
    if (!civil_valid(date))
        return rfc3339_fail(text, "there is no such day", err);
    if (hour > 23 || minute > 59 || second > 59)
        return rfc3339_fail(text, "there is no such time of day", err);
    ret->sec = civil_to_days(date) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second - offset;
    ret->nsec = nsec;
    return 0;
}

// Every object shows a time or more: digit by digit it is a tenth of the work of printf.
static void put_digits(char *at, size_t n, unsigned value)
{
    for (size_t i = n; i > 0; i--, value /= 10)
        at[i - 1] = (char)('0' + value % 10);
}

static void write_to_seconds(struct moment m, struct sbuf *out)
{
    int64_t days = m.sec / SECONDS_PER_DAY - (m.sec % SECONDS_PER_DAY < 0);
    int in_day = (int)(m.sec - days * SECONDS_PER_DAY);
    struct civil_date d = civil_from_days(days);
    if (d.year < 0 || d.year > 9999) { // an offset has pushed it out of the calendar
        sbuf_addf(out, "%04lld-%02d-%02dT%02d:%02d:%02d", (long long)d.year, d.month, d.day,
                  in_day / 3600, in_day / 60 % 60, in_day % 60);
        return;
    }
    char text[] = "0000-00-00T00:00:00";
    put_digits(text, 4, (unsigned)d.year);
    put_digits(text + 5, 2, (unsigned)d.month);
    put_digits(text + 8, 2, (unsigned)d.day);
    put_digits(text + 11, 2, (unsigned)in_day / 3600);
    put_digits(text + 14, 2, (unsigned)in_day / 60 % 60);
    put_digits(text + 17, 2, (unsigned)in_day % 60);
    sbuf_add(out, str_make(text, sizeof(text) - 1));
}

void rfc3339_write_seconds(struct moment m, struct sbuf *out)
{
    write_to_seconds(m, out);
    sbuf_addc(out, 'Z');
}

void rfc3339_write_micros(struct moment m, struct sbuf *out)
{
    write_to_seconds(m, out);
    sbuf_addf(out, ".%06dZ", (int)(m.nsec / 1000));
}

void rfc3339_write_nanos(struct moment m, struct sbuf *out)
{
    write_to_seconds(m, out);
    if (m.nsec) {
        sbuf_addf(out, ".%09d", (int)m.nsec);
        while (out->p[out->n - 1] == '0')
            sbuf_truncate(out, out->n - 1);
    }
    sbuf_addc(out, 'Z');
}

struct moment moment_from_ns(int64_t ns)
{
    int64_t sec = ns / NS_PER_SEC - (ns % NS_PER_SEC < 0);
    return (struct moment){sec, (int32_t)(ns - sec * NS_PER_SEC)};
}

int moment_cmp(struct moment a, struct moment b)
{
    if (a.sec != b.sec)
        return a.sec < b.sec ? -1 : 1;
    return (a.nsec > b.nsec) - (a.nsec < b.nsec);
}
