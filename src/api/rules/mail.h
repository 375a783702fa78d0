// SPDX-License-Identifier: Apache-2.0
//
// Mail addresses (RFC 5322), as Go's net/mail reads them. Only whether a text is one, not what is
// in it.
#ifndef API_RULES_MAIL_H
#define API_RULES_MAIL_H

#include "base/str.h"

// mail_is_address: text, which is UTF-8, is one address, with or without a name, or a group of one.
bool mail_is_address(struct str text);

#endif
