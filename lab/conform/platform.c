// SPDX-License-Identifier: Apache-2.0
//
// What a platform should offer around devices: versions of drivers, metrics, network devices,
// gangs.
#include "lab/conform/pods.h"

#include "base/banned.h"

#define SLICES          "/apis/resource.k8s.io/v1/resourceslices"
#define GANG_PATIENCE_S 10

// --- Slices --------------------------------------------------------------------------------------

struct seen {
    struct session *s;
    size_t devices, found;
    struct str driver; // of the first that was found
};

// Calls fn with each device of each slice.
static int each_device(struct session *s, struct seen *seen,
                       void (*fn)(struct seen *seen, struct str driver, const yyjson_val *device))
{
    struct answer a = session_call(s, "GET", SLICES, NULL, NULL);
    const yyjson_val *items = a.root ? json_get(a.root, STR("items")) : NULL;
    if (session_expect(s, &a, 0, "list ResourceSlices") != 0)
        return -1;
    seen->s = s;
    if (!items || !json_is_array(items))
        return 0;
    json_arr_foreach(items, item) {
        const yyjson_val *devices = json_get(json_get(item, STR("spec")), STR("devices"));
        if (!devices || !json_is_array(devices))
            continue;
        json_arr_foreach(devices, d) {
            seen->devices++;
            fn(seen, session_at(item, "spec.driver"), d);
        }
    }
    return 0;
}

static void look_for_versions(struct seen *seen, struct str driver, const yyjson_val *device)
{
    const yyjson_val *all = json_get(device, STR("attributes"));
    if (!all || !json_is_object(all))
        return;
    json_obj_foreach(all, key, value) {
        struct str version = session_at(value, "version");
        bool named = str_ends(json_str(key), STR("ersion"));
        if (version.n == 0 && named)
            version = session_at(value, "string");
        if (version.n == 0)
            continue;
        if (seen->found++ < 20)
            session_notef(seen->s, "%.*s %.*s: %.*s = %.*s", STR_ARG(driver),
                          STR_ARG(session_at(device, "name")), STR_ARG(json_str(key)),
                          STR_ARG(version));
    }
}

int conform_check_driver_versions(struct session *s)
{
    struct seen seen = {0};
    if (each_device(s, &seen, look_for_versions) != 0)
        return -1;
    if (seen.devices == 0)
        return session_skip(s, "no devices are published");
    return seen.found ? 0
                      : session_fail(s, "none of %zu devices has an attribute with a version",
                                     seen.devices);
}

// --- Metrics -------------------------------------------------------------------------------------

static bool platform_has_words(struct str line, const char *const *words)
{
    for (; *words; words++)
        if (str_contains(line, str_z(*words)))
            return true;
    return false;
}

// A sample of the Prometheus text format about one device.
int conform_check_metrics(struct session *s)
{
    static const char *const use[] = {"util", "UTIL", "usage", "busy", "duty_cycle", NULL};
    static const char *const memory[] = {"memory", "MEM", "FB_USED", "_mem_", NULL};
    static const char *const device[] = {
        "gpu=", "device=", "UUID=", "uuid=", "minor=", "accelerator=", "device_id=", NULL};
    size_t uses = 0, memories = 0;
    if (!s->o->metrics)
        return session_skip(
            s, "no metrics endpoint is given: --metrics /api/v1/namespaces/…/proxy/metrics");
    struct answer a = session_call(s, "GET", s->o->metrics, NULL, NULL);
    if (session_expect(s, &a, 0, "scraping metrics") != 0)
        return -1;
    for (struct str rest = a.body; rest.n > 0;) {
        struct str line, name, labels;
        (void)str_cut(rest, '\n', &line, &rest);
        if (line.n == 0 || line.p[0] == '#' || !str_cut(line, '{', &name, &labels) ||
            !platform_has_words(labels, device))
            continue;
        bool is_use = platform_has_words(name, use), is_memory = platform_has_words(name, memory);
        if ((is_use && uses++ < 5) || (!is_use && is_memory && memories++ < 5))
            session_note(s, "log", line);
    }
    if (uses == 0)
        return session_fail(s, "no sample shows the utilization of a device");
    return memories ? 0 : session_fail(s, "no sample shows the memory of a device");
}

