// SPDX-License-Identifier: Apache-2.0
//
// Functions that are easy to misuse become compile errors. Every .c file includes this last.
// Use instead: sbuf_addf or snprintf for the printing ones, str_to_i64 and friends for the
// parsing ones, str_cut for strtok, codec/time.h for calendars, base/rand.h for rand.
#ifndef BASE_BANNED_H
#define BASE_BANNED_H

#define DRAY_BANNED(name) dray_##name##_is_banned

#undef strcpy
#define strcpy(a, b) DRAY_BANNED(strcpy)
#undef strcat
#define strcat(a, b) DRAY_BANNED(strcat)
#undef strncpy
#define strncpy(a, b, n) DRAY_BANNED(strncpy)
#undef strncat
#define strncat(a, b, n) DRAY_BANNED(strncat)
#undef sprintf
#define sprintf(...) DRAY_BANNED(sprintf)
#undef vsprintf
#define vsprintf(...) DRAY_BANNED(vsprintf)
#undef strtok
#define strtok(a, b) DRAY_BANNED(strtok)
#undef strtok_r
#define strtok_r(a, b, c) DRAY_BANNED(strtok_r)
#undef strtol
#define strtol(a, b, c) DRAY_BANNED(strtol)
#undef strtoul
#define strtoul(a, b, c) DRAY_BANNED(strtoul)
#undef strtoll
#define strtoll(a, b, c) DRAY_BANNED(strtoll)
#undef strtoull
#define strtoull(a, b, c) DRAY_BANNED(strtoull)
#undef atoi
#define atoi(a) DRAY_BANNED(atoi)
#undef atol
#define atol(a) DRAY_BANNED(atol)
#undef atof
#define atof(a) DRAY_BANNED(atof)
#undef gets
#define gets(a) DRAY_BANNED(gets)
#undef gmtime
#define gmtime(a) DRAY_BANNED(gmtime)
#undef localtime
#define localtime(a) DRAY_BANNED(localtime)
#undef ctime
#define ctime(a) DRAY_BANNED(ctime)
#undef asctime
#define asctime(a) DRAY_BANNED(asctime)
#undef rand
#define rand() DRAY_BANNED(rand)
#undef srand
#define srand(a) DRAY_BANNED(srand)

#endif
