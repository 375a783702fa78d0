// SPDX-License-Identifier: Apache-2.0
//
// Evictions: thresholds and their order, and pods that hold more than they may, with injected measurements.
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "node/limits/usage.h"
#include "node/volume/volume.h"
#include "pods_world.h"

#include "base/banned.h"

#define MI (INT64_C(1024) * 1024)
#define GI (1024 * MI)

// --- Thresholds ----------------------------------------------------------------------------------

static struct eviction_config parsed(struct eviction_texts t)
{
    struct eviction_config c;
    struct err err = {0};
    if (eviction_config_parse(&t, &c, &err) < 0)
        fail_msg("%s", err.msg);
    return c;
}

static void options_are_kubelets(void **state)
{
    (void)state;
    struct eviction_config c = parsed((struct eviction_texts){0});
    assert_int_equal(c.thresholds_len, 6);
    assert_int_equal(eviction_reserved(&c, EVICTION_MEMORY, 8 * GI), 100 * MI);
    assert_int_equal(eviction_reserved(&c, EVICTION_NODE_DISK, 1000), 100);
    assert_int_equal(c.transition_ns, 300 * CLOCK_NS_PER_SEC);
    c = parsed((struct eviction_texts){.hard = "memory.available<0%,nodefs.available<1Gi",
                                       .soft = "memory.available<10%",
                                       .soft_grace = "memory.available=1m30s",
                                       .reclaim = "nodefs.available=500Mi",
                                       .transition = "30s"});
    assert_int_equal(c.thresholds_len, 2);
    assert_int_equal(c.thresholds[0].reclaim.value, 500 * MI);
    assert_int_equal(c.thresholds[1].grace_ns, 90 * CLOCK_NS_PER_SEC);
}

static void wrong_options_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct eviction_texts texts;
        const char *what;
    } rows[] = {
        {{.hard = "disk<10%"}, "--eviction-hard: 'disk': no signal"},
        {{.hard = "memory.available=1Gi"}, "write SIGNAL<AMOUNT"},
        {{.hard = "memory.available<1Gi,memory.available<2Gi"}, "given twice"},
        {{.hard = "memory.available<101%"}, "more than 100%"},
        {{.hard = "memory.available<-1"}, "neither an amount"},
        {{.hard = "memory.available<"}, "neither an amount"},
        {{.hard = "memory.available<0"}, "must be positive"},
        {{.soft = "memory.available<1Gi"}, "--eviction-soft: memory.available needs a grace"},
        {{.soft = "memory.available<1Gi", .soft_grace = "memory.available=soon"}, "not a duration"},
        {{.reclaim = "memory.available<1Gi"}, "write SIGNAL=VALUE"},
        {{.transition = "later"}, "not a duration"},
    };
    for (size_t i = 0; i < array_len(rows); i++) {
        struct eviction_config c;
        struct err err = {0};
        assert_int_equal(eviction_config_parse(&rows[i].texts, &c, &err), -ERR_INVALID);
        if (!strstr(err.msg, rows[i].what))
            fail_msg("'%s' is not in '%s'", rows[i].what, err.msg);
    }
}

static struct eviction_facts facts_of(int64_t memory, int64_t disk)
{
    struct eviction_facts f = {0};
    f.of[EVICTION_MEMORY] = (struct eviction_observation){true, memory, 8 * GI};
    f.of[EVICTION_NODE_DISK] = (struct eviction_observation){true, disk, 100 * GI};
    return f;
}

