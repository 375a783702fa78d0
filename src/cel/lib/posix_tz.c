// SPDX-License-Identifier: Apache-2.0
//
// POSIX TZ rules, with which a time zone file describes the years after its last transition.
#include "cel/lib/posix_tz.h"

#include <ctype.h>

#include "base/civil.h"

#include "base/banned.h"

struct cursor {
    struct str s;
    size_t at;
};

static int tz_peek_char(const struct cursor *c)
{
    return c->at < c->s.n ? (unsigned char)c->s.p[c->at] : -1;
}

static bool posix_tz_skip_name(struct cursor *c)
{
    size_t start = c->at;
    if (tz_peek_char(c) == '<') {
        while (tz_peek_char(c) >= 0 && tz_peek_char(c) != '>')
            c->at++;
        if (tz_peek_char(c) != '>')
            return false;
        c->at++;
        return true;
    }
    while (isalpha(tz_peek_char(c)))
        c->at++;
    return c->at - start >= 3;
}

static bool posix_tz_read_number(struct cursor *c, int64_t *ret)
{
    if (!isdigit(tz_peek_char(c)))
        return false;
    *ret = 0;
    while (isdigit(tz_peek_char(c)) && *ret < 100000)
        *ret = *ret * 10 + (c->s.p[c->at++] - '0');
    return true;
}

// [+-]h[h][:mm[:ss]] in seconds.
static bool clock_time(struct cursor *c, int64_t *ret)
{
    int64_t sign = 1;
    if (tz_peek_char(c) == '-' || tz_peek_char(c) == '+')
        sign = c->s.p[c->at++] == '-' ? -1 : 1;
    int64_t part;
    if (!posix_tz_read_number(c, &part))
        return false;
    *ret = part * 3600;
    for (int64_t unit = 60; unit >= 1 && tz_peek_char(c) == ':'; unit /= 60) {
        c->at++;
        if (!posix_tz_read_number(c, &part))
            return false;
        *ret += part * unit;
    }
    *ret *= sign;
    return true;
}

static int days_in_month(int64_t year, int month)
{
    int64_t from = civil_to_days((struct civil_date){year, month, 1});
    int64_t to = month == 12 ? civil_to_days((struct civil_date){year + 1, 1, 1})
                             : civil_to_days((struct civil_date){year, month + 1, 1});
    return (int)(to - from);
}

// A change in a year, in seconds since 1970 of local clock time.
static bool posix_tz_read_change(struct cursor *c, int64_t year, int64_t *ret)
{
    int64_t days = civil_to_days((struct civil_date){year, 1, 1});
    int64_t m;
    int64_t w;
    int64_t d;
    if (tz_peek_char(c) == 'M') {
        c->at++;
        if (!posix_tz_read_number(c, &m) || tz_peek_char(c) != '.' ||
            (c->at++, !posix_tz_read_number(c, &w)) || tz_peek_char(c) != '.' ||
            (c->at++, !posix_tz_read_number(c, &d)) || m < 1 || m > 12 || w < 1 || w > 5 || d > 6)
            return false;
        int64_t first = civil_to_days((struct civil_date){year, (int)m, 1});
        int64_t weekday = ((first + 4) % 7 + 7) % 7;
        int64_t day = (d - weekday + 7) % 7 + (w - 1) * 7;
        while (day >= days_in_month(year, (int)m))
            day -= 7;
        days = first + day;
    } else {
        bool julian = tz_peek_char(c) == 'J';
        if (julian)
            c->at++;
        if (!posix_tz_read_number(c, &d))
            return false;
        bool leap = days_in_month(year, 2) == 29;
        days += julian ? d - 1 + (leap && d > 59 ? 1 : 0) : d;
    }
    int64_t time = 2 * 3600;
    if (tz_peek_char(c) == '/') {
        c->at++;
        if (!clock_time(c, &time))
            return false;
    }
    *ret = days * 86400 + time;
    return true;
}

bool cel_posix_tz_offset(struct str rule, int64_t t, int64_t *ret)
{
    struct cursor c = {rule, 0};
    int64_t standard;
    if (!posix_tz_skip_name(&c) || !clock_time(&c, &standard))
        return false;
    standard = -standard;
    *ret = standard;
    if (tz_peek_char(&c) < 0)
        return true;
    if (!posix_tz_skip_name(&c))
        return false;
    int64_t summer = standard + 3600;
    if (tz_peek_char(&c) != ',' && tz_peek_char(&c) >= 0) {
        if (!clock_time(&c, &summer))
            return false;
        summer = -summer;
    }
    int64_t days = (t + standard) / 86400 - ((t + standard) % 86400 < 0 ? 1 : 0);
    int64_t year = civil_from_days(days).year;
    int64_t begin;
    int64_t end;
    if (tz_peek_char(&c) != ',' || (c.at++, !posix_tz_read_change(&c, year, &begin)) ||
        tz_peek_char(&c) != ',' || (c.at++, !posix_tz_read_change(&c, year, &end)))
        return false;
    begin -= standard;
    end -= summer;
    bool in_summer = begin < end ? t >= begin && t < end : t >= begin || t < end;
    *ret = in_summer ? summer : standard;
    return true;
}
