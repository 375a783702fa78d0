// SPDX-License-Identifier: Apache-2.0
//
// The year is taken to begin in March, so that the leap day comes last and the lengths of the
// months before it form a straight line. Eras are 400 years, after which the calendar repeats.
#include "base/civil.h"

#include "base/banned.h"

#define DAYS_PER_ERA    146097
#define EPOCH_FROM_ZERO 719468 // days from 0000-03-01 to 1970-01-01

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

struct civil_date civil_from_days(int64_t days)
{
    days += EPOCH_FROM_ZERO;
    int64_t era = floor_div(days, DAYS_PER_ERA);
    int64_t day_of_era = days - era * DAYS_PER_ERA;
    int64_t leap_days = day_of_era / 1460 - day_of_era / 36524 + day_of_era / 146096;
    int64_t year_of_era = (day_of_era - leap_days) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t from_march = (5 * day_of_year + 2) / 153;
    struct civil_date d;
    d.day = (int)(day_of_year - (153 * from_march + 2) / 5 + 1);
    d.month = (int)(from_march < 10 ? from_march + 3 : from_march - 9);
    d.year = year_of_era + era * 400 + (d.month <= 2);
    return d;
}

int64_t civil_to_days(struct civil_date date)
{
    int64_t year = date.year - (date.month <= 2);
    int64_t era = floor_div(year, 400);
    int64_t year_of_era = year - era * 400;
    int64_t from_march = date.month > 2 ? date.month - 3 : date.month + 9;
    int64_t day_of_year = (153 * from_march + 2) / 5 + date.day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * DAYS_PER_ERA + day_of_era - EPOCH_FROM_ZERO;
}

bool civil_valid(struct civil_date date)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (date.month < 1 || date.month > 12 || date.day < 1)
        return false;
    bool leap = (date.year % 4 == 0 && date.year % 100 != 0) || date.year % 400 == 0;
    return date.day <= lengths[date.month - 1] + (date.month == 2 && leap);
}
