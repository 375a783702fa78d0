// SPDX-License-Identifier: Apache-2.0
//
// RE2 behind a C face: the only C++ in the project. Go's regexp has the same syntax and the same
// leftmost-first matches, but for \C (which Go refuses) and (?<name>…) (which this RE2 does not
// know yet); messages are put into Go's words.
#include <cstdio>
#include <cstring>
#include <new>
#include <re2/re2.h>
#include <string>

#include "cel/regex.h"

// Bounds a program to some 20,000 instructions, which take some 10 ms to make; a literal takes one
// for each of its at most 10,240 characters.
#define MEMORY_MAX (INT64_C(2) << 20)

struct cel_regex {
    re2::RE2 re;
    cel_regex(const std::string &pattern, const re2::RE2::Options &options) : re(pattern, options)
    {
    }
};

static const char *go_message(re2::RE2::ErrorCode code)
{
    switch (code) {
    case re2::RE2::ErrorBadEscape:
        return "invalid escape sequence";
    case re2::RE2::ErrorBadCharClass:
        return "invalid character class";
    case re2::RE2::ErrorBadCharRange:
        return "invalid character class range";
    case re2::RE2::ErrorMissingBracket:
        return "missing closing ]";
    case re2::RE2::ErrorMissingParen:
        return "missing closing )";
    case re2::RE2::ErrorUnexpectedParen:
        return "unexpected )";
    case re2::RE2::ErrorTrailingBackslash:
        return "trailing backslash at end of expression";
    case re2::RE2::ErrorRepeatArgument:
        return "missing argument to repetition operator";
    case re2::RE2::ErrorRepeatSize:
        return "invalid repeat count";
    case re2::RE2::ErrorRepeatOp:
        return "invalid nested repetition operator";
    case re2::RE2::ErrorBadPerlOp:
        return "invalid or unsupported Perl syntax";
    case re2::RE2::ErrorBadUTF8:
        return "invalid UTF-8";
    case re2::RE2::ErrorBadNamedCapture:
        return "invalid named capture";
    case re2::RE2::ErrorPatternTooLarge:
        return "expression too large";
    default:
        return "regexp/syntax: internal error";
    }
}

// Copies the pattern with (?<name> spelt (?P<name>; false at a \C.
static bool translate(const char *p, size_t n, std::string *out)
{
    bool in_class = false;
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '\\' && i + 1 < n) {
            if (p[i + 1] == 'Q' && !in_class) {
                // Literal text up to \E.
                size_t end = i + 2;
                while (end < n && !(p[end] == '\\' && end + 1 < n && p[end + 1] == 'E'))
                    end++;
                size_t stop = end < n ? end + 2 : n;
                out->append(p + i, stop - i);
                i = stop - 1;
                continue;
            }
            if (p[i + 1] == 'C')
                return false;
            out->append(p + i, 2);
            i++;
            continue;
        }
        if (p[i] == '[' && !in_class) {
            in_class = true;
            // A ']' right behind the opening is a member.
            out->push_back('[');
            if (i + 1 < n && p[i + 1] == '^')
                out->push_back(p[++i]);
            if (i + 1 < n && p[i + 1] == ']')
                out->push_back(p[++i]);
            continue;
        }
        if (p[i] == '[' && in_class && i + 1 < n && p[i + 1] == ':') {
            const char *end = static_cast<const char *>(memmem(p + i + 2, n - i - 2, ":]", 2));
            if (end) {
                size_t len = static_cast<size_t>(end - (p + i)) + 2;
                out->append(p + i, len);
                i += len - 1;
                continue;
            }
        }
        if (p[i] == ']' && in_class)
            in_class = false;
        if (!in_class && p[i] == '(' && n - i > 3 && p[i + 1] == '?' && p[i + 2] == '<' &&
            p[i + 3] != '=' && p[i + 3] != '!') {
            out->append("(?P<");
            i += 2;
            continue;
        }
        out->push_back(p[i]);
    }
    return true;
}

extern "C" struct cel_regex *cel_regex_new(const char *pattern, size_t n, char *why,
                                           size_t why_size)
{
    std::string text;
    if (!translate(pattern, n, &text)) {
        (void)snprintf(why, why_size, "error parsing regexp: invalid escape sequence: `\\C`");
        return nullptr;
    }
    re2::RE2::Options options;
    options.set_log_errors(false);
    options.set_max_mem(MEMORY_MAX);
    auto *re = new (std::nothrow) cel_regex(text, options);
    if (re && re->re.ok())
        return re;
    if (re)
        (void)snprintf(why, why_size, "error parsing regexp: %s: `%s`",
                       go_message(re->re.error_code()), re->re.error_arg().c_str());
    else
        (void)snprintf(why, why_size, "out of memory");
    delete re;
    return nullptr;
}

extern "C" void cel_regex_free(struct cel_regex *re)
{
    delete re;
}

extern "C" size_t cel_regex_size(const struct cel_regex *re)
{
    return static_cast<size_t>(re->re.ProgramSize());
}

extern "C" bool cel_regex_match(const struct cel_regex *re, const char *text, size_t n)
{
    return re->re.Match(re2::StringPiece(text, n), 0, n, re2::RE2::UNANCHORED, nullptr, 0);
}

extern "C" bool cel_regex_find(const struct cel_regex *re, const char *text, size_t n, size_t from,
                               size_t *ret_start, size_t *ret_end)
{
    re2::StringPiece match;
    if (!re->re.Match(re2::StringPiece(text, n), from, n, re2::RE2::UNANCHORED, &match, 1))
        return false;
    *ret_start = static_cast<size_t>(match.data() - text);
    *ret_end = *ret_start + match.size();
    return true;
}
