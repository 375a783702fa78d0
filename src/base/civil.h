// SPDX-License-Identifier: Apache-2.0
//
// The proleptic Gregorian calendar, without time zones and without libc's.
#ifndef BASE_CIVIL_H
#define BASE_CIVIL_H

#include <stdbool.h>
#include <stdint.h>

struct civil_date {
    int64_t year;
    int month; // 1..12
    int day;   // 1..31
};

// civil_from_days turns days since 1970-01-01 into a date; civil_to_days is its inverse.
struct civil_date civil_from_days(int64_t days);
int64_t civil_to_days(struct civil_date date);

// civil_valid reports whether such a day exists.
bool civil_valid(struct civil_date date);

#endif
