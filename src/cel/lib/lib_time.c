// SPDX-License-Identifier: Apache-2.0
//
// Parts of timestamps and durations.
#include "base/civil.h"
#include "cel/lib/lib.h"

#include "base/banned.h"

struct broken_time {
    struct civil_date date;
    int64_t days;
    int64_t of_day; // seconds
    uint32_t nanos;
};

static bool break_time(struct cel_val t, int64_t offset, struct broken_time *ret)
{
    int64_t s = t.i + offset;
    ret->days = s / 86400;
    ret->of_day = s % 86400;
    if (ret->of_day < 0) {
        ret->of_day += 86400;
        ret->days--;
    }
    ret->date = civil_from_days(ret->days);
    ret->nanos = t.n;
    return true;
}

typedef int64_t (*part_fn)(const struct broken_time *t);

static int64_t part_year(const struct broken_time *t)
{
    return t->date.year;
}

static int64_t part_month(const struct broken_time *t)
{
    return t->date.month - 1;
}

static int64_t part_day_of_year(const struct broken_time *t)
{
    return t->days - civil_to_days((struct civil_date){t->date.year, 1, 1});
}

static int64_t part_day_of_month(const struct broken_time *t)
{
    return t->date.day - 1;
}

static int64_t part_date(const struct broken_time *t)
{
    return t->date.day;
}

static int64_t part_day_of_week(const struct broken_time *t)
{
    int64_t d = (t->days + 4) % 7; // 1970-01-01 was a Thursday
    return d < 0 ? d + 7 : d;
}

static int64_t part_hours(const struct broken_time *t)
{
    return t->of_day / 3600;
}

static int64_t part_minutes(const struct broken_time *t)
{
    return t->of_day / 60 % 60;
}

static int64_t part_seconds(const struct broken_time *t)
{
    return t->of_day % 60;
}

static int64_t part_millis(const struct broken_time *t)
{
    return t->nanos / 1000000;
}

static struct cel_val time_part(struct cel_run *run, const char *name, const struct cel_val *args,
                                unsigned n, part_fn part)
{
    if (args[0].kind != CEL_TIMESTAMP || n > 2 || (n == 2 && args[1].kind != CEL_STRING))
        return cel_run_mismatch(run, name, args, n);
    int64_t offset = 0;
    if (n == 2 && !cel_zone_offset(cel_str(args[1]), args[0].i, &offset))
        return cel_errorf(&run->arena, "unknown time zone %.*s", STR_ARG(cel_str(args[1])));
    struct broken_time t;
    (void)break_time(args[0], offset, &t);
    return cel_int(part(&t));
}

#define TIME_PART(fn, name, part)                                                         \
    static struct cel_val fn(struct cel_run *run, const struct cel_val *args, unsigned n) \
    {                                                                                     \
        return time_part(run, name, args, n, part);                                       \
    }

TIME_PART(fn_year, "getFullYear", part_year)
TIME_PART(fn_month, "getMonth", part_month)
TIME_PART(fn_day_of_year, "getDayOfYear", part_day_of_year)
TIME_PART(fn_day_of_month, "getDayOfMonth", part_day_of_month)
TIME_PART(fn_date, "getDate", part_date)
TIME_PART(fn_day_of_week, "getDayOfWeek", part_day_of_week)

// Hours, minutes, seconds and milliseconds also exist for durations: the whole of it in that unit.
#define CLOCK_PART(fn, name, part, unit)                                                  \
    static struct cel_val fn(struct cel_run *run, const struct cel_val *args, unsigned n) \
    {                                                                                     \
        if (args[0].kind == CEL_DURATION && n == 1)                                       \
            return cel_int(args[0].i / (unit));                                           \
        return time_part(run, name, args, n, part);                                       \
    }

CLOCK_PART(fn_hours, "getHours", part_hours, 3600000000000)
CLOCK_PART(fn_minutes, "getMinutes", part_minutes, 60000000000)
CLOCK_PART(fn_seconds, "getSeconds", part_seconds, 1000000000)
CLOCK_PART(fn_millis, "getMilliseconds", part_millis, 1000000)

static const struct cel_impl table[] = {
    {"getFullYear", fn_year},
    {"getMonth", fn_month},
    {"getDayOfYear", fn_day_of_year},
    {"getDayOfMonth", fn_day_of_month},
    {"getDate", fn_date},
    {"getDayOfWeek", fn_day_of_week},
    {"getHours", fn_hours},
    {"getMinutes", fn_minutes},
    {"getSeconds", fn_seconds},
    {"getMilliseconds", fn_millis},
};

CEL_IMPLS(time, table);
