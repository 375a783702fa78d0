// SPDX-License-Identifier: Apache-2.0
//
// Log records as text or JSON, handed to a sink. A level per module, a rate limit per call site;
// one leaf lock makes it the only part of base that threads may share.
#include "base/log.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/civil.h"
#include "base/utf8.h"
#include "base/vec.h"

#include "base/banned.h"

struct level_rule {
    char module[64]; // empty: the default
    enum log_level level;
};

// One lock guards the configuration, the list of modules, the sites and the sink: records are
// whole and in order. It is a leaf: nothing else is locked while it is held.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    log_sink_fn sink;
    void *ctx;
    enum log_format format;
    const struct clock *clock;
    struct log_module *modules;
    struct level_rule rules[32];
    size_t rules_n;
    struct sbuf record;
} logger;

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static void with_lock(void)
{
    int r = pthread_mutex_lock(&lock);
    assert(r == 0);
}

static void without_lock(void)
{
    int r = pthread_mutex_unlock(&lock);
    assert(r == 0);
}

void log_configure(log_sink_fn sink, void *ctx, enum log_format format, const struct clock *clock)
{
    with_lock();
    logger.sink = sink;
    logger.ctx = ctx;
    logger.format = format;
    logger.clock = clock;
    if (!sink)
        sbuf_done(&logger.record);
    without_lock();
}

static int parse_level(struct str word, enum log_level *ret)
{
    for (size_t i = 0; i < array_len(level_names); i++) {
        if (str_eqz(word, level_names[i])) {
            *ret = (enum log_level)i;
            return 0;
        }
    }
    return -ERR_INVALID;
}

static int parse_rule(struct str part, struct level_rule *ret, struct err *err)
{
    struct str module, level;
    if (!str_cut(part, '=', &module, &level)) {
        level = part;
        module = (struct str){0};
    }
    if (module.n >= sizeof(ret->module))
        return err_set(err, ERR_INVALID, "log level \"%.*s\": the module name is too long",
                       STR_ARG(part));
    if (parse_level(level, &ret->level) < 0)
        return err_set(err, ERR_INVALID,
                       "log level \"%.*s\": want error, warn, info or debug, or MODULE=LEVEL",
                       STR_ARG(part));
    (void)snprintf(ret->module, sizeof(ret->module), "%.*s", STR_ARG(module));
    return 0;
}

int log_set_levels(struct str spec, struct err *err)
{
    struct level_rule rules[array_len(logger.rules)];
    size_t n = 0;
    for (struct str rest = spec, part; rest.n;) {
        (void)str_cut(rest, ',', &part, &rest);
        part = str_trim(part);
        if (part.n == 0)
            continue;
        if (n == array_len(rules))
            return err_set(err, ERR_INVALID, "log levels: more than %zu parts", n);
        int r = parse_rule(part, &rules[n++], err);
        if (r < 0)
            return r;
    }
    with_lock();
    memcpy(logger.rules, rules, n * sizeof(rules[0]));
    logger.rules_n = n;
    for (struct log_module *m = logger.modules; m; m = m->next)
        atomic_store_explicit(&m->level, -1, memory_order_relaxed);
    without_lock();
    return 0;
}

// Looks the module's level up and enters the module in the list that log_set_levels resets.
static int resolve_level(struct log_module *m)
{
    with_lock();
    int level = LOG_LEVEL_INFO;
    bool own = false;
    for (size_t i = 0; i < logger.rules_n; i++) {
        bool is_own = strcmp(logger.rules[i].module, m->name) == 0;
        if (is_own || (logger.rules[i].module[0] == '\0' && !own))
            level = (int)logger.rules[i].level;
        own |= is_own;
    }
    struct log_module *known = logger.modules;
    while (known && known != m)
        known = known->next;
    if (!known) {
        m->next = logger.modules;
        logger.modules = m;
    }
    atomic_store_explicit(&m->level, level, memory_order_relaxed);
    without_lock();
    return level;
}

bool log_enabled(struct log_module *m, enum log_level level)
{
    int current = atomic_load_explicit(&m->level, memory_order_relaxed);
    if (current < 0)
        current = resolve_level(m);
    return (int)level <= current;
}

// Token bucket: time refills, a record costs its share of a second.
static bool within_rate(struct log_site *s, int64_t now_ns)
{
    const int64_t cost = CLOCK_NS_PER_SEC / LOG_SITE_PER_SEC;
    const int64_t most = cost * LOG_SITE_BURST;
    int64_t passed = s->started ? now_ns - s->last_ns : most;
    s->tokens_ns = passed >= most - s->tokens_ns ? most : s->tokens_ns + passed;
    s->started = true;
    s->last_ns = now_ns;
    if (s->tokens_ns < cost) {
        s->suppressed++;
        return false;
    }
    s->tokens_ns -= cost;
    return true;
}

