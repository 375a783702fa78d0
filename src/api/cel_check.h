// SPDX-License-Identifier: Apache-2.0
//
// The CEL engine as validation asks it (struct api_cel): one environment for each combination of
// what an expression is for and which feature gates are on.
#ifndef API_CEL_CHECK_H
#define API_CEL_CHECK_H

#include "api/validate.h"

struct api_cel_engine;

// api_cel_engine_new makes the environments; free them with api_cel_engine_free. The result may be
// used by several threads at once.
struct api_cel_engine *api_cel_engine_new(void);
void api_cel_engine_free(struct api_cel_engine *e);

// api_cel_engine_rules is what struct api_rules takes; it lives as long as the engine.
const struct api_cel *api_cel_engine_rules(const struct api_cel_engine *e);

#endif
