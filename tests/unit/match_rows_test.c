// SPDX-License-Identifier: Apache-2.0
//
// Matching rules with the answers of Kubernetes' own packages (tests/oracle/match). The file that
// MATCH_ROWS names replaces the sample.
#include "api/api.h"
#include "api/match/claim.h"
#include "api/match/device_taint.h"
#include "api/match/label_selector.h"
#include "api/match/node.h"
#include "api/match/taint.h"
#include "unit.h"

#include "base/banned.h"

// How many rows differ before the test gives up; each is shown.
#define SHOWN 5

static size_t differences;

struct row {
    struct str text;
    struct json_doc doc;
    struct arena arena;
};

static void differs(const struct row *r, const char *what, struct str got)
{
    differences++;
    (void)fprintf(stderr, "%s: got %.*s\n row  %.*s\n", what, STR_ARG(got), STR_ARG(r->text));
    if (differences >= SHOWN)
        fail_msg("too many differences");
}

static const yyjson_val *cell(const struct row *r, size_t i)
{
    const yyjson_val *v = json_at(r->doc.root, i);
    assert_non_null(v);
    return v;
}

static void fill(struct row *r, const yyjson_val *v, const struct api_type *type, void *out)
{
    struct err err = {0};
    if (api_json_read(type, &r->doc, v, out, &r->arena, NULL, &err) < 0)
        fail_msg("%s in %.*s", err.msg, STR_ARG(r->text));
}

static void fill_labels(struct row *r, size_t i, struct api_str_map *ret)
{
    const yyjson_val *set = cell(r, i);
    *ret = (struct api_str_map){arena_array(&r->arena, struct api_str_entry, json_len(set)), 0};
    json_obj_foreach(set, key, val) // Go writes maps sorted by key
        ret->p[ret->n++] = (struct api_str_entry){json_str(key), json_str(val)};
}

static void fill_tolerations(struct row *r, size_t i, struct api_toleration_array *ret)
{
    const yyjson_val *list = cell(r, i);
    ret->n = json_len(list);
    ret->p = arena_array(&r->arena, struct api_toleration, ret->n);
    for (size_t k = 0; k < ret->n; k++)
        fill(r, json_at(list, k), &api_toleration_type, &ret->p[k]);
}

static void same_selection(const struct row *r, const char *what, size_t i, enum selection got)
{
    static const char *const words[] = {"invalid", "no", "yes"};
    struct str word = str_z(words[got + 1]);
    if (!str_eq(json_str(cell(r, i)), word))
        differs(r, what, word);
}

static void same_bool(const struct row *r, const char *what, size_t i, bool got)
{
    bool want = false;
    assert_int_equal(json_to_bool(cell(r, i), &want, NULL), 0);
    if (got != want)
        differs(r, what, got ? STR("true") : STR("false"));
}

// --- Selectors -----------------------------------------------------------------------------------

static enum selection compiled(struct row *r, const struct api_label_selector *s,
                               const struct api_str_map *labels)
{
    struct label_selector selector;
    if (label_selector_of(s, &r->arena, &selector, NULL) < 0)
        return SELECTION_INVALID;
    return label_selector_matches(&selector, labels) ? SELECTION_YES : SELECTION_NO;
}

static void check_syntax(struct row *r)
{
    struct api_label_selector s = {0};
    struct api_str_map labels;
    fill(r, cell(r, 1), &api_label_selector_type, &s);
    fill_labels(r, 2, &labels);
    same_selection(r, "compiled", 3, compiled(r, &s, &labels));
}

static void check_labels(struct row *r)
{
    struct api_label_selector s = {0};
    struct api_str_map labels;
    bool none = json_type(cell(r, 1)) == JSON_NULL;
    if (!none)
        fill(r, cell(r, 1), &api_label_selector_type, &s);
    fill_labels(r, 2, &labels);
    same_selection(r, "compiled", 3, compiled(r, none ? NULL : &s, &labels));
    same_selection(r, "as it stands", 3, labels_match(none ? NULL : &s, &labels));
}