static void log_add_time(struct sbuf *b, int64_t wall_ns)
{
    int64_t secs = wall_ns / CLOCK_NS_PER_SEC;
    int in_day = (int)(secs % 86400);
    struct civil_date d = civil_from_days(secs / 86400);
    sbuf_addf(b, "%04lld-%02d-%02dT%02d:%02d:%02d.%06lldZ", (long long)d.year, d.month, d.day,
              in_day / 3600, in_day / 60 % 60, in_day % 60,
              (long long)(wall_ns % CLOCK_NS_PER_SEC / 1000));
}

static void add_json_text(struct sbuf *b, struct str s)
{
    sbuf_addc(b, '"');
    for (size_t i = 0, len; i < s.n; i += len) {
        uint32_t cp = utf8_decode(s, i, &len);
        if (cp == '"' || cp == '\\')
            sbuf_addf(b, "\\%c", (char)cp);
        else if (cp < 0x20)
            sbuf_addf(b, "\\u%04x", (unsigned)cp);
        else
            sbuf_add_utf8(b, cp);
    }
    sbuf_addc(b, '"');
}

// A bare word needs no quotes in the text form.
static bool is_bare(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c >= 0x7f)
            return false;
    }
    return s.n > 0;
}

static void log_add_value(struct sbuf *b, const struct log_field *f, enum log_format format)
{
    switch (f->kind) {
    case LOG_KIND_STR:
        if (format == LOG_FORMAT_JSON)
            add_json_text(b, f->str);
        else if (is_bare(f->str))
            sbuf_add(b, f->str);
        else
            sbuf_add_quoted(b, f->str);
        break;
    case LOG_KIND_I64:
        sbuf_add_i64(b, f->i64);
        break;
    case LOG_KIND_U64:
        sbuf_add_u64(b, f->u64);
        break;
    case LOG_KIND_BOOL:
        sbuf_addz(b, f->boolean ? "true" : "false");
        break;
    case LOG_KIND_END:
        break;
    }
}

static void log_add_field(struct sbuf *b, const struct log_field *f, enum log_format format)
{
    if (format == LOG_FORMAT_JSON) {
        sbuf_addc(b, ',');
        add_json_text(b, str_z(f->key));
        sbuf_addc(b, ':');
    } else {
        sbuf_addf(b, " %s=", f->key);
    }
    log_add_value(b, f, format);
}

static void log_add_head(struct sbuf *b, const struct log_module *m, enum log_level level,
                         const char *msg, int64_t wall_ns)
{
    if (logger.format == LOG_FORMAT_JSON) {
        sbuf_addz(b, "{\"time\":\"");
        log_add_time(b, wall_ns);
        sbuf_addf(b, "\",\"level\":\"%s\",\"module\":", level_names[level]);
        add_json_text(b, str_z(m->name));
        sbuf_addz(b, ",\"msg\":");
        add_json_text(b, str_z(msg));
    } else {
        log_add_time(b, wall_ns);
        sbuf_addf(b, " %-5s %s: %s", level_names[level], m->name, msg);
    }
}

// A record ends in its line end, and in JSON its brace, also when fields had to be left out.
static void log_write_record(const struct log_module *m, struct log_site *site,
                             enum log_level level, const char *msg, const struct log_field *fields)
{
    struct sbuf *b = &logger.record;
    const struct clock *clock = logger.clock ? logger.clock : clock_system();
    sbuf_clear(b);
    log_add_head(b, m, level, msg, clock_wall_ns(clock));
    for (; fields->kind != LOG_KIND_END; fields++) {
        size_t before = b->n;
        log_add_field(b, fields, logger.format);
        if (b->n > DRAY_LOG_RECORD_MAX) {
            sbuf_truncate(b, before);
            struct log_field cut = log_bool("cut", true);
            log_add_field(b, &cut, logger.format);
            break;
        }
    }
    if (site->suppressed) {
        struct log_field held = log_u64("suppressed", site->suppressed);
        log_add_field(b, &held, logger.format);
        site->suppressed = 0;
    }
    sbuf_addz(b, logger.format == LOG_FORMAT_JSON ? "}\n" : "\n");
    logger.sink(logger.ctx, level, sbuf_str(b));
}

void log_emit(struct log_module *m, struct log_site *site, enum log_level level, const char *msg,
              const struct log_field *fields)
{
    with_lock();
    if (logger.sink) {
        const struct clock *clock = logger.clock ? logger.clock : clock_system();
        if (within_rate(site, clock_mono_ns(clock)))
            log_write_record(m, site, level, msg, fields);
    }
    without_lock();
}
