// SPDX-License-Identifier: Apache-2.0
//
// CDI edits on a container's configuration, on a host that exists only here.
#include "cdi/apply.h"
#include "unit.h"

#include "base/banned.h"

// /dev/c0 is 195:0, /dev/b0 is a block device, /dev/p0 a pipe; nothing else exists.
static int look(void *context, struct str path, struct cdi_node_info *ret, struct err *err)
{
    (void)context;
    if (str_eq(path, STR("/dev/c0")))
        *ret = (struct cdi_node_info){'c', 195, 2, 0666};
    else if (str_eq(path, STR("/dev/b0")))
        *ret = (struct cdi_node_info){'b', 8, 1, 0640};
    else if (str_eq(path, STR("/dev/p0")))
        *ret = (struct cdi_node_info){'p', 0, 0, 0600};
    else
        return err_set(err, ENOENT, "no such file");
    return 0;
}

static const struct cdi_host host = {.look = look};

// Applies the edits (flow YAML of a device's containerEdits) to config. Returns the code.
static int apply(const char *edits, const char *config, struct sbuf *out, struct err *err)
{
    struct arena arena = {0};
    struct cdi_spec *spec = NULL;
    struct json_doc doc = {0};
    struct str text = arena_strf(
        &arena, "cdiVersion: 1.1.0\nkind: v/c\ndevices: [{name: a, containerEdits: {%s}}]", edits);
    if (cdi_spec_parse(text, &arena, &spec, err) != 0)
        fail_msg("%s: %s", text.p, err->msg);
    assert_int_equal(json_parse(str_z(config), NULL, &doc, err), 0);
    struct json_writer w = {.out = out};
    int rc = cdi_apply(&spec->devices.p[0].edits, doc.root, &host, &w, err);
    json_doc_done(&doc);
    arena_done(&arena);
    return rc;
}

// The result is this, and applying the edits once more changes nothing.
static void gives(const char *edits, const char *config, const char *want)
{
    struct sbuf once = {0}, twice = {0};
    struct err err = {0};
    if (apply(edits, config, &once, &err) != 0)
        fail_msg("%s: %s", edits, err.msg);
    assert_string_equal(once.p, want);
    assert_int_equal(apply(edits, once.p, &twice, &err), 0);
    assert_string_equal(once.p, twice.p);
    sbuf_done(&once);
    sbuf_done(&twice);
}

static void refuses(const char *edits, const char *config, const char *words)
{
    struct sbuf out = {0};
    struct err err = {0};
    assert_true(apply(edits, config, &out, &err) < 0);
    if (!strstr(err.msg, words))
        fail_msg("told as \"%s\", not \"%s\"", err.msg, words);
    assert_int_equal(out.n, 0);
    sbuf_done(&out);
}

static void sets_environment(void **state)
{
    (void)state;
    gives("env: [A=1, B=2, A=3]", "{}", "{\"process\":{\"env\":[\"A=3\",\"B=2\"]}}");
    gives("env: [A=new]", "{\"process\":{\"env\":[\"A=1\",\"A=2\",\"AB=3\",\"A\"],\"x\":1}}",
          "{\"process\":{\"env\":[\"A=1\",\"A=2\",\"AB=3\",\"A=new\"],\"x\":1}}");
    gives("env: [A=1]", "{\"process\":null,\"own\":1e400}",
          "{\"process\":{\"env\":[\"A=1\"]},\"own\":1e400}");
    refuses("env: [A=1]", "{\"process\":[]}", "\"process\"");
    refuses("env: [A=1]", "{\"process\":{\"env\":{}}}", "\"env\"");
    refuses("env: [A=1]", "[]", "must be an object");
}

