// SPDX-License-Identifier: Apache-2.0
//
// Counters of Pod Security Admission, under upstream's names. Each combination of labels has its
// place in an array: their number is bounded whatever versions tenants write into labels.
#include "registry/podsec/podsec_int.h"

#include "base/banned.h"

#define VERSION_FUTURE (PODSEC_NEWEST + 1)
#define VERSION_LATEST (PODSEC_NEWEST + 2)

size_t podsec_attributes_index(struct podsec_attributes a)
{
    return ((size_t)a.update * 2 + a.workload) * 3 + a.part;
}

static size_t count_version_of(const struct podsec_standard *s)
{
    if (s->minor == PODSEC_LATEST || s->level == PODSEC_PRIVILEGED)
        return VERSION_LATEST;
    return s->minor > PODSEC_NEWEST ? VERSION_FUTURE : (size_t)s->minor;
}

static size_t count_index(enum podsec_decision decision, enum podsec_level level, size_t version,
                          enum podsec_mode mode, size_t attributes)
{
    return ((((size_t)decision * 3 + level) * PODSEC_VERSIONS + version) * 3 + mode) *
               PODSEC_ATTRIBUTES +
           attributes;
}

void podsec_count_evaluation(struct podsec *p, enum podsec_decision decision,
                             const struct podsec_standard *s, enum podsec_mode mode,
                             struct podsec_attributes a)
{
    p->evaluations[count_index(decision, s->level, count_version_of(s), mode,
                               podsec_attributes_index(a))]++;
}

// --- Output --------------------------------------------------------------------------------------

static void count_write_attributes(size_t attributes, uint64_t value, struct sbuf *out)
{
    static const char *const parts[] = {[PODSEC_WHOLE] = "",
                                        [PODSEC_RESIZE] = "resize",
                                        [PODSEC_DEBUGGERS] = "ephemeralcontainers"};
    sbuf_addf(out, "request_operation=\"%s\",resource=\"%s\",subresource=\"%s\"} %llu\n",
              attributes / 6 ? "update" : "create", attributes / 3 % 2 ? "controller" : "pod",
              parts[attributes % 3], (unsigned long long)value);
}

static void count_write_evaluation(size_t index, uint64_t value, struct sbuf *out)
{
    static const char *const modes[] = {
        [PODSEC_ENFORCE] = "enforce", [PODSEC_AUDIT] = "audit", [PODSEC_WARN] = "warn"};
    size_t rest = index / PODSEC_ATTRIBUTES;
    size_t version = rest / 3 % PODSEC_VERSIONS;
    enum podsec_level level = (enum podsec_level)(rest / 3 / PODSEC_VERSIONS % 3);
    sbuf_addf(out,
              "pod_security_evaluations_total{decision=\"%s\",mode=\"%s\",policy_level=\"%.*s\"",
              rest / 3 / PODSEC_VERSIONS / 3 ? "deny" : "allow", modes[rest % 3],
              STR_ARG(podsec_level_name(level)));
    sbuf_addz(out, ",policy_version=\"");
    if (version == VERSION_FUTURE)
        sbuf_addz(out, "future");
    else
        podsec_write_version(version == VERSION_LATEST ? PODSEC_LATEST : (int64_t)version, out);
    sbuf_addz(out, "\",");
    count_write_attributes(index % PODSEC_ATTRIBUTES, value, out);
}

void registry_write_metrics(const struct registry *reg, struct sbuf *out)
{
    const struct podsec *p = reg->podsec;
    if (!p)
        return;
    sbuf_addz(out, "# HELP pod_security_errors_total Number of errors preventing normal "
                   "evaluation. Non-fatal errors may result in the latest restricted profile "
                   "being used for evaluation.\n# TYPE pod_security_errors_total counter\n");
    for (size_t i = 0; i < PODSEC_ATTRIBUTES; i++)
        if (p->errors[i]) {
            sbuf_addz(out, "pod_security_errors_total{fatal=\"false\",");
            count_write_attributes(i, p->errors[i], out);
        }
    sbuf_addz(out, "# HELP pod_security_evaluations_total Number of policy evaluations that "
                   "occurred, not counting ignored or exempt requests.\n"
                   "# TYPE pod_security_evaluations_total counter\n");
    // Pods in namespaces without labels are always shown, as upstream does.
    const size_t usual =
        count_index(PODSEC_ALLOW, PODSEC_PRIVILEGED, VERSION_LATEST, PODSEC_ENFORCE, 0);
    for (size_t i = 0; i < PODSEC_EVALUATIONS; i++)
        if (p->evaluations[i] || i == usual || i == usual + 6)
            count_write_evaluation(i, p->evaluations[i], out);
    sbuf_addz(out, "# HELP pod_security_exemptions_total Number of exempt requests, not counting "
                   "ignored or out of scope requests.\n"
                   "# TYPE pod_security_exemptions_total counter\n");
    for (size_t i = 0; i < PODSEC_ATTRIBUTES; i++)
        if (p->exemptions[i] || i % 3 == PODSEC_WHOLE) {
            sbuf_addz(out, "pod_security_exemptions_total{");
            count_write_attributes(i, p->exemptions[i], out);
        }
}
