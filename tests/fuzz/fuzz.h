// SPDX-License-Identifier: Apache-2.0
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

// LLVMFuzzerTestOneInput: libFuzzer's entry, one per target. Returns 0.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