static void adds_device_nodes(void **state)
{
    (void)state;
    gives("deviceNodes: [{path: /dev/c0}]", "{}",
          "{\"linux\":{\"devices\":[{\"path\":\"/dev/c0\",\"type\":\"c\",\"major\":195,\"minor\":2,"
          "\"fileMode\":438}],\"resources\":{\"devices\":[{\"allow\":true,\"type\":\"c\","
          "\"major\":195,\"minor\":2,\"access\":\"rwm\"}]}}}");
    gives("deviceNodes: [{path: /dev/x, hostPath: /dev/b0, permissions: r, uid: 7}]",
          "{\"process\":{\"user\":{\"uid\":5,\"gid\":6}}}",
          "{\"process\":{\"user\":{\"uid\":5,\"gid\":6}},\"linux\":{\"devices\":[{\"path\":\"/dev/"
          "x\","
          "\"type\":\"b\",\"major\":8,\"minor\":1,\"fileMode\":416,\"uid\":7,\"gid\":6}],"
          "\"resources\":{\"devices\":[{\"allow\":true,\"type\":\"b\",\"major\":8,\"minor\":1,"
          "\"access\":\"r\"}]}}}");
    // A pipe gets no rule; a node told in full need not exist; none means no access.
    gives(
        "deviceNodes: [{path: /dev/p0}, {path: /gone, type: c, major: 1, permissions: none}]", "{}",
        "{\"linux\":{\"devices\":[{\"path\":\"/dev/p0\",\"type\":\"p\",\"major\":0,\"minor\":0,"
        "\"fileMode\":384},{\"path\":\"/gone\",\"type\":\"c\",\"major\":1,\"minor\":0}],"
        "\"resources\":{\"devices\":[{\"allow\":true,\"type\":\"c\",\"major\":1,\"minor\":0}]}}}");
    refuses("deviceNodes: [{path: /gone}]", "{}", "/gone");
    refuses("deviceNodes: [{path: /gone, type: c}]", "{}", "no such file");
    refuses("deviceNodes: [{path: /x, hostPath: /dev/c0, type: b}]", "{}", "shall be of type b");
}

static void replaces_device_nodes(void **state)
{
    (void)state;
    const char node[] = "deviceNodes: [{path: /dev/c0, type: c, major: 9, fileMode: 0}]";
#define OLD  "{\"path\":\"/dev/c0\"}"
#define NEW  "{\"path\":\"/dev/c0\",\"type\":\"c\",\"major\":9,\"minor\":0,\"fileMode\":0}"
#define RULE "{\"allow\":true,\"type\":\"c\",\"major\":9,\"minor\":0,\"access\":\"rwm\"}"
#define DENY "{\"allow\":false,\"access\":\"rwm\"}"
    gives(node, "{\"linux\":{\"devices\":[" OLD ",{\"path\":\"/o\"}," OLD "," OLD "]}}",
          "{\"linux\":{\"devices\":[{\"path\":\"/o\"}," NEW "],\"resources\":{\"devices\":[" RULE
          "]}}}");
    // A rule that stands counts, unless a denial follows it.
    gives(node, "{\"linux\":{\"resources\":{\"devices\":[" DENY "," RULE "]}}}",
          "{\"linux\":{\"resources\":{\"devices\":[" DENY "," RULE "]},\"devices\":[" NEW "]}}");
    gives(node, "{\"linux\":{\"resources\":{\"devices\":[" RULE "," DENY "]}}}",
          "{\"linux\":{\"resources\":{\"devices\":[" RULE "," DENY "," RULE "]},\"devices\":[" NEW
          "]}}");
}

static void sorts_mounts(void **state)
{
    (void)state;
#define AT(d) "{\"destination\":\"" d "\"}"
    gives("mounts: [{hostPath: /h, containerPath: /a, options: [ro], type: bind},"
          " {hostPath: /i, containerPath: /a/../d/./e/}]",
          "{\"mounts\":[" AT("/x/y/z") "," AT("/a") "," AT("/b//c") "," AT("/") "," AT("rel") "]}",
          "{\"mounts\":[" AT("rel") "," AT(
              "/") ",{\"destination\":\"/a\",\"type\":\"bind\","
                   "\"source\":\"/h\",\"options\":[\"ro\"]}," AT(
                       "/b//c") ",{\"destination\":\"/a/../d/./e/\",\"source\":\"/"
                                "i\"}," AT("/x/y/z") "]}");
    // In a user namespace, bind mounts keep their owners.
    gives(
        "mounts: [{hostPath: h, containerPath: /1, options: [rbind]}, {hostPath: h, containerPath:"
        " /2, type: bind}, {hostPath: h, containerPath: /3, options: [bind, ridmap]},"
        " {hostPath: h, containerPath: /4, type: tmpfs}]",
        "{\"linux\":{\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"user\"}]}}",
        "{\"linux\":{\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"user\"}]},\"mounts\":["
        "{\"destination\":\"/1\",\"source\":\"h\",\"options\":[\"rbind\",\"ridmap\"]},"
        "{\"destination\":\"/2\",\"type\":\"bind\",\"source\":\"h\",\"options\":[\"idmap\"]},"
        "{\"destination\":\"/3\",\"source\":\"h\",\"options\":[\"bind\",\"ridmap\"]},"
        "{\"destination\":\"/4\",\"type\":\"tmpfs\",\"source\":\"h\"}]}");
}