// Soft thresholds wait for their grace, a due one stays until the minimum is reclaimed, a condition stays
// for the transition period, memory goes first.
static void thresholds_follow_time(void **state)
{
    (void)state;
    const struct eviction_config c =
        parsed((struct eviction_texts){.hard = "nodefs.available<10%",
                                       .soft = "memory.available<1Gi",
                                       .soft_grace = "memory.available=60s",
                                       .reclaim = "memory.available=1Gi"});
    const struct {
        int64_t at_s, memory, disk;
        int due; // signal, or -1
        bool memory_pressure, disk_pressure;
    } rows[] = {
        {0, 4 * GI, 50 * GI, -1, false, false},
        {10, GI - 1, 50 * GI, -1, true, false},
        {60, GI - 1, 50 * GI, -1, true, false},
        {70, GI - 1, 50 * GI, EVICTION_MEMORY, true, false},
        {80, GI - 1, 9 * GI, EVICTION_MEMORY, true, true},
        {90, 2 * GI - 1, 9 * GI, EVICTION_MEMORY, true, true}, // not enough yet
        {100, 2 * GI, 9 * GI, EVICTION_NODE_DISK, true, true},
        {110, GI, 10 * GI, -1, true, true}, // a new episode needs less than the threshold
        {389, 4 * GI, 50 * GI, -1, true, true},
        {399, 4 * GI, 50 * GI, -1, false, true},
        {401, 4 * GI, 50 * GI, -1, false, false},
    };
    struct eviction_state s;
    eviction_state_init(&s);
    for (size_t i = 0; i < array_len(rows); i++) {
        struct eviction_facts f = facts_of(rows[i].memory, rows[i].disk);
        const struct eviction_threshold *t =
            eviction_state_update(&s, &c, &f, rows[i].at_s * CLOCK_NS_PER_SEC);
        if ((t ? (int)t->signal : -1) != rows[i].due ||
            s.conditions.memory != rows[i].memory_pressure ||
            s.conditions.disk != rows[i].disk_pressure)
            fail_msg("row %zu: due %d, memory %d, disk %d", i, t ? (int)t->signal : -1,
                     s.conditions.memory, s.conditions.disk);
    }
}

static void pods_are_ranked(void **state)
{
    (void)state;
    static const struct {
        enum eviction_signal signal;
        const char *order;
    } rows[] = {{EVICTION_MEMORY, "dbcae"}, {EVICTION_PIDS, "dcbea"}};
    for (size_t r = 0; r < array_len(rows); r++) {
        struct eviction_candidate all[] = {
            {"a", 10, 900, 1000}, {"b", 0, 500, 100},   {"c", 0, 550, 300},
            {"d", -5, 20, 0},     {"e", 5, 2000, 5000}, // far below its request
        };
        all[0].usage = rows[r].signal == EVICTION_MEMORY ? 1001 : 900;
        eviction_rank(rows[r].signal, all, array_len(all));
        for (size_t i = 0; i < array_len(all); i++)
            if (((const char *)all[i].pod)[0] != rows[r].order[i])
                fail_msg("signal %d: place %zu has %s", (int)rows[r].signal, i,
                         (const char *)all[i].pod);
    }
}

// --- Usage of trees ------------------------------------------------------------------------------

