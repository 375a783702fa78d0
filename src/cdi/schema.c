// SPDX-License-Identifier: Apache-2.0
//
// The fields of a CDI spec as tables of name, shape and offset, from which the reader and the
// writer work.
#include "cdi/schema.h"

#include "base/mem.h"
#include "cdi/spec.h"

#include "base/banned.h"

// NOLINTBEGIN(bugprone-macro-parentheses): types and members cannot stand in parentheses
#define FIELD(s, member, text, shape)                                  \
    {                                                                  \
        STR_INIT(text), shape, false, offsetof(struct s, member), NULL \
    }
#define MUST(s, member, text, shape)                                  \
    {                                                                 \
        STR_INIT(text), shape, true, offsetof(struct s, member), NULL \
    }
#define NESTED(s, member, text, shape, is_always, of)                       \
    {                                                                       \
        STR_INIT(text), shape, is_always, offsetof(struct s, member), &(of) \
    }
#define TYPE(fields, s)                             \
    {                                               \
        fields, array_len(fields), sizeof(struct s) \
    }
// NOLINTEND(bugprone-macro-parentheses)

static const struct cdi_field node_fields[] = {
    MUST(cdi_device_node, path, "path", CDI_TEXT),
    FIELD(cdi_device_node, host_path, "hostPath", CDI_TEXT),
    FIELD(cdi_device_node, type, "type", CDI_TEXT),
    FIELD(cdi_device_node, major, "major", CDI_INT),
    FIELD(cdi_device_node, minor, "minor", CDI_INT),
    FIELD(cdi_device_node, file_mode, "fileMode", CDI_OPT_U32),
    FIELD(cdi_device_node, permissions, "permissions", CDI_TEXT),
    FIELD(cdi_device_node, uid, "uid", CDI_OPT_U32),
    FIELD(cdi_device_node, gid, "gid", CDI_OPT_U32),
};
static const struct cdi_type node_type = TYPE(node_fields, cdi_device_node);

static const struct cdi_field net_fields[] = {
    MUST(cdi_net_device, host_interface_name, "hostInterfaceName", CDI_TEXT),
    MUST(cdi_net_device, name, "name", CDI_TEXT),
};
static const struct cdi_type net_type = TYPE(net_fields, cdi_net_device);

static const struct cdi_field hook_fields[] = {
    MUST(cdi_hook, hook_name, "hookName", CDI_TEXT),  MUST(cdi_hook, path, "path", CDI_TEXT),
    FIELD(cdi_hook, args, "args", CDI_TEXTS),         FIELD(cdi_hook, env, "env", CDI_TEXTS),
    FIELD(cdi_hook, timeout, "timeout", CDI_OPT_INT),
};
static const struct cdi_type hook_type = TYPE(hook_fields, cdi_hook);

static const struct cdi_field mount_fields[] = {
    MUST(cdi_mount, host_path, "hostPath", CDI_TEXT),
    MUST(cdi_mount, container_path, "containerPath", CDI_TEXT),
    FIELD(cdi_mount, options, "options", CDI_TEXTS),
    FIELD(cdi_mount, type, "type", CDI_TEXT),
};
static const struct cdi_type mount_type = TYPE(mount_fields, cdi_mount);

static const struct cdi_field rdt_fields[] = {
    FIELD(cdi_intel_rdt, clos_id, "closID", CDI_TEXT),
    FIELD(cdi_intel_rdt, l3_cache_schema, "l3CacheSchema", CDI_TEXT),
    FIELD(cdi_intel_rdt, mem_bw_schema, "memBwSchema", CDI_TEXT),
    FIELD(cdi_intel_rdt, schemata, "schemata", CDI_TEXTS),
    FIELD(cdi_intel_rdt, enable_monitoring, "enableMonitoring", CDI_BOOL),
};
static const struct cdi_type rdt_type = TYPE(rdt_fields, cdi_intel_rdt);

static const struct cdi_field edits_fields[] = {
    FIELD(cdi_edits, env, "env", CDI_TEXTS),
    NESTED(cdi_edits, device_nodes, "deviceNodes", CDI_LIST, false, node_type),
    NESTED(cdi_edits, net_devices, "netDevices", CDI_LIST, false, net_type),
    NESTED(cdi_edits, hooks, "hooks", CDI_LIST, false, hook_type),
    NESTED(cdi_edits, mounts, "mounts", CDI_LIST, false, mount_type),
    NESTED(cdi_edits, intel_rdt, "intelRdt", CDI_OPT_OBJECT, false, rdt_type),
    FIELD(cdi_edits, additional_gids, "additionalGids", CDI_U32S),
};
const struct cdi_type cdi_type_edits = TYPE(edits_fields, cdi_edits);

static const struct cdi_field device_fields[] = {
    MUST(cdi_device, name, "name", CDI_TEXT),
    FIELD(cdi_device, annotations, "annotations", CDI_PAIRS),
    NESTED(cdi_device, edits, "containerEdits", CDI_OBJECT, true, cdi_type_edits),
};
const struct cdi_type cdi_type_device = TYPE(device_fields, cdi_device);

static const struct cdi_field spec_fields[] = {
    MUST(cdi_spec, version, "cdiVersion", CDI_TEXT),
    MUST(cdi_spec, kind, "kind", CDI_TEXT),
    FIELD(cdi_spec, annotations, "annotations", CDI_PAIRS),
    NESTED(cdi_spec, devices, "devices", CDI_LIST, true, cdi_type_device),
    NESTED(cdi_spec, edits, "containerEdits", CDI_OBJECT, false, cdi_type_edits),
};
const struct cdi_type cdi_type_spec = TYPE(spec_fields, cdi_spec);