static void fill_node(struct row *r, struct api_node *node)
{
    node->metadata.name = json_str(cell(r, 2));
    fill_labels(r, 3, &node->metadata.labels);
}

static void check_nodes(struct row *r)
{
    struct api_node_selector s = {0};
    struct api_node node = {0};
    fill(r, cell(r, 1), &api_node_selector_type, &s);
    fill_node(r, &node);
    same_selection(r, "of a pod", 4, node_selector_match(&s, &node));
    int strict = node_matches(&node, STR(""), false, &s, NULL);
    same_selection(r, "of a device", 5,
                   strict < 0 ? SELECTION_INVALID : (strict ? SELECTION_YES : SELECTION_NO));
}

static void check_required(struct row *r)
{
    struct api_pod_spec spec = {0};
    struct api_node node = {0};
    fill(r, cell(r, 1), &api_pod_spec_type, &spec);
    fill_node(r, &node);
    same_selection(r, "required", 4, node_takes_pod(&spec, &node) ? SELECTION_YES : SELECTION_NO);
}

// --- Taints --------------------------------------------------------------------------------------

static void check_taint(struct row *r)
{
    struct api_toleration t = {0};
    struct api_taint taint = {0};
    fill(r, cell(r, 1), &api_toleration_type, &t);
    fill(r, cell(r, 2), &api_taint_type, &taint);
    same_bool(r, "tolerates", 3, toleration_matches(&t, &taint));
}

static void check_evicts(struct row *r)
{
    struct api_toleration_array all;
    struct api_taint taint = {0};
    int64_t want = 0, got = -1;
    fill_tolerations(r, 1, &all);
    fill(r, cell(r, 2), &api_taint_type, &taint);
    assert_int_equal(json_to_i64(cell(r, 3), &want, NULL), 0);
    bool evicts = taint_evicts(&all, &taint, &got);
    if (evicts != (want >= 0) || got != want)
        differs(r, "evicts after", arena_strf(&r->arena, "%lld", (long long)got));
}

static void check_covers(struct row *r)
{
    struct api_toleration by = {0}, t = {0};
    fill(r, cell(r, 1), &api_toleration_type, &by);
    fill(r, cell(r, 2), &api_toleration_type, &t);
    same_bool(r, "covers", 3, toleration_covers(&by, &t));
}

static void check_defaulted(struct row *r)
{
    struct api_toleration_array all;
    fill_tolerations(r, 1, &all);
    same_bool(r, "names", 2, toleration_names(&all, STR("node.kubernetes.io/not-ready")));
}

static void check_device(struct row *r)
{
    struct api_device_toleration t = {0};
    struct api_device_taint taint = {0};
    fill(r, cell(r, 1), &api_device_toleration_type, &t);
    fill(r, cell(r, 2), &api_device_taint_type, &taint);
    same_bool(r, "device", 3, device_toleration_matches(&t, &taint));
}

// --- Claims --------------------------------------------------------------------------------------

static void check_name(struct row *r)
{
    static const char *const words[] = {[CLAIM_NAMED] = "named",
                                        [CLAIM_NOT_CREATED] = "not created",
                                        [CLAIM_NOT_NEEDED] = "not needed",
                                        [CLAIM_UNSUPPORTED] = "unsupported"};
    struct api_pod pod = {0};
    struct api_pod_resource_claim entry = {0};
    struct str name = {0};
    bool check;
    fill(r, cell(r, 1), &api_pod_type, &pod);
    fill(r, cell(r, 2), &api_pod_resource_claim_type, &entry);
    enum claim_name got = claim_name_of(&pod, &entry, &name, &check);
    if (!str_eqz(json_str(cell(r, 3)), words[got]) || !str_eq(json_str(cell(r, 4)), name))
        differs(r, words[got], name);
    same_bool(r, "owner to be checked", 5, check);
}