// --- Network devices -----------------------------------------------------------------------------

static void look_for_nics(struct seen *seen, struct str driver, const yyjson_val *device)
{
    const yyjson_val *all = json_get(device, STR("attributes"));
    if (!all || (!json_get(all, STR("dra.net/ifName")) && !json_get(all, STR("dra.net/type"))))
        return;
    if (seen->found++ == 0)
        seen->driver = driver;
}

static const char *nic_spec(struct session *s)
{
    struct seen seen = {0};
    if (s->o->nic_spec.n)
        return arena_str(s->arena, s->o->nic_spec).p;
    if (each_device(s, &seen, look_for_nics) != 0)
        return NULL;
    if (seen.found == 0) {
        (void)session_skip(s, "no network devices (dra.net/ifName) are published; say --nic-claim");
        return NULL;
    }
    session_notef(s, "%zu network devices of driver %.*s", seen.found, STR_ARG(seen.driver));
    const char *name = session_text(s, "conformance-nic-%s", s->run.p);
    struct answer a = session_call(
        s, "POST", "/apis/resource.k8s.io/v1/deviceclasses", NULL,
        session_text(
            s,
            "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"DeviceClass\",\"metadata\":{"
            "\"name\":\"%s\",\"labels\":{\"" CONFORM_LABEL "\":\"%s\"}},\"spec\":{"
            "\"selectors\":[{\"cel\":{\"expression\":\"device.driver == '%.*s'\"}}]}}",
            name, s->run.p, STR_ARG(seen.driver)));
    if (session_expect(s, &a, 0, "creating a DeviceClass") != 0)
        return NULL;
    return session_text(s,
                        "{\"devices\":{\"requests\":[{\"name\":\"nic\",\"exactly\":{"
                        "\"deviceClassName\":\"%s\"}}]}}",
                        name);
}

static const char *interface_of(struct session *s, const struct answer *claim)
{
    const yyjson_val *devices = json_get(json_get(claim->root, STR("status")), STR("devices"));
    if (devices && json_is_array(devices)) {
        json_arr_foreach(devices, d) {
            struct str name = session_at(d, "networkData.interfaceName");
            if (name.n)
                return arena_str(s->arena, name).p;
        }
    }
    return NULL;
}

int conform_check_nic(struct session *s)
{
    struct lines baseline = {0}, seen = {0};
    struct answer pod, claim = {0};
    const char *why, *interface = NULL;
    const struct wish w = {.name = "with-nic", .template_name = "nic", .stays = true};
    if (!s->containers)
        return session_skip(s, "needs pods that run and logs that can be read");
    const char *spec = nic_spec(s);
    if (!spec || pods_baseline(s, &baseline) != 0 || pods_create_template(s, "nic", spec) != 0 ||
        pods_create(s, &w) != 0)
        return -1;
    if (pods_await_end(s, &w, s->o->timeout_s, &why, &pod) != POD_DONE)
        return session_fail(s, "the pod with a network device does not run: %s", why);
    if (pods_list_devices(s, w.name, "first", &seen) != 0)
        return -1;
    for (int i = 0; i < 50 && !interface; i++) { // drivers write it behind the pod's start
        if (pods_find_claim(s, &pod, &claim) != 0)
            return -1;
        interface = interface_of(s, &claim);
        if (!interface && !session_pause(s, 200))
            return session_skip(s, "interrupted");
    }
    pods_remove(s, w.name);
    struct lines added = pods_subtract_lines(s, &seen, &baseline);
    session_notef(s, "the claim adds: %s", pods_join_lines(s, &added));
    if (!interface)
        return session_fail(s, "the claim's status does not name the interface (networkData)");
    const char *line = session_text(s, "net %s", interface);
    vec_foreach(&added, one)
        if (str_eqz(*one, line))
            return 0;
    return session_fail(s, "the pod has no interface %s", interface);
}