static void adds_the_rest(void **state)
{
    (void)state;
    gives("hooks: [{hookName: poststop, path: /a, args: [a], env: [E=1], timeout: 5},"
          " {hookName: poststop, path: /a}, {hookName: poststop, path: /a},"
          " {hookName: createRuntime, path: /b}]",
          "{\"hooks\":{\"poststop\":[{\"path\":\"/0\"}]}}",
          "{\"hooks\":{\"poststop\":[{\"path\":\"/0\"},{\"path\":\"/a\",\"args\":[\"a\"],\"env\":["
          "\"E=1\"],\"timeout\":5},{\"path\":\"/a\"}],\"createRuntime\":[{\"path\":\"/b\"}]}}");
    gives("additionalGids: [0, 5, 5, 6]", "{\"process\":{\"user\":{\"additionalGids\":[6]}}}",
          "{\"process\":{\"user\":{\"additionalGids\":[6,5]}}}");
    gives("additionalGids: [0]", "{}", "{}");
    gives("intelRdt: {closID: c, schemata: [L3], enableMonitoring: true}",
          "{\"linux\":{\"intelRdt\":{\"memBwSchema\":\"old\"}}}",
          "{\"linux\":{\"intelRdt\":{\"closID\":\"c\",\"schemata\":[\"L3\"],"
          "\"enableMonitoring\":true}}}");
    gives("netDevices: [{hostInterfaceName: e1, name: n1}, {hostInterfaceName: e2, name: n2}]",
          "{\"linux\":{\"netDevices\":{\"e1\":{\"name\":\"x\"},\"e0\":{}}}}",
          "{\"linux\":{\"netDevices\":{\"e1\":{\"name\":\"n1\"},\"e0\":{},\"e2\":{\"name\":\"n2\"}}"
          "}}");
    refuses("intelRdt: {}", "{\"linux\":1}", "\"linux\"");
}

static void merges_edits(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct cdi_spec *spec = NULL;
    struct err err = {0};
    struct cdi_edits all = {0};
    assert_int_equal(cdi_spec_parse(STR("containerEdits: {env: [A=1], intelRdt: {closID: a}}\n"
                                        "devices: [{containerEdits: {env: [B=1], intelRdt: "
                                        "{closID: b}, additionalGids: [1]}}]"),
                                    &arena, &spec, &err),
                     0);
    assert_true(cdi_edits_are_empty(&all));
    cdi_edits_append(&all, &spec->edits, &arena);
    cdi_edits_append(&all, &spec->devices.p[0].edits, &arena);
    assert_int_equal(all.env.n, 2);
    assert_str(all.intel_rdt->clos_id, "b");
    assert_int_equal(all.additional_gids.n, 1);
    assert_int_equal(spec->edits.env.n, 1);
    arena_done(&arena);
}

static void bounds_the_work(void **state)
{
    (void)state;
    static uint32_t gids[CDI_EDITS_MAX + 1];
    struct cdi_edits edits = {.additional_gids = {gids, array_len(gids), array_len(gids)}};
    struct json_doc doc = {0};
    struct sbuf out = {0};
    struct json_writer w = {.out = &out};
    assert_int_equal(json_parse(STR("{}"), NULL, &doc, NULL), 0);
    assert_int_equal(cdi_apply(&edits, doc.root, &host, &w, NULL), -ERR_TOO_LARGE);
    json_doc_done(&doc);
    sbuf_done(&out);
}

RUN_TESTS(TEST_CASE(sets_environment), TEST_CASE(adds_device_nodes),
          TEST_CASE(replaces_device_nodes), TEST_CASE(sorts_mounts), TEST_CASE(adds_the_rest),
          TEST_CASE(merges_edits), TEST_CASE(bounds_the_work))