static void fill_claim(struct row *r, struct api_pod *pod, struct api_resource_claim *claim)
{
    fill(r, cell(r, 1), &api_pod_type, pod);
    fill(r, cell(r, 2), &api_resource_claim_type, claim);
}

static void check_owner(struct row *r)
{
    struct api_pod pod = {0};
    struct api_resource_claim claim = {0};
    fill_claim(r, &pod, &claim);
    same_bool(r, "owner", 3, claim_is_for(&claim, &pod, false));
    same_bool(r, "owner or group", 4, claim_is_for(&claim, &pod, true));
}

static void check_reserved(struct row *r)
{
    struct api_pod pod = {0};
    struct api_resource_claim claim = {0};
    fill_claim(r, &pod, &claim);
    same_bool(r, "reserved", 3, claim_is_reserved_for_pod(&claim, &pod, false));
    same_bool(r, "reserved for the pod or its group", 4,
              claim_is_reserved_for_pod(&claim, &pod, true));
}

static void check_consumer(struct row *r)
{
    struct api_pod pod = {0};
    struct api_pod_group group = {0};
    struct api_pod_resource_claim entry = {0};
    struct api_resource_claim_consumer_reference want = {0};
    fill(r, cell(r, 1), &api_pod_type, &pod);
    fill(r, cell(r, 2), &api_pod_group_type, &group);
    fill(r, cell(r, 3), &api_pod_resource_claim_type, &entry);
    fill(r, cell(r, 4), &api_resource_claim_consumer_reference_type, &want);
    bool member = pod_entry_is_of_group(&group, &entry);
    const struct api_resource_claim_consumer_reference got =
        consumer_reference_to(member ? &group.metadata : &pod.metadata, member);
    if (!api_equal(&api_resource_claim_consumer_reference_type, &got, &want) ||
        consumer_is_group(&want) != member || consumer_is_pod(&want) == member)
        differs(r, "consumer", got.resource);
}

static void check_phase(struct row *r)
{
    same_bool(r, "final", 2, pod_phase_is_final(json_str(cell(r, 1))));
}

static const struct {
    const char *name;
    void (*check)(struct row *r);
} kinds[] = {{"labels", check_labels},     {"syntax", check_syntax},
             {"nodes", check_nodes},       {"required", check_required},
             {"taint", check_taint},       {"evicts", check_evicts},
             {"covers", check_covers},     {"defaulted", check_defaulted},
             {"device", check_device},     {"name", check_name},
             {"owner", check_owner},       {"reserved", check_reserved},
             {"consumer", check_consumer}, {"phase", check_phase}};

static size_t seen[array_len(kinds)];

static void check_row(struct str text)
{
    struct row r = {.text = text};
    struct err err = {0};
    if (json_parse(text, NULL, &r.doc, &err) < 0)
        fail_msg("%s in %.*s", err.msg, STR_ARG(text));
    struct str name = json_str(cell(&r, 0));
    size_t i = 0;
    while (i < array_len(kinds) && !str_eqz(name, kinds[i].name))
        i++;
    assert_true(i < array_len(kinds));
    kinds[i].check(&r);
    seen[i]++;
    arena_done(&r.arena);
    json_doc_done(&r.doc);
}

static void every_row_is_answered_alike(void **state)
{
    (void)state;
    char path[4096];
    cleanup_sbuf struct sbuf file = {0};
    (void)snprintf(path, sizeof(path), "%s/match_rows.jsonl", getenv("TEST_DATA"));
    read_file(getenv("MATCH_ROWS") ? getenv("MATCH_ROWS") : path, &file);
    struct str rest = sbuf_str(&file), line;
    while (rest.n) {
        (void)str_cut(rest, '\n', &line, &rest);
        check_row(line);
    }
    for (size_t i = 0; i < array_len(kinds); i++)
        assert_true(seen[i] >= 50);
    assert_int_equal(differences, 0);
}

RUN_TESTS(TEST_CASE(every_row_is_answered_alike))
