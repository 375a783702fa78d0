// SPDX-License-Identifier: Apache-2.0
//
// The labels of a namespace that choose Pod Security levels and versions, and their text forms.
#include "api/podsec.h"

#include "base/banned.h"

const struct podsec_policy podsec_unlabelled = {{PODSEC_PRIVILEGED, PODSEC_LATEST},
                                                {PODSEC_PRIVILEGED, PODSEC_LATEST},
                                                {PODSEC_PRIVILEGED, PODSEC_LATEST}};

static const struct str level_names[] = {[PODSEC_PRIVILEGED] = STR_INIT("privileged"),
                                         [PODSEC_BASELINE] = STR_INIT("baseline"),
                                         [PODSEC_RESTRICTED] = STR_INIT("restricted")};

#define LEVEL_WANTED   "must be one of privileged, baseline, restricted"
#define VERSION_WANTED "must be \"latest\" or \"v1.x\""

// --- Texts ---------------------------------------------------------------------------------------

struct str podsec_level_name(enum podsec_level level)
{
    return level_names[level];
}

void podsec_write_version(int64_t minor, struct sbuf *out)
{
    if (minor == PODSEC_LATEST)
        sbuf_addz(out, "latest");
    else
        sbuf_addf(out, "v1.%lld", (long long)minor);
}

void podsec_write(const struct podsec_standard *s, struct sbuf *out)
{
    sbuf_add(out, level_names[s->level]);
    sbuf_addc(out, ':');
    podsec_write_version(s->minor, out);
}

struct str podsec_text(const struct podsec_standard *s, struct arena *arena)
{
    cleanup_sbuf struct sbuf text = {0};
    podsec_write(s, &text);
    return arena_str(arena, sbuf_str(&text));
}

bool podsec_equivalent(const struct podsec_standard *a, const struct podsec_standard *b)
{
    return (a->level == PODSEC_PRIVILEGED && b->level == PODSEC_PRIVILEGED) || podsec_same(a, b);
}

// Restricted when it is none.
static bool policy_parse_level(struct str text, enum podsec_level *ret)
{
    *ret = PODSEC_RESTRICTED;
    for (size_t i = 0; i < array_len(level_names); i++) {
        if (!str_eq(text, level_names[i]))
            continue;
        *ret = (enum podsec_level)i;
        return true;
    }
    return false;
}

// Latest when it is none. A number has no leading zeros and fits 64 bits.
static bool policy_parse_version(struct str text, int64_t *ret)
{
    struct str number = str_from(text, 3);
    int64_t minor = 0;
    *ret = PODSEC_LATEST;
    if (str_eqz(text, "latest"))
        return true;
    if (!str_starts(text, STR("v1.")) || number.n == 0 || number.p[0] < '0' || number.p[0] > '9' ||
        (number.n > 1 && number.p[0] == '0') || str_to_i64(number, &minor) < 0)
        return false;
    *ret = minor;
    return true;
}

int podsec_standard_parse(struct str text, struct podsec_standard *ret, struct err *err)
{
    struct str level, version;
    ret->minor = PODSEC_LATEST;
    bool versioned = str_cut(text, ':', &level, &version);
    if (!policy_parse_level(level, &ret->level))
        return err_set(err, ERR_INVALID, "\"%.*s\": the level " LEVEL_WANTED, STR_ARG(text));
    if (versioned && !policy_parse_version(version, &ret->minor))
        return err_set(err, ERR_INVALID, "\"%.*s\": the version " VERSION_WANTED, STR_ARG(text));
    return 0;
}

// --- Labels --------------------------------------------------------------------------------------

#define PREFIX "pod-security.kubernetes.io/"

static bool policy_find_label(const struct api_str_map *labels, const char *key, struct str *ret)
{
    for (size_t i = 0; i < labels->n; i++) {
        if (!str_eqz(labels->p[i].key, key))
            continue;
        *ret = labels->p[i].value;
        return true;
    }
    return false;
}

static void policy_add_cause(struct causes *causes, const char *key, struct str value,
                             const char *why)
{
    const struct path root = path_root(STR("metadata")), labels = path_field(&root, STR("labels")),
                      at = path_key(&labels, str_z(key));
    if (causes)
        cause_invalid(causes, &at, value, str_z(why));
}

enum { HAS_LEVEL = 1, LEVEL_READ = 2, HAS_VERSION = 4 };

// policy_read_mode reads the two labels of a mode; what stands in them, as bits. fallback is the
// level of a label that cannot be read.
static unsigned policy_read_mode(const struct api_str_map *labels, const char *level_key,
                                 const char *version_key, enum podsec_level fallback,
                                 struct causes *causes, struct podsec_standard *ret)
{
    unsigned has = 0;
    struct str text;
    if (policy_find_label(labels, level_key, &text)) {
        has |= HAS_LEVEL;
        if (policy_parse_level(text, &ret->level)) {
            has |= LEVEL_READ;
        } else {
            ret->level = fallback;
            policy_add_cause(causes, level_key, text, LEVEL_WANTED);
        }
    }
    if (policy_find_label(labels, version_key, &text)) {
        has |= HAS_VERSION;
        if (!policy_parse_version(text, &ret->minor))
            policy_add_cause(causes, version_key, text, VERSION_WANTED);
    }
    return has;
}

void podsec_policy_of(const struct api_str_map *labels, const struct podsec_policy *defaults,
                      struct causes *causes, struct podsec_policy *ret)
{
    *ret = *defaults;
    unsigned enforce = policy_read_mode(labels, PREFIX "enforce", PREFIX "enforce-version",
                                        PODSEC_RESTRICTED, causes, &ret->enforce);
    policy_read_mode(labels, PREFIX "audit", PREFIX "audit-version", PODSEC_PRIVILEGED, causes,
                     &ret->audit);
    unsigned warn = policy_read_mode(labels, PREFIX "warn", PREFIX "warn-version",
                                     PODSEC_PRIVILEGED, causes, &ret->warn);
    // An enforced level warns too, unless the labels say otherwise: of workloads whose pods it
    // would refuse.
    if (!(warn & HAS_LEVEL) && (enforce & LEVEL_READ) && ret->enforce.level > ret->warn.level) {
        ret->warn.level = ret->enforce.level;
        if (!(warn & HAS_VERSION))
            ret->warn.minor = ret->enforce.minor;
    }
}

bool podsec_has_label(const struct api_str_map *labels, const char *mode)
{
    for (size_t i = 0; i < labels->n; i++) {
        struct str key = labels->p[i].key;
        if (str_starts(key, STR(PREFIX)) &&
            str_starts(str_from(key, strlen(PREFIX)), str_z(mode))) {
            struct str rest = str_from(key, strlen(PREFIX) + strlen(mode));
            if (rest.n == 0 || str_eqz(rest, "-version"))
                return true;
        }
    }
    return false;
}