static void trees_are_measured(void **state)
{
    (void)state;
    char dir[64] = "/tmp/dray-usage-XXXXXX";
    struct usage u = {0};
    assert_non_null(mkdtemp(dir));
    int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // Deeper than a path may be long, with a file at the end that must not hide there.
    for (int i = 0; i < 3000; i++) {
        assert_int_equal(mkdirat(at, "abcd", 0700), 0);
        int next = openat(at, "abcd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        (void)close(at);
        at = next;
    }
    int file = openat(at, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    static char block[MI];
    memset(block, 'x', sizeof(block));
    assert_int_equal(write(file, block, sizeof(block)), sizeof(block));
    assert_int_equal(linkat(at, "f", at, "g", 0), 0);
    assert_int_equal(symlinkat("/", at, "host"), 0);
    usage_add_tree(dir, &u);
    assert_int_equal(u.files, 3001 + 3);
    assert_true(u.bytes >= (uint64_t)MI && u.bytes < (uint64_t)(3001 * 4096 + MI + MI / 2));
    struct usage none = {0};
    usage_add_tree("/does/not/exist", &none);
    assert_int_equal(none.files, 0);
    (void)close(file);
    (void)close(at);
    assert_int_equal(volume_remove_tree(dir, NULL), 0);
}

// More levels than are walked: the tree counts as larger than any limit.
static uint64_t deleted_bytes(void)
{
    struct usage_deleted d = {.left = USAGE_OPEN_MAX};
    usage_add_deleted(&d, getpid());
    usage_add_deleted(&d, getpid()); // the same files once more
    usage_deleted_done(&d);
    return d.usage.bytes;
}

// In the directory of the test: /tmp may be in memory, which does not count.
static void deleted_files_count_while_they_are_held(void **state)
{
    (void)state;
    char name[] = "deleted-XXXXXX";
    static char block[MI];
    memset(block, 'x', sizeof(block));
    uint64_t before = deleted_bytes();
    int file = mkstemp(name);
    assert_true(file >= 0);
    assert_int_equal(write(file, block, sizeof(block)), sizeof(block));
    assert_int_equal(fsync(file), 0);
    assert_int_equal(deleted_bytes(), before); // a tree has it
    assert_int_equal(unlink(name), 0);
    int again = dup(file);
    assert_true(deleted_bytes() >= before + MI && deleted_bytes() < before + 2 * (uint64_t)MI);
    void *mapped = mmap(NULL, MI, PROT_READ, MAP_SHARED, file, 0);
    assert_true(mapped != MAP_FAILED);
    (void)close(file);
    (void)close(again);
    if (geteuid() == 0) // others may not look at mappings
        assert_true(deleted_bytes() >= before + MI);
    assert_int_equal(munmap(mapped, MI), 0);
    assert_int_equal(deleted_bytes(), before);
    struct usage_deleted bounded = {.left = 1};
    usage_add_deleted(&bounded, getpid());
    assert_int_equal(bounded.left, 0);
    usage_deleted_done(&bounded);
}

// What a container sees: its layer, volumes, and a second mount of a part of the layer.
static void mounts_are_the_pods_or_not(void **state)
{
    (void)state;
    static const char overlay[] =
        "700 600 0:55 / / rw,relatime - overlay overlay rw,lowerdir=a\n"
        "701 700 8:1 /x/pods/u/volumes/kubernetes.io~empty-dir/e /e rw - ext4 /dev/sda1 rw\n"
        "702 700 8:1 /srv/data /host rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "703 700 8:1 /x/claims/pv-1 /claim rw - ext4 /dev/sda1 rw\n"
        "704 700 0:55 /tmp /mnt rw - overlay overlay rw\n"
        "705 700 8:1 /x/pods/u/volumes/kubernetes.io~empty-dir-2/e /f rw - ext4 /dev/sda1 rw\n";
    static const char plain[] = "800 600 8:1 /x/rootfs / rw - ext4 /dev/sda1 rw\n"
                                "801 800 8:1 /x/rootfs/tmp /mnt rw - ext4 /dev/sda1 rw\n"
                                "802 800 8:1 /x/rootfs2 /other rw - ext4 /dev/sda1 rw\n"
                                "803 800 8:2 /x/rootfs/tmp /disk rw - ext4 /dev/sdb rw\n";
    const struct str a = str_z(overlay), b = str_z(plain);
    assert_true(usage_mount_counts(a, 700) && usage_mount_counts(a, 701));
    assert_false(usage_mount_counts(a, 702) || usage_mount_counts(a, 703));
    assert_true(usage_mount_counts(a, 704));
    assert_false(usage_mount_counts(a, 705));
    assert_true(usage_mount_counts(a, 999)); // not listed
    assert_true(usage_mount_counts(b, 800) && usage_mount_counts(b, 801));
    assert_false(usage_mount_counts(b, 802) || usage_mount_counts(b, 803));
    assert_true(usage_mount_counts((struct str){0}, 1));
}

static uint64_t deleted_in(const char *dir)
{
    static char block[MI];
    cleanup_sbuf struct sbuf path = {0};
    uint64_t before = deleted_bytes();
    memset(block, 'x', sizeof(block));
    sbuf_addf(&path, "%s/file", dir);
    int file = open(path.p, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0 || write(file, block, sizeof(block)) != (ssize_t)sizeof(block) ||
        fsync(file) != 0 || unlink(path.p) != 0)
        return UINT64_MAX;
    uint64_t more = deleted_bytes() - before;
    (void)close(file);
    return more;
}

// In a child with mounts of its own, whose root is a folder as a container's is.
static int deleted_files_in_a_container(const char *dir)
{
    static const char *const folders[] = {"root",
                                          "root/tmp",
                                          "root/proc",
                                          "root/e",
                                          "root/h",
                                          "outside",
                                          "volumes",
                                          "volumes/" USAGE_EMPTY_DIR,
                                          "volumes/" USAGE_EMPTY_DIR "/e"};
    if (unshare(CLONE_NEWNS) != 0 || chdir(dir) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return 77;
    for (size_t i = 0; i < array_len(folders); i++)
        if (mkdir(folders[i], 0700) != 0)
            return 1;
    if (mount("root", "root", NULL, MS_BIND, NULL) != 0 || chdir("root") != 0 ||
        mount("../volumes/" USAGE_EMPTY_DIR "/e", "e", NULL, MS_BIND, NULL) != 0 ||
        mount("../outside", "h", NULL, MS_BIND, NULL) != 0 ||
        mount("/proc", "proc", NULL, MS_BIND | MS_REC, NULL) != 0 || chroot(".") != 0)
        return 77;
    if (deleted_in("/tmp") < (uint64_t)MI || deleted_in("/e") < (uint64_t)MI)
        return 2;
    return deleted_in("/h") == 0 ? 0 : 3;
}

static void deleted_files_of_other_volumes_do_not_count(void **state)
{
    (void)state;
    char dir[] = "deleted-XXXXXX";
    int status = 0;
    if (geteuid() != 0)
        skip();
    assert_non_null(mkdtemp(dir));
    pid_t child = fork();
    if (child == 0)
        _exit(deleted_files_in_a_container(dir));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(volume_remove_tree(dir, NULL), 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

static void endless_trees_are_full(void **state)
{
    (void)state;
    char dir[64] = "/tmp/dray-usage-XXXXXX", name[256];
    struct usage u = {0};
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_non_null(mkdtemp(dir));
    int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 1800; i++) {
        assert_int_equal(mkdirat(at, name, 0700), 0);
        int next = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        (void)close(at);
        at = next;
    }
    usage_add_tree(dir, &u);
    assert_true(u.bytes >= USAGE_ENDLESS && u.files >= USAGE_ENDLESS);
    (void)close(at);
    assert_int_equal(volume_remove_tree(dir, NULL), 0);
}

// --- Limits of pods ------------------------------------------------------------------------------

static void evict_create_pod(struct pods_world *p, const char *name, const char *spec)
{
    cleanup_sbuf struct sbuf json = {0};
    sbuf_addf(&json, "{\"metadata\":{\"name\":\"%s\"},\"spec\":{" ON_NODE ",%s}}", name, spec);
    assert_ok(do_create(p->w, POD(name), json.p));
    world_pass(p->w, 1);
}

static struct fake_container *evict_container(struct pods_world *p, const char *pod)
{
    const char *uid = pods_world_field(p, pod, "metadata.uid");
    vec_foreach(&p->machine.containers, c)
        if (strcmp((*c)->pod_uid, uid) == 0)
            return *c;
    fail_msg("pod %s has no container", pod);
    return NULL;
}

static void evict_fill_volume(struct pods_world *p, const char *pod, size_t bytes)
{
    cleanup_sbuf struct sbuf path = {0}, block = {0};
    sbuf_addf(&path, "%s/pods/%s/volumes/kubernetes.io~empty-dir/v/file", p->dir,
              pods_world_field(p, pod, "metadata.uid"));
    int fd = open(path.p, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    memset(sbuf_space(&block, bytes), 'x', bytes);
    assert_int_equal(write(fd, block.p, bytes), bytes);
    (void)close(fd);
}

#define WITH_VOLUME(limit, more)                                                        \
    "\"volumes\":[{\"name\":\"v\",\"emptyDir\":{" limit "}}],\"containers\":[" RUNNING( \
        "c", ",\"volumeMounts\":[{\"name\":\"v\",\"mountPath\":\"/v\"}]" more) "]"

TEST_WITH_PODS(a_volume_over_its_limit_evicts_its_pod)
{
    evict_create_pod(p, "over", WITH_VOLUME("\"sizeLimit\":\"1Mi\"", ""));
    evict_create_pod(p, "below", WITH_VOLUME("\"sizeLimit\":\"4Mi\"", ""));
    evict_create_pod(p, "free", WITH_VOLUME("", ""));
    evict_fill_volume(p, "over", (size_t)MI + 4096);
    evict_fill_volume(p, "below", (size_t)MI + 4096);
    evict_fill_volume(p, "free", (size_t)(8 * MI));
    world_pass(p->w, 15);
    assert_pod(p, "over", "status.phase", "Failed");
    assert_pod(p, "over", "status.reason", "Evicted");
    assert_pod(p, "over", "status.message",
               "Usage of EmptyDir volume \"v\" exceeds the limit \"1Mi\". ");
    assert_pod(p, "below", "status.phase", "Running");
    assert_pod(p, "free", "status.phase", "Running");
    pods_world_expect_event(p,
                            "Evicted|Usage of EmptyDir volume \"v\" exceeds the limit \"1Mi\". \n");
}

TEST_WITH_PODS(storage_limits_count_layers_logs_and_volumes)
{
    evict_create_pod(
        p, "layer",
        "\"containers\":[" RUNNING(
            "c",
            ",\"resources\":{\"limits\":{\"ephemeral-storage\":\"2Mi\"}}") "," RUNNING("d",
                                                                                       "") "]");
    evict_create_pod(
        p, "both", WITH_VOLUME("", ",\"resources\":{\"limits\":{\"ephemeral-storage\":\"2Mi\"}}"));
    evict_container(p, "layer")->disk_bytes = 3 * MI;
    evict_fill_volume(p, "both", (size_t)MI + 4096);
    world_pass(p->w, 15);
    assert_pod(p, "layer", "status.reason", "Evicted");
    assert_pod(p, "layer", "status.message",
               "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. ");
    assert_pod(p, "both", "status.phase", "Running");
    evict_container(p, "both")->disk_bytes = MI;
    world_pass(p->w, 15);
    assert_pod(p, "both", "status.message",
               "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. ");
}

TEST_WITH_PODS(a_container_has_its_own_storage_limit)
{
    evict_create_pod(
        p, "a",
        "\"containers\":[" RUNNING(
            "c", ",\"resources\":{\"limits\":{\"ephemeral-"
                 "storage\":\"2Mi\"}}") "," RUNNING("d", ",\"resources\":{\"limits\":{\"ephemeral-"
                                                         "storage\":\"20Mi\"}}") "]");
    evict_container(p, "a")->disk_bytes = 3 * MI;
    world_pass(p->w, 15);
    assert_pod(p, "a", "status.message",
               "Container c exceeded its local ephemeral storage limit \"2Mi\". ");
}

// --- Needs of the node ---------------------------------------------------------------------------

#define WITH_REQUEST(memory, more)                                                            \
    more "\"containers\":[" RUNNING("c", ",\"resources\":{\"requests\":{\"memory\":\"" memory \
                                         "\"}}") "]"

TEST_WITH_PODS(memory_pressure_evicts_in_order)
{
    p->facts = facts_of(4 * GI, 50 * GI);
    evict_create_pod(p, "modest", WITH_REQUEST("1Gi", ""));
    evict_create_pod(p, "greedy", WITH_REQUEST("100Mi", ""));
    evict_create_pod(p, "worse", WITH_REQUEST("100Mi", ""));
    evict_container(p, "modest")->memory_bytes = 900 * MI;
    evict_container(p, "greedy")->memory_bytes = 300 * MI;
    evict_container(p, "worse")->memory_bytes = 400 * MI;
    world_pass(p->w, 15);
    assert_pod(p, "worse", "status.phase", "Running");
    assert_int_equal(p->pressures, 0);
    p->facts = facts_of(50 * MI, 50 * GI);
    world_pass(p->w, 5);
    assert_pod(p, "worse", "status.phase", "Failed");
    assert_pod(p, "worse", "status.reason", "Evicted");
    assert_pod(p, "worse", "status.message",
               "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. "
               "Container c was using 400Mi, request is 100Mi, has larger consumption of memory. ");
    assert_non_null(strstr(pods_world_field(p, "worse", "status.conditions"), "DisruptionTarget"));
    assert_pod(p, "greedy", "status.phase", "Running"); // one at a time
    assert_int_equal(p->pressures, 1);
    assert_int_equal(p->reclaims, 0);
    struct eviction_conditions now;
    pods_pressure(p->pods, &now);
    assert_true(now.memory && !now.disk && !now.pids);
    world_pass(p->w, 12);
    assert_pod(p, "greedy", "status.phase", "Failed");
    p->facts = facts_of(4 * GI, 50 * GI);
    world_pass(p->w, 12);
    assert_pod(p, "modest", "status.phase", "Running");
    pods_pressure(p->pods, &now);
    assert_true(now.memory); // for five minutes more
    world_pass(p->w, 310);
    pods_pressure(p->pods, &now);
    assert_false(now.memory);
    assert_int_equal(p->pressures, 2);
}

TEST_WITH_PODS(pods_are_not_admitted_under_pressure)
{
    p->facts = facts_of(50 * MI, 50 * GI);
    world_pass(p->w, 12);
    evict_create_pod(p, "besteffort", "\"containers\":[" RUNNING("c", "") "]");
    assert_pod(p, "besteffort", "status.reason", "Evicted");
    assert_pod(p, "besteffort", "status.message",
               "Pod was rejected: The node had condition: [MemoryPressure]. ");
    evict_create_pod(p, "tolerant",
                     "\"tolerations\":[{\"key\":\"node.kubernetes.io/memory-pressure\","
                     "\"operator\":\"Exists\",\"effect\":\"NoSchedule\"}],\"containers\":[" RUNNING(
                         "c", "") "]");
    assert_pod(p, "tolerant", "status.phase", "Running");
    evict_create_pod(p, "burstable", WITH_REQUEST("1Mi", ""));
    assert_pod(p, "burstable", "status.phase", "Running");
    p->facts.of[EVICTION_PIDS] = (struct eviction_observation){true, 10, 32768};
    world_pass(p->w, 12);
    evict_create_pod(p, "late", WITH_REQUEST("1Mi", ""));
    assert_pod(p, "late", "status.message",
               "Pod was rejected: The node had condition: [MemoryPressure PIDPressure]. ");
}

TEST_WITH_PODS(disk_pressure_removes_images_first)
{
    p->facts = facts_of(4 * GI, 50 * GI);
    evict_create_pod(p, "small", WITH_REQUEST("1Mi", ""));
    evict_create_pod(p, "large", WITH_REQUEST("1Mi", ""));
    evict_container(p, "small")->disk_bytes = MI;
    evict_container(p, "large")->disk_bytes = 5 * MI;
    p->facts = facts_of(4 * GI, 5 * GI);
    world_pass(p->w, 12);
    assert_int_equal(p->reclaims, 1);
    assert_pod(p, "large", "status.reason", "Evicted");
    assert_pod(p, "small", "status.phase", "Running");
    pods_world_expect_event(p,
                            "Evicted|The node was low on resource: ephemeral-storage. "
                            "Threshold quantity: 10Gi, available: 5Gi. Container c was using "
                            "5Mi, request is 0, has larger consumption of ephemeral-storage. \n");
}

// The pass after the removal of images finds what that has freed: no pod goes.
TEST_WITH_PODS(what_images_free_is_enough)
{
    p->facts = facts_of(4 * GI, 50 * GI);
    evict_create_pod(p, "a", WITH_REQUEST("1Mi", ""));
    evict_container(p, "a")->disk_bytes = 5 * MI;
    p->images_free = 45 * GI;
    p->facts = facts_of(4 * GI, 5 * GI);
    world_pass(p->w, 60);
    assert_int_equal(p->reclaims, 1);
    assert_pod(p, "a", "status.phase", "Running");
    struct eviction_conditions now;
    pods_pressure(p->pods, &now);
    assert_true(now.disk);
}

// A measurement that is under way when the agent ends touches nothing of it.
TEST_WITH_PODS(a_pass_may_outlive_the_agent)
{
    p->facts = facts_of(50 * MI, 50 * GI);
    evict_create_pod(p, "a", WITH_VOLUME("\"sizeLimit\":\"1Mi\"", ""));
    p->holds_work = true;
    world_pass(p->w, 12);
    assert_non_null(p->held.work);
    pods_world_kill(p);
    p->held.work(p->held.job);
    p->held.after(p->held.job);
    p->holds_work = false;
    p->facts = facts_of(4 * GI, 50 * GI);
    pods_world_boot(p);
    world_pass(p->w, 2);
    assert_pod(p, "a", "status.phase", "Running");
}

// Usage over the request goes before priority, priority before the amount.
TEST_WITH_PODS(priority_counts_among_pods_over_their_requests)
{
    p->facts = facts_of(4 * GI, 50 * GI);
    assert_ok(do_create(p->w,
                        ((struct target){"scheduling.k8s.io/v1", "PriorityClass", "", "", "x"}),
                        "{\"metadata\":{\"name\":\"x\"},\"value\":1000}"));
    evict_create_pod(p, "higher",
                     WITH_REQUEST("1Mi", "\"priorityClassName\":\"x\",\"priority\":1000,"));
    evict_create_pod(p, "within", WITH_REQUEST("1Gi", ""));
    evict_create_pod(p, "lower", WITH_REQUEST("1Mi", ""));
    evict_container(p, "higher")->memory_bytes = 900 * MI;
    evict_container(p, "within")->memory_bytes = GI;
    evict_container(p, "lower")->memory_bytes = 2 * MI;
    p->facts = facts_of(50 * MI, 50 * GI);
    world_pass(p->w, 9);
    assert_pod(p, "lower", "status.reason", "Evicted");
    assert_pod(p, "higher", "status.phase", "Running");
    world_pass(p->w, 12);
    assert_pod(p, "higher", "status.reason", "Evicted");
    assert_pod(p, "within", "status.phase", "Running");
}

#define CRITICAL "\"priorityClassName\":\"system-node-critical\",\"priority\":2000001000,"

// However much they use, and by whatever limit: critical pods are neither evicted nor kept out.
TEST_WITH_PODS(critical_pods_stay)
{
    p->facts = facts_of(4 * GI, 50 * GI);
    evict_create_pod(p, "critical",
                     CRITICAL "\"containers\":[" RUNNING(
                         "c", ",\"resources\":{\"limits\":{\"ephemeral-storage\":\"1Mi\"}}") "]");
    evict_create_pod(p, "usual", WITH_REQUEST("1Gi", ""));
    evict_container(p, "critical")->memory_bytes = 2 * GI;
    evict_container(p, "critical")->disk_bytes = 9 * MI;
    evict_container(p, "usual")->memory_bytes = MI;
    p->facts = facts_of(50 * MI, 5 * GI);
    world_pass(p->w, 60);
    assert_pod(p, "usual", "status.reason", "Evicted");
    assert_pod(p, "critical", "status.phase", "Running");
    evict_create_pod(p, "late", CRITICAL "\"containers\":[" RUNNING("c", "") "]");
    assert_pod(p, "late", "status.phase", "Running");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_kubelets),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(thresholds_follow_time),
        cmocka_unit_test(pods_are_ranked),
        cmocka_unit_test(trees_are_measured),
        cmocka_unit_test(deleted_files_count_while_they_are_held),
        cmocka_unit_test(mounts_are_the_pods_or_not),
        cmocka_unit_test(deleted_files_of_other_volumes_do_not_count),
        cmocka_unit_test(endless_trees_are_full),
        cmocka_unit_test(a_volume_over_its_limit_evicts_its_pod),
        cmocka_unit_test(storage_limits_count_layers_logs_and_volumes),
        cmocka_unit_test(a_container_has_its_own_storage_limit),
        cmocka_unit_test(memory_pressure_evicts_in_order),
        cmocka_unit_test(pods_are_not_admitted_under_pressure),
        cmocka_unit_test(disk_pressure_removes_images_first),
        cmocka_unit_test(what_images_free_is_enough),
        cmocka_unit_test(a_pass_may_outlive_the_agent),
        cmocka_unit_test(priority_counts_among_pods_over_their_requests),
        cmocka_unit_test(critical_pods_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