// --- Gangs ---------------------------------------------------------------------------------------

static const char *gang_version(struct session *s)
{
    static const char *const versions[] = {"v1", "v1beta1", "v1alpha2"};
    for (size_t i = 0; i < array_len(versions); i++) {
        struct answer a =
            session_get(s, session_text(s, "/apis/scheduling.k8s.io/%s", versions[i]));
        const yyjson_val *all = a.root ? json_get(a.root, STR("resources")) : NULL;
        if (!all || !json_is_array(all))
            continue;
        json_arr_foreach(all, r)
            if (str_eqz(session_at(r, "name"), "podgroups"))
                return versions[i];
    }
    return NULL;
}

static int platform_create_group(struct session *s, const char *version, const char *name)
{
    struct answer a = session_call(
        s, "POST",
        session_text(s, "/apis/scheduling.k8s.io/%s/namespaces/%s/podgroups", version,
                     s->namespace.p),
        NULL,
        session_text(s,
                     "{\"apiVersion\":\"scheduling.k8s.io/%s\",\"kind\":\"PodGroup\",\"metadata\":{"
                     "\"name\":\"%s\",\"labels\":{\"" CONFORM_LABEL "\":\"%s\"}},\"spec\":{"
                     "\"schedulingPolicy\":{\"gang\":{\"minCount\":2}}}}",
                     version, name, s->run.p));
    return session_expect(s, &a, 0, "creating a PodGroup");
}

static bool is_bound(struct session *s, const char *pod)
{
    struct answer a =
        session_get(s, session_text(s, "/api/v1/namespaces/%s/pods/%s", s->namespace.p, pod));
    return session_at(a.root, "spec.nodeName").n > 0;
}

// Two of two that fit are placed; of two that do not both fit, none is.
int conform_check_gang(struct session *s)
{
    static const char nowhere[] = "{\"conformance.dray.dev/nowhere\":\"true\"}";
    const char *version = gang_version(s);
    if (!version)
        return session_skip(
            s, "the server has no PodGroups (scheduling.k8s.io); another gang scheduler "
               "is not looked for");
    session_notef(s, "scheduling.k8s.io/%s", version);
    if (platform_create_group(s, version, "gang-good") != 0 ||
        platform_create_group(s, version, "gang-bad") != 0 ||
        pods_create(s, &(struct wish){.name = "good-1", .group = "gang-good"}) != 0 ||
        pods_create(s, &(struct wish){.name = "bad-1", .group = "gang-bad"}) != 0 ||
        pods_create(s, &(struct wish){.name = "bad-2", .group = "gang-bad", .selector = nowhere}) !=
            0 ||
        pods_create(s, &(struct wish){.name = "good-2", .group = "gang-good"}) != 0)
        return -1;
    int64_t until = clock_mono_ns(clock_system()) + s->o->timeout_s * CLOCK_NS_PER_SEC;
    while (!is_bound(s, "good-1") || !is_bound(s, "good-2")) {
        if (clock_mono_ns(clock_system()) >= until)
            return session_fail(s, "a gang of two that fits was not placed");
        if (!session_pause(s, 200))
            return session_skip(s, "interrupted");
    }
    session_notef(s, "both pods of the gang that fits are placed");
    until = clock_mono_ns(clock_system()) + GANG_PATIENCE_S * CLOCK_NS_PER_SEC;
    while (clock_mono_ns(clock_system()) < until) {
        if (is_bound(s, "bad-1") || is_bound(s, "bad-2"))
            return session_fail(s, "a pod of a gang that does not fit was placed");
        if (!session_pause(s, 500))
            return session_skip(s, "interrupted");
    }
    session_notef(s, "no pod of the other gang was placed within %d s", GANG_PATIENCE_S);
    return 0;
}
