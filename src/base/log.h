// SPDX-License-Identifier: Apache-2.0
//
// Structured logging: a message and key=value fields, as text or JSON lines, a level per module,
// a rate limit per call site. Records go to one sink that the program installs; without a sink they
// are dropped. Only the outermost layer that handles an error logs it.
//
//     static struct log_module log_mod = LOG_MODULE("sched");
//     LOG_INFO(&log_mod, "pod bound", log_str("pod", name), log_i64("took_ms", ms));
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

// A module's name and level. Static; registered on first use.
struct log_module {
    const char *name;
    atomic_int level; // -1: take the level from the configuration at the next record
    struct log_module *next;
};

#define LOG_MODULE(module_name)            \
    {                                      \
        .name = (module_name), .level = -1 \
    }

// A call site's rate limit: LOG_SITE_BURST records at once, LOG_SITE_PER_SEC a second after that.
// What was held back is counted by the next record of the site in the field `suppressed`.
#define LOG_SITE_BURST   50
#define LOG_SITE_PER_SEC 10

struct log_site {
    int64_t tokens_ns; // time saved up, in units of one record's share of a second
    int64_t last_ns;
    uint64_t suppressed;
    bool started;
};

enum log_kind { LOG_KIND_END, LOG_KIND_STR, LOG_KIND_I64, LOG_KIND_U64, LOG_KIND_BOOL };

struct log_field {
    enum log_kind kind;
    const char *key;
    union {
        struct str str;
        int64_t i64;
        uint64_t u64;
        bool boolean;
    };
};

static inline struct log_field log_str(const char *key, struct str v)
{
    return (struct log_field){.kind = LOG_KIND_STR, .key = key, .str = v};
}

static inline struct log_field log_z(const char *key, const char *v)
{
    return log_str(key, str_z(v));
}

static inline struct log_field log_i64(const char *key, int64_t v)
{
    return (struct log_field){.kind = LOG_KIND_I64, .key = key, .i64 = v};
}

static inline struct log_field log_u64(const char *key, uint64_t v)
{
    return (struct log_field){.kind = LOG_KIND_U64, .key = key, .u64 = v};
}

static inline struct log_field log_bool(const char *key, bool v)
{
    return (struct log_field){.kind = LOG_KIND_BOOL, .key = key, .boolean = v};
}

// A sink gets one whole record at a time, with its line end; calls never overlap.
typedef void (*log_sink_fn)(void *ctx, enum log_level level, struct str record);

// log_configure sets sink, format and clock; NULL sink drops records, NULL clock is the system's.
void log_configure(log_sink_fn sink, void *ctx, enum log_format format, const struct clock *clock);

// log_set_levels reads a list such as "info,sched=debug,store=warn": a bare level is the default.
// Returns 0, or -ERR_INVALID naming the bad part; then nothing changed.
int log_set_levels(struct str spec, struct err *err) MUST_USE;

// log_enabled reports whether a record of this level would be written.
bool log_enabled(struct log_module *m, enum log_level level);

// log_emit writes a record; the macros call it. fields ends with LOG_KIND_END.
void log_emit(struct log_module *m, struct log_site *site, enum log_level level, const char *msg,
              const struct log_field *fields);

#define LOG_AT(module, lvl, msg, ...)                                                          \
    do {                                                                                       \
        static struct log_site log_at_site;                                                    \
        if (log_enabled((module), (lvl)))                                                      \
            log_emit(                                                                          \
                (module), &log_at_site, (lvl), (msg),                                          \
                (const struct log_field[]){__VA_ARGS__ __VA_OPT__(, ){.kind = LOG_KIND_END}}); \
    } while (0)

#define LOG_ERROR(module, ...) LOG_AT(module, LOG_LEVEL_ERROR, __VA_ARGS__)
#define LOG_WARN(module, ...)  LOG_AT(module, LOG_LEVEL_WARN, __VA_ARGS__)
#define LOG_INFO(module, ...)  LOG_AT(module, LOG_LEVEL_INFO, __VA_ARGS__)
#define LOG_DEBUG(module, ...) LOG_AT(module, LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
