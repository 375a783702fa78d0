// SPDX-License-Identifier: Apache-2.0
//
// Every bound on what a peer can make us do, in one place, each with its origin.
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include <stddef.h>
#include <stdint.h>

// Error texts are cut, never grown: a failure path does not allocate.
#define DRAY_ERR_MSG_MAX  2048
#define DRAY_ERR_PATH_MAX 256

// A request body, as kube-apiserver (MaxRequestBodyBytes, 3 MiB).
#define DRAY_REQUEST_BYTES_MAX ((size_t)3 * 1024 * 1024)

// One allocation from an arena; a larger one ends the process. Nothing that a server, an agent or a
// controller reads gets near it: a request is 3 MiB and its typed form some 200 MiB, and arrays are
// sized by what exists, never by a number in an object. The largest file of a verb is 1 GiB. A size
// beyond this is a defect, and must not be mapped and zeroed before it is noticed.
#define DRAY_ARENA_BLOCK_MAX ((uint64_t)16 * 1024 * 1024 * 1024)

// A file read by a command line verb. Clusters dump to files far larger than one request.
#define DRAY_FILE_BYTES_MAX ((size_t)1024 * 1024 * 1024)

// Nesting of JSON and YAML. Go's encoding/json stops at 10000; no API object goes past 30 or so,
// and a bounded depth lets readers recurse without fear for the stack.
#define DRAY_DOC_DEPTH_MAX 256

// Nodes that YAML aliases may add to a document over the ones written out (billion laughs). go-yaml
// refuses documents whose nodes come mostly from aliases; a flat bound is simpler to explain.
#define DRAY_YAML_ALIAS_NODES_MAX 100000

// Documents in one YAML stream.
#define DRAY_YAML_DOCUMENTS_MAX 100000

// %TAG directives in one YAML stream. libyaml looks through all of them for each; no real stream
// has more than a few.
#define DRAY_YAML_TAG_DIRECTIVES_MAX 100

// Nesting of protobuf messages (protobuf's own default recursion limit).
#define DRAY_PROTO_DEPTH_MAX 100

// The typed form of one API object: a fixed part, and a part for each JSON value or protobuf byte
// it is made from. Two bytes can say "one more container", which takes hundreds in memory.
#define DRAY_OBJECT_BYTES_MAX       ((size_t)64 * 1024 * 1024)
#define DRAY_OBJECT_BYTES_PER_VALUE ((size_t)128)
#define DRAY_OBJECT_BYTES_PER_BYTE  ((size_t)32)

// An object as it is stored, in JSON. A request's body is bounded, but defaults, managed fields and
// one apply after another add to it; etcd takes 1.5 MiB. Defaults of a custom resource may take as
// much in memory.
#define DRAY_OBJECT_STORED_BYTES_MAX ((size_t)16 * 1024 * 1024)

// The variables of a container, in bytes and in number, and what $(NAME) makes of them, of its
// command and its mounts. Variables of variables grow by their product; the kernel gives no process
// more than 6 MiB.
#define DRAY_EXPANDED_BYTES_MAX ((size_t)8 * 1024 * 1024)
#define DRAY_VARIABLES_MAX      ((size_t)16384)

// The files of all volumes of a pod that are made of config maps, secrets and facts: many may be
// made of the same bytes.
#define DRAY_VOLUME_FILES_MAX ((size_t)32768)
#define DRAY_VOLUME_BYTES_MAX ((size_t)256 * 1024 * 1024)

// A quantity's text. Upstream has no bound; nothing sensible is longer, and big-number arithmetic
// is quadratic in it.
#define DRAY_QUANTITY_TEXT_MAX 512

// A quantity's decimal exponent, for the same reason: 1e1000000000 is ten bytes of text and a
// gigabyte of digits.
#define DRAY_QUANTITY_EXPONENT_MAX 10000

// CEL: expression length and cost (k8s.io/api/resource/v1 CELSelectorExpressionMaxLength,
// CELSelectorExpressionMaxCost).
#define DRAY_CEL_EXPRESSION_BYTES_MAX 10240
#define DRAY_CEL_COST_MAX             1000000

// CEL: values and pieces of text that one evaluation may handle (src/cel/cost/work.c).
#define DRAY_CEL_WORK_MAX 8000000

// One log record; longer ones are cut and marked.
#define DRAY_LOG_RECORD_MAX 4096

#endif
